"""SVG files of `drawings/` inside the pages, where they take the colours of the theme."""

from html import escape
from pathlib import Path

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.transforms import SphinxTransform


class InlineDrawings(SphinxTransform):
    """Replace images of `drawings/` by their SVG code."""

    default_priority = 500

    def apply(self, **options: object) -> None:
        """Replace the images of one page, which is then built again if a drawing changes."""
        folder = Path(self.env.doc2path(self.env.docname)).parent
        for image in list(self.document.findall(nodes.image)):
            path = (folder / image["uri"]).resolve()
            if path.parent.name != "drawings" or path.suffix != ".svg":
                continue
            self.env.note_dependency(str(path))
            svg = path.read_text(encoding="utf-8")
            svg = svg.replace("<svg ", f'<svg role="img" aria-label="{escape(image.get("alt", ""))}" ', 1)
            image.replace_self(nodes.raw("", f'<div class="drawing">{svg}</div>', format="html"))


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the transform."""
    app.add_transform(InlineDrawings)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
