"""Formulas as MathML, made while the site is built: browsers show it with nothing to load."""

from typing import Any

from docutils import nodes
from latex2mathml.converter import convert
from sphinx.application import Sphinx
from sphinx.util import logging

logger = logging.getLogger(__name__)


def to_mathml(latex: str, display: str, node: nodes.Node) -> str:
    """The formula, or a warning that names it: commands that are not known stay as they are."""
    # primes are drawn high already: as superscripts, which TeX takes them for, they get tiny
    text = latex.replace("''", "\N{DOUBLE PRIME}").replace("'", "\N{PRIME}")
    try:
        made = convert(text, display=display)
    except Exception as error:  # noqa: BLE001  (whatever goes wrong, the author must hear of it)
        logger.warning("formula %r cannot be converted: %s", latex, error, location=node)
        return f"<code>{nodes.unescape(latex)}</code>"
    if "\\" in made or ">&<" in made:
        logger.warning("formula %r has a command that is not known", latex, location=node)
    return made


def visit_inline(self: Any, node: nodes.math) -> None:
    self.body.append(to_mathml(node.astext(), "inline", node))
    raise nodes.SkipNode


def visit_display(self: Any, node: nodes.math_block) -> None:
    self.body.append(self.starttag(node, "div", CLASS="formula"))
    self.body.append(to_mathml(node.astext(), "block", node))
    self.body.append("</div>\n")
    raise nodes.SkipNode


def setup(app: Sphinx) -> dict[str, Any]:
    app.add_html_math_renderer("mathml", inline_renderers=(visit_inline, None), block_renderers=(visit_display, None))
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
