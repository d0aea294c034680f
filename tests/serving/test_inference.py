"""The Open Inference Protocol: tensors of JSON give the decisions of the same rows."""

import json

import numpy as np
import pytest

import recuse
from recuse.serving import Settings, create_app
from saved_estimators import ROWS, TRAIN
from service_runs import TestClient, records


@pytest.fixture
def serve(shared):
    return shared


CARS = TRAIN.head(4)


def tensor(name, values, datatype):
    values = list(values)
    return {"name": name, "shape": [len(values)], "datatype": datatype, "data": values}


def infer(client, inputs, model="cars", **others):
    answer = client.post(f"/v2/models/{model}/infer", json={"inputs": inputs, **others})
    assert answer.status_code == 200, answer.text
    return {output["name"]: output for output in answer.json()["outputs"]}


@pytest.fixture
def expected(serve):
    return serve("cars").post("/predict", json={"rows": records(CARS)}).json()["decisions"]


def test_columns_and_a_matrix_of_the_same_rows(serve, expected):
    client = serve("cars")
    columns = [tensor(name, CARS[name].tolist(), "FP64" if CARS[name].dtype.kind == "f" else "INT64") for name in CARS]
    rows = {"name": "rows", "shape": [4, 7], "datatype": "FP64", "data": CARS.to_numpy(float).ravel().tolist()}
    nested = {**rows, "data": CARS.to_numpy(float).tolist()}
    upright = [{**column, "shape": [4, 1]} for column in columns]
    for inputs in (columns, [rows], [nested], upright):
        outputs = infer(client, inputs)
        assert list(outputs) == ["prediction", "accepted", "score", "cost"]
        for name, output in outputs.items():
            assert output["data"] == [each[name] for each in expected]
            assert output["shape"] == [4]


def test_text_dates_truth_values_and_gaps(serve):
    client, rows = serve("risk"), records(ROWS.head(6).drop(columns="number"))
    kinds = {str: "BYTES", float: "FP64", bool: "BOOL", int: "INT64"}
    inputs = []
    for name in rows[0]:
        values = [row[name] for row in rows]
        kind = next(type(value) for value in values if value is not None)
        inputs.append(tensor(name, values, kinds[kind]))
    expected = client.post("/predict", json={"rows": rows}).json()["decisions"]
    outputs = infer(client, inputs, "risk", parameters={"cost": 4.0})
    assert outputs["expected_loss"]["data"] == [each["expected_loss"] for each in expected]
    assert outputs["cost"]["data"] == [4.0] * 6
    by_tensor = infer(client, [*inputs, tensor("cost", [1, 2, 3, 4, 5, 6], "INT32")], "risk")
    assert by_tensor["cost"]["data"] == [1, 2, 3, 4, 5, 6]


def test_a_model_of_an_array(serve):
    client = serve("array")
    rows = {"name": "X", "shape": [4, 7], "datatype": "FP64", "data": CARS.to_numpy(float).ravel().tolist()}
    assert client.get("/v2/models/array").json()["inputs"] == [{"name": "X", "datatype": "FP64", "shape": [-1, 7]}]
    assert infer(client, [rows], "array")["prediction"]["shape"] == [4]


def test_chosen_outputs_of_text(serve):
    client = serve("risk")
    content = {"id": "7", "inputs": [tensor("town", ["a", "ä"], "BYTES")], "outputs": [{"name": "score"}]}
    answer = client.post("/v2/models/risk/infer", json=content).json()
    decisions = client.post("/predict", json={"rows": [{"town": "a"}, {"town": "ä"}]}).json()["decisions"]
    assert answer["id"] == "7"
    assert [output["name"] for output in answer["outputs"]] == ["score"]
    assert answer["outputs"][0]["data"] == [each["score"] for each in decisions]


def test_binary_tensors_get_one_sentence_and_binary_outputs_are_json(serve):
    client, content = serve("cars"), {"inputs": [{**FP, "parameters": {"binary_data_size": 8}}]}
    del content["inputs"][0]["data"]
    text = json.dumps(content)
    for headers, status in (({"Inference-Header-Content-Length": str(len(text))}, 415), ({}, 400)):
        answer = client.post("/v2/models/cars/infer", content=text, headers=headers)
        assert answer.status_code == status
        assert "tensors must be JSON, as binary_data=False of a client makes them" in answer.json()["error"]
    outputs = infer(client, [FP], parameters={"binary_data_output": True})  # what a client of Triton asks for
    assert outputs["prediction"]["shape"] == [1]


FP = {"name": "weight", "shape": [1], "datatype": "FP64", "data": [1.0]}


@pytest.mark.parametrize(
    ("content", "words"),
    [
        pytest.param([], "an object with inputs", id="list"),
        pytest.param({}, "a list of tensors", id="no inputs"),
        pytest.param({"inputs": [1]}, "name, shape, datatype", id="number"),
        pytest.param({"inputs": [{**FP, "shape": [0]}]}, "sizes > 0", id="no rows"),
        pytest.param({"inputs": [{**FP, "shape": [2]}]}, "must have 2 values", id="wrong count"),
        pytest.param({"inputs": [{**FP, "shape": "1"}]}, "sizes > 0", id="shape as text"),
        pytest.param({"inputs": [{**FP, "datatype": "FP128"}]}, "datatype", id="datatype"),
        pytest.param({"inputs": [{**FP, "datatype": []}]}, "datatype", id="datatype as list"),
        pytest.param({"inputs": [{**FP, "data": ["x"]}]}, "cannot hold 'x'", id="text as number"),
        pytest.param({"inputs": [{**FP, "data": None}]}, "in the list data", id="no data"),
        pytest.param({"inputs": [FP, FP]}, "different names", id="same name"),
        pytest.param({"inputs": [{**FP, "name": "x"}]}, "one for each column", id="unknown column"),
        pytest.param({"inputs": [FP, {**FP, "name": "x"}]}, "one for each column", id="known and unknown"),
        pytest.param({"inputs": [FP], "outputs": [{"name": "x"}]}, "outputs must be", id="unknown output"),
        pytest.param({"inputs": [FP], "outputs": [1]}, "outputs must be", id="output as number"),
        pytest.param({"inputs": [FP], "parameters": 1}, "parameters must be", id="parameters"),
        pytest.param({"inputs": [FP], "parameters": {"cost": "x"}}, "cost must be", id="cost"),
    ],
)
def test_what_cannot_be_read_gets_one_sentence(serve, content, words):
    answer = serve("cars").post("/v2/models/cars/infer", json=content)
    assert answer.status_code in (400, 422)
    assert words in answer.json()["error"]


def test_health_and_metadata(serve):
    client = serve("cars", "risk")
    assert client.get("/v2/health/live").json() == {"live": True}
    assert client.get("/v2/health/ready").json() == {"ready": True}
    assert client.get("/v2").json()["extensions"] == []
    described = client.get("/v2/models/risk").json()
    version = described["versions"][0]
    kinds = {each["name"]: each["datatype"] for each in described["inputs"]}
    assert (kinds["weight"], kinds["town"], kinds["sold"], kinds["doors"]) == ("FP64", "BYTES", "BYTES", "BOOL")
    assert "number" not in kinds
    assert client.get(f"/v2/models/risk/versions/{version}").json() == described
    assert client.get(f"/v2/models/risk/versions/{version}/ready").json() == {"name": "risk", "ready": True}
    assert client.get("/v2/models/risk/ready").status_code == 200
    assert client.get("/v2/models/homes/ready").status_code == 404
    assert client.get("/v2/models/risk/versions/1").status_code == 404
    body = {"inputs": [{"name": "town", "shape": [1], "datatype": "BYTES", "data": ["a"]}]}
    assert client.post(f"/v2/models/risk/versions/{version}/infer", json=body).json()["model_version"] == version


def test_images_are_one_tensor(tmp_path):
    pytest.importorskip("lightning")
    quick = {"epochs": 1, "slow_start": 0, "batch_size": 8, "random_state": 0}
    images, y, _, _ = recuse.datasets.make_cellularity(16, random_state=0, size=32)
    recuse.save(recuse.RcRImageRegressor(0.02, **quick).fit(images, y), tmp_path / "tissue.recuse")
    with TestClient(create_app(Settings({"tissue": tmp_path / "tissue.recuse"}))) as client:
        shape = list(images[:2].shape)
        assert client.get("/v2/models/tissue").json()["inputs"] == [
            {"name": "image", "datatype": "FP32", "shape": [-1, *shape[1:]]}
        ]
        data = np.asarray(images[:2], dtype=np.float32).ravel().tolist()
        request = {"inputs": [{"name": "image", "shape": shape, "datatype": "FP32", "data": data}]}
        outputs = client.post("/v2/models/tissue/infer", json=request).json()["outputs"]
        expected = recuse.load(tmp_path / "tissue.recuse").decide(np.asarray(images[:2], dtype=np.float32))
        assert outputs[0]["data"] == expected.prediction.tolist()
        table = {"content": "weight\n3000\n", "headers": {"content-type": "text/csv"}}
        for path, rows in (
            ("/predict", {"json": {"row": {"weight": 3000}}}),
            ("/invocations", {"json": {"inputs": [[1.0]]}}),
            ("/invocations", table),
        ):
            refused = client.post(path, **rows)
            assert refused.status_code == 422
            assert "reads images, not rows" in refused.json()["error"]
        assert client.get("/metrics").status_code == client.get("/openapi.json").status_code == 200
    with_queue = Settings({"tissue": tmp_path / "tissue.recuse"}, queue=tmp_path / "reviews.sqlite", audit_share=1.0)
    with TestClient(create_app(with_queue)) as client:  # which holds rows of tables only
        assert client.post("/v2/models/tissue/infer", json=request).json()["outputs"] == outputs
        assert client.get("/models").json()[0]["review_queue"] is False
