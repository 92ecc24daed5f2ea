"""What the README shows must run."""

import re
from pathlib import Path

import pytest

README = Path(__file__).parent.parent / "README.md"
BLOCKS = re.findall(r"^```python\n(.*?)^```", README.read_text(encoding="utf-8"), re.M | re.S)


def test_the_readme_has_examples():
    assert BLOCKS


@pytest.mark.parametrize("index", range(len(BLOCKS)))
def test_examples_run(index):
    exec(compile(BLOCKS[index], f"README.md, example {index + 1}", "exec"), {})


def test_links_lead_somewhere():
    targets = re.findall(r"\]\(([^)#:]+)\)", README.read_text(encoding="utf-8"))
    assert [t for t in targets if not (README.parent / t).exists()] == []
