"""Follow CONTRIBUTING.md literally, in a copy of the repository."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
SECTIONS = dict(re.findall(r"^## (.*?)\n(.*?)(?=^## |\Z)", PAGE, re.MULTILINE | re.DOTALL))
ADDED = [
    "A surrogate",
    "An estimator",
    "A method of the leaderboard",
    "A learner of AutoRejector",
    "A data set",
    "A paper",
]


def blocks(title):
    """The language, place and lines of each block; the place is a file, a place in a file, or None for a command."""
    for language, text in re.findall(r"^```(\w+)\n(.*?)^```", SECTIONS[title], re.MULTILINE | re.DOTALL):
        named = re.match(r"# (\S+?\.\w+)(?:, (.*))?\n", text)
        yield language, named and named.groups(), text[named.end() :] if named else text


def add(root, place, text):
    name, where = place
    path = root / name
    if where is None:
        assert not path.exists(), f"{name} is there already"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return
    lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
    side, _, start = where.replace("the imports of recuse", "from recuse").partition(" ")
    number = next(number for number, line in enumerate(lines) if line.startswith(start))
    lines.insert(number + (side == "in"), text + "\n\n" * text.startswith("class"))
    path.write_text("".join(lines), encoding="utf-8")


def run(root, *command):
    source = {**os.environ, "PYTHONPATH": str(root / "src")}
    result = subprocess.run(command, cwd=root, env=source, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


@pytest.fixture(scope="module")
def followed(tmp_path_factory):
    """A copy of the repository to which every section was applied; and the files of each section."""
    root = tmp_path_factory.mktemp("repository")
    for name in ("src", "papers", "tools"):
        shutil.copytree(ROOT / name, root / name)
    for name in ("pyproject.toml", "tests/conftest.py"):
        (root / name).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / name, root / name)
    rows = [f"{speed},screw,{speed / 2}" for speed in range(3, 23)]
    rows += [f"{speed},gear,{speed / 2 + 2}" for speed in range(23, 43)]
    (root / "pumps.csv").write_text("\n".join(["speed,kind,flow", *rows]) + "\n")
    for title in ADDED:
        for language, place, text in blocks(title):
            if place:
                add(root, place, text)
            else:
                assert language == "sh"
                run(root, "sh", "-c", text.replace("python ", f'"{sys.executable}" '))
    return root


@pytest.mark.parametrize("title", ADDED)
def test_each_addition_is_one_file_and_one_test_of_less_than_forty_lines(title):
    parts = list(blocks(title))
    tests = [place[0] for _, place, _ in parts if place and place[0].startswith("tests/")]
    assert len(tests) == 1
    lines = sum(1 for _, _, text in parts for line in text.splitlines() if line.strip())
    assert lines < 40, f"{title} takes {lines} lines"


def test_the_additions_pass_their_tests(followed):
    tests = [place[0] for title in ADDED for _, place, _ in blocks(title) if place and place[0].startswith("tests/")]
    output = run(followed, sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--durations=5", *tests)
    assert "6 passed" in output


def test_the_additions_keep_the_style(followed):
    run(followed, sys.executable, "-m", "ruff", "check", "--fix", "--quiet", "--no-cache", ".")
    changed = {place[0] for title in ADDED for _, place, _ in blocks(title) if place and place[0].endswith(".py")}
    run(followed, sys.executable, "-m", "ruff", "format", "--check", "--no-cache", *changed)


def test_the_places_that_the_page_names_are_there():
    new = {place[0] for title in ADDED for _, place, _ in blocks(title) if place and place[1] is None}
    places = set(re.findall(r"`((?:src|tests|papers|tools)/[^`]*)`", PAGE)) - new
    assert len(places) >= 8
    for place in places:
        assert (ROOT / place).exists(), f"CONTRIBUTING.md names {place}, which is not there"
    for target in re.findall(r"^    make (\w+)", PAGE, re.MULTILINE):
        assert re.search(rf"^{target}:", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE), target
