"""Unknown columns are refused with the name that was meant; each decision names what is unlike training in its row."""

import json

import pytest

from recuse.model_file.table_report import table_report
from saved_estimators import FRAME, ROWS
from service_runs import records


@pytest.fixture
def serve(shared):
    return shared


CSV = {"content-type": "text/csv"}
USUAL = records(FRAME.drop(columns="number").dropna().head(1))[0]


def of_split(row):
    return {"json": {"dataframe_split": {"columns": list(row), "data": [list(row.values())]}}}


def of_tensors(row, parameters):
    kinds = {bool: "BOOL", str: "BYTES", int: "INT64", float: "FP64"}
    inputs = [{"name": name, "shape": [1], "datatype": kinds[type(cell)], "data": [cell]} for name, cell in row.items()]
    return {"json": {"inputs": inputs, "parameters": parameters}}


def of_csv(row):
    return {"content": ",".join(row) + "\n" + ",".join(map(str, row.values())) + "\n", "headers": CSV}


REQUESTS = {
    "predict": lambda row, lenient: ("/predict", {"json": {"row": row, "lenient": lenient}}),
    "rows": lambda row, lenient: ("/predict", {"json": {"rows": [USUAL, row], "lenient": lenient}}),
    "split": lambda row, lenient: (f"/invocations?lenient={json.dumps(lenient)}", of_split(row)),
    "records": lambda row, lenient: (
        f"/invocations?lenient={json.dumps(lenient)}",
        {"json": {"dataframe_records": [USUAL, row]}},
    ),
    "columns": lambda row, lenient: (
        f"/invocations?lenient={json.dumps(lenient)}",
        {"json": {"inputs": {name: [cell] for name, cell in row.items()}}},
    ),
    "csv": lambda row, lenient: (f"/invocations?lenient={json.dumps(lenient)}", of_csv(row)),
    "tensors": lambda row, lenient: ("/v2/models/risk/infer", of_tensors(row, {"lenient": lenient})),
}


@pytest.mark.parametrize("kind", REQUESTS)
def test_unknown_columns_are_refused_unless_the_request_is_lenient(serve, kind):
    client = serve("risk")
    misspelt = {("wieght" if name == "weight" else name): cell for name, cell in USUAL.items()}
    for row, words in (
        (misspelt, "unknown column 'wieght'"),
        ({"wieght": 3000}, "did you mean 'weight'?"),
        ({"zzz": 1}, "unknown column 'zzz'"),
    ):
        path, request = REQUESTS[kind](row, False)
        answer = client.post(path, **request)
        assert (answer.status_code, set(answer.json())) == (422, {"error"})
        assert words in answer.json()["error"]
        path, request = REQUESTS[kind](row, True)
        assert client.post(path, **request).status_code == 200


def test_rows_without_any_known_column_are_refused_unless_the_request_is_lenient(serve):
    client = serve("risk")
    for body in ({"row": {}}, {"rows": [USUAL, {}]}):
        answer = client.post("/predict", json=body)
        assert answer.status_code == 422
        assert "a row must have a column of the model" in answer.json()["error"]
        assert client.post("/predict", json={**body, "lenient": True}).status_code == 200


def test_csv_with_other_separators_is_refused(serve):
    for text in ("weight;cylinders\n3000;8\n", "weight\tcylinders\n3000\t8\n", "weight;cylinders\n3000,5;8\n"):
        answer = serve("risk").post("/invocations", content=text, headers=CSV)
        assert answer.status_code == 422
        assert "must be separated by commas" in answer.json()["error"]


def test_the_column_of_the_cost_is_known(serve):
    row = {name: USUAL[name] for name in ("weight", "cylinders")}
    assert serve("fee").post("/predict", json={"row": {**row, "fee": 3}}).status_code == 200


def test_columns_that_the_model_leaves_out_are_known(serve):
    assert serve("risk").post("/predict", json={"row": {**USUAL, "number": "car 7"}}).status_code == 200


def problems(client, *rows):
    answer = client.post("/predict", json={"rows": list(rows)})
    assert answer.status_code == 200, answer.text
    return [{each["column"]: each["problem"] for each in row["problems"]} for row in answer.json()["decisions"]]


@pytest.mark.parametrize("others", [0, 1], ids=["one row", "several rows"])
def test_each_decision_names_the_problems_of_its_row(serve, others):
    client = serve("risk")
    for row, expected in (
        (USUAL, {}),
        ({**USUAL, "cylinders": None}, {"cylinders": "new missing value"}),
        ({**USUAL, "weight": None, "town": None}, {}),  # as in training
        ({**USUAL, "weight": 1e6}, {"weight": "outside the training range"}),
        ({**USUAL, "weight": "heavy"}, {"weight": "wrong type"}),
        ({**USUAL, "town": "mars"}, {"town": "new category"}),
        ({**USUAL, "fuel": "hydrogen"}, {"fuel": "new category"}),
        ({**USUAL, "sold": "1999-01-01"}, {"sold": "outside the training range"}),
        ({**USUAL, "sold": 3}, {"sold": "wrong type"}),
        (
            {**USUAL, "cylinders": "?", "town": "n/a", "sold": " NaN"},
            {"cylinders": "new missing value", "sold": "new missing value"},
        ),
        ({**USUAL, "sold": "soon", "doors": None}, {"sold": "wrong type", "doors": "new missing value"}),
    ):
        assert problems(client, row, *[USUAL] * others) == [expected, *[{}] * others]


def test_the_problems_are_those_of_the_report_of_a_table(serve):
    client, table = serve("risk"), ROWS.head(60)
    found = problems(client, *records(table))
    alone = [problems(client, row)[0] for row in records(table)]
    assert found == alone
    counted = {}
    for row in found:
        for pair in row.items():
            counted[pair] = counted.get(pair, 0) + 1
    report = table_report(client.app.state.models.get().model.schema, table)
    assert counted == {(each.column, each.problem): each.rows for each in report}


def test_a_row_names_its_first_ten_problems(serve):
    row = {"weight": None}
    assert len(problems(serve("cars"), row)[0]) == 7
    assert 7 < len(problems(serve("risk"), {"weight": 1e9})[0]) <= 10


def test_problems_are_a_tensor_if_there_are_any_or_if_it_is_asked_for(serve):
    client = serve("risk")

    def infer(row, **others):
        outputs = client.post("/v2/models/risk/infer", json={**of_tensors(row, {})["json"], **others}).json()["outputs"]
        return {output["name"]: output for output in outputs}

    assert "problems" not in infer(USUAL)
    assert infer(USUAL, outputs=[{"name": "problems"}])["problems"]["data"] == [""]
    found = infer({**USUAL, "town": "mars"})["problems"]
    assert (found["datatype"], found["shape"], found["data"]) == ("BYTES", [1], ["town: new category"])


def test_a_model_of_an_array_has_problems_by_position(serve):
    client = serve("array")
    answer = client.post("/invocations", json={"inputs": [[8, 300.0, 150.0, 1e9, 12.0, 75, 1]]})
    assert answer.json()["predictions"][0]["problems"] == [{"column": "3", "problem": "outside the training range"}]
