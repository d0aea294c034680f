import numpy as np
import pandas as pd
import pytest

import recuse
from recuse.files.tables import read_table, write_table


@pytest.fixture(scope="module")
def model(folder):
    return folder / "rooms.recuse"


def decided(model, table):
    new = pd.read_csv(table, dtype={"zip": str, "lift": str})
    with pytest.warns(UserWarning, match="had only numbers"):
        return recuse.load(model).decide(new)


def test_the_report_has_one_line_for_each_problem(command, folder, model, tmp_path):
    result = command.succeed("predict", model, folder / "new.csv", "-o", tmp_path / "out.csv")
    assert result.stderr.splitlines() == [
        "warning: column sold: 1 row with 'soon' where training had dates or times",
        "warning: column area: 1 row with 'large' where training had numbers",
        "warning: column area: 1 row outside the training range 20 to 149.6, such as 999",
        "warning: column city: 1 row with a category that training did not have, such as 'Bonn'",
    ]
    assert result.stdout.splitlines()[0] == "Columns that the model does not use: remark."


@pytest.mark.parametrize("ending", ["csv", "csv.gz", "tsv", "parquet", "arrow", "feather"])
def test_decisions_are_those_of_the_library_in_every_format(command, folder, model, tmp_path, ending):
    source, output = tmp_path / f"new.{ending}", tmp_path / f"out.{ending}"
    write_table(read_table(str(folder / "new.csv")), str(source))
    command.succeed("predict", model, source, "-o", output, "--quiet")
    frame, decision = read_table(str(output)), decided(model, folder / "new.csv")
    for name in ("prediction", "score", "cost"):
        np.testing.assert_array_equal(frame[name], getattr(decision, name))
    assert frame["accepted"].astype(str).tolist() == decision.accepted.astype(str).tolist()


def test_codes_stay_text_if_no_row_has_a_leading_zero(command, folder, model, tmp_path):
    table = command.rooms(20, 3, labelled=False).assign(zip="10115")
    table.to_csv(tmp_path / "new.csv", index=False)
    assert command.json_of("predict", model, tmp_path / "new.csv", "-o", tmp_path / "out.csv")["problems"] == []


def test_truth_values_and_codes_of_parquet_files_are_found_by_their_text(command, folder, model, tmp_path):
    table = command.rooms(20, 3, labelled=False).assign(zip=10115)
    table["lift"] = table["lift"] == "True"
    table["area"], table["age"] = 50.0, 20
    write_table(table, str(tmp_path / "new.parquet"))
    assert command.json_of("predict", model, tmp_path / "new.parquet", "-o", tmp_path / "o.csv")["problems"] == []


def test_truth_values_of_parquet_training_rows_are_found_in_csv_files(command, tmp_path):
    table = command.rooms(120, 3)[3:]
    table["lift"], table["price"] = table["lift"] == "True", table["price"].astype(float)
    write_table(table, str(tmp_path / "rooms.parquet"))
    command.rooms(20, 4).to_csv(tmp_path / "new.csv", index=False)
    options = ("--target", "price", "--cost", 6, "--method", "knn-plug", "--drop", "id", "-o", tmp_path / "m.recuse")
    command.succeed("fit", tmp_path / "rooms.parquet", *options)
    problems = command.json_of("predict", tmp_path / "m.recuse", tmp_path / "new.csv")["problems"]
    assert [each["column"] for each in problems if each["problem"] == "new category"] == []


def test_without_output_the_first_rows_are_shown(command, folder, model):
    text = command.succeed("predict", model, folder / "new.csv", "--keep", "id").stdout
    assert "First 10 of 30 rows" in text
    assert "room-2-9" in text
    assert "room-2-10" not in text
    assert "30 rows at cost 6" in text


def test_decisions_go_to_standard_output_and_messages_to_standard_error(command, folder, model):
    result = command.succeed("predict", model, "-", "-o", "-", stdin=(folder / "new.csv").read_bytes())
    assert len(result.stdout.splitlines()) == 31
    assert "30 rows at cost 6" in result.stderr
    assert command.succeed("predict", model, folder / "new.csv", "-o", "-").stdout == result.stdout


def test_kept_columns_come_first_and_never_hide_results(command, folder, model, tmp_path):
    table = pd.read_csv(folder / "new.csv", dtype=str).assign(score="mine")
    table.to_csv(tmp_path / "new.csv", index=False)
    arguments = ("predict", model, tmp_path / "new.csv", "-o", tmp_path / "out.csv")
    result = command.succeed(*arguments, "--keep", "id", "--keep", "score")
    assert "columns of the data with the name of a result are written as input_NAME: score" in result.stderr
    assert list(pd.read_csv(tmp_path / "out.csv"))[:4] == ["id", "input_score", "prediction", "accepted"]
    command.succeed(*arguments, "--keep-all")
    assert len(pd.read_csv(tmp_path / "out.csv").columns) == len(table.columns) + 5


def test_another_cost_is_used(command, folder, model):
    few, many = (command.json_of("predict", model, folder / "new.csv", "--cost", cost) for cost in (1, 50))
    assert few["rejected"] > many["rejected"]
    assert (few["cost"], many["cost"]) == (1.0, 50.0)
    money = command.json_of(
        "predict", model, folder / "new.csv", "--cost-money", "error=1,error_cost=2,review_cost=100"
    )
    assert money["decisions"] == many["decisions"]


@pytest.mark.parametrize(
    ("options", "code", "message"),
    [
        (("-o", "out.xlsx"), 2, "out.xlsx must end with one of .csv"),
        (("-o", "-", "--json"), 2, None),
        (("--keep", "idd"), 1, "the column to keep 'idd' is not in {data}; did you mean id?"),
        (("--keep", "id", "--keep-all"), 2, "--keep and --keep-all cannot both be given"),
        (("--cost", "column:fee"), 1, "the cost column 'fee' is not in {data}; it has the columns"),
        (("--cost", "dear"), 2, "--cost must be a number >= 0"),
        (("-o", "no/where.csv"), 1, "where.csv cannot be written: the folder "),
    ],
)
def test_a_mistake_is_one_sentence(command, folder, model, options, code, message):
    data = folder / "new.csv"
    if message is None:
        assert command.run("predict", model, data, *options).exit_code == code
    else:
        assert command.error_of("predict", model, data, *options, code=code).startswith(message.format(data=data))


def test_missing_columns_are_named(command, folder, model, tmp_path):
    table = pd.read_csv(folder / "new.csv", dtype=str)
    table.drop(columns=["city", "age"]).to_csv(tmp_path / "new.csv", index=False)
    line = command.error_of("predict", model, tmp_path / "new.csv", code=1)
    assert line == f"{tmp_path / 'new.csv'} must have the columns city, age, as in training"


def test_a_file_that_is_no_model_is_refused(command, folder):
    assert "is not a model file of recuse" in command.error_of(
        "predict", folder / "new.csv", folder / "new.csv", code=1
    )
    assert "does not exist" in command.error_of("predict", folder / "no.recuse", folder / "new.csv", code=1)


def test_a_model_without_a_cost_asks_for_one(command, folder, tmp_path):
    X = pd.DataFrame({"a": np.linspace(0, 1, 60)})
    model = recuse.estimators.knn_plug(random_state=0).fit(X, X["a"] ** 2, cost=np.linspace(1, 2, 60))
    recuse.save(model, tmp_path / "m.recuse")
    X.to_csv(tmp_path / "a.csv", index=False)
    line = command.error_of("predict", tmp_path / "m.recuse", tmp_path / "a.csv", code=1)
    assert line == "the model has no cost of its own: give a cost, as a number or as the name of a column"
    assert command.json_of("predict", tmp_path / "m.recuse", tmp_path / "a.csv", "--cost", 1)["rows"] == 60


def test_a_model_of_an_array_reads_columns_by_position(command, tmp_path):
    X = np.random.default_rng(0).normal(size=(80, 2))
    recuse.save(recuse.estimators.knn_plug(cost=1.0, random_state=0).fit(X, X[:, 0]), tmp_path / "m.recuse")
    pd.DataFrame(X, columns=["u", "v"]).to_csv(tmp_path / "two.csv", index=False)
    pd.DataFrame(X[:, :1], columns=["u"]).to_csv(tmp_path / "one.csv", index=False)
    assert command.json_of("predict", tmp_path / "m.recuse", tmp_path / "two.csv")["rows"] == 80
    line = command.error_of("predict", tmp_path / "m.recuse", tmp_path / "one.csv", code=1)
    assert line.endswith("one.csv must have 2 columns, as in training, got 1")


@pytest.mark.parametrize("dtype", [object, "boolean"])
def test_truth_values_with_gaps_in_parquet_files_are_found_by_their_text(command, tmp_path, dtype):
    table = command.rooms(120, 3)[3:].drop(columns="id")
    table.loc[5:9, "lift"] = ""
    table.to_csv(tmp_path / "rooms.csv", index=False)
    model = tmp_path / "m.recuse"
    command.succeed(
        "fit", tmp_path / "rooms.csv", "--target", "price", "--cost", 6, "--method", "knn-plug", "-o", model
    )
    new = table.assign(area=50.0, age=20.0, zip=table["zip"].astype(int).astype(float)).drop(columns="price")
    new.loc[7, "zip"] = np.nan
    new["lift"] = new["lift"].map({"True": True, "False": False, "": None}).astype(object).astype(dtype)
    write_table(new, str(tmp_path / "new.parquet"))
    problems = command.json_of("predict", model, tmp_path / "new.parquet")["problems"]
    # the number 1067 has lost its leading zero
    assert [(each["column"], each["problem"], each["example"]) for each in problems if each["column"] != "sold"] == [
        ("zip", "new category", "1067"),
        ("zip", "new missing value", ""),
    ]


def test_truth_values_with_gaps_are_found_by_models_of_truth_values(command, tmp_path):
    table = command.rooms(120, 3)[3:].drop(columns="id").assign(age=20.0, area=50.0)
    table["price"] = table["price"].astype(float)
    table["lift"] = (table["lift"] == "True").astype("boolean")
    table.loc[5:9, "lift"] = pd.NA
    write_table(table, str(tmp_path / "rooms.parquet"))
    options = ("--target", "price", "--cost", 6, "--method", "knn-plug", "-o", tmp_path / "m.recuse")
    command.succeed("fit", tmp_path / "rooms.parquet", *options)
    problems = command.json_of("predict", tmp_path / "m.recuse", tmp_path / "rooms.parquet")["problems"]
    assert [each for each in problems if each["column"] == "lift"] == []


def test_a_column_is_kept_once_under_a_new_name(command, folder, model, tmp_path):
    table = pd.read_csv(folder / "new.csv", dtype=str).assign(prediction="mine", input_prediction="older")
    table.to_csv(tmp_path / "new.csv", index=False)
    arguments = ("predict", model, tmp_path / "new.csv", "-o", tmp_path / "out.csv", "--quiet")
    command.succeed(*arguments, "--keep", "id", "--keep", "id")
    assert list(pd.read_csv(tmp_path / "out.csv"))[:2] == ["id", "prediction"]
    command.succeed(*arguments, "--keep-all")
    out = read_table(str(tmp_path / "out.csv"))
    assert (out["input_prediction"][0], out["input_input_prediction"][0]) == ("older", "mine")


def test_missing_cells_are_null(command, folder, model, tmp_path):
    table = read_table(str(folder / "new.csv")).assign(seen=pd.NaT, count=pd.array([pd.NA] + [1] * 29, "Int64"))
    table.loc[1, "seen"] = pd.Timestamp("2024-05-01")
    write_table(table, str(tmp_path / "new.parquet"))
    rows = command.json_of("predict", model, tmp_path / "new.parquet", "--keep", "seen", "--keep", "count")["decisions"]
    assert [(row["seen"], row["count"]) for row in rows[:2]] == [(None, None), ("2024-05-01 00:00:00", 1)]


@pytest.fixture(scope="module")
def numbers():
    X = np.random.default_rng(0).normal(size=(80, 2))
    return X, X[:, 0] + 1.0


@pytest.mark.parametrize("names", [None, [0, 1]])
def test_models_without_names_evaluate_tables_with_a_target_and_a_cost(command, numbers, tmp_path, names):
    X, y = numbers
    rows = X if names is None else pd.DataFrame(X, columns=names)
    fitted = recuse.estimators.knn_plug(cost=1.0, random_state=0).fit(rows, y)
    model = tmp_path / "m.recuse"
    recuse.save(fitted, model)
    table = pd.DataFrame(X, columns=["0", "1"]).assign(t=y, fee=0.5, side=np.arange(80) % 2)
    table[["t", "0", "1"]].to_csv(tmp_path / "arr.csv", index=False)
    table[["0", "fee", "1"]].to_csv(tmp_path / "fee.csv", index=False)
    table[["t", "fee", "0", "side", "1"]].to_csv(tmp_path / "all.csv", index=False)
    command.succeed(
        *("certify", model, tmp_path / "arr.csv", "--target", 8, "--bound", 9, "--target-column", "t"),
        "--allow-training-rows",
    )
    expected = {name: each for name, each in fitted.decide(rows).evaluate(y).items() if not np.isnan(each)}
    measures = command.json_of("evaluate", model, tmp_path / "arr.csv", "--target", "t")["measures"]
    assert {name: measures[name] for name in expected} == pytest.approx(expected)
    predicted = command.json_of("predict", model, tmp_path / "fee.csv", "--cost", "column:fee", "--keep", "0")
    decisions = predicted["decisions"]
    np.testing.assert_allclose([row["prediction"] for row in decisions], fitted.predict(rows))
    assert ({row["cost"] for row in decisions}, float(decisions[0]["0"])) == ({0.5}, X[0, 0])
    options = ("--target", "t", "-o", tmp_path / "report.html", "--group")
    assert command.json_of("report", model, tmp_path / "arr.csv", *options, "0")["rows"] == 80
    cost = ("--cost", "column:fee", "--training", tmp_path / "all.csv")
    assert command.json_of("report", model, tmp_path / "all.csv", *options, "side", *cost)["rows"] == 80
    several = ("side", "--group", "fee", *cost)
    assert command.json_of("report", model, tmp_path / "all.csv", *options, *several)["rows"] == 80
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert '"column":"side"' in page
    assert '"column":"fee"' in page


@pytest.mark.parametrize("name", ["predict", "evaluate", "report", "certify"])
def test_prices_need_a_model_of_the_squared_loss(command, numbers, folder, tmp_path, name):
    X, y = numbers
    rows = pd.DataFrame(X, columns=["u", "v"])
    rows.assign(t=y).to_csv(tmp_path / "rows.csv", index=False)
    fitted = recuse.estimators.knn_plug(cost=1.0, loss="absolute", random_state=0).fit(rows, y)
    recuse.save(fitted, tmp_path / "m.recuse")
    prices = ("--cost-money", "error=2,error_cost=10,review_cost=30")
    target = {"predict": (), "certify": ("--target", 1, "--bound", 9)}.get(name, ("--target", "t"))
    line = command.error_of(name, tmp_path / "m.recuse", tmp_path / "rows.csv", *target, *prices, code=2)
    assert line == "--cost-money needs a model of the squared loss, got 'absolute': give --cost in units of that loss"


@pytest.mark.parametrize(
    ("column", "value", "message"),
    [
        ("u", "inf", "column 'u' of {data} must be finite, got inf at data row 5"),
        ("fee", "-1", "the cost column 'fee' of {data} must hold numbers >= 0, got -1 at data row 5"),
        ("fee", "", "the cost column 'fee' of {data} must hold numbers >= 0, got a missing value at data row 5"),
        ("t", "inf", "the target 't' of {data} must be finite, got inf at data row 5"),
        ("kind", "c", "column 'kind' must hold a category seen in training, one of ['a', 'b'], got 'c' at data row 5"),
    ],
)
def test_rows_of_new_tables_are_counted_from_one(command, numbers, tmp_path, column, value, message):
    X, y = numbers
    rows = pd.DataFrame(X, columns=["u", "v"]).assign(kind=np.where(np.arange(80) % 2, "a", "b"))
    model = recuse.RiskRejector(cost=1.0, unseen="error", cv=2, random_state=0).fit(rows, y)
    recuse.save(model, tmp_path / "m.recuse")
    table = rows.assign(t=y, fee=0.5).astype(str)
    table.loc[4, column] = value
    table.loc[1, "t"] = ""
    table.to_csv(tmp_path / "new.csv", index=False)
    for name in ("predict", "evaluate", "report"):
        if name == "predict" and column == "t":
            continue
        target = () if name == "predict" else ("--target", "t")
        arguments = (name, tmp_path / "m.recuse", tmp_path / "new.csv", *target, "--cost", "column:fee")
        line = command.run(*arguments).stderr.splitlines()[-1]
        assert line == "error: " + message.format(data=tmp_path / "new.csv")


def test_a_cost_outside_the_range_of_the_model_is_named(command, numbers, tmp_path):
    X, y = numbers
    rows = pd.DataFrame(X, columns=["u", "v"])
    quick = {"cv": 2, "epochs": 2, "n_members": 1, "random_state": 0}
    model = recuse.RcRRegressorCV(cost_range=(1.0, 2.0), **quick).fit(rows, y)
    recuse.save(model, tmp_path / "m.recuse")
    rows.assign(fee=[1.5] * 79 + [3.0]).to_csv(tmp_path / "new.csv", index=False)
    arguments = ("predict", tmp_path / "m.recuse", tmp_path / "new.csv", "--cost")
    assert command.error_of(*arguments, 3, code=1) == "cost must be from 1 to 2, as in training, got 3"
    line = command.error_of(*arguments, "column:fee", code=1)
    assert line.endswith("new.csv must be from 1 to 2, as in training, got 3 at data row 80")
