"""The route /predict decides as the model file does, and refuses what it cannot read with one sentence."""

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import recuse
from saved_estimators import ROWS, TRAIN
from service_runs import TestClient, records


@pytest.fixture
def serve(shared):
    return shared


def test_decisions_are_those_of_the_file(serve, models):
    client, rows = serve("risk"), records(ROWS.head(40))
    answer = client.post("/predict", json={"rows": rows, "cost": [3.0 + place for place in range(40)]}).json()
    served = recuse.load(models / "risk.recuse")
    expected = served.decide(ROWS.head(40), cost=3.0 + np.arange(40))
    losses = served.expected_loss(ROWS.head(40))
    found = answer["decisions"]
    assert [each["accepted"] for each in found] == expected.accepted.tolist()
    np.testing.assert_allclose([each["prediction"] for each in found], expected.prediction)
    np.testing.assert_allclose([each["score"] for each in found], expected.score)
    np.testing.assert_allclose([each["expected_loss"] for each in found], losses)
    np.testing.assert_allclose([each["expected_saving"] for each in found], abs(losses - expected.cost))
    assert answer["model"] == "risk"
    assert all(each["review"] is None for each in found)


def test_one_row_gets_the_decision_that_it_gets_among_others(serve):
    client, rows = serve("risk"), records(ROWS.head(20))
    together = client.post("/predict", json={"rows": rows}).json()["decisions"]
    for row, expected in zip(rows, together, strict=True):
        alone = client.post("/predict", json={"row": row}).json()["decisions"]
        assert len(alone) == 1
        assert alone[0]["accepted"] == expected["accepted"]
        assert alone[0]["prediction"] == pytest.approx(expected["prediction"], rel=1e-12)


def test_absent_columns_are_missing_values_and_a_lenient_request_may_have_others(serve, row):
    client = serve("risk")
    whole = {**row, "town": None, "weight": None}
    less = {name: cell for name, cell in whole.items() if cell is not None}
    bodies = [{"row": whole}, {"row": less}, {"row": {**less, "other": "x"}, "lenient": True}]
    answers = [client.post("/predict", json=body).json() for body in bodies]
    assert answers[0] == answers[1] == answers[2]


def test_models_are_found_by_name_and_the_first_is_the_default(serve):
    client = serve("cars", "risk")
    assert client.post("/predict", json={"row": {"weight": 3000}}).json()["model"] == "cars"
    assert client.post("/predict?model=risk", json={"row": {"weight": 3000}}).json()["model"] == "risk"
    answer = client.post("/predict?model=homes", json={"row": {"weight": 3000}})
    assert (answer.status_code, answer.json()) == (404, {"error": "there is no model 'homes', only cars, risk"})


def test_columns_of_an_array_have_their_positions_as_names(serve, models):
    row = {str(place): float(cell) for place, cell in enumerate(TRAIN.iloc[0])}
    found = serve("array").post("/predict", json={"row": row}).json()["decisions"][0]
    expected = recuse.load(models / "array.recuse").decide(TRAIN.head(1).to_numpy(float))
    assert found["prediction"] == expected.prediction[0]


def test_the_cost_can_be_a_column(serve):
    client, row = serve("fee"), records(TRAIN.head(1))[0]
    assert client.post("/predict", json={"row": {**row, "fee": 7.5}}).json()["decisions"][0]["cost"] == 7.5
    assert client.post("/predict", json={"row": {**row, "fee": 7.5}, "cost": 2}).json()["decisions"][0]["cost"] == 2
    assert client.post("/predict", json={"row": row}).status_code == 422
    answer = client.post("/predict", json={"row": {**row, "fee": "much"}})
    assert answer.json() == {"error": "cost column 'fee' must be numeric, got ['much']"}


def test_a_whole_surrogate_pair_is_text(serve):
    answer = serve("risk").post("/predict", content=b'{"row": {"town": "\\ud83d\\ude00"}}')
    assert answer.status_code == 200


@pytest.mark.parametrize(
    ("body", "status", "words"),
    [
        pytest.param(b"", 400, "must be JSON", id="empty"),
        pytest.param(b"\xff", 400, "must be text in UTF-8, got the byte 0xff at position 0", id="not UTF-8"),
        pytest.param(b'{"row": {"weight": 1%s}}' % (b"0" * 400), 422, "must be below 1.8e308", id="whole number"),
        pytest.param(
            b'{"row": {"weight": 3000}, "cost": 1%s}' % (b"0" * 400), 422, "must be below 1.8e308", id="large cost"
        ),
        pytest.param(b'{"row": {"weight": 1%s}}' % (b"0" * 5000), 400, "more than 4300 digits", id="many digits"),
        pytest.param(b'{"row": {"weight": NaN}}', 400, "NaN is not a number of JSON", id="NaN"),
        pytest.param(b"[" * 100_000, 400, "nested too deeply", id="nested"),
        pytest.param(b'{"row": {"weight": 1, "weight": 2}}', 400, "got 'weight' twice", id="a column twice"),
        pytest.param(b'{"row": {"weight": 1}, "row": {"weight": 2}}', 400, "got 'row' twice", id="row twice"),
        pytest.param(b'{"row": {"weight": 1, "w\\u0065ight": 2}}', 400, "got 'weight' twice", id="escaped twice"),
        pytest.param(b'{"row": {"weight": 1}, "lenient": 1}', 422, "lenient must be true or false", id="lenient"),
        pytest.param(b"[]", 422, 'either "row" or "rows"', id="list"),
        pytest.param(b'{"row": {"weight": 3000}, "rows": [{}]}', 422, 'either "row" or "rows"', id="row and rows"),
        pytest.param(b'{"rows": []}', 422, "at least one", id="no rows"),
        pytest.param(b'{"rows": {}}', 422, "rows must be objects", id="rows as object"),
        pytest.param(b'{"row": 3}', 422, "rows must be objects", id="row as number"),
        pytest.param(b'{"row": {"weight": [1, 2]}}', 422, "values must be numbers, text", id="list as cell"),
        pytest.param(b'{"row": {"weight": {}}}', 422, "values must be numbers, text", id="object as cell"),
        pytest.param(b'{"row": {"weight": 1e999}}', 422, "must be finite", id="infinite"),
        pytest.param(b'{"row": {"weight": 3000}, "cost": "3"}', 422, "cost must be a number", id="cost as text"),
        pytest.param(
            b'{"row": {"weight": 3000}, "cost": true}', 422, "cost must be a number", id="cost as truth value"
        ),
        pytest.param(b'{"row": {"weight": 3000}, "cost": -1}', 422, "cost must be >= 0", id="negative cost"),
        pytest.param(b'{"row": {"weight": 3000}, "cost": []}', 422, "cost must be a number", id="no costs"),
        pytest.param(
            b'{"row": {"weight": 3000}, "cost": [1, 2]}', 422, "one value for each of 1 rows", id="too many costs"
        ),
        pytest.param(
            b'{"row": {"weight": 3000}, "ids": ["a", "b"]}', 422, "one text for each of 1 rows", id="too many ids"
        ),
        pytest.param(b'{"row": {"weight": 3000}, "ids": [1]}', 422, "one text for each of 1 rows", id="id as number"),
        pytest.param(
            b'{"row": {"weight": 3000}, "record": 1}', 422, "record must be true or false", id="record as number"
        ),
        pytest.param(b'{"rows": [{"town": "\\ud800"}, {}]}', 400, r"pair, \ud800", id="half a surrogate pair"),
        pytest.param(
            b'{"row": {"weight": 3000}, "ids": ["\\uDFFF"]}', 400, r"pair, \udfff", id="half a surrogate pair in an id"
        ),
    ],
)
def test_what_cannot_be_read_gets_one_sentence(serve, body, status, words):
    answer = serve("risk").post("/predict", content=body)
    assert answer.status_code == status
    assert words in answer.json()["error"]
    assert set(answer.json()) == {"error"}


def test_a_cost_that_the_model_was_not_fitted_for(serve):
    answer = serve("cars").post("/predict", json={"row": {"weight": 3000}, "cost": 7})
    assert answer.status_code == 422
    assert "was fitted for cost 6.0" in answer.json()["error"]


def test_a_model_that_refuses_missing_values(serve):
    answer = serve("strict").post("/predict", json={"row": {"weight": 3000}})
    assert answer.status_code == 422


CELLS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()


@pytest.fixture(scope="module")
def client(models):

    from recuse.serving import Settings, create_app

    paths = {name: models / f"{name}.recuse" for name in ("risk", "cars", "array")}
    with TestClient(create_app(Settings(paths))) as client:
        yield client


@settings(max_examples=30)
@given(st.data())
def test_any_row_gets_finite_numbers_or_one_sentence(client, data):
    model = data.draw(st.sampled_from(["risk", "cars", "array"]))
    names = list(client.app.state.models.get(model).column_names)
    row = st.dictionaries(st.sampled_from(names), CELLS)
    rows = data.draw(st.lists(row, min_size=1, max_size=3))
    answer = client.post(f"/predict?model={model}", content=json.dumps({"rows": rows}))
    assert answer.status_code in (200, 422)
    if answer.status_code == 200:
        assert b"NaN" not in answer.content
        assert b"Infinity" not in answer.content
        assert len(answer.json()["decisions"]) == len(rows)
