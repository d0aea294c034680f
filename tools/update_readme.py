"""Run the code blocks and commands of README.md, and write what they print, and the picture, into it.

    python tools/update_readme.py

A block of output follows the block that prints it, and shows a part of its lines. `tests/test_readme.py` runs the
same blocks and compares.
"""

import contextlib
import io
import math
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "README.md"
PICTURE = ROOT / "docs" / "images" / "cost_curve.png"
_PAIR = re.compile(
    r"^```(?P<language>sh|python)\n(?P<code>.*?)^```\n(?:(?!```)[^\n]*\n)*```text\n(?P<output>.*?)^```\n",
    re.MULTILINE | re.DOTALL,
)
_NUMBER = re.compile(r"\d[\d,]*(?:\.\d+)?")


def pairs(text: str) -> list[re.Match[str]]:
    """Find the blocks of code that a block of output follows."""
    return list(_PAIR.finditer(text))


def run(language: str, code: str, folder: Path) -> str:
    """Run a block in a folder, and return what it prints on standard output."""
    if language == "python":
        with contextlib.chdir(folder), contextlib.redirect_stdout(io.StringIO()) as printed:
            exec(compile(code, PAGE.name, "exec"), {"__name__": "readme"})
        return printed.getvalue()
    recuse = f'recuse() {{ "{sys.executable}" -m recuse.cli "$@"; }}'
    # the targets of make set up .venv first, which is the environment of this script
    script = f"set -e\n{recuse}\n" + re.sub(
        r"^make demo\b.*", "recuse demo", re.sub(r"^make test\b.*\n", "", code, flags=re.M), flags=re.M
    )
    environment = {**os.environ, "COLUMNS": "90", "MPLBACKEND": "Agg", "PYTHONWARNINGS": "ignore"}
    result = subprocess.run(
        ["sh", "-c", script], cwd=folder, capture_output=True, text=True, check=False, env=environment
    )
    if result.returncode:
        raise RuntimeError(f"a block of {PAGE.name} failed:\n{code}{result.stdout}{result.stderr}")
    return result.stdout


def matching(line: str, printed: str) -> str | None:
    """Find the printed line that equals a line of the page except for its numbers, which are the nearest of all."""
    found = [each.rstrip() for each in printed.splitlines() if skeleton(each) == skeleton(line)]
    return min(found, key=lambda each: math.dist(numbers(each), numbers(line)), default=None)


def skeleton(line: str) -> str:
    """Leave out numbers and the width of columns."""
    return re.sub(r"[\s─━]+", " ", _NUMBER.sub("#", line)).strip()


def numbers(line: str) -> list[float]:
    """List the numbers of a line."""
    return [float(found.replace(",", "")) for found in _NUMBER.findall(line)]


def updated(output: str, printed: str) -> str:
    """Replace each line of a block of output by what was printed."""
    lines = []
    for line in output.splitlines():
        found = matching(line, printed)
        if found is None and line.strip():
            raise RuntimeError(f"nothing was printed like: {line}\n{printed}")
        lines.append(found or "")
    return "\n".join(lines) + "\n"


def main() -> None:
    """Run all pairs, and write the page and the picture."""
    text = PAGE.read_text(encoding="utf-8")
    with tempfile.TemporaryDirectory() as folder:
        for pair in reversed(pairs(text)):
            printed = run(pair["language"], pair["code"], Path(folder))
            start, end = pair.span("output")
            text = text[:start] + updated(pair["output"], printed) + text[end:]
        PICTURE.parent.mkdir(exist_ok=True)
        PICTURE.write_bytes((Path(folder) / "demo" / "cost_curve.png").read_bytes())
    PAGE.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
