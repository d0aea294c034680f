"""Cells of the data reach the outputs of predict as they are, or so that no spreadsheet runs them."""

import csv
import json

import pandas as pd
import pyarrow.parquet as pq
import pytest

CELLS = ["=1+1", "+49 30 1234", "-x", "@SUM(A1)", "\tx", "-5", "+3.2", "plain", "NA", "None"]
SAFE = ["'=1+1", "'+49 30 1234", "'-x", "'@SUM(A1)", "'\tx", "-5", "+3.2", "plain", "NA", "None"]
WARNING = (
    "warning: 5 cells start like formulas (with =, +, -, @, a tab or a line break), which spreadsheets run: "
    "use --spreadsheet-safe"
)


def written(path):
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


@pytest.fixture(scope="module")
def source(folder, tmp_path_factory):
    """New rooms with remarks, codes of countries, and numbers with gaps."""
    table = pd.read_csv(folder / "new.csv", dtype=str, keep_default_na=False)[:10]
    path = tmp_path_factory.mktemp("cells") / "new.csv"
    numbers = ["-5", "2.50", "NA", "", "7", "8", "9", "10", "11", "None"]
    table.assign(remark=CELLS, country="NA", depth=range(-5, 5), height=numbers, none="").to_csv(path, index=False)
    return path


@pytest.fixture
def predict(command, folder, source, tmp_path):
    def run(*options, output="out.csv", data=source, keep=("remark", "depth")):
        kept = [word for name in keep for word in ("--keep", name)]
        result = command.succeed("predict", folder / "rooms.recuse", data, "-o", tmp_path / output, *kept, *options)
        return result, tmp_path / output

    return run


def formula_warnings(result):
    return [line for line in result.stderr.splitlines() if "spreadsheet" in line]


def test_cells_that_spreadsheets_run_are_kept_with_one_warning(predict):
    result, output = predict()
    rows = written(output)
    assert [row["remark"] for row in rows] == CELLS
    assert formula_warnings(result) == [WARNING]


def test_they_get_an_apostrophe_where_that_is_wanted(predict):
    result, output = predict("--spreadsheet-safe")
    rows = written(output)
    assert [row["remark"] for row in rows] == SAFE
    assert [row["depth"] for row in rows] == [str(each) for each in range(-5, 5)]
    assert any(row["score"].startswith("-") for row in rows)
    assert formula_warnings(result) == []


@pytest.mark.parametrize("ending", ["csv.gz", "tsv"])
def test_all_texts_are_written_so(predict, ending):
    found = predict("--spreadsheet-safe", output=f"out.{ending}")[1]
    table = pd.read_csv(found, sep="\t" if ending == "tsv" else ",", dtype=str, keep_default_na=False)
    assert table["remark"].tolist() == SAFE


def test_cells_of_parquet_files_and_standard_output_are_written_so(predict, command, folder, source, tmp_path):
    table = pd.read_csv(source, dtype={"zip": str, "lift": str}, keep_default_na=False).drop(columns="height")
    table.assign(age=20.0, area=50.0).to_parquet(tmp_path / "new.parquet")
    result, output = predict(data=tmp_path / "new.parquet")
    assert formula_warnings(result) == [WARNING]
    predict("--spreadsheet-safe", data=tmp_path / "new.parquet")
    assert [row["remark"] for row in written(output)] == SAFE
    options = ("-o", "-", "--keep", "remark", "--quiet")
    result = command.succeed("predict", folder / "rooms.recuse", source, *options)
    assert formula_warnings(result) == [WARNING]
    result = command.succeed("predict", folder / "rooms.recuse", source, *options, "--spreadsheet-safe")
    assert "\n'=1+1," in result.stdout


def test_names_of_columns_are_cells_too(predict, source, tmp_path):
    pd.read_csv(source, dtype=str, keep_default_na=False).rename(columns={"depth": "=depth"}).to_csv(
        tmp_path / "named.csv", index=False
    )
    result, output = predict(data=tmp_path / "named.csv", keep=["=depth"])
    assert formula_warnings(result)[0].startswith("warning: 1 cell starts like a formula (with =, ")
    predict("--spreadsheet-safe", data=tmp_path / "named.csv", keep=["=depth"])
    assert next(iter(written(output)[0])) == "'=depth"


def test_the_number_of_cells_is_in_the_json(predict):
    found = json.loads(predict("--json")[0].stdout)
    assert found["formula_cells"] == 5
    assert WARNING.removeprefix("warning: ") in found["warnings"]


@pytest.mark.parametrize("options", [(), ("-o", "out.parquet")])
def test_the_option_needs_a_csv_file(command, folder, source, options):
    line = command.error_of("predict", folder / "rooms.recuse", source, "--spreadsheet-safe", *options, code=2)
    assert line.startswith("--spreadsheet-safe needs -o with a CSV file, got ")


def test_words_for_missing_values_are_kept_as_they_are(predict):
    rows = written(predict(keep=("country", "height", "none", "depth"))[1])
    assert {row["country"] for row in rows} == {"NA"}
    assert [row["height"] for row in rows] == ["-5", "2.50", "NA", "", "7", "8", "9", "10", "11", "None"]
    assert {row["none"] for row in rows} == {""}


def test_in_parquet_kept_cells_of_csv_are_the_texts_of_the_file(predict):
    table = pq.read_table(predict(keep=("remark", "country", "height", "none"), output="out.parquet")[1])
    assert table["remark"].to_pylist() == CELLS
    assert set(table["country"].to_pylist()) == {"NA"}
    assert table["height"].to_pylist() == ["-5", "2.50", "NA", None, "7", "8", "9", "10", "11", "None"]
    assert set(table["none"].to_pylist()) == {None}


def test_columns_of_the_model_have_their_missing_values_when_they_are_kept(predict, source, tmp_path):
    table = pd.read_csv(source, dtype=str, keep_default_na=False)
    table.loc[[1, 2], "city"], table.loc[3, "age"], table.loc[4, "area"] = "NA", "None", "n/a"
    table.to_csv(tmp_path / "gaps.csv", index=False)
    plain, alone = predict(data=tmp_path / "gaps.csv", output="alone.csv", keep=())
    result, output = predict(data=tmp_path / "gaps.csv", keep=("city", "age", "area"))
    rows = written(output)
    assert [row["city"] for row in rows] == table["city"].tolist()
    assert [row["age"] for row in rows] == table["age"].tolist()
    assert [row["area"] for row in rows] == table["area"].tolist()
    assert [row["score"] for row in rows] == [row["score"] for row in written(alone)]
    problems = [[line for line in each.stderr.splitlines() if "column" in line] for each in (plain, result)]
    assert problems[0] == problems[1]
