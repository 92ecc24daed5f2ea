"""What README and docs show must run, print what they say it prints, and link to what there is."""

import ast
import contextlib
import doctest
import io
import re

import matplotlib as mpl
import pytest

from probgeo.geometry.geodesic import FLAGS
from probgeo.ode.curve import MESSAGES
from tests.docs.pages import DOCS, ROOT, blocks_of, name_of, pages, promised

WITH_CODE = [page for page in pages() if blocks_of(page)]
CHECKER = doctest.OutputChecker()
LENIENT = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


def run(code, name, line, namespace):
    """What a block prints. Line numbers in a traceback are those of the page."""
    tree = ast.increment_lineno(ast.parse(code, name), line)
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(tree, name, "exec"), namespace)
    return printed.getvalue()


@pytest.mark.slow
@pytest.mark.parametrize("page", WITH_CODE, ids=name_of)
def test_blocks_run_and_print_what_they_say(page, tmp_path, monkeypatch):
    if "import torch" in page.read_text(encoding="utf-8"):
        pytest.importorskip("torch")
    monkeypatch.chdir(tmp_path)
    mpl.use("Agg")
    namespace = {"__name__": "__main__"}
    for line, code in blocks_of(page):
        printed = run(code, name_of(page), line, namespace)
        said = promised(code)
        if said:
            where = f"{name_of(page)}, line {line + 1}"
            assert CHECKER.check_output(said, printed, LENIENT), f"{where} prints\n{printed}"


def test_a_block_that_prints_something_else_is_noticed():
    code = "x = 3\n# three\nprint(x)\n# 2 ...\n"
    assert promised(code) == "2 ...\n"
    assert not CHECKER.check_output(promised(code), run(code, "page", 0, {}), LENIENT)


def test_readme_and_most_pages_have_examples():
    names = {name_of(page) for page in WITH_CODE}
    assert {"README.md", "docs/start.md", "docs/contributing.md"} <= names
    assert {p.parent.name for p in WITH_CODE} >= {"concepts", "howto", "theory"}


@pytest.mark.parametrize("page", pages(), ids=name_of)
def test_links_lead_somewhere(page):
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.M | re.S)
    targets = re.findall(r"\]\(([^)#:\s]+)(?:#[^)\s]*)?\)", text)
    made = {"gallery/index.rst"}  # by the build; tests of the site follow this link
    missing = [t for t in targets if t not in made and not (page.parent / t).exists()]
    assert missing == []


@pytest.mark.parametrize("message", [*MESSAGES, *filter(None, FLAGS)])
def test_every_message_is_explained(message):
    assert f"| {message} |" in (DOCS / "concepts/converged.md").read_text(encoding="utf-8")


def test_pages_that_the_code_refers_to_exist():
    sources = [path.read_text(encoding="utf-8") for path in (ROOT / "probgeo").rglob("*.py")]
    named = [name for text in sources for name in re.findall(r"\bpage\(\"([\w/]+)\"\)", text)]
    assert named
    assert [name for name in named if not (DOCS / f"{name}.md").exists()] == []


def test_file_names_that_pages_mention_exist():
    folders = "benchmarks|docs|examples|probgeo|tests"
    missing = []
    for page in pages():
        text = page.read_text(encoding="utf-8")
        named = re.findall(rf"`((?:{folders})/[\w/.]*\.\w+)", text)
        missing += [f"{name_of(page)}: {name}" for name in named if not (ROOT / name).exists()]
    assert missing == []
