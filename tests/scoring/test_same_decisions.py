"""Files are decided as `ServedModel.decide` decides the same table, for every kind of estimator."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from sklearn.base import clone
from sklearn.linear_model import Ridge

import recuse
from recuse.guarantees import certify
from recuse.model_file import add_certificate
from recuse.scoring import Scorer, score_files
from saved_estimators import CASES, FRAME, NEW_FEE, ROWS, Y

KINDS = ["rcr", "cost per row", "cross-fitted", "range", "selective by cost", "risk", "kept cells"]


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("kind", KINDS)
def test_a_file_is_decided_like_the_table(tmp_path, small_parts, kind):
    estimator, options, arguments = CASES[kind]
    fitted = clone(estimator).fit(FRAME, options.get("y", Y), cost=options.get("cost"))
    recuse.save(fitted, tmp_path / "m.recuse")
    served, table = recuse.load(tmp_path / "m.recuse"), ROWS.assign(fee=np.clip(NEW_FEE, 4, 13))
    cost = "fee" if "cost" in arguments else None
    pq.write_table(pa.Table.from_pandas(table, preserve_index=False), tmp_path / "in.parquet")
    score_files(tmp_path / "m.recuse", tmp_path / "in.parquet", tmp_path / "out.parquet", cost=cost)
    found = pd.read_parquet(tmp_path / "out.parquet")
    wanted = served.decide(ROWS, cost=None if cost is None else table["fee"]).to_frame()
    if served.info()["has_expected_loss"]:
        wanted["expected_loss"] = served.expected_loss(ROWS)
    pd.testing.assert_frame_equal(found, wanted, rtol=1e-9, check_flags=False)
    assert found["accepted"].tolist() == wanted["accepted"].tolist()


@pytest.fixture(scope="module")
def certified(tmp_path_factory):
    """A model file with certificates at the costs 1 and 2."""
    X, y, _, _ = recuse.datasets.make_heteroscedastic(1500, random_state=0)
    X = pd.DataFrame(X).add_prefix("x")
    model = recuse.RiskRejector(Ridge(), cost=3.0, cv=3, random_state=0).fit(X[:300], y[:300])
    path = tmp_path_factory.mktemp("certified") / "m.recuse"
    recuse.save(model, path)
    for cost in (1.0, 2.0):
        add_certificate(path, certify(model, X[300:], y[300:], target=1.0, bound=30.0, cost=cost))
    return path


@pytest.mark.parametrize("number", [1, 2])
def test_a_certificate_decides_at_its_cost_and_threshold(certified, tmp_path, number):
    rows, _, _, _ = recuse.datasets.make_heteroscedastic(200, random_state=9)
    table = pd.DataFrame(rows).add_prefix("x")
    expected = recuse.load(certified).certified(number - 1).decide(table, cost=float(number))
    assert set(expected.cost) == {float(number)}
    table.to_csv(tmp_path / "in.csv", index=False)
    score_files(certified, tmp_path / "in.csv", tmp_path / "out.csv", certificate=number)
    for found in (Scorer(certified, certificate=number)(table), pd.read_csv(tmp_path / "out.csv")):
        assert found["cost"].tolist() == expected.cost.tolist()
        assert found["accepted"].tolist() == expected.accepted.tolist()


@pytest.mark.parametrize("number", [0, 3])
def test_a_certificate_that_the_file_lacks_is_refused(certified, number):
    message = f"^certificate must be the number of a certificate, the model file has 2 certificates, got {number}$"
    with pytest.raises(ValueError, match=message):
        Scorer(certified, certificate=number).meta()
