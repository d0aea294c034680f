"""recuse certify."""

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
    assert f"It is certificate 0 of {output}." in result.stdout
    served = recuse.load(output)
    assert (len(served.certificates), served.certificates[0].target) == (1, 10.0)
    assert "With confidence 0.95" in command.succeed("inspect", output).stdout


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
    assert "it takes at least 149 accepted rows, even without any loss" in result.stderr
    line = command.error_of("certify", model, fresh, "--target", 8, "--bound", 400, "--what", "profit", code=2)
    assert line == "--what must be accepted_loss or rcr_loss, got 'profit'"
