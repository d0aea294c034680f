"""Pictures and pages of the site that scripts in `pictures/` make.

A script has a function ``draw(folder)`` that writes its files. It runs again if a script or a tutorial has changed.
"""

import runpy
import sys
import time
from pathlib import Path

from sphinx.application import Sphinx
from sphinx.util import logging

DOCS = Path(__file__).parents[1]
SCRIPTS = sorted((DOCS / "pictures").glob("[!_]*.py"))
FOLDER = DOCS / "generated" / "static"
FOLDER.mkdir(parents=True, exist_ok=True)  # Sphinx checks the folders of static files before any event


def make_pictures(app: Sphinx) -> None:
    """Run every script whose stamp is older than a script or a tutorial."""
    sources = [*(DOCS / "pictures").glob("*.py"), *(DOCS / "tutorials").glob("*.md")]
    newest = max(source.stat().st_mtime for source in sources)
    sys.path.insert(0, str(DOCS / "pictures"))  # the scripts share a module
    for script in SCRIPTS:
        stamp = FOLDER / f".{script.stem}.done"
        if stamp.exists() and stamp.stat().st_mtime >= newest:
            continue
        start = time.process_time()
        runpy.run_path(str(script), run_name="picture")["draw"](FOLDER)
        stamp.touch()
        logging.getLogger(__name__).info("%s: %.0f s", script.name, time.process_time() - start)


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the event."""
    app.connect("builder-inited", make_pictures, priority=100)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
