import re
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from recuse import __version__, datasets
from recuse.cli.app import app


def invoke(*arguments):
    return CliRunner().invoke(app, list(arguments))


def words(text):
    """The text of a rich page without its frames and line breaks."""
    return " ".join(re.sub("[│┃╭╮╰╯─━]", " ", text).split())


def test_the_version_is_printed():
    assert invoke("--version").output.strip() == f"recuse {__version__}"


def test_the_demo_prints_every_measure_and_leaves_a_picture_and_a_page(tmp_path):
    quick = ("--epochs", "5", "--time-limit", "0.2")
    result = invoke("demo", "--dataset", "auto_mpg", *quick, "-o", str(tmp_path / "out"))
    assert result.exit_code == 0, result.output
    text = words(result.output)
    for cost in datasets.load("auto_mpg").costs:
        assert f" {cost:g} " in text
    for phrase in (
        "paper's method, mean of 8 networks:",
        "AutoRejector:",
        "Mean loss per row: squared error if accepted, cost if rejected",
        "If a rejection costs 8 (as much as an error of 2.8 in mpg), AutoRejector rejects",
        "of the paper's method. Per 1,000 rows it saves",
        "in a browser:",
    ):
        assert all(word in text for word in phrase.split())
    assert sorted(file.name for file in (tmp_path / "out").iterdir()) == ["cost_curve.png", "report.html"]
    page = (tmp_path / "out" / "report.html").read_text(encoding="utf-8")
    assert "auto_mpg: what AutoRejector would save" in page
    assert '"column":"origin"' in page
    assert '"has_training":true' in page
    assert (tmp_path / "out" / "cost_curve.png").read_bytes().startswith(b"\x89PNG")


def error_of(*arguments):
    """The one line on standard error of a command that fails by the user's mistake."""
    result = invoke(*arguments)
    assert result.exit_code == 2
    assert result.stdout == ""
    (line,) = result.stderr.splitlines()
    return line


def test_an_unknown_data_set_is_named_with_the_known_ones(tmp_path):
    message = "error: name must be one of abalone, airfoil, auto_mpg, housing, concrete, got 'abalon'"
    assert error_of("demo", "--dataset", "abalon", "-o", str(tmp_path / "out")) == message
    assert error_of("datasets", "abalon") == message
    assert not (tmp_path / "out").exists()


def test_an_output_that_is_a_file_is_refused_before_training(tmp_path):
    file = tmp_path / "notes.txt"
    file.write_text("mine")
    for output in (file, file / "out"):
        assert error_of("demo", "-o", str(output)).startswith(
            f"error: output must be a folder that can be written to, got {output}: "
        )
    assert file.read_text() == "mine"


@pytest.mark.skipif(not Path("/proc").exists(), reason="needs a folder that no user can write to")
def test_an_output_that_cannot_be_written_is_refused_before_training():
    assert "output must be a folder that can be written to, got /proc/out" in error_of("demo", "-o", "/proc/out")


def test_data_sets_are_listed_and_described():
    assert all(name in invoke("datasets").output for name in datasets.names())
    assert datasets.load("housing").sha256 in invoke("datasets", "housing").output.replace("\n", "")


def test_the_help_has_examples():
    assert all(example in words(invoke("--help").output) for example in ("recuse demo -o demo", "recuse datasets"))


def test_no_blank_line_is_printed_where_standard_error_is_no_terminal():
    code = "from recuse.progress import progress_bar\nwith progress_bar('training', 2) as done: done(1)"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert (result.stdout, result.stderr) == ("", "")


@pytest.mark.parametrize("command", [[], ["bench"], ["demo", "--help"], ["bench", "methods", "--help"]])
def test_every_command_explains_itself(command):
    assert "Usage" in invoke(*command).output
