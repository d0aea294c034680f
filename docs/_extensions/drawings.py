"""SVG files of `drawings/` inside the pages, where they take the colours of the theme."""

from pathlib import Path

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.transforms.post_transforms import SphinxPostTransform


class InlineDrawings(SphinxPostTransform):
    """Replace images of `drawings/` by their SVG code."""

    default_priority = 5  # before Sphinx collects the files of images
    formats = ("html",)

    def run(self, **options: object) -> None:
        """Replace the images of one page."""
        for image in list(self.document.findall(nodes.image)):
            path = Path(self.env.srcdir, image["uri"])
            if path.parent.name != "drawings" or path.suffix != ".svg":
                continue
            svg = path.read_text(encoding="utf-8")
            label = nodes.Text(image.get("alt", "")).astext().replace('"', "&quot;")
            svg = svg.replace("<svg ", f'<svg role="img" aria-label="{label}" ', 1)
            image.replace_self(nodes.raw("", f'<div class="drawing">{svg}</div>', format="html"))


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the transform."""
    app.add_post_transform(InlineDrawings)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
