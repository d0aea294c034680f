"""Code blocks, examples, links and names in the documents."""

import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]
COMMANDS = ROOT / "docs" / "howto" / "command-line.md"
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))


def blocks(page, language="python"):
    return re.findall(rf"^```{language}\n(.*?)^```", page.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)


FOLLOWED = {"README.md", "CONTRIBUTING.md"}  # by test_readme.py and test_contributing.py


@pytest.mark.parametrize(
    "page", [page for page in PAGES if page.name not in FOLLOWED and blocks(page)], ids=lambda page: page.name
)
def test_the_blocks_of_a_page_run_one_after_the_other(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    for block in blocks(page):
        exec(compile(block, page.name, "exec"), names)


def test_the_commands_of_the_command_line_page_run_one_after_the_other(tmp_path):
    recuse = f'recuse() {{ "{sys.executable}" -m recuse.cli "$@"; }}'
    script = "\n".join([f"set -e\n{recuse}", *blocks(COMMANDS, "sh")])
    result = subprocess.run(["sh", "-c", script], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    assert (tmp_path / "short.csv").read_text().startswith("prediction,accepted\n")
    shown = re.findall(
        r"^    ((?:data|target|features|cost|method|Result) .*)$", COMMANDS.read_text("utf-8"), re.MULTILINE
    )
    assert len(shown) == 6
    assert set(shown) <= set(result.stdout.splitlines())


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
def test_an_example_runs(example, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    runpy.run_path(str(example), run_name="__main__")
    assert capsys.readouterr().out


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
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
