"""Formulas as MathML, which browsers show without scripts and without a network."""

from docutils import nodes
from docutils.utils.math import MathError, latex2mathml
from sphinx.application import Sphinx
from sphinx.util import logging
from sphinx.writers.html5 import HTML5Translator


def _write(translator: HTML5Translator, node: nodes.Element, *, block: bool) -> None:
    try:
        formula = latex2mathml.tex2mathml(node.astext(), as_block=block)
    except MathError as error:
        logging.getLogger(__name__).warning("%s in %r", error, node.astext(), location=node)
        raise nodes.SkipNode from error
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
