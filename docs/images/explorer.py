"""Pictures of the explorer for the documentation: states of the page, and a drag as an animation.

    python docs/images/explorer.py

It drives the page in Chromium as its tests do, and needs the development dependencies.
"""

import shutil
import sys
import tempfile
import time
from io import BytesIO
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

from probgeo.explorer import Explorer  # noqa: E402
from probgeo.explorer.examples import EXAMPLES  # noqa: E402
from tests.explorer.browser import Browser  # noqa: E402
from tests.paper.test_browser import NAMES  # noqa: E402

FOLDER = Path(__file__).parent / "explorer"
FINE = "window.explorer && explorer.found.geodesic?.fine && Object.keys(explorer.asked()).length === 0"
PAUSE = 0.2  # seconds after which the page asks for a fine answer


def settled(page, also="true"):
    time.sleep(PAUSE)
    page.until(f"{FINE} && {also}")


def opened(page, server, size=(1200, 720), theme="light"):
    page.prefer(theme)
    page.resize(*size, mobile=size[0] < 600)
    page.open(server.address)
    settled(page)
    # the camera waits for every answer: how many there are a second would mislead
    page.run("document.querySelector('#rate').style.visibility = 'hidden'")


def image(page):
    return Image.open(BytesIO(page.picture())).convert("RGB")


def keep(page, name):
    image(page).save(FOLDER / f"{name}.webp", quality=82, method=6)


def lasso(page):
    page.click("#tools label:last-child span")
    box = page.run("(r => [r.x, r.y, r.width, r.height])(plot.getBoundingClientRect())")
    corners = [(0.03, 0.15), (0.66, 0.12), (0.72, 0.66), (0.56, 0.66), (0.5, 0.5), (0.3, 0.42)]
    corners += [(0.2, 0.75), (0.03, 0.75), (0.03, 0.15)]
    page.drag([(box[0] + u * box[2], box[1] + v * box[3]) for u, v in corners])


class Film:
    """Frames of a page, each when its answer has arrived, with the pointer drawn in."""

    def __init__(self, page):
        self.page, self.frames = page, []

    def shoot(self, count=1, pointer=True):
        settled(self.page)
        frame = image(self.page)
        if pointer:
            x, y = self.page.pointer
            arrow = [(x, y), (x, y + 17), (x + 4.5, y + 13), (x + 12, y + 12)]
            ImageDraw.Draw(frame).polygon(arrow, fill="black", outline="white")
        self.frames += [frame.resize((720, 432), Image.Resampling.LANCZOS)] * count

    def drag(self, points):
        self.page.press(points[0])
        for point in points[1:]:
            self.page.move(point)
            self.shoot()
        self.page.release()

    def save(self, path):
        first, *others = self.frames
        first.save(path, save_all=True, append_images=others, duration=90, loop=0, quality=55, method=6)


def animation(page):
    film = Film(page)
    film.shoot(4, pointer=False)
    x, y = page.place("#end-1 .disc")
    turn = np.linspace(0.0, 2.0 * np.pi, 34)
    around = [(x - 190 * (1 - np.cos(a)), y - 115 * np.sin(a)) for a in turn]
    film.drag(around)
    film.shoot(3)
    x, y = page.place("#knob-0-0 .disc")
    film.drag([(x + s * 45, y - s * 55) for s in np.linspace(0.0, 1.0, 12)])
    film.shoot(5)
    x, y = page.place("#end-0 .disc")
    page.click((x + 330, y + 25))
    page.until(f"{FINE} && explorer.found.fan")
    film.shoot(12)
    film.save(FOLDER / "drag.webp")


def main():
    FOLDER.mkdir(exist_ok=True)
    executable = next(filter(None, map(shutil.which, NAMES)))
    page = Browser(executable, tempfile.mkdtemp())
    try:
        with Explorer(EXAMPLES["moons"](), linger=1e9) as server:
            opened(page, server)
            animation(page)
            opened(page, server)
            keep(page, "moons")
            lasso(page)
            page.click("#mean")
            settled(page, "explorer.found.mean")
            keep(page, "mean")
            opened(page, server, (390, 844), "dark")
            keep(page, "phone")
        for name, theme in (("ones", "dark"), ("bodies", "light")):
            with Explorer(EXAMPLES[name]()) as server:
                opened(page, server, theme=theme)
                x, y = page.place("#end-0 .disc")
                page.mouse("mouseMoved", (x + 120, y - 60))
                settled(page, "explorer.found.look")
                keep(page, name)
    finally:
        page.close()


if __name__ == "__main__":
    main()
