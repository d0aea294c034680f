import re

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


def test_the_demo_prints_every_measure_and_leaves_a_picture(tmp_path):
    result = invoke("demo", "--dataset", "auto_mpg", "--epochs", "40", "--members", "1", "-o", str(tmp_path / "out"))
    assert result.exit_code == 0, result.output
    text = words(result.output)
    for cost in datasets.load("auto_mpg").costs:
        assert f" {cost:g} " in text
    for said in (
        "always accept",
        "always reject",
        "accepted loss",
        "rejected loss",
        "false",
        "than the better of the two",
    ):
        assert all(word in text for word in said.split())
    assert (tmp_path / "out" / "cost_curve.png").read_bytes().startswith(b"\x89PNG")


def test_an_unknown_data_set_is_named_with_the_known_ones(tmp_path):
    result = invoke("demo", "--dataset", "abalon", "-o", str(tmp_path))
    assert result.exit_code == 2
    assert "name must be one of abalone, airfoil, auto_mpg, housing, concrete, got 'abalon'" in words(result.output)


def test_data_sets_are_listed_and_described():
    assert all(name in invoke("datasets").output for name in datasets.names())
    assert datasets.load("housing").sha256 in invoke("datasets", "housing").output.replace("\n", "")
    assert invoke("datasets", "abalon").exit_code == 2


@pytest.mark.parametrize("command", [[], ["bench"], ["demo", "--help"], ["bench", "speed", "--help"]])
def test_every_command_explains_itself(command):
    assert "Usage" in invoke(*command).output


def test_speed_prints_a_ratio_for_the_whole_table():
    result = invoke("bench", "speed", "--datasets", "auto_mpg", "--epochs", "5")
    assert result.exit_code == 0, result.output
    assert re.search(r"whole table .* x", words(result.output))
