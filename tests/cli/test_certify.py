"""recuse certify."""

import shutil

import numpy as np
import pandas as pd
import pytest

import recuse


@pytest.fixture(scope="module")
def fresh(command, folder):
    command.rooms(1500, 5).to_csv(folder / "fresh.csv", index=False)
    return folder / "fresh.csv"


@pytest.fixture(scope="module")
def model(folder):
    return folder / "rooms.recuse"


def test_certify_prints_the_promise_and_writes_it(command, model, fresh, tmp_path):
    output = tmp_path / "certified.recuse"
    result = command.succeed("certify", model, fresh, "--target", 10, "--bound", 400, "-o", output)
    assert "With confidence 0.95, the mean squared loss of accepted rows is at most 10" in result.stdout
    assert f"It is certificate 1 of {output}. To decide by it:" in result.stdout
    assert f"recuse predict {output} NEW.csv --certificate 1" in result.stdout
    served = recuse.load(output)
    assert (len(served.certificates), served.certificates[0].target) == (1, 10.0)
    assert "(1) With confidence 0.95" in command.succeed("inspect", output).stdout


def test_certify_as_json(command, model, fresh):
    facts = command.json_of("certify", model, fresh, "--target", 8, "--bound", 400, "--what", "rcr_loss", "--cost", 8)
    assert (facts["what"], facts["cost"], facts["n_rows"], facts["training_copies"]) == ("rcr_loss", 8.0, 1497, 0)
    assert facts["statement"].startswith("With confidence 0.95")
    assert facts["warnings"][-1] == "3 rows without a target left out"


def test_what_cannot_be_certified_is_an_error(command, folder, model, fresh):
    result = command.run("certify", model, folder / "messy.csv", "--target", 8, "--bound", 400)
    assert result.exit_code == 1
    assert "error: 297 of the 297 calibration rows equal training rows in all features and the target" in result.stderr
    result = command.run("certify", model, folder / "labelled.csv", "--target", 8, "--bound", 400)
    assert result.exit_code == 1
    assert "it takes at least 154 accepted rows, even without any loss" in result.stderr
    line = command.error_of("certify", model, fresh, "--target", 8, "--bound", 400, "--what", "profit", code=2)
    assert line == "--what must be accepted_loss or rcr_loss, got 'profit'"


def test_predict_and_evaluate_decide_by_a_certificate(command, folder, model, fresh, tmp_path):
    output = tmp_path / "certified.recuse"
    command.succeed("certify", model, fresh, "--target", 10, "--bound", 400, "--cost", 8, "-o", output)
    threshold = recuse.load(output).certificates[0].threshold
    facts = command.json_of("predict", output, folder / "new.csv", "--certificate", 1)
    assert (facts["certificate"], facts["cost"]) == (1, 8.0)
    assert [each["accepted"] for each in facts["decisions"]] == [
        each["score"] > threshold for each in facts["decisions"]
    ]
    shown = command.succeed("predict", output, folder / "new.csv", "--certificate", 1, "--cost", 8).stdout
    assert "at cost 8 by certificate 1: " in shown
    assert command.json_of("evaluate", output, folder / "labelled.csv", "--certificate", 1)["certificate"] == 1
    line = command.error_of("predict", output, folder / "new.csv", "--certificate", 1, "--cost", 6, code=1)
    assert line == "cost must be 8, which certificate 1 is for, got 6"
    line = command.error_of("evaluate", output, folder / "labelled.csv", "--certificate", 2, code=1)
    assert line.endswith("the model file has 1 certificate, got 2")


@pytest.mark.parametrize("named", [True, False])
def test_a_column_of_costs_is_part_of_the_certificate(command, tmp_path, named):
    X, y, _, _ = recuse.datasets.make_heteroscedastic(2000, random_state=0)
    table = pd.DataFrame(X).add_prefix("x")
    fitted = recuse.RiskRejector(cost=1.0, random_state=0).fit(table[:300] if named else X[:300], y[:300])
    recuse.save(fitted, tmp_path / "model.recuse")
    table["y"], table["fee"] = y, np.linspace(0.5, 2.0, len(y))
    table[300:].to_csv(tmp_path / "fresh.csv", index=False)
    table[300:].drop(columns="y").to_csv(tmp_path / "new.csv", index=False)
    output = tmp_path / "certified.recuse"
    options = ("--target", 2, "--bound", 60, "--target-column", "y", "--cost", "column:fee", "-o", output)
    facts = command.json_of("certify", tmp_path / "model.recuse", tmp_path / "fresh.csv", *options)
    assert (facts["cost"], facts["cost_given"]) == ("fee", "column" if named else "per row")
    decided = command.json_of("predict", output, tmp_path / "new.csv", "--certificate", 1)
    scores = [each["score"] > facts["threshold"] for each in decided["decisions"]]
    assert [each["accepted"] for each in decided["decisions"]] == scores
    assert decided["decisions"][0]["cost"] == pytest.approx(table["fee"][300])
    line = command.error_of("predict", output, tmp_path / "new.csv", "--certificate", 1, "--cost", 3, code=1)
    assert line == "cost must be column fee, which certificate 1 is for, got 3"
    if not named:
        with pytest.raises(ValueError, match="the certificate is for one cost per row"):
            recuse.load(output).certified().decide(X)


def test_a_bound_that_is_the_largest_loss_is_a_warning(command, model, fresh):
    served, table = recuse.load(model), pd.read_csv(fresh, dtype={"zip": str, "lift": str}).dropna(subset="price")
    largest = float(served.loss_(served.predict(table) - table["price"].to_numpy()).max())
    result = command.run("certify", model, fresh, "--target", 10, "--bound", repr(largest))
    assert "is the largest loss of the calibration rows: a bound that is read off these rows" in result.stderr


@pytest.fixture
def place(model, tmp_path):
    shutil.copy(model, tmp_path / "rooms.recuse")
    return tmp_path


def test_attempts_are_counted_beside_the_model_file(command, place, fresh):
    options = ("certify", place / "rooms.recuse", fresh, "--bound", 400)
    first = command.json_of(*options, "--target", 10)
    assert (first["attempt"], first["level"]) == (1, pytest.approx(0.045))
    assert command.json_of(*options, "--target", 10) == first
    second = command.succeed(*options, "--target", 12).stdout
    assert "this was attempt 2 with these rows, tested at level 0.0025" in " ".join(second.split())
    assert (place / "certification-attempts.json").exists()
    other = command.json_of(*options, "--target", 12, "--attempts", place / "other.json")
    assert other["attempt"] == 1
    (place / "other.json").write_text("{}")
    result = command.run(*options, "--target", 12, "--attempts", place / "other.json")
    assert result.exit_code == 1
    assert "other.json must be a file of attempts to certify" in result.stderr
    assert command.run(*options, "--target", 12, "--seed", 1).exit_code == 2


def test_groups_are_a_column(command, place, fresh, tmp_path):
    table = pd.read_csv(fresh, dtype={"zip": str, "lift": str})
    table.assign(tenant=[f"t{row // 3}" for row in range(len(table))]).to_csv(tmp_path / "grouped.csv", index=False)
    options = ("certify", place / "rooms.recuse", tmp_path / "grouped.csv", "--target", 12, "--bound", 400)
    facts = command.json_of(*options, "--groups", "tenant")
    assert (facts["n_groups"], facts["n_rows"]) == (499, 1497)
    result = command.run(*options, "--groups", "tenants")
    assert result.exit_code == 1
    assert "did you mean tenant?" in result.stderr
    line = command.error_of(*options, "--groups", "price", code=2)
    assert line == "column 'price' must have one role, got --target-column and --groups"


def test_rows_given_ten_times_are_refused(command, place, fresh, tmp_path):
    table = pd.read_csv(fresh, dtype={"zip": str, "lift": str}).dropna(subset="price")[:60]
    pd.concat([table] * 10).to_csv(tmp_path / "copies.csv", index=False)
    options = ("certify", place / "rooms.recuse", tmp_path / "copies.csv", "--target", 12, "--bound", 400)
    result = command.run(*options)
    assert result.exit_code == 1
    assert "540 of the 600 calibration rows repeat another one in all features and the target" in result.stderr
    assert "drop the copies, or pass groups=" in result.stderr
