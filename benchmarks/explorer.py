"""How many answers a second the explorer's page shows while an end is dragged.

    python benchmarks/explorer.py

An end of the geodesic is dragged for some seconds in a headless Chromium, by mouse events of the
DevTools protocol, at most sixty a second, and the page counts the answers that it has drawn. Beside
it, how long the server takes for one coarse answer, and for a fine one, asked one after the other.
"""

import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

import numpy as np

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from probgeo.explorer.examples import EXAMPLES  # noqa: E402
from tests.explorer.browser import Browser  # noqa: E402
from tests.explorer.client import Client  # noqa: E402
from tests.paper.test_browser import NAMES  # noqa: E402

PAGE = Path(__file__).parent / "results" / "explorer.md"
SECONDS = 6.0
FINE = "window.explorer && explorer.found.geodesic?.fine"


class Served(NamedTuple):
    address: str
    port: int


@contextmanager
def served(name):
    """The explorer in a process of its own, as users start it."""
    code = "import sys; from probgeo.cli import main; sys.exit(main(sys.argv[1:]))"
    command = [sys.executable, "-c", code, "explore", "--example", name, "--no-browser"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        address = process.stdout.readline().split()[-1]
        try:
            yield Served(address, urlsplit(address).port)
        finally:
            process.terminate()


def dragged(server):
    """Answers a second that the page drew, and the pictures it had to draw."""
    page = Browser(next(filter(None, map(shutil.which, NAMES))), tempfile.mkdtemp())
    try:
        page.open(server.address)
        page.until(FINE)
        x, y = page.place("#end-1 .disc")
        page.press((x, y))
        rates = []
        for _ in range(3):
            before = page.run("[explorer.counted.answers, performance.now()]")
            began = time.perf_counter()
            while (now := time.perf_counter() - began) < SECONDS / 3:
                at = {"x": x - 150 * (1 - np.cos(3 * now)), "y": y - 90 * np.sin(3 * now)}
                # as a mouse does it: without waiting for what comes of it
                page.send("Input.dispatchMouseEvent", type="mouseMoved", buttons=1, **at)
                time.sleep(max(0.0, began + now + 1 / 60 - time.perf_counter()))
            after = page.run("[explorer.counted.answers, performance.now()]")
            rates.append(1000 * (after[0] - before[0]) / (after[1] - before[1]))
        page.release()
        assert not page.complaints, page.complaints
        return rates
    finally:
        page.close()


def asked(server, fine, count=60):
    """Milliseconds for an answer, the median."""
    with Client(server) as client:
        welcome = client.welcome
        setting = {name: welcome[name] for name in ("components", "rho", "tolerance", "view")}
        ends = client.ask("points", setting=setting, colour=welcome["colours"][0])["ends"]
        certain, taken = [[0.0, 0.0, 0.0]] * 2, []
        for k in range(count):
            moved = [ends[0], [ends[1][0] - 0.02 * k, ends[1][1] + 0.2 * np.sin(k / 5)]]
            began = time.perf_counter()
            client.ask("geodesic", setting=setting, ends=moved, spreads=certain, fine=fine)
            taken.append(1000 * (time.perf_counter() - began))
    return statistics.median(taken)


def main():
    rows = []
    for name, make in EXAMPLES.items():
        with served(name) as server:
            coarse, fine = asked(server, False), asked(server, True, 20)
            rates = dragged(server)
        rows.append((name, make().X.shape, rates, coarse, fine))
        print(json.dumps(rows[-1]))
    load, nice = os.getloadavg()[0], os.nice(0)
    lines = [
        "# The explorer while an end is dragged",
        "",
        "Made by `python benchmarks/explorer.py`, "
        f"on {os.cpu_count()} cores (no GPU), which also run the browser and the program that moves"
        f" the mouse; load average {load:.1f} at the end, niceness {nice}: above 2 other programs"
        " have had their share. Answers that the page has drawn, in three times"
        f" {SECONDS / 3:.0f} s; the median time of the server for an answer, asked one after the"
        " other.",
        "",
        "| data | points | dimensions | answers a second in the browser | coarse, ms | fine, ms |",
        "|---|---|---|---|---|---|",
    ]
    for name, shape, rates, coarse, fine in rows:
        shown = " / ".join(f"{rate:.0f}" for rate in rates)
        lines.append(f"| {name} | {shape[0]} | {shape[1]} | {shown} | {coarse:.1f} | {fine:.0f} |")
    PAGE.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
