"""Run the code blocks of the tutorials that write a picture or a page, and keep what they write.

``python docs/pictures/from_tutorials.py FOLDER``
"""

import contextlib
import io
import re
import shutil
import sys
import tempfile
from pathlib import Path

TUTORIALS = Path(__file__).parents[1] / "tutorials"
FILES = {"cost-from-money.md": "money_saved.svg", "reading-the-report.md": "report.html"}


def draw(folder: Path) -> None:
    """Write the files of `FILES`."""
    folder = folder.resolve()
    for page, file in FILES.items():
        text = (TUTORIALS / page).read_text(encoding="utf-8")
        names: dict[str, object] = {}
        with tempfile.TemporaryDirectory() as work, contextlib.chdir(work), contextlib.redirect_stdout(io.StringIO()):
            for block in re.findall(r"^```python\n(.*?)^```", text, re.DOTALL | re.MULTILINE):
                exec(compile(block, page, "exec"), names)
            shutil.copy(file, folder / file)


if __name__ == "__main__":
    draw(Path(sys.argv[1]))
