"""Write the printed output of the tutorials into the pages, below each block that shows its output.

Run it after a change of the defaults of an estimator: ``python docs/refresh_outputs.py``. The tests compare the pages
with what the blocks print.
"""

import contextlib
import io
import os
import re
import tempfile
from pathlib import Path

PAGES = sorted((Path(__file__).parent / "tutorials").glob("*.md"))
BLOCK = re.compile(r"^```python\n(.*?)^```\n(\n^```text\n)?(?(2)(.*?)^```\n)", re.DOTALL | re.MULTILINE)


def refreshed(text: str) -> str:
    """Run the Python blocks of a page in order, and return the page with their present output."""
    names: dict[str, object] = {}

    def run(match: re.Match[str]) -> str:
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            exec(compile(match[1], "page", "exec"), names)
        if match[2] is None:
            return match[0]
        lines = "\n".join(line.rstrip() for line in printed.getvalue().splitlines())
        return f"```python\n{match[1]}```\n\n```text\n{lines}\n```\n"

    return BLOCK.sub(run, text)


def main() -> None:
    """Refresh every tutorial."""
    for page in PAGES:
        with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
            page.write_text(refreshed(page.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    os.environ.setdefault("MPLBACKEND", "Agg")
    main()
