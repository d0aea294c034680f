"""Reasons for decisions over HTTP: new cells and nearest training rows."""

import pandas as pd
import pytest
from sklearn.linear_model import Ridge

import recuse
from recuse import RiskRejector, datasets

pytest.importorskip("fastapi")
testclient = pytest.importorskip("starlette.testclient")

from recuse.inspection.explanations import MOST_TRAINING_ROWS  # noqa: E402
from recuse.serving import Settings, create_app  # noqa: E402

(X, Y), _, _ = datasets.split(datasets.load("auto_mpg"), repeat=0)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("models")
    recuse.save(RiskRejector(Ridge(), cost=6.0, cv=3, random_state=0).fit(X, Y), path / "cars.recuse")
    table = X.assign(day=pd.date_range("2024-01-01", periods=len(X)).astype("datetime64[us]"))
    recuse.save(RiskRejector(Ridge(), cost=6.0, cv=3, random_state=0).fit(table, Y), path / "dates.recuse")
    table.assign(mpg=Y).to_csv(path / "dates.csv", index=False)
    X.assign(mpg=Y).to_csv(path / "cars.csv", index=False)
    return path


@pytest.fixture(scope="module")
def client(folder):
    models = {name: folder / f"{name}.recuse" for name in ("cars", "dates")}
    training = {name: folder / f"{name}.csv" for name in models}
    with testclient.TestClient(create_app(Settings(models, training=training))) as client:
        yield client


def row_of(place, **cells):
    row = {name: cell.item() if hasattr(cell, "item") else cell for name, cell in X.iloc[place].items()}
    return {**row, **cells}


def explained(client, body, query="explain=true"):
    answer = client.post(f"/predict?{query}", json=body)
    assert answer.status_code == 200, answer.text
    return answer.json()["decisions"]


def test_a_training_row_is_its_own_nearest_row_and_has_nothing_new(client):
    decisions = explained(client, {"rows": [row_of(3), row_of(7)]})
    for place, decision in zip((3, 7), decisions, strict=True):
        assert decision["new"] == []
        nearest = decision["neighbours"][0]
        assert nearest["distance"] == 0
        assert nearest["target"] == Y.iloc[place]
        assert nearest["row"]["weight"] == X["weight"].iloc[place]
        distances = [near["distance"] for near in decision["neighbours"]]
        assert distances == sorted(distances)
        assert len(distances) == 3


def test_each_row_has_its_own_new_cells(client):
    rows = [row_of(0, weight=9000), row_of(1, origin="mars", horsepower=None), row_of(2, acceleration="fast")]
    found = [{cell["column"]: cell["problem"] for cell in each["new"]} for each in explained(client, {"rows": rows})]
    assert found == [
        {"weight": "outside the training range"},
        {"horsepower": "new missing value", "origin": "new category"},
        {"acceleration": "wrong type"},
    ]


def test_reasons_of_dates(client):
    (decision,) = explained(client, {"row": row_of(5, day="2031-01-01")}, "explain=true&model=dates")
    assert [(cell["column"], cell["value"]) for cell in decision["new"]] == [("day", "2031-01-01")]
    assert decision["neighbours"][0]["row"]["day"] is not None


def test_without_explain_there_are_no_reasons(client):
    (decision,) = explained(client, {"row": row_of(0)}, "model=cars")
    assert not {"new", "neighbours"} & decision.keys()


def test_without_training_rows_there_are_no_neighbours(folder):
    with testclient.TestClient(create_app(Settings({"cars": folder / "cars.recuse"}))) as client:
        (decision,) = explained(client, {"row": row_of(0, origin="mars")})
    assert decision["neighbours"] is None
    assert len(decision["new"]) == 1


def test_too_many_rows_to_explain_are_refused(client):
    answer = client.post("/predict?explain=true", json={"rows": [row_of(0)] * 101})
    assert answer.status_code == 413
    assert answer.json() == {"error": "a request with explain=true may have at most 100 rows, got 101"}


def test_record_must_be_true_or_false(client):
    answer = client.post("/predict", json={"row": row_of(0), "record": "no"})
    assert answer.status_code == 422
    assert "must be true or false, got 'no'" in answer.json()["error"]


def test_training_rows_without_a_column_of_the_model_are_refused(folder, tmp_path):
    X.drop(columns="weight").to_csv(tmp_path / "short.csv", index=False)
    settings = Settings({"cars": folder / "cars.recuse"}, training={"cars": tmp_path / "short.csv"})
    with pytest.raises(ValueError, match="must have the columns of the model, 'weight' is not there"):
        create_app(settings)


def test_a_large_table_of_training_rows_is_sampled(folder, tmp_path):
    table = pd.read_csv(folder / "cars.csv")
    table = pd.concat([table] * (1 + MOST_TRAINING_ROWS // len(table))).sort_values("weight")
    table.to_csv(tmp_path / "sorted.csv", index=False)
    settings = Settings({"cars": folder / "cars.recuse"}, training={"cars": tmp_path / "sorted.csv"})
    rows = create_app(settings).state.models.get("cars").training
    assert len(rows) == MOST_TRAINING_ROWS < len(table)
    assert rows["weight"].median() == pytest.approx(table["weight"].median(), rel=0.02)  # not the lightest ones
