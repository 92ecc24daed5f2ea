"""The page in a real browser: what hands and keys do, and what is seen then.

How many answers a second there are is measured by `benchmarks/explorer.py`: here nothing depends on
how busy the machine is. `PROBGEO_SCREENSHOTS=folder` keeps a picture of every state.
"""

import os
import xml.etree.ElementTree
from io import BytesIO
from pathlib import Path

import numpy as np
import pytest
from matplotlib.image import imread

from probgeo.explorer import Explorer
from probgeo.explorer.examples import bodies, digits, moons
from tests.explorer.browser import Browser, wait_for
from tests.paper.test_browser import browser as executable

__all__ = ["executable"]  # a fixture

FINE = "explorer.found.geodesic?.fine && Object.keys(explorer.asked()).length === 0"
SETTLED = f"window.explorer && {FINE}"


@pytest.fixture(scope="module")
def window(executable, tmp_path_factory):
    opened = Browser(executable, tmp_path_factory.mktemp("window"))
    yield opened
    opened.close()


@pytest.fixture(scope="module")
def server():
    with Explorer(moons(), linger=1e9) as running:
        yield running


@pytest.fixture
def page(window, server):
    return shown(window, server)


def shown(window, server):
    window.requests.clear()
    window.complaints.clear()
    window.open(server.address)
    window.until(SETTLED)
    return window


def keep(page, name):
    """A screenshot, which must show something: the geodesic's red, and the data."""
    content = page.picture()
    folder = os.environ.get("PROBGEO_SCREENSHOTS")
    if folder:
        Path(folder).mkdir(parents=True, exist_ok=True)
        (Path(folder) / f"{name}.png").write_bytes(content)
    return np.round(255 * imread(BytesIO(content))[:, :, :3]).astype(int)


def found(page, what="geodesic"):
    return page.run(f"explorer.found.{what}")


def place_of(page, k):
    return page.place(f"#end-{k} .disc")


def text(page, selector):
    return page.run(f"document.querySelector('{selector}').textContent")


def drag_end(page, k, by):
    x, y = place_of(page, k)
    path = [(x + s * by[0], y + s * by[1]) for s in np.linspace(0.0, 1.0, 12)]
    page.drag(path)
    page.until(SETTLED)


def test_it_loads_from_here_only_and_without_complaints(page, server):
    own = (f"http://127.0.0.1:{server.port}/", f"ws://127.0.0.1:{server.port}/", "data:", "blob:")
    assert len(page.requests) >= 2
    assert [address for address in page.requests if not address.startswith(own)] == []
    assert page.complaints == []
    assert "1000 points in 2 dimensions" in text(page, "#about")
    picture = keep(page, "moons")
    red = np.abs(picture - [140, 21, 21]).max(axis=2) < 8
    assert red.sum() > 1000
    assert len(np.unique(picture.reshape(-1, 3), axis=0)) > 500


def test_a_script_error_would_be_noticed(page):
    page.run("setTimeout(() => nothing.at.all())")
    wait_for(lambda: page.run("1") and page.complaints, "a complaint")
    page.run("fetch('https://example.com/').catch(() => 0)")  # forbidden, and that is seen too
    assert any("Content Security Policy" in line for line in page.complaints)


def test_dragging_moves_the_geodesic_and_its_length(page):
    before, asked = found(page), page.run("explorer.counted.answers")
    x, y = place_of(page, 1)
    lengths = []
    page.press((x, y))
    for k in range(1, 41):
        page.move((x - 6 * k, y + 2 * k))
        lengths.append(text(page, "#length"))
    keep(page, "drag")
    page.release()
    page.until(SETTLED)
    after = found(page)
    assert len(set(lengths)) > 3  # it was live, however slow the machine
    assert page.run("explorer.counted.answers") - asked > 4
    assert after["length"] < before["length"] - 1.0
    assert after["fine"]
    assert after["mean"][-1] == pytest.approx(page.run("explorer.state.ends[1]"), abs=1e-4)
    assert after["mean"][-1][0] < before["mean"][-1][0] - 0.5
    assert place_of(page, 1) == pytest.approx((x - 240, y + 80), abs=1.0)
    page.click("#undo")
    page.until(SETTLED)
    assert found(page)["length"] == pytest.approx(before["length"])
    assert page.complaints == []


def test_rivals_are_dashed_and_say_their_gap(page):
    others = found(page)["others"]
    assert others
    assert page.run("document.querySelectorAll('#live .other').length") == len(others)
    dashes = "getComputedStyle(document.querySelector('#live .other')).strokeDasharray"
    assert page.run(dashes) != "none"
    assert f"{len(others)}, next +{100 * others[0]['gap']:.2g} %" in text(page, "#minima")


def test_a_knob_makes_an_end_uncertain(page):
    x, y = page.place("#knob-0-0 .disc")
    page.drag([(x, y), (x + 10, y - 15), (x + 25, y - 35)])
    page.until(SETTLED)
    keep(page, "uncertain")
    answer, spread = found(page), page.run("explorer.state.spreads[0]")
    assert answer["boundary"] > 10 * answer["numerical"] > 0
    assert spread[0] > spread[1] > 0
    starts = np.array([path[0] for path in answer["samples"]])
    # of forty draws along the longer axis: a factor of two is five standard deviations
    along = (starts - starts.mean(axis=0)) @ [np.cos(spread[2]), np.sin(spread[2])]
    assert 0.5 < along.std() / spread[0] < 2.0
    page.click("#undo")
    page.until(SETTLED)
    assert found(page)["boundary"] == 0


def test_sliders_change_the_curve_and_its_error(page):
    errors = []
    for exponent in (-5, -3, -1):
        page.slide("#tolerance", exponent)
        page.until(f"{SETTLED} && explorer.state.setting.tolerance === 1e{exponent}")
        errors.append(found(page)["numerical"])
    keep(page, "sloppy")
    assert errors[0] < errors[1] < errors[2]
    length = found(page)["length"]
    page.slide("#rho", 0.9)
    page.until(f"{SETTLED} && explorer.state.setting.rho === 0.9")
    sharp = found(page)["length"]
    assert sharp != pytest.approx(length, rel=1e-2)
    page.slide("#components", 3)
    page.until(f"{SETTLED} && explorer.state.setting.components === 3")
    assert found(page)["length"] != pytest.approx(sharp, rel=1e-2)
    page.slide("#spread-1", 40)
    page.until(f"{SETTLED} && explorer.found.geodesic.boundary > 0")
    page.click("#reset")
    page.until(f"{SETTLED} && explorer.state.setting.components === 7")
    assert found(page)["boundary"] == 0
    assert page.complaints == []


def test_a_click_shoots_a_fan(page):
    x, y = place_of(page, 0)
    page.click((x + 200, y + 130))
    page.until(f"{SETTLED} && explorer.found.fan")
    keep(page, "fan")
    assert page.run("document.querySelectorAll('#live .ray').length") == 24
    at = found(page, "fan")["at"]
    starts = np.array([path[0] for path in found(page, "fan")["paths"]])
    assert np.allclose(starts, at, atol=1e-4)


def test_the_mean_of_a_selection(page):
    page.click("#tools label:last-child span")
    box = page.run("(r => [r.x, r.y, r.width, r.height])(plot.getBoundingClientRect())")
    corners = [(0.02, 0.15), (0.7, 0.12), (0.7, 0.45), (0.3, 0.5), (0.02, 0.75), (0.02, 0.15)]
    page.drag([(box[0] + u * box[2], box[1] + v * box[3]) for u, v in corners])
    rows = page.run("explorer.state.rows")
    assert 100 < len(rows) < 700
    assert f"{len(rows)} selected" in text(page, "#selected")
    page.click("#mean")
    page.until(f"{SETTLED} && explorer.found.mean")
    keep(page, "mean")
    answer = found(page, "mean")
    assert answer["count"] == len(rows)
    assert f"Mean of {len(rows)} points" in text(page, "#mean-found")
    assert page.run("document.querySelectorAll('#live .way').length") == 2
    assert page.run("document.querySelector('#progress').hidden")
    page.click("#deselect")
    assert page.run("explorer.state.rows") is None


def test_exports(page):
    page.click("#svg")
    drawing = page.folder / "probgeo.svg"
    wait_for(drawing.exists, "the drawing")
    root = xml.etree.ElementTree.parse(drawing).getroot()
    names = [element.tag.rpartition("}")[2] for element in root.iter()]
    assert names.count("path") > 40
    assert names.count("image") == 1
    assert names.count("ellipse") > 50
    assert "script" not in names
    links = [value for element in root.iter() for key, value in element.items() if "href" in key]
    assert all(link.startswith("data:image/png") for link in links)
    page.click("#png")
    photo = page.folder / "probgeo.png"
    wait_for(lambda: photo.exists() and photo.stat().st_size > 10_000, "the picture")
    wait_for(lambda: photo.read_bytes().endswith(b"IEND\xaeB`\x82"), "all of the picture")
    pixels = np.round(255 * imread(photo)[:, :, :3])
    width = page.run("document.querySelector('#plot').getBoundingClientRect().width")
    assert pixels.shape[1] == pytest.approx(2 * width, abs=2)
    assert (np.abs(pixels - [140, 21, 21]).max(axis=2) < 8).sum() > 1000
    page.click("#python")
    page.until("document.querySelector('#code').open")
    keep(page, "code")
    assert text(page, "#code pre") == found(page, "snippet")["code"]
    assert "minima(a, b)" in text(page, "#code pre")
    assert page.complaints == []


def test_keys_do_what_hands_do(page):
    page.run("document.querySelector('#end-0').focus()")
    before = page.run("explorer.state.ends[0]")
    page.key("ArrowRight", 39)
    page.until(SETTLED)
    near = page.run("explorer.state.ends[0]")
    page.key("ArrowUp", 38, modifiers=8)
    page.until(SETTLED)
    far = page.run("explorer.state.ends[0]")
    assert near[0] > before[0]
    assert near[1] == before[1]
    assert far[1] - near[1] == pytest.approx(5 * (near[0] - before[0]))
    page.key("+", 187)
    page.until(f"{SETTLED} && explorer.found.geodesic.boundary > 0")
    page.key("Enter", 13)
    page.until(f"{SETTLED} && explorer.found.fan")
    for _ in range(4):
        page.key("z", 90, modifiers=2)
    page.until(SETTLED)
    assert page.run("explorer.state.ends[0]") == before
    assert page.run("document.activeElement.id") == "end-0"


def test_what_a_screen_reader_is_told(page):
    tree = page.call("Accessibility.getFullAXTree")["nodes"]
    roles = ("button", "slider", "checkbox", "radio", "combobox", "progressbar")
    controls = [
        (node["role"]["value"], node.get("name", {}).get("value", ""))
        for node in tree
        if not node.get("ignored") and node.get("role", {}).get("value") in roles
    ]
    assert [role for role, name in controls if not name.strip()] == []
    names = " | ".join(name for _, name in controls)
    for part in ("End A at", "End B at", "How sloppy?", "Sharpness", "Components", "Compute"):
        assert part in names
    live = page.run("document.querySelectorAll('[aria-live=polite]').length")
    assert live >= 2
    assert "converged" in text(page, "#status")


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize(("name", "size"), [("laptop", (1366, 768)), ("phone", (390, 844))])
def test_sizes_and_themes(window, server, theme, name, size):
    window.prefer(theme)
    window.resize(*size, mobile=name == "phone")
    try:
        page = shown(window, server)
        picture = keep(page, f"{name}-{theme}")
        root = "document.documentElement"
        assert page.run(f"{root}.scrollWidth - {root}.clientWidth") <= 0
        assert (picture[5, 5].mean() > 128) == (theme == "light")
        # both ends are in sight, and large enough for a finger
        for k in (0, 1):
            assert page.run(f"document.querySelector('#end-{k} .hit').getBoundingClientRect().width") >= 40
        drag_end(page, 1, (-60, 10))
        assert page.complaints == []
    finally:
        window.prefer("light")
        window.resize(1280, 860)


def test_a_finger_drags_too(window, server):
    window.resize(390, 844, mobile=True)
    try:
        page = shown(window, server)
        before, (x, y) = page.run("explorer.state.ends[1]"), place_of(page, 1)
        for kind, points in (
            ("touchStart", [{"x": x, "y": y}]),
            ("touchMove", [{"x": x - 40, "y": y - 10}]),
            ("touchMove", [{"x": x - 80, "y": y - 20}]),
            ("touchEnd", []),
        ):
            page.call("Input.dispatchTouchEvent", type=kind, touchPoints=points)
        page.until(SETTLED)
        after = page.run("explorer.state.ends[1]")
        assert after[0] < before[0]
        assert after[1] > before[1]
    finally:
        window.resize(1280, 860)


@pytest.mark.parametrize("example", [digits, bodies])
def test_decoded_pictures_follow_the_cursor(window, example):
    with Explorer(example()) as server:
        page = shown(window, server)
        x, y = place_of(page, 0)
        seen = []
        for step in (30, 160):
            page.mouse("mouseMoved", (x + step, y + 20))
            page.until(f"{SETTLED} && explorer.found.look")
            seen.append(found(page, "look")["picture"])
        assert seen[0] != seen[1]
        canvas = "document.querySelector('#look canvas')"
        data = f"{canvas}.getContext('2d').getImageData(0, 0, {canvas}.width, {canvas}.height).data"
        assert page.run(f"new Set({data}).size") > 10
        assert page.run("document.querySelectorAll('#strip canvas').length") == 7
        for size in ((1366, 768), (1280, 860)):
            page.resize(*size)
            boxes = "['plot', 'strip', 'legend'].map(id => $(id).getBoundingClientRect())"
            edges = page.run(f"{boxes}.flatMap(box => [box.top, box.bottom])")
            assert edges == sorted(edges)  # one below the other
            assert edges[-1] <= size[1]
            labels = "[...document.querySelectorAll('.slider label')]"
            assert page.run(f"{labels}.every(label => label.offsetHeight < 30)")  # in one line
        length = found(page)["length"]
        page.run("document.querySelector('#view').value = 'principal'")
        page.run("document.querySelector('#view').dispatchEvent(new Event('change'))")
        page.until(f"{SETTLED} && explorer.found.points?.view === 'principal'")
        # digits are principal components already
        assert (abs(found(page)["length"] / length - 1.0) > 1e-9) == (example is bodies)
        keep(page, example.__name__)
        assert page.complaints == []


def test_it_says_so_when_the_server_has_ended(window):
    with Explorer(moons()) as server:
        page = shown(window, server)
    page.until("document.querySelector('#status').textContent.includes('has ended')")
    assert page.run("document.querySelector('#wait').textContent") == "ended"
