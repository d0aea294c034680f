"""A file of DeferralRegressor assigns rows like the estimator, and commands and the service say who takes each row."""

import json

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import ExtraTreesRegressor
from sklearn.linear_model import LinearRegression
from typer.testing import CliRunner

import recuse
from described_answers import DescribedClient
from recuse import AutoRejector, DeferralRegressor, RiskRejector, datasets
from recuse.cli.app import app as commands
from recuse.decision import Decision
from recuse.model_file.errors import ConversionError, ModelFileError
from recuse.model_file.header import Header
from recuse.scoring import score_files
from recuse.serving import Settings, create_app

TREES = ExtraTreesRegressor(10, min_samples_leaf=5)
NAMES = [f"x{place}" for place in range(8)]


def rows(count, seed):
    X, y, _, _ = datasets.make_heteroscedastic(count, random_state=seed)
    return pd.DataFrame(X, columns=NAMES), y


def rule(X):
    """An expert that has no answer for some rows."""
    return np.where(X["x0"] > 1, np.nan, X["x0"])


def table(count, seed):
    """Rows with a fee and a town, and the recorded answers of two experts."""
    X, y = rows(count, seed)
    random = np.random.RandomState(seed)
    X = X.assign(town=random.choice(["north", "south"], count), price=random.rand(count))
    return X.assign(night=y + 0.3 * random.normal(size=count)), y


@pytest.fixture(scope="module")
def model():
    X, y = table(300, 0)
    late = y + 0.5 * np.random.RandomState(2).normal(size=len(y))
    experts = {"night": ("night", "price", 0.25), "rule": (rule, 0.2, 9), "late": (late, 0.6)}
    return DeferralRegressor(experts, TREES, TREES, random_state=0).fit(X, y)


@pytest.fixture(scope="module")
def path(model, tmp_path_factory):
    path = tmp_path_factory.mktemp("experts") / "shift.recuse"
    recuse.save(model, path)
    return path


@pytest.fixture(scope="module")
def new():
    """New rows, with the answers of the callable, and without those of the night shift."""
    X, _ = table(120, 1)
    return X.drop(columns="night").assign(rule=rule)


def assert_same(found, expected):
    np.testing.assert_array_equal(found.takes, expected.takes)
    np.testing.assert_allclose(found.expected_loss, expected.expected_loss, rtol=1e-6)
    np.testing.assert_allclose(found.predictions, expected.predictions, rtol=1e-6)
    np.testing.assert_array_equal(found.fees, expected.fees)
    assert found.index.equals(expected.index)
    assert (found.names, found.loss) == (expected.names, expected.loss)


@pytest.mark.parametrize(
    "changed",
    [{}, {"fees": {"late": 0.1}}, {"capacities": {"night": None, "rule": 2}}, {"fees": {"night": np.zeros(120)}}],
    ids=str,
)
def test_a_file_assigns_rows_like_the_estimator(model, path, new, changed):
    served, expected = recuse.load(path), model.decide(new.drop(columns="rule"), **changed)
    assert len({*expected.takes}) > 1
    assert_same(served.defer(new, **changed), expected)
    decision = served.decide(new, **changed)
    np.testing.assert_array_equal(decision.takes, expected.takes)
    np.testing.assert_array_equal(decision.accepted, expected.takes == "model")
    np.testing.assert_allclose(decision.prediction, model.predict(new.drop(columns="rule")), rtol=1e-6)


def test_recorded_answers_of_new_rows_are_predictions(model, path, new):
    known = new.assign(night=np.arange(120.0))
    assert_same(recuse.load(path).defer(known), model.decide(known.drop(columns="rule")))


@pytest.mark.parametrize(
    "own",
    [
        RiskRejector(TREES, TREES, cv=2),
        AutoRejector(learners=["linear"], risk_models=["extra_trees"], cv=2, unseen="keep"),
        LinearRegression(),
    ],
    ids=["risk", "auto", "linear"],
)
def test_every_own_model_and_models_as_experts(own, tmp_path):
    X, y = rows(200, 3)
    other = LinearRegression().fit(*rows(50, 4))
    model = DeferralRegressor({"line": (other, 0.3), "flat": (y, 0.5)}, own, TREES, random_state=0).fit(X, y)
    recuse.save(model, tmp_path / "model.recuse")
    new, _ = rows(60, 5)
    assert_same(recuse.load(tmp_path / "model.recuse").defer(new), model.decide(new))


def test_rows_without_names(tmp_path):
    X, y = rows(200, 3)
    numbers = X.to_numpy()
    model = DeferralRegressor({"first": (lambda X: X[:, 0], 0.1)}, TREES, TREES, random_state=0).fit(numbers, y)
    recuse.save(model, tmp_path / "model.recuse")
    new = rows(60, 5)[0].to_numpy()
    found, expected = recuse.load(tmp_path / "model.recuse").defer(np.column_stack([new, new[:, 0]])), model.decide(new)
    np.testing.assert_array_equal(found.takes, expected.takes)
    np.testing.assert_allclose(found.expected_loss, expected.expected_loss, rtol=1e-6)


def test_each_row_on_its_own_goes_to_the_cheapest(path, new):
    served = recuse.load(path)
    unlimited = served.defer(new, capacities=dict.fromkeys(["night", "rule", "late"]))
    decision, own = served.decide_reading(served.read(new))
    np.testing.assert_array_equal(decision.takes, unlimited.takes)
    np.testing.assert_array_equal(own, unlimited.expected_loss[:, 0])
    np.testing.assert_allclose(decision.cost, (unlimited.expected_loss + unlimited.fees)[:, 1:].min(axis=1))
    one = served.decide(new.iloc[0].to_dict(), capacities=dict.fromkeys(["night", "rule", "late"]))
    assert one.takes[0] == unlimited.takes[0]


def test_what_a_file_cannot_hold_is_said(tmp_path):
    X, y = rows(100, 3)
    quick = {"regressor": LinearRegression(), "risk": TREES, "random_state": 0}
    for fee in (np.full(100, 0.2), lambda X: 0.1 * X["x0"] ** 2):
        model = DeferralRegressor({"night": (y, fee)}, **quick).fit(X, y)
        with pytest.raises(ConversionError, match="the fee of 'night' is a callable or has one value for each row"):
            recuse.save(model, tmp_path / "model.recuse")
    model = DeferralRegressor({"x1": (lambda X: X["x0"], 0.1)}, **quick).fit(X, y)
    with pytest.raises(ConversionError, match="the name 'x1' of an expert is also that of a column"):
        recuse.save(model, tmp_path / "model.recuse")


def test_wrong_arguments(path, new):
    served = recuse.load(path)
    with pytest.raises(ValueError, match="cost has no meaning for DeferralRegressor: the fees of the experts are"):
        served.decide(new, cost=2.0)
    with pytest.raises(ValueError, match="model must be one without experts"):
        recuse.guarantees.certify(served, new, np.zeros(120), target=1.0, bound=2.0)
    with pytest.raises(ValueError, match="fees must be a mapping with names among"):
        served.defer(new, fees={"day": 1.0})
    with pytest.raises(ValueError, match="X must have the column 'rule'"):
        served.decide(new.drop(columns="rule"))
    with pytest.raises(ValueError, match="the fee of 'night' must be"):
        served.decide(new.assign(price=-1.0))


@pytest.mark.parametrize(
    "wrong",
    [{"fee": -1.0}, {"fee": None}, {"fee": True}, {"capacity": 1.5}, {"capacity": -1}, {"column": 3}, {"name": None}],
    ids=str,
)
def test_a_header_with_a_wrong_expert_is_refused(path, wrong):
    header = recuse.load(path).info()
    first, *others = header["experts"]
    with pytest.raises(ModelFileError, match="the header must"):
        Header.from_dict({**header, "experts": [{**first, **wrong}, *others]})
    with pytest.raises(ModelFileError, match="the header must have different names of experts"):
        Header.from_dict({**header, "experts": [first, first]})


def test_a_decision_with_takers_is_a_value():
    decision = Decision([1.0, 2.0], [True, False], [0.5, -0.5], 2.0, takes=["model", "night"])
    assert decision[1:].takes.tolist() == ["night"]
    assert Decision.concatenate([decision, decision[:1]]).takes.tolist() == ["model", "night", "model"]
    assert decision.to_frame()["takes"].tolist() == ["model", "night"]
    assert decision != Decision([1.0, 2.0], [True, False], [0.5, -0.5], 2.0)
    with pytest.raises(ValueError, match="takes must have one value for each of 2 rows"):
        Decision([1.0, 2.0], [True, False], [0.5, -0.5], 2.0, takes=["model"])


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_scored_files_say_who_takes_each_row(path, new, tmp_path, ending):
    source = tmp_path / f"new.{ending}"
    new.to_csv(source, index=False) if ending == "csv" else new.to_parquet(source)
    score_files(path, source, tmp_path / f"out.{ending}", jobs=1)
    found = (pd.read_csv if ending == "csv" else pd.read_parquet)(tmp_path / f"out.{ending}")
    served = recuse.load(path)
    expected, _ = served.decide_reading(served.read(new))
    assert found["takes"].tolist() == expected.takes.tolist()
    np.testing.assert_allclose(found["cost"], expected.cost)


def test_the_command_and_the_service_say_who_takes_each_row(path, new, tmp_path):
    new.to_csv(tmp_path / "new.csv", index=False)
    result = CliRunner().invoke(commands, ["predict", str(path), str(tmp_path / "new.csv"), "--json"])
    assert result.exit_code == 0, result.output
    served = recuse.load(path)
    expected, _ = served.decide_reading(served.read(new))
    assert [row["takes"] for row in json.loads(result.stdout)["decisions"]] == expected.takes.tolist()
    shown = CliRunner().invoke(commands, ["inspect", str(path)])
    assert "cheapest expert" in shown.output
    refused = CliRunner().invoke(commands, ["predict", str(path), str(tmp_path / "new.csv"), "--cost", "2"])
    assert refused.exit_code != 0
    records = json.loads(new.head(5).to_json(orient="records"))
    with DescribedClient(create_app(Settings({"shift": path}))) as client:
        (described,) = client.get("/models").json()
        assert described["experts"] == ["night", "rule", "late"]
        answer = client.post("/predict", json={"rows": records})
        assert answer.status_code == 200, answer.text
        assert [row["takes"] for row in answer.json()["decisions"]] == expected.takes[:5].tolist()
        assert client.post("/predict", json={"rows": records, "cost": 2.0}).status_code == 422
