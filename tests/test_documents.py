"""Code blocks, examples, links and names in the documents."""

import contextlib
import io
import math
import os
import re
import runpy
import socket
import subprocess
import sys
from pathlib import Path

import matplotlib.pyplot as plt
import pytest

ROOT = Path(__file__).parents[1]
BUILT = {"_build", "generated", "api"}  # folders that `make docs` writes
PAGES = [
    *sorted(ROOT.glob("*.md")),
    *(page for page in sorted((ROOT / "docs").rglob("*.md")) if not BUILT & set(page.parts)),
]
FOLLOWED = {"README.md", "CONTRIBUTING.md"}  # by test_readme.py and test_contributing.py
TUTORIALS = sorted((ROOT / "docs" / "tutorials").glob("*.md"))
COMMANDS = ROOT / "docs" / "howto" / "command-line.md"
MARK = "---- end of a block ----"
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))


def blocks(page, language="python"):
    """The code blocks of a page, each with the output that the page shows below it, or None."""
    pattern = rf"^```{language}\n(.*?)^```\n(?:\n^```text\n(.*?)^```)?"
    found = re.findall(pattern, page.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    return [(code, shown or None) for code, shown in found]


def short(path):
    return path.relative_to(ROOT).as_posix()


def same_word(shown, printed):
    """Whether two words are equal, or numbers that differ by rounding and by the arithmetic of another machine."""
    try:
        a, b = (float(word.strip("%,;:()")) for word in (shown, printed))
    except ValueError:
        return shown == printed
    return math.isclose(a, b, rel_tol=0.1, abs_tol=0.05)


def check_output(shown, printed):
    """Check that every line of the page was printed, in this order."""
    lines = iter(printed.splitlines())
    for line in shown.splitlines():
        words = line.split()
        match = (len(words) == len(other.split()) and all(map(same_word, words, other.split())) for other in lines)
        assert any(match), f"the page shows {line!r}, but the code printed:\n{printed}"


@pytest.mark.parametrize("page", [page for page in PAGES if page.name not in FOLLOWED and blocks(page)], ids=short)
def test_the_blocks_of_a_page_run_one_after_the_other(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    for code, shown in blocks(page):
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            exec(compile(code, page.name, "exec"), names)
        if shown:
            check_output(shown, printed.getvalue())


@pytest.mark.parametrize("page", [COMMANDS, *(page for page in TUTORIALS if blocks(page, "sh"))], ids=short)
def test_the_commands_of_a_page_run_one_after_the_other(page, tmp_path):
    command = tmp_path / "bin" / "recuse"
    command.parent.mkdir()
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m recuse.cli "$@"\n')
    command.chmod(0o755)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    steps = blocks(page, "sh")
    script = "\n".join(["set -e", *(f"{code.replace('8000', port)}\necho {MARK}" for code, _ in steps)])
    environment = {**os.environ, "PATH": f"{command.parent}{os.pathsep}{os.environ['PATH']}"}
    result = subprocess.run(
        ["sh", "-c", script], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stderr
    for (_, shown), printed in zip(steps, result.stdout.split(MARK), strict=False):
        if shown:
            check_output(shown, printed)
    if page == COMMANDS:
        assert (tmp_path / "short.csv").read_text().startswith("prediction,accepted\n")
        lines = r"^    ((?:data|target|features|cost|method|Result) .*)$"
        shown = re.findall(lines, page.read_text("utf-8"), re.MULTILINE)
        assert len(shown) == 6
        assert set(shown) <= set(result.stdout.splitlines())


def test_output_that_differs_from_the_page_is_found():
    check_output("loss 4.77\n", "first\nloss 4.78\n")
    for printed in ("loss 6.2\n", "gain 4.77\n", "loss 4.77 5.0\n"):
        with pytest.raises(AssertionError, match="the page shows"):
            check_output("loss 4.77\n", printed)


def test_the_command_line_page_names_every_option():
    from typer.main import get_command

    from recuse.cli.app import app

    text = COMMANDS.read_text(encoding="utf-8")
    for name in ("fit", "predict", "evaluate", "report", "certify", "inspect", "export", "reviews", "datasets"):
        assert f"`recuse {name} " in text
        for parameter in get_command(app).commands[name].params:
            for option in parameter.opts:
                assert not option.startswith("--") or re.search(rf"[` ]{option}\b", text), f"{name} has {option}"


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.name)
@pytest.mark.filterwarnings("ignore:FigureCanvasAgg is non-interactive")  # plt.show() without a window
def test_an_example_runs_and_draws(example, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    runpy.run_path(str(example), run_name="__main__")
    assert capsys.readouterr().out
    figures = plt.get_fignums()
    plt.close("all")
    assert figures, "the gallery shows a figure of every example"


@pytest.mark.parametrize("page", PAGES, ids=short)
def test_links_between_files_lead_somewhere(page):
    for target in re.findall(r"\]\((?!https?://|#)([^)#]+)", page.read_text(encoding="utf-8")):
        assert (page.parent / target).exists(), f"{page.name} links {target}, which is not there"


def test_the_modules_that_the_architecture_draws_are_there():
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    drawn = re.findall(r"\b((?:estimators|tabular|auto|risk)/[\w/]+\.py)", text)
    assert len(drawn) > 15
    for module in drawn:
        found = [ROOT / "src" / "recuse" / base / module for base in ("", "estimators")]
        assert any(path.exists() for path in found), f"architecture.md draws {module}, which is not there"
