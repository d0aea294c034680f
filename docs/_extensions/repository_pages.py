"""Pages of the site that are made from files outside `docs/`, and links to such files.

The pages about results are the ones that `recuse bench` writes beside its tables. So no number is typed by hand.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING

from pygments.lexers.special import TextLexer

if TYPE_CHECKING:
    from sphinx.application import Sphinx

DOCS = Path(__file__).parents[1]
ROOT = DOCS.parent
GENERATED = DOCS / "generated"

# file of the repository -> page of the site
PAGES = {
    **{page: GENERATED / "project" / page.name.lower() for page in sorted(ROOT.glob("*.md")) if page.stem != "README"},
    **{
        readme: GENERATED / "results" / f"{readme.parent.name}.md"
        for readme in sorted((ROOT / "results").glob("*/README.md"))
    },
}
# files that have a page of another kind
ALIASES = {
    ROOT / "README.md": DOCS / "index.md",
    ROOT / "examples" / "deployment": DOCS / "howto" / "deploy.md",
    **{script: GENERATED / "gallery" / f"{script.stem}.rst" for script in sorted((ROOT / "examples").glob("*.py"))},
}
LINK = re.compile(r"\]\((?!https?://|mailto:|#)([^)#\s]+)(#[^)]*)?\)")


def with_site_links(text: str, source: Path, page: Path) -> str:
    """Return the text of `source` with links that hold on the site, as seen from `page`.

    Links to files that the site has as a page lead to that page, links to other files of the repository to a copy.
    """

    def link(match: re.Match[str]) -> str:
        target = (source.parent / match[1]).resolve()
        target = PAGES.get(target, ALIASES.get(target, target))
        relative = Path(os.path.relpath(target, page.parent)).as_posix()
        return f"]({relative}{match[2] or ''})"

    return LINK.sub(link, text)


def write_pages(app: Sphinx) -> None:
    """Write the pages of `PAGES`, before Sphinx looks for sources."""
    for source, page in PAGES.items():
        page.parent.mkdir(parents=True, exist_ok=True)
        text = with_site_links(source.read_text(encoding="utf-8"), source, page)
        if not page.exists() or page.read_text(encoding="utf-8") != text:
            page.write_text(text, encoding="utf-8")
    for page in (*(GENERATED / "results").glob("*.md"), *(GENERATED / "project").glob("*.md")):
        if page not in PAGES.values():
            page.unlink()


def rewrite_links(app: Sphinx, name: str, content: list[str]) -> None:
    """Change the links of a page of `docs/` that lead out of it."""
    page = DOCS / f"{name}.md"
    if page.exists() and GENERATED not in page.parents:
        content[0] = with_site_links(content[0], page, page)


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the events."""
    app.connect("builder-inited", write_pages, priority=100)
    app.connect("source-read", rewrite_links)
    app.add_lexer("csv", TextLexer)  # Pygments has none, and unknown languages are warnings
    return {"parallel_read_safe": True, "parallel_write_safe": True}
