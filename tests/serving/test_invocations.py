"""All formats of MLflow's scoring protocol give the decisions of the same rows."""

import json

import pytest

from saved_estimators import ROWS, TRAIN
from service_runs import records


@pytest.fixture
def serve(shared):
    return shared


CARS = TRAIN.head(5)


def invoke(client, **body):
    answer = client.post("/invocations", json=body)
    assert answer.status_code == 200, answer.text
    return answer.json()["predictions"]


def test_formats_of_the_same_rows(serve):
    client, rows = serve("cars"), records(CARS)
    lists = [list(row.values()) for row in rows]
    expected = client.post("/predict", json={"rows": rows}).json()["decisions"]
    assert invoke(client, dataframe_records=rows) == expected
    assert invoke(client, dataframe_split={"columns": list(CARS.columns), "data": lists, "index": [3]}) == expected
    assert invoke(client, dataframe_split={"data": lists}) == expected
    assert invoke(client, instances=rows) == expected
    assert invoke(client, instances=lists) == expected
    assert invoke(client, inputs=lists) == expected
    assert invoke(client, inputs={name: CARS[name].tolist() for name in CARS}) == expected
    assert invoke(client, inputs={name: [[cell] for cell in CARS[name].tolist()] for name in CARS}) == expected
    csv = client.post("/invocations", content=CARS.to_csv(index=False), headers={"content-type": "text/csv"})
    assert csv.json()["predictions"] == expected
    with_index = client.post("/invocations", content=CARS.to_csv(), headers={"content-type": "text/csv; charset=utf-8"})
    assert with_index.json()["predictions"] == expected


def test_csv_has_gaps_dates_text_and_truth_values(serve):
    client, rows = serve("risk"), ROWS.head(30)
    expected = client.post("/predict", json={"rows": records(rows)}).json()["decisions"]
    answer = client.post("/invocations", content=rows.to_csv(index=False), headers={"content-type": "text/csv"})
    for found, each in zip(answer.json()["predictions"], expected, strict=True):
        assert found.pop("problems") == each.pop("problems")
        assert found == pytest.approx(each)


def test_nan_is_a_missing_value_as_pandas_writes_it(serve):
    client = serve("cars")
    body = json.dumps({"dataframe_split": {"columns": ["weight"], "data": [[float("nan")]]}})
    found = client.post("/invocations", content=body, headers={"content-type": "application/json"}).json()
    assert found["predictions"] == invoke(client, dataframe_records=[{"weight": None}])


def test_the_cost_is_a_parameter(serve):
    client = serve("risk")
    assert invoke(client, dataframe_records=[{"weight": None}], params={"cost": 9})[0]["cost"] == 9
    assert invoke(client, dataframe_records=[{"weight": 1}, {"weight": 2}], params={"cost": [1, 2]})[1]["cost"] == 2


@pytest.mark.parametrize(
    ("body", "words"),
    [
        pytest.param({}, "one of dataframe_split", id="nothing"),
        pytest.param({"inputs": [[1]], "instances": [[1]]}, "one of dataframe_split", id="two formats"),
        pytest.param({"inputs": [[1]]}, "must have 7 values", id="too few columns"),
        pytest.param({"dataframe_split": [1]}, "must be an object", id="split as list"),
        pytest.param({"dataframe_split": {"columns": ["a", "a"], "data": [[1, 2]]}}, "different", id="same names"),
        pytest.param({"dataframe_split": {"columns": ["a"], "data": [[1], [1, 2]]}}, "in row 1", id="ragged"),
        pytest.param({"dataframe_split": {"columns": [["a"]], "data": [[1]]}}, "texts or numbers", id="list as name"),
        pytest.param({"dataframe_records": [[1]]}, "rows must be objects", id="records as lists"),
        pytest.param({"inputs": {"a": [1], "b": [1, 2]}}, "same number of values", id="ragged columns"),
        pytest.param({"inputs": {}}, "same number of values", id="no columns"),
        pytest.param({"inputs": {"weight": [[1, 2]]}}, "values must be numbers", id="wide column"),
        pytest.param(
            {"dataframe_records": [{"weight": None}], "params": {"other": 1}}, "cost and nothing else", id="params"
        ),
    ],
)
def test_what_cannot_be_read_gets_one_sentence(serve, body, words):
    answer = serve("cars").post("/invocations", json=body)
    assert answer.status_code == 422
    assert words in answer.json()["error"]


@pytest.mark.parametrize(
    ("content", "status"),
    [(b"a,b\n1\n", 422), (b"a\n", 422), (b"", 422), (b"\xff\xfe", 400), (b'a\n"1', 400)],
    ids=["short line", "no rows", "empty", "not UTF-8", "open quote"],
)
def test_csv_that_cannot_be_read(serve, content, status):
    answer = serve("cars").post("/invocations", content=content, headers={"content-type": "text/csv"})
    assert (answer.status_code, set(answer.json())) == (status, {"error"})


def test_other_content_types_are_refused(serve):
    answer = serve("cars").post("/invocations", content=b"", headers={"content-type": "application/parquet"})
    assert answer.status_code == 415


def test_health_and_version(serve):
    from recuse import __version__

    client = serve("cars")
    assert client.get("/ping").status_code == client.get("/health").status_code == 200
    assert client.get("/version").text == __version__
