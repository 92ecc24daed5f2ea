"""The report in a real browser."""

import os
import re
import shutil
import subprocess

import pytest

from probgeo.paper.report import write_report
from tests.paper import synthetic

NAMES = ("chromium", "chromium-browser", "google-chrome")
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--no-first-run",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-quic",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--virtual-time-budget=5000",
)
# writes the natural width of every image and the width of the page into the document
PROBE = """<script>addEventListener("load", () => {
  const widths = [...document.images].map(image => image.naturalWidth).join(" ");
  document.body.dataset.widths = widths;
  document.body.dataset.overflow =
    document.documentElement.scrollWidth - document.documentElement.clientWidth;
});</script>"""


@pytest.fixture(scope="module")
def browser():
    found = next(filter(None, map(shutil.which, NAMES)), None)
    if found is None:
        reason = f"no browser: none of {', '.join(NAMES)} is installed"
        if os.environ.get("PROBGEO_NEEDS_BROWSER"):
            pytest.fail(reason)
        pytest.skip(reason)
    return found


@pytest.fixture
def folder(tmp_path):
    found = synthetic.records()
    synthetic.draw(tmp_path, found)
    write_report(tmp_path, found)
    return tmp_path


def shown(browser, page, profile, width):
    """The document as it is after loading."""
    command = [browser, *FLAGS, f"--user-data-dir={profile}", f"--window-size={width},800"]
    done = subprocess.run(
        [*command, "--dump-dom", page.as_uri()], capture_output=True, text=True, timeout=120, check=True
    )
    return done.stdout


def probed(browser, folder, tmp_path, width=1000):
    """Widths of the images, and how far the page is wider than the window."""
    page = folder / "probe.html"
    text = (folder / "index.html").read_text(encoding="utf-8")
    page.write_text(text.replace("</head>", PROBE + "</head>"), encoding="utf-8")
    body = re.search(r"<body[^>]*>", shown(browser, page, tmp_path / "profile", width))[0]
    widths = re.search(r'data-widths="([\d ]*)"', body)[1].split()
    return [int(w) for w in widths], int(re.search(r'data-overflow="(-?\d+)"', body)[1])


def test_it_loads(browser, folder, tmp_path):
    dom = shown(browser, folder / "index.html", tmp_path / "profile", 1000)
    assert "<title>Hennig and Hauberg (2014), reproduced by probgeo</title>" in dom
    assert "<script" not in dom
    assert dom.count("<section") == 3


@pytest.mark.parametrize("width", [500, 1000])  # Chromium's windows are no narrower
def test_all_images_are_shown_and_nothing_is_cut_off(browser, folder, tmp_path, width):
    widths, overflow = probed(browser, folder, tmp_path, width)
    assert len(widths) == 3
    assert all(w > 0 for w in widths)
    assert overflow <= 0


def test_a_missing_image_would_be_noticed(browser, folder, tmp_path):
    (folder / "fig3.png").unlink()
    widths, _ = probed(browser, folder, tmp_path)
    assert widths.count(0) == 1
