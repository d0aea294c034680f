"""recuse evaluate, inspect, export and datasets."""

import hashlib
import re

import numpy as np
import pandas as pd
import pytest

import recuse
from recuse.files.tables import read_table
from recuse.model_file.runtime import onnxruntime


@pytest.fixture(scope="module")
def model(folder):
    return folder / "rooms.recuse"


def test_evaluate_prints_the_measures_of_the_decision(command, folder, model):
    table = pd.read_csv(folder / "labelled.csv", dtype={"zip": str, "lift": str}).dropna(subset="price")
    expected = recuse.load(model).decide(table).evaluate(table["price"])
    result = command.json_of("evaluate", model, folder / "labelled.csv")
    assert result["measures"] == pytest.approx(expected)
    assert (result["rows"], result["rows_without_target"]) == (57, 3)
    text = command.succeed("evaluate", model, folder / "labelled.csv").stdout
    for name in expected:
        assert name in text
    assert f"{expected['rcr_loss']:.4g}" in text


def test_evaluate_takes_another_target_and_another_cost(command, folder, model, tmp_path):
    table = pd.read_csv(folder / "labelled.csv", dtype=str).rename(columns={"price": "paid"})
    table.to_csv(tmp_path / "paid.csv", index=False)
    line = command.error_of("evaluate", model, tmp_path / "paid.csv", code=1)
    assert line.startswith(f"the target 'price' is not in {tmp_path / 'paid.csv'}; ")
    other = command.json_of("evaluate", model, tmp_path / "paid.csv", "--target", "paid", "--cost", 3)
    assert other["measures"]["always_reject"] == 3


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_decisions_of_a_table_are_evaluated_without_a_model(command, folder, model, tmp_path, ending):
    decisions, labelled = tmp_path / f"decisions.{ending}", str(folder / "labelled.csv")
    command.succeed("predict", model, labelled, "-o", decisions, "--keep", "price", "--cost", 3, "--quiet")
    found = command.json_of("evaluate", decisions, "--target", "price")
    wanted = command.json_of("evaluate", model, labelled, "--cost", 3)
    assert found["measures"] == pytest.approx(wanted["measures"])
    assert (found["rows"], found["rows_without_target"], found["loss"]) == (57, 3, "squared")
    absolute = command.json_of("evaluate", decisions, "--target", "price", "--loss", "absolute")
    assert absolute["measures"]["always_accept"] != found["measures"]["always_accept"]


@pytest.mark.parametrize(
    ("options", "code", "message"),
    [
        ((), 2, "a table of decisions needs --target, the column of the table with the target"),
        (("--target", "y", "--cost", 3), 2, "--cost, --cost-money and --certificate need a model"),
        (("--target", "z"), 1, "the target 'z' is not in {data}; "),
        (("--target", "y"), 1, "the column 'accepted' of {data} must hold True or False, got 2 at data row 2"),
    ],
)
def test_tables_that_have_no_decisions_are_refused(command, tmp_path, options, code, message):
    data = tmp_path / "decisions.csv"
    data.write_text("prediction,accepted,score,cost,y\n1,True,0.5,2,1\n2,2,0.1,2,1\n")
    assert command.error_of("evaluate", data, *options, code=code).startswith(message.format(data=data))
    data.write_text("prediction,score,cost,y\n1,0.5,2,1\n")
    line = command.error_of("evaluate", data, "--target", "y", code=1)
    assert line.startswith(f"the column of decisions 'accepted' is not in {data}; ")


def test_the_page_counts_rows_from_one(command, folder, model, tmp_path):
    table = pd.read_csv(folder / "labelled.csv", dtype=str)[2:11]
    table.to_csv(tmp_path / "few.csv", index=False)  # the first row has no target
    command.succeed("report", model, tmp_path / "few.csv", "-o", tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert set(re.findall(r'"label":"(\d+)"', page)) == {str(row) for row in range(2, 10)}


def test_the_training_rows_of_a_page_need_no_costs(command, folder, model, tmp_path):
    table = pd.read_csv(folder / "labelled.csv", dtype=str)
    table.assign(fee=5).to_csv(tmp_path / "test.csv", index=False)
    command.succeed(
        *("report", model, tmp_path / "test.csv", "-o", tmp_path / "report.html"),
        *("--cost", "column:fee", "--training", folder / "labelled.csv"),
    )
    assert "training row" in (tmp_path / "report.html").read_text(encoding="utf-8")


def test_a_target_has_no_other_role(command, folder, model):
    for name, options in {"evaluate": ("--cost", "column:price"), "report": ("--group", "price")}.items():
        line = command.error_of(name, model, folder / "labelled.csv", *options, code=2)
        assert line == f"column 'price' must have one role, got --target and {options[0]}"


def test_inspect_says_what_the_file_is(command, model):
    text = command.succeed("inspect", model).stdout
    digest = hashlib.sha256(model.read_bytes()).hexdigest()
    for fact in (
        "RiskRejector, squared loss",
        "6, in units of the squared loss; other costs are possible with --cost",
        "297 rows",
        "Columns (6 used)",
        "3 categories: Berlin, Hamburg, Köln",
        "20 to 149.6; also missing values",
        "not used",
        f"recuse {recuse.__version__}",
        digest,
    ):
        assert fact in text
    facts = command.json_of("inspect", model)
    assert (facts["sha256"], facts["bytes"], facts["estimator"]) == (digest, model.stat().st_size, "RiskRejector")
    assert [column["name"] for column in facts["schema"]["columns"]][:2] == ["id", "zip"]
    assert "leaderboard" not in facts["training"]


def test_a_file_can_be_checked_without_a_word(command, model):
    result = command.succeed("inspect", model, "--quiet")
    assert (result.stdout, result.stderr) == ("", "")


def test_a_damaged_file_is_refused(command, model, tmp_path):
    (tmp_path / "cut.recuse").write_bytes(model.read_bytes()[:-5])
    assert "cut.recuse" in command.error_of("inspect", tmp_path / "cut.recuse", code=1)


def test_export_writes_a_graph_that_onnx_runtime_runs(command, folder, model, tmp_path):
    text = command.succeed("export", model, "--onnx", tmp_path / "m.onnx").stdout
    for phrase in ("NaN is a missing value", "microseconds since 1970-01-01", "-2^63", "'' is a missing value", "cost"):
        assert phrase in text
    facts = command.json_of("export", model, "--onnx", tmp_path / "m.onnx")
    assert {each["name"]: each["type"] for each in facts["inputs"]} == {
        **{"zip": "string", "sold": "int64", "area": "double", "city": "string", "age": "double", "lift": "string"},
        "cost": "double",
    }
    row = {"zip": "01067", "sold": np.datetime64("2023-05-01", "us").astype(np.int64), "area": 50.0}
    row |= {"city": "Berlin", "age": np.nan, "lift": "", "cost": 6.0}
    types = {"string": object, "int64": np.int64, "double": np.float64}
    feeds = {each["name"]: np.array([[row[each["name"]]]], types[each["type"]]) for each in facts["inputs"]}
    session = onnxruntime.InferenceSession(tmp_path / "m.onnx")
    (prediction,) = session.run(["prediction"], feeds)
    table = pd.DataFrame([{**row, "sold": "2023-05-01", "lift": None}])
    np.testing.assert_allclose(prediction, recuse.load(model).predict(table))
    assert "m.onnx cannot be written" in command.error_of("export", model, "--onnx", "no/m.onnx", code=1)


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_embedded_data_sets_are_written(command, tmp_path, ending):
    data, path = recuse.datasets.load("auto_mpg"), tmp_path / f"cars.{ending}"
    assert "the target is mpg" in command.succeed("datasets", "auto_mpg", "-o", path).stdout
    table = read_table(str(path))
    assert list(table) == [*data.X.columns, "mpg"]
    np.testing.assert_array_equal(table["mpg"], data.y)
    assert command.error_of("datasets", "-o", path, code=2).startswith("-o needs the name of a data set")


@pytest.mark.parametrize("name", ["fit", "predict", "evaluate", "report", "inspect", "export", "datasets", "demo"])
def test_the_help_of_every_command_has_examples(command, name):
    text = command.succeed(name, "--help").stdout
    assert "Examples:" in text
    assert f"recuse {name} " in text
    assert "Exit codes:" in command.succeed("--help").stdout


def test_an_unknown_command_is_an_error_of_usage(command):
    assert command.error_of("fitt", code=2).startswith("No such command 'fitt'")


def test_models_of_images_are_inspected_and_exported_but_read_no_tables(command, folder, tmp_path):
    pytest.importorskip("lightning")
    images, target, _, _ = recuse.datasets.make_cellularity(24, random_state=0, size=32)
    quick = {"epochs": 1, "slow_start": 0, "batch_size": 16, "random_state": 0, "trainer": {"accelerator": "cpu"}}
    recuse.save(recuse.RcRImageRegressor(0.02, **quick).fit(images, target), tmp_path / "m.recuse")
    assert "3 x 32 x 32" in command.succeed("inspect", tmp_path / "m.recuse").stdout
    exported = command.json_of("export", tmp_path / "m.recuse", "--onnx", tmp_path / "m.onnx")
    assert exported["inputs"][0]["meaning"] == "images: channels, height, width"
    line = command.error_of("predict", tmp_path / "m.recuse", folder / "new.csv", code=1)
    assert line == "RcRImageRegressor reads images, not tables: load the model in Python, with recuse.load"
