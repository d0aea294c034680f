import json
from unittest.mock import patch

import numpy as np
import pandas as pd
import pytest

import recuse
from recuse.cli.methods import Method


def fit(folder, *options, data="messy.csv"):
    return ["fit", folder / data, *options]


@pytest.mark.parametrize(
    ("options", "code", "message"),
    [
        (("--target", "prise", "--cost", 6), 1, "the target 'prise' is not in {data}; did you mean price?"),
        (("--target", "height", "--cost", 6), 1, "the target 'height' is not in {data}; it has the columns id, zip, "),
        (("--target", "city", "--cost", 6), 1, "the target 'city' of {data} must hold numbers, got 'Hamburg' at data"),
        (("--target", "sold", "--cost", 6), 1, "the target 'sold' of {data} must hold numbers, got dates"),
        (("--target", "price"), 2, "the cost of a rejection is missing: give --cost, such as --cost 6 or "),
        (
            ("--target", "price", "--cost", 6, "--cost-money", "error=10,error_cost=50,review_cost=18"),
            2,
            "--cost and --cost-money cannot both be given",
        ),
        (("--target", "price", "--cost", -1), 2, "--cost must be a number >= 0, or column:NAME for a column of the "),
        (("--target", "price", "--cost", "nan"), 2, "--cost must be a number >= 0, or column:NAME"),
        (
            ("--target", "price", "--cost", "column:fee"),
            1,
            "the cost column 'fee' is not in {data}; it has the columns",
        ),
        (("--target", "price", "--cost", "column:city"), 1, "the cost column 'city' of {data} must hold numbers, got"),
        (
            ("--target", "price", "--cost", "column:price"),
            2,
            "column 'price' must have one role, got --target and --cost",
        ),
        (
            ("--target", "price", "--cost", 6, "--groups", "price"),
            2,
            "column 'price' must have one role, got --target and --groups",
        ),
        (
            ("--target", "price", "--cost", "column:age", "--drop", "age"),
            2,
            "column 'age' must have one role, got --cost and --drop",
        ),
        (
            ("--target", "price", "--cost", "column:age", "--weights", "age"),
            2,
            "column 'age' must have one role, got --cost and --weights",
        ),
        (
            ("--target", "price", "--cost", 6, "--groups", "city", "--drop", "city"),
            2,
            "column 'city' must have one role, got --groups and --drop",
        ),
        (
            ("--target", "price", "--cost", 6, "--time-limit", -5),
            2,
            "--time-limit must be a number of seconds > 0, got -5",
        ),
        (("--target", "price", "--cost", 6, "--seed", -5), 2, "--seed must be from 0 to 4294967295, got -5"),
        (
            ("--target", "price", "--cost", "column:age"),
            1,
            "the cost column 'age' of {data} must hold numbers >= 0, got a missing value at data row ",
        ),
        (("--target", "price", "--cost-money", "error=1"), 2, "--cost-money must look like error=10,error_cost=50,"),
        (
            ("--target", "price", "--cost-money", "error=0,error_cost=5,review_cost=1"),
            2,
            "--cost-money: error must be a finite number > 0, got 0.0",
        ),
        (
            ("--target", "price", "--cost-money", "error=1,error_cost=5,review_cost=1", "--loss", "absolute"),
            2,
            "--cost-money needs --loss squared, got 'absolute'",
        ),
        (("--target", "price", "--cost", 6, "--groups", "hous"), 1, "the groups column 'hous' is not in {data}; "),
        (
            ("--target", "price", "--cost", 6, "--groups", "age"),
            1,
            "the groups column 'age' of {data} has 8 missing va",
        ),
        (
            ("--target", "price", "--cost", 6, "--weights", "ag"),
            1,
            "the weights column 'ag' is not in {data}; did you ",
        ),
        (
            ("--target", "price", "--cost", 6, "--drop", "ID"),
            1,
            "the column to drop 'ID' is not in {data}; did you mean ",
        ),
        (("--target", "price", "--cost", 6, "--loss", "cubic"), 2, "--loss: loss must be one of squared, absolute"),
        (
            ("--target", "price", "--cost", 6, "--method", "rcr", "--time-limit", 5),
            2,
            "--time-limit needs --method auto, got --method rcr",
        ),
        (
            ("--target", "price", "--cost", 6, "--method", "selectivenet", "--groups", "city"),
            2,
            "--groups cannot be used with --method selectivenet",
        ),
        (
            ("--target", "price", "--cost", 6, "--test", "other.csv", "--test-share", 0.2),
            2,
            "--test and --test-share cannot both be given",
        ),
        (
            ("--target", "price", "--cost", 6, "--test-share", 1),
            2,
            "--test-share must be at least 0 and below 1, got 1",
        ),
        (("--cost", 6), 2, "Missing option '--target'; see "),
        (
            ("--target", "price", "--cost", 6, "--method", "best"),
            2,
            "Invalid value for '--method': 'best' is not one of",
        ),
    ],
)
def test_a_mistake_is_one_sentence_before_any_training(command, folder, tmp_path, options, code, message):
    data = folder / "messy.csv"
    line = command.error_of("fit", data, *options, "-o", tmp_path / "m.recuse", code=code)
    assert line.startswith(message.format(data=data))
    assert list(tmp_path.iterdir()) == []


def test_the_output_folder_is_checked_before_the_table_is_read(command, tmp_path):
    output = tmp_path / "nowhere" / "m.recuse"
    line = command.error_of("fit", "no.csv", "--target", "y", "--cost", 6, "-o", output, code=1)
    assert line == f"m.recuse cannot be written: the folder {tmp_path / 'nowhere'} does not exist"
    assert "is a folder" in command.error_of("fit", "no.csv", "--target", "y", "--cost", 6, "-o", tmp_path, code=1)


def test_a_table_that_does_not_exist_is_named(command, tmp_path):
    options = ("--target", "y", "--cost", 6, "-o", tmp_path / "m.recuse")
    assert command.error_of("fit", tmp_path / "no.csv", *options, code=1).endswith(
        "no.csv does not exist: check the path of the table"
    )
    assert "no.xlsx must end with one of .csv, " in command.error_of("fit", tmp_path / "no.xlsx", *options, code=1)


def test_json_is_one_object_also_for_errors(command, folder, tmp_path):
    for options in (("--target", "prise", "--cost", 6), ("--target", "price"), ("--method", "none")):
        result = command.run("fit", folder / "messy.csv", *options, "--json", "-o", tmp_path / "m.recuse")
        assert result.exit_code in (1, 2)
        assert list(json.loads(result.stdout)) == ["error"]
        assert result.stderr.startswith("error: ")


def test_the_result_is_also_json(command, folder, tmp_path):
    options = ("--target", "price", "--cost", 6, "--method", "risk", "--preset", "fast")
    result = command.json_of(*fit(folder, *options, "-o", tmp_path / "m.recuse"))
    assert (result["rows"], result["rows_without_target"]) == (297, 3)
    assert result["columns"] == {"categories": 4, "dates or times": 1, "numbers": 2}
    assert (result["cost"], result["method"], result["target"]) == (6.0, "risk", "price")
    assert result["evaluated_on"].startswith("out-of-fold rows")
    measures = result["measures"]
    better = min(measures["always_accept"], measures["always_reject"])
    assert result["saved_per_1000_rows"] == pytest.approx(1000 * (better - measures["rcr_loss"]))
    assert result["warnings"] == ["column 'id' is not used: 297 different texts in 297 rows identify rows"]
    assert recuse.load(result["model"]).estimator == "RiskRejector"


def test_the_out_of_fold_measures_are_those_of_the_file(command, folder):
    rows = recuse.load(folder / "rooms.recuse").out_of_fold
    loss = np.where(rows["score"] > 0, (rows["prediction"] - rows["target"]) ** 2, rows["cost"])
    options = ("--target", "price", "--cost", 6, "--method", "risk", "--preset", "fast")
    result = command.json_of(*fit(folder, *options, "-o", folder / "again.recuse"))
    assert result["measures"]["rcr_loss"] == pytest.approx(np.mean(loss))


def test_prices_give_savings_in_money(command, folder, tmp_path):
    prices = "error=2,error_cost=10,review_cost=15"
    options = ("--target", "price", "--cost-money", prices, "--method", "risk", "--test", folder / "labelled.csv")
    arguments = fit(folder, *options, "-o", tmp_path / "m.recuse")
    text = command.succeed(*arguments).stdout
    assert "6: a review costs 15, an error of 2 in price costs 10" in text
    assert "money per row" in text
    assert "of money" in text
    result = command.json_of(*arguments)
    better = min(result["measures"]["always_accept"], result["measures"]["always_reject"])
    assert result["saved_per_1000_rows"] == pytest.approx(2500 * (better - result["measures"]["rcr_loss"]))
    assert (result["cost"], result["saved_unit"]) == (6.0, "money")
    assert result["evaluated_on"] == f"rows of {folder / 'labelled.csv'}"


def test_groups_weights_cost_and_dropped_columns_are_no_features(command, tmp_path):
    table = command.rooms(300, 0).assign(house=np.arange(300) // 4, share=1.0, fee=np.linspace(3, 9, 300))
    table.to_csv(tmp_path / "rooms.csv", index=False)
    options = ("--target", "price", "--cost", "column:fee", "--groups", "house", "--weights", "share", "--drop", "id")
    model = tmp_path / "m.recuse"
    text = command.succeed(
        *("fit", tmp_path / "rooms.csv", *options, "--method", "risk", "--preset", "fast"),
        *("--test-share", 0.25, "-o", model),
    )
    assert "column fee holds the cost of each row" in text.stdout
    assert "held-out rows, which the model was not fitted to" in text.stdout
    assert text.stderr == ""
    served = recuse.load(model)
    assert served.schema.names == ["zip", "sold", "area", "city", "age", "lift"]
    assert served.cost_ == "fee"
    decisions = command.json_of("predict", model, tmp_path / "rooms.csv")["decisions"]
    np.testing.assert_allclose([row["cost"] for row in decisions], table["fee"])
    assert "cost column 'fee' is not in" in command.error_of(
        "evaluate", model, tmp_path / "rooms.csv", "--cost", "column:fees", code=1
    ).replace("fees", "fee")


def test_whole_groups_are_held_out(command, folder, tmp_path):
    options = ("--target", "price", "--cost", 6, "--method", "knn-plug", "--groups", "city", "--test-share", 0.34)
    result = command.json_of(*fit(folder, *options, "-o", tmp_path / "m.recuse"))
    city = pd.read_csv(folder / "messy.csv").dropna(subset="price")["city"].value_counts()
    assert 297 - result["rows"] in set(city)


@pytest.mark.parametrize("method", [each for each in Method if each not in (Method.AUTO, Method.RISK)])
def test_every_method_fits_and_saves(command, folder, tmp_path, method):
    options = ("--target", "price", "--cost", 6, "--method", method, "-o", tmp_path / "m.recuse")
    preset = () if method is Method.KNN_PLUG else ("--preset", "fast")
    result = command.json_of(*fit(folder, *options, *preset))
    assert result["rows"] == 238  # a fifth is held out, since these methods have no out-of-fold rows
    assert result["evaluated_on"] == "held-out rows, which the model was not fitted to"
    assert recuse.load(tmp_path / "m.recuse").schema.names == ["zip", "sold", "area", "city", "age", "lift"]


def test_another_loss(command, folder, tmp_path):
    options = ("--target", "price", "--cost", 9, "--loss", "absolute", "--method", "knn-plug")
    text = command.succeed(*fit(folder, *options, "-o", tmp_path / "m.recuse")).stdout
    assert "9: a rejection costs as much as an error of 9 in price" in text
    assert command.json_of("evaluate", tmp_path / "m.recuse", folder / "labelled.csv")["loss"] == "absolute"


def test_settings_without_effect_are_warned_of(command, folder, tmp_path):
    options = ("--target", "price", "--cost", 6, "--method", "knn-plug", "--preset", "best")
    lines = command.succeed(*fit(folder, *options, "-o", tmp_path / "m.recuse", "--quiet"))
    assert lines.stdout == ""
    assert lines.stderr.splitlines()[0] == "warning: --preset best has no effect with --method knn-plug"


def test_an_interrupted_fit_leaves_no_file(command, folder, tmp_path):
    with patch("recuse.estimators.RiskRejector.fit", side_effect=KeyboardInterrupt):
        options = ("--target", "price", "--cost", 6, "--method", "risk", "-o", tmp_path / "m.recuse", "--quiet")
        result = command.run(*fit(folder, *options))
    assert (result.exit_code, result.stderr) == (130, "error: interrupted\n")
    assert list(tmp_path.iterdir()) == []


def test_debug_keeps_the_traceback(command, folder):
    result = command.run(*fit(folder, "--target", "prise", "--cost", 6, "--debug"))
    assert isinstance(result.exception, ValueError)


def test_a_column_that_numbers_the_rows_is_warned_of(command, tmp_path):
    command.rooms(120, 0).assign(id=range(120)).to_csv(tmp_path / "rooms.csv", index=False)
    options = ("--target", "price", "--cost", 6, "--method", "knn-plug", "-o", tmp_path / "m.recuse")
    message = "column 'id' numbers the rows, so new rows are outside its range: leave it out by --drop"
    assert message in command.json_of("fit", tmp_path / "rooms.csv", *options)["warnings"]
    assert message not in command.json_of("fit", tmp_path / "rooms.csv", *options, "--drop", "id")["warnings"]


@pytest.mark.parametrize(
    ("column", "value", "options", "message"),
    [
        ("price", "inf", ("--cost", 6), "the target 'price' of {data} must be finite, got inf at data row 9"),
        ("area", "-inf", ("--cost", 6), "column 'area' of {data} must be finite, got -inf at data row 9"),
        ("fee", "-3", ("--cost", "column:fee"), "the cost column 'fee' of {data} must hold numbers >= 0, got -3 at "),
        (
            "fee",
            "inf",
            ("--cost", 6, "--weights", "fee"),
            "the weights column 'fee' of {data} must hold numbers >= 0, ",
        ),
    ],
)
def test_a_wrong_number_is_named_by_column_and_data_row(command, tmp_path, column, value, options, message):
    table = command.rooms(60, 0).assign(fee="5")
    table.loc[8, column] = value
    table.to_csv(tmp_path / "rooms.csv", index=False)
    arguments = ("fit", tmp_path / "rooms.csv", "--target", "price", *options, "-o", tmp_path / "m.recuse")
    line = command.error_of(*arguments, code=1)
    assert line.startswith(message.format(data=tmp_path / "rooms.csv"))
    assert line.endswith("at data row 9")


def test_options_are_checked_before_the_table_is_read(command, tmp_path):
    for options in (("--seed", -5), ("--time-limit", 0), ("--time-limit", "nan"), ("--drop", "y")):
        line = command.error_of("fit", tmp_path / "no.csv", "--target", "y", "--cost", 6, *options, code=2)
        assert options[0] in line


def test_a_table_to_test_on_needs_no_groups_and_no_dropped_columns(command, folder, tmp_path):
    command.rooms(120, 0).assign(house=np.arange(120) // 4).to_csv(tmp_path / "rooms.csv", index=False)
    command.rooms(60, 1).drop(columns="id").to_csv(tmp_path / "bare.csv", index=False)
    command.rooms(60, 1).assign(house=1).to_csv(tmp_path / "full.csv", index=False)
    options = ("--target", "price", "--cost", 6, "--drop", "id", "--groups", "house", "--method", "knn-plug")
    bare, full = (
        command.json_of(
            *("fit", tmp_path / "rooms.csv", *options, "--test", tmp_path / name, "-o", tmp_path / "m.recuse")
        )
        for name in ("bare.csv", "full.csv")
    )
    assert bare["measures"] == full["measures"]


def test_a_cost_column_may_have_any_name(command, tmp_path):
    table = command.rooms(60, 0).rename(columns={"id": "self"})
    table["self"] = 5.0
    table.to_csv(tmp_path / "rooms.csv", index=False)
    options = ("--target", "price", "--cost", "column:self", "--method", "knn-plug", "-o", tmp_path / "m.recuse")
    assert command.json_of("fit", tmp_path / "rooms.csv", *options)["cost"] == "self"


def test_held_out_rows_are_written_for_a_certificate(command, folder, tmp_path):
    fresh, model = tmp_path / "fresh.csv", tmp_path / "model.recuse"
    roles = ("--target", "price", "--cost", 6, "--method", "knn-plug", "--groups", "city", "--drop", "id")
    command.succeed("fit", folder / "messy.csv", *roles, "--test-share", 0.3, "--test-rows", fresh, "-o", model)
    rows = pd.read_csv(fresh, dtype=str)
    assert list(rows.columns) == ["zip", "sold", "area", "age", "lift", "price", "city"]
    whole = pd.read_csv(folder / "messy.csv", dtype=str)
    assert rows["city"].nunique() == 1  # a group stays together
    assert len(rows) == (whole.dropna(subset="price")["city"] == rows["city"][0]).sum()
    assert command.json_of("evaluate", model, fresh)["rows"] == len(rows)


def test_rows_to_write_need_a_share(command, folder, tmp_path):
    roles = ("--target", "price", "--cost", 6, "-o", tmp_path / "model.recuse")
    message = command.error_of("fit", folder / "messy.csv", *roles, "--test-rows", tmp_path / "fresh.csv", code=2)
    assert message == "--test-rows needs --test-share, the share of the rows to write"
    assert not list(tmp_path.iterdir())
