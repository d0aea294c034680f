"""The four commands of a user with a CSV file, run literally."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import recuse


@pytest.fixture
def shell(tmp_path, command):
    """Runs commands of a shell in a folder with three messy tables."""
    command.rooms(300, 0).to_csv(tmp_path / "messy.csv", index=False)
    command.rooms(60, 1).to_csv(tmp_path / "labelled.csv", index=False)
    new = command.rooms(30, 2, labelled=False)
    new.loc[3, "city"] = "Bonn"
    new.to_csv(tmp_path / "new.csv", index=False)

    def run(line, code=0):
        script = f'recuse() {{ "{sys.executable}" -m recuse.cli "$@"; }}\n{line}'
        environment = {**os.environ, "COLUMNS": "100"}
        result = subprocess.run(
            ["sh", "-c", script], cwd=tmp_path, capture_output=True, text=True, env=environment, check=False
        )
        assert result.returncode == code, result.stderr
        return result

    return run


def test_fit_inspect_predict_evaluate(shell, tmp_path):
    fit = shell("recuse fit messy.csv --target price --cost 6 --preset fast --time-limit 20 -o m.recuse")
    for fact in (
        "messy.csv, 297 training rows; 3 rows without a target left out",
        "7 columns: 4 categories, 1 dates or times, 2 numbers",
        "6: a rejection costs as much as an error of 2.45 in price",
        "out-of-fold rows",
        "accept all rows",
        "reject all rows",
        "Models in the blend",
        "Per 1,000 rows the model would save",
        "Next: recuse predict m.recuse NEW.csv -o decisions.csv",
    ):
        assert fact in fit.stdout
    assert fit.stderr == "warning: column 'id' is not used: 297 different texts in 297 rows identify rows\n"

    inspected = shell("recuse inspect m.recuse")
    for fact in ("AutoRejector, squared loss", "price", "297 rows", "3 categories: Berlin, Hamburg, Köln", "01067"):
        assert fact in inspected.stdout
    assert inspected.stderr == ""

    predicted = shell("recuse predict m.recuse new.csv -o decisions.csv")
    assert "30 rows at cost 6: " in predicted.stdout
    assert "The decisions are in decisions.csv." in predicted.stdout
    assert predicted.stderr == (
        "warning: column city: 1 row with a category that training did not have, such as 'Bonn'\n"
    )
    decisions = pd.read_csv(tmp_path / "decisions.csv", dtype={"prediction": str})  # floats to the last bit, below
    assert list(decisions.columns) == ["prediction", "accepted", "score", "cost", "expected_loss"]
    new = pd.read_csv(tmp_path / "new.csv", dtype={"zip": str, "lift": str})
    decided = recuse.load(tmp_path / "m.recuse").decide(new)
    np.testing.assert_array_equal(decisions["prediction"].map(float), decided.prediction)
    np.testing.assert_array_equal(decisions["accepted"], decided.accepted)
    assert f"{decided.accepted.sum()} accepted" in predicted.stdout

    evaluated = shell("recuse evaluate m.recuse labelled.csv")
    assert "57 rows of labelled.csv (3 rows without a target left out)" in evaluated.stdout
    assert "mean loss per row: its loss if accepted, its cost if rejected" in evaluated.stdout
    assert sorted(file.name for file in tmp_path.iterdir()) == [
        *("decisions.csv", "labelled.csv", "m.recuse", "messy.csv", "new.csv"),
    ]


def test_tables_pass_through_pipes(shell):
    shell("recuse fit - --target price --cost 6 --method knn-plug --quiet -o m.recuse < messy.csv")
    piped = shell("recuse predict m.recuse - -o - < new.csv | cat")
    assert piped.stdout.splitlines()[0] == "prediction,accepted,score,cost,expected_loss"
    assert len(piped.stdout.splitlines()) == 31
    assert "30 rows at cost 6" in piped.stderr
    refused = shell("recuse predict m.recuse - -o - < /dev/null", code=1)
    assert (refused.stdout, refused.stderr) == ("", "error: standard input is empty\n")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
@pytest.mark.parametrize(
    "line", ["inspect m.recuse --json", "inspect m.recuse", "predict m.recuse new.csv -o -", "--help", "--version"]
)
def test_output_that_cannot_be_written_is_one_sentence(shell, folder, line):
    full = shell(f"cp {folder / 'rooms.recuse'} m.recuse; recuse {line} > /dev/full", code=1)
    assert full.stderr.splitlines()[-1] == "error: No space left on device"
    assert "Traceback" not in full.stderr


def test_commands_that_do_not_fit_import_neither_torch_nor_scikit_learn(shell, folder):
    watch = "import sys; print([name for name in ('torch', 'sklearn', 'scipy', 'matplotlib') if name in sys.modules])"
    for arguments in (
        ["--help"],
        ["fit", "--help"],
        ["predict", str(folder / "rooms.recuse"), str(folder / "new.csv"), "--quiet", "-o", str(folder / "out.csv")],
        ["evaluate", str(folder / "rooms.recuse"), str(folder / "labelled.csv"), "--quiet"],
        ["inspect", str(folder / "rooms.recuse")],
    ):
        code = f"import atexit; atexit.register(lambda: exec({watch!r}, {{}}))\n"
        code += f"from recuse.cli import app; app({arguments!r})"
        result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        assert result.stdout.split()[-1] == "[]", arguments


def test_help_imports_not_even_pandas():
    code = "import sys\nimport recuse.cli\nprint([name for name in ('numpy', 'pandas') if name in sys.modules])"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout == "[]\n"


@pytest.mark.parametrize(("option", "values"), [("--method", ["auto", "rcr-crossfit"]), ("--preset", ["fast", "best"])])
def test_a_shell_completes_the_values_of_options(option, values):
    words = f"recuse fit data.csv {option} "
    environment = {**os.environ, "_RECUSE_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": "4"}
    code = "from recuse.cli import app; app(prog_name='recuse')"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=False)
    assert set(values) <= set(result.stdout.split())
