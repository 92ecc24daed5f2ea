"""The site as readers get it: built without a warning, complete, and shown by a browser.

`PROBGEO_SITE` names a site that is built already (by `make docs`); without it one is built here,
whose examples are not run.
"""

import json
import os
import re
import shutil
import subprocess
import sys
from html import unescape
from html.parser import HTMLParser
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

import probgeo
from tests.docs.pages import DOCS, ROOT
from tests.paper.test_browser import FLAGS, browser

__all__ = ["browser"]  # a fixture

MODULES = ("solvers", "kernels", "metrics", "functions", "stats", "cluster", "data", "plot")
LOADED = {"img": "src", "script": "src", "iframe": "src", "source": "src", "link": "href"}


def build(folder):
    """The site, from a copy of its sources: a build writes next to them."""
    if find_spec("sphinx") is None:
        reason = "no Sphinx: pip install '.[docs]'"
        if os.environ.get("PROBGEO_NEEDS_BROWSER"):
            pytest.fail(reason)
        pytest.skip(reason)
    made = shutil.ignore_patterns("gallery", "generated", "_build")
    shutil.copytree(DOCS, folder / "docs", ignore=made)
    shutil.copytree(ROOT / "examples", folder / "examples")
    command = [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-q", "docs", "site"]
    done = subprocess.run(
        command, cwd=folder, env={**os.environ, "PROBGEO_GALLERY": "0"}, capture_output=True, text=True, timeout=600
    )
    assert done.returncode == 0, done.stderr
    return folder / "site"


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    given = os.environ.get("PROBGEO_SITE")
    return Path(given).resolve() if given else build(tmp_path_factory.mktemp("docs"))


class Page(HTMLParser):
    """What a page refers to, and what can be referred to in it."""

    def __init__(self, path):
        super().__init__()
        self.path, self.anchors, self.links, self.loaded = path, {""}, [], []
        self.styles = []
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attributes):
        given = dict(attributes)
        self.anchors |= {given[key] for key in ("id", "name") if given.get(key)}
        self.styles.append(given.get("style") or "")
        if tag == "a" and given.get("href"):
            self.links.append(given["href"])
        if tag in LOADED and given.get(LOADED[tag]):
            self.loaded.append(given[LOADED[tag]])


@pytest.fixture(scope="module")
def pages(site):
    return {path: Page(path) for path in sorted(site.rglob("*.html"))}


def is_local(target):
    parts = urlsplit(target)
    return not parts.scheme and not parts.netloc


def dead_ends(pages, targets):
    """Those of (page, target) that lead nowhere."""
    bad = []
    for page, target in targets:
        parts = urlsplit(target)
        path = (page.parent / unquote(parts.path)).resolve() if parts.path else page
        there = pages.get(path)
        anchor = unquote(parts.fragment)
        if not path.is_file() or (there and anchor not in there.anchors):
            bad.append(f"{page.name}: {target}")
    return bad


def test_there_are_pages_of_every_kind(pages, site):
    names = {str(path.relative_to(site)) for path in pages}
    assert names >= {
        "index.html",
        "start.html",
        "commands.html",
        "concepts/converged.html",
        "howto/decoder.html",
        "theory/posterior.html",
        "paper.html",
        "benchmarks.html",
        "errata.html",
        "gallery/index.html",
        "api/index.html",
        "contributing.html",
        "search.html",
    }


def test_links_and_anchors_lead_somewhere(pages):
    links = [(path, x) for path, page in pages.items() for x in page.links if is_local(x)]
    assert len(links) > 1000
    assert dead_ends(pages, links) == []


def test_a_dead_link_would_be_noticed(pages, site):
    start = site / "start.html"
    wrong = [(start, "nowhere.html"), (start, "commands.html#nowhere"), (start, "#nowhere")]
    assert len(dead_ends(pages, [*wrong, (start, "commands.html#the-paper")])) == 3


def test_images_scripts_and_styles_are_there_and_local(pages):
    loaded = [(path, x) for path, page in pages.items() for x in page.loaded if not x.startswith("data:")]
    assert [x for _, x in loaded if not is_local(x)] == []
    assert dead_ends(pages, loaded) == []


def test_styles_load_nothing_from_the_network(pages, site):
    sheets = [path.read_text(encoding="utf-8") for path in site.rglob("*.css")]
    assert sheets
    inline = [style for page in pages.values() for style in page.styles]
    for text in [*sheets, *inline]:
        assert not re.search(r"(url\(|@import)\s*[\"']?(https?:)?//", text)


def public_names(module):
    """`__all__`, or the classes of a module without it, and the functions of `plot`."""
    kinds = (type, type(public_names)) if module is probgeo.plot else (type,)
    own = [
        name
        for name, value in vars(module).items()
        if isinstance(value, kinds) and value.__module__ == module.__name__ and name[0] != "_"
    ]
    return getattr(module, "__all__", own)


def test_every_public_name_is_documented(site):
    documented = {path.stem for path in (site / "api/generated").glob("*.html")}
    names = [f"{m}.{name}" for m in MODULES for name in public_names(getattr(probgeo, m))]
    # estimators are documented where they live
    names += set(probgeo.__all__) - {*MODULES, *probgeo.stats.__all__}
    assert len(names) > 50
    assert [name for name in names if f"probgeo.{name}" not in documented] == []


# shows page after page in a frame, and writes down what it sees of each
VISITOR = """<!doctype html><body><iframe width="1200" height="900"></iframe><pre></pre><script>
const frame = document.querySelector("iframe"), seen = {};
const size = e => { const r = e.getBoundingClientRect(); return Math.min(r.width, r.height); };
async function visit(page) {
  await new Promise(done => { frame.onload = done; frame.src = page; });
  const doc = frame.contentDocument;
  for (const image of doc.images) image.loading = "eager";
  await Promise.all([...doc.images].map(image => image.complete || new Promise(done => {
    image.onload = image.onerror = done;
    setTimeout(done, 3000);
  })));
  seen[page] = {
    title: doc.title,
    heading: doc.querySelector("h1") ? size(doc.querySelector("h1")) : 0,
    formulas: [...doc.querySelectorAll("math")].map(size),
    images: [...doc.images].map(image => [image.src, image.naturalWidth]),
    wide: doc.documentElement.scrollWidth - doc.documentElement.clientWidth,
  };
}
(async () => {
  for (const page of PAGES) await visit(page);
  document.querySelector("pre").textContent = JSON.stringify(seen);
})();
</script></body>"""


def opened(browser, address, profile):
    """The document as it is in the end, and what the browser has to complain of."""
    done = subprocess.run(
        [
            browser,
            *(flag for flag in FLAGS if "virtual-time" not in flag),
            "--virtual-time-budget=60000",
            "--allow-file-access-from-files",
            "--host-resolver-rules=MAP * ~NOTFOUND",
            "--enable-logging=stderr",
            f"--user-data-dir={profile}",
            "--window-size=1300,1000",
            "--dump-dom",
            address,
        ],
        capture_output=True,
        text=True,
        timeout=300,
        check=True,
    )
    return done.stdout, [line for line in done.stderr.splitlines() if "CONSOLE" in line]


@pytest.fixture(scope="module")
def visited(browser, site, pages, tmp_path_factory):
    """What a browser shows of every page."""
    folder = tmp_path_factory.mktemp("visit")
    addresses = json.dumps([path.as_uri() for path in pages])
    visitor = folder / "visitor.html"
    visitor.write_text(VISITOR.replace("PAGES", addresses), encoding="utf-8")
    dom, complaints = opened(browser, visitor.as_uri(), folder / "profile")
    seen = json.loads(unescape(re.search(r"<pre>(.*?)</pre>", dom, re.S)[1]))
    return {Path(unquote(urlsplit(uri).path)): what for uri, what in seen.items()}, complaints


def test_all_pages_load_without_errors(visited, pages):
    seen, complaints = visited
    assert seen.keys() == pages.keys()
    assert complaints == []
    assert [str(path) for path, page in seen.items() if "probgeo" not in page["title"]] == []
    without = [path.name for path, page in seen.items() if not page["heading"] > 0]
    assert without == ["search.html"]  # it has one only when it was asked something


def test_formulas_can_be_seen(visited, site):
    seen, _ = visited
    sizes = [size for page in seen.values() for size in page["formulas"]]
    assert len(seen[site / "theory/posterior.html"]["formulas"]) > 10
    assert min(sizes) > 4


def test_pictures_are_shown(visited, site):
    seen, _ = visited
    pictures = [picture for page in seen.values() for picture in page["images"]]
    assert len(seen[site / "paper.html"]["images"]) > 5
    assert [source for source, width in pictures if not width > 0] == []


def test_no_page_is_wider_than_the_window(visited):
    seen, _ = visited
    assert [str(path) for path, page in seen.items() if page["wide"] > 0] == []


@pytest.mark.parametrize(
    ("words", "where"), [("logarithm map", "theory/geodesics.html"), ("from_mixture", "api/generated")]
)
def test_search_works_from_the_files(browser, site, tmp_path, words, where):
    address = f"{(site / 'search.html').as_uri()}?q={words.replace(' ', '+')}"
    dom, complaints = opened(browser, address, tmp_path / "profile")
    assert complaints == []
    found = re.search(r'<div id="search-results".*', dom, re.S)[0]
    assert where in found


def test_a_script_error_would_be_noticed(browser, tmp_path):
    page = tmp_path / "broken.html"
    page.write_text("<script>nothing.at.all()</script>", encoding="utf-8")
    assert opened(browser, page.as_uri(), tmp_path / "profile")[1]
