"""Docstrings as they are written here: plain text in which |x| and a * b mean themselves."""

import re
from typing import Any

from sphinx.application import Sphinx
from sphinx.ext import autosummary

autosummary.WELL_KNOWN_ABBREVIATIONS += ("Eq.", "Sec.")  # they do not end a sentence
CODE = re.compile(r"`[^`]*`|^\s*(?:>>>|\.\.\.).*$")


def escape(text: str) -> str:
    """Stars and bars without their meaning as markup, but for names in backticks and examples."""
    parts, end = [], 0
    for code in CODE.finditer(text):
        parts += [re.sub(r"([*|])", r"\\\1", text[end : code.start()]), code[0]]
        end = code.end()
    return "".join([*parts, re.sub(r"([*|])", r"\\\1", text[end:])])


def plain(app: Sphinx, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    lines[:] = map(escape, lines)
    if what == "property":
        app.env.temp_data[name] = list(lines)


def restore(app: Sphinx, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    """Napoleon takes what is before a colon in the docstring of a property for its type."""
    if what == "property":
        lines[:] = app.env.temp_data.pop(name, lines)


def only_ours(app: Sphinx, what: str, name: str, obj: Any, skip: bool, options: Any) -> bool:
    """Leave out what scikit-learn or `tuple` bring along."""
    function = getattr(obj, "fget", None) or getattr(obj, "__func__", obj)
    module = getattr(function, "__module__", None) or ""
    return skip or not module.startswith("probgeo")


def setup(app: Sphinx) -> dict[str, Any]:
    app.connect("autodoc-process-docstring", plain, priority=400)  # before Napoleon, at 500
    app.connect("autodoc-process-docstring", restore, priority=600)
    app.connect("autodoc-skip-member", only_ours)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
