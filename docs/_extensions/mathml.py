"""Formulas as MathML, which browsers show without scripts and without a network."""

from docutils import nodes
from docutils.utils.math import latex2mathml
from sphinx.application import Sphinx
from sphinx.writers.html5 import HTML5Translator


def _write(translator: HTML5Translator, node: nodes.Element, *, block: bool) -> None:
    formula = latex2mathml.tex2mathml(node.astext(), as_block=block)
    if block:
        formula = f'<div class="formula">{formula}</div>'
    translator.body.append(formula)
    raise nodes.SkipNode


def inline(translator: HTML5Translator, node: nodes.Element) -> None:
    """Write a formula in a line of text."""
    _write(translator, node, block=False)


def display(translator: HTML5Translator, node: nodes.Element) -> None:
    """Write a formula in a line of its own."""
    _write(translator, node, block=True)


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the renderer `mathml`."""
    app.add_html_math_renderer("mathml", (inline, None), (display, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
