"""Models in MLflow: what is logged, what it decides, and the scoring server."""

import json
import os
import pickletools
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import recuse

mlflow = pytest.importorskip("mlflow", reason="needs MLflow: `make mlflow` runs these tests in an environment with it")

CARS = pd.DataFrame(
    {
        "cylinders": [4, 8, 6],
        "displacement": [97.0, 350.0, 225.0],
        "horsepower": [60.0, np.nan, 105.0],
        "weight": [1834, 4274, 3439],
        "acceleration": [19.0, 12.0, 15.5],
        "model_year": [71, 72, 71],
        "origin": ["2", None, "mars"],
    }
)


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    written = os.environ.get("RECUSE_MODEL_FILES")
    if written:
        return Path(written)
    from mlflow_models import write_models

    folder = tmp_path_factory.mktemp("models")
    write_models(folder)
    return folder


@pytest.fixture(scope="module")
def cars(models):
    return recuse.load(models / "cars.recuse")


@pytest.fixture(scope="module")
def logged(models, tmp_path_factory):
    store = tmp_path_factory.mktemp("store")
    mlflow.set_tracking_uri(f"sqlite:///{store / 'runs.db'}")
    experiment = mlflow.create_experiment("cars", artifact_location=(store / "artifacts").as_uri())
    mlflow.set_experiment(experiment_id=experiment)
    with mlflow.start_run():
        return recuse.mlflow.log_model(models / "cars.recuse", name="cars", registered_model_name="cars")


def expected_frame(model, table, cost=None):
    return model.decide(table, cost=cost).to_frame().assign(expected_loss=model.expected_loss(table))


def test_a_logged_model_loads_as_a_served_model(logged, cars):
    loaded = recuse.mlflow.load_model(logged.model_uri)
    assert loaded.fingerprint == cars.fingerprint
    assert recuse.mlflow.load_model("models:/cars/1").decide(CARS) == cars.decide(CARS)


def test_a_logged_model_has_no_pickle(logged, models):
    folder = Path(mlflow.artifacts.download_artifacts(logged.model_uri))
    files = {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}
    assert {"MLmodel", "data/model.recuse", "requirements.txt", "input_example.json"} <= files
    assert (folder / "data/model.recuse").read_bytes() == (models / "cars.recuse").read_bytes()
    assert not [name for name in files if name.endswith((".pkl", ".pickle", ".joblib"))]
    for name in files:
        with pytest.raises((ValueError, UnicodeDecodeError)):
            list(pickletools.genops((folder / name).read_bytes()))


def test_predict_gives_a_table_of_decisions(logged, cars):
    model = mlflow.pyfunc.load_model(logged.model_uri)
    found = model.predict(CARS)
    pd.testing.assert_frame_equal(found, expected_frame(cars, CARS))
    assert not found["accepted"].all()
    pd.testing.assert_frame_equal(model.predict(CARS, params={"cost": 40.0}), expected_frame(cars, CARS, 40.0))
    costs = [0.0, 50.0, 1000.0]
    assert list(model.predict(CARS, params={"costs": costs})["cost"]) == costs
    with pytest.raises(ValueError, match="not both"):
        model.predict(CARS, params={"cost": 1.0, "costs": costs})


def test_the_signature_names_the_columns_and_the_example_fits_it(logged, cars):
    signature = logged.signature
    assert signature.inputs.input_names() == cars.schema.names
    assert signature.outputs.input_names() == ["prediction", "accepted", "score", "cost", "expected_loss"]
    assert [param.name for param in signature.params.params] == ["cost", "costs"]
    model = mlflow.pyfunc.load_model(logged.model_uri)
    example = model.input_example
    assert len(model.predict(example)) == 1
    for column in cars.schema.columns:
        if column.kind == "number":
            assert column.low <= example[column.name][0] <= column.high
    assert model.metadata.metadata["recuse"]["columns"]["weight"]["kind"] == "number"
    with pytest.raises(mlflow.exceptions.MlflowException, match="missing inputs"):
        model.predict(CARS.drop(columns="weight"))


def test_requirements_name_the_versions(logged):
    folder = Path(mlflow.artifacts.download_artifacts(logged.model_uri))
    lines = (folder / "requirements.txt").read_text().split()
    assert f"recuse=={recuse.__version__}" in lines
    assert any(line.startswith("onnxruntime==") for line in lines)


def test_an_array_model_and_a_model_of_two_targets_with_a_cost_column(models, tmp_path):
    recuse.mlflow.save_model(models / "array.recuse", tmp_path / "array")
    rows = np.array([[0.0, 0.5, -1.0, 0.2, 0.0], [1.0, 2.0, 3.0, 0.5, -2.0]])
    found = mlflow.pyfunc.load_model(str(tmp_path / "array")).predict(rows)
    assert list(found["prediction"]) == list(recuse.load(models / "array.recuse").predict(rows))
    recuse.mlflow.save_model(models / "two.recuse", tmp_path / "two")
    two = mlflow.pyfunc.load_model(str(tmp_path / "two"))
    found = two.predict(CARS.assign(fee=[1.0, 2.0, 3.0]))
    assert list(found)[:2] == ["prediction_mpg", "prediction_lphk"]
    assert list(found["cost"]) == [1.0, 2.0, 3.0]


def test_other_models_are_refused(tmp_path):
    mlflow.models.Model().add_flavor("other").save(str(tmp_path / "MLmodel"))
    with pytest.raises(ValueError, match=r"must be logged by recuse.mlflow, got a model of other"):
        recuse.mlflow.load_model(str(tmp_path))


def post(uri, body, kind):
    from fastapi.testclient import TestClient
    from mlflow.pyfunc import scoring_server

    client = TestClient(scoring_server.init(mlflow.pyfunc.load_model(str(uri))))
    answer = client.post("/invocations", content=body, headers={"Content-Type": kind})
    assert answer.status_code == 200, answer.text
    return pd.DataFrame(answer.json()["predictions"])


@pytest.mark.parametrize("form", ["dataframe_split", "dataframe_records"])
def test_the_scoring_server_gives_decisions(logged, cars, form):
    cells = CARS.astype(object).where(CARS.notna(), None)
    table = cells.to_dict("split", index=False) if form == "dataframe_split" else cells.to_dict("records")
    body = json.dumps({form: table, "params": {"cost": 40.0}})
    found, expected = post(logged.model_uri, body, "application/json"), expected_frame(cars, CARS, 40.0)
    pd.testing.assert_frame_equal(found[list(expected)], expected)


def test_the_scoring_server_reads_csv_if_the_signature_has_types(models, cars, tmp_path):
    signature = mlflow.models.infer_signature(CARS.astype({"weight": float}))
    recuse.mlflow.save_model(models / "cars.recuse", tmp_path / "typed", signature=signature)
    found, expected = post(tmp_path / "typed", CARS.to_csv(index=False), "text/csv"), expected_frame(cars, CARS)
    pd.testing.assert_frame_equal(found[list(expected)], expected)


def test_loading_needs_no_torch(logged):
    if os.environ.get("RECUSE_MODEL_FILES"):
        assert "torch" not in sys.modules
    folder = mlflow.artifacts.download_artifacts(logged.model_uri)
    code = (
        "import sys, recuse.mlflow\n"
        f"recuse.mlflow._load_pyfunc({folder!r} + '/data/model.recuse')\n"
        "print('torch' in sys.modules)"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "False"
