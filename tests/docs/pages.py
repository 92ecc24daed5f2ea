"""The pages that people read, and the Python in them."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
MADE = ("gallery", "generated", "_build")  # by the build, not by hand


def pages():
    """README and all pages of the site that are written by hand."""
    own = [p for p in sorted(DOCS.rglob("*.md")) if not set(MADE) & set(p.parts)]
    return [ROOT / "README.md", *own]


def name_of(page):
    return str(page.relative_to(ROOT))


def blocks_of(page):
    """The Python of a page, block by block, and the line each begins in."""
    text = page.read_text(encoding="utf-8")
    found = re.finditer(r"^```python\n(.*?)^```", text, re.M | re.S)
    return [(text.count("\n", 0, m.start(1)), m[1]) for m in found]


def promised(code):
    """What a block says it prints: the comments it ends with."""
    lines = []
    for line in reversed(code.rstrip("\n").split("\n")):
        if not line.startswith("#"):
            break
        lines.append(line.removeprefix("#").removeprefix(" "))
    return "".join(f"{line}\n" for line in reversed(lines))
