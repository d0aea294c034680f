"""Files are decided as `ServedModel.decide` decides the same table, for every kind of estimator."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from sklearn.base import clone

import recuse
from recuse.scoring import score_files
from saved_estimators import CASES, FRAME, NEW_FEE, ROWS, Y

KINDS = ["rcr", "cost per row", "cross-fitted, two targets", "range", "selective by cost", "risk", "kept cells"]


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
