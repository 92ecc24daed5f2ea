"""The page, from what the sections have stored. It measures nothing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from measures import REPEATS, WRONG

from report import (
    alone,
    bvps,
    calibrations,
    charts,
    dimensions,
    first,
    geodesics,
    ivps,
    maps,
    means,
    resources,
    scaling,
)
from report.writing import listed

ROOT = Path(__file__).parents[2]
STORE = ROOT / "benchmarks" / "results" / "page"
PAGE = ROOT / "docs" / "benchmarks.md"
IMAGES = ROOT / "docs" / "images" / "benchmarks"
SECTIONS = {
    "bvps": bvps,
    "ivps": ivps,
    "geodesics": geodesics,
    "dimensions": dimensions,
    "charts": charts,
    "maps": maps,
    "alone": alone,
    "means": means,
    "calibration": calibrations,
    "scaling": scaling,
    "first": first,
    "resources": resources,
}


def stored(folder: Path = STORE) -> dict[str, dict[str, Any]]:
    """What is known of each section, in their order."""
    files = {name: folder / f"{name}.json" for name in SECTIONS}
    return {name: json.loads(f.read_text()) for name, f in files.items() if f.exists()}


def page(found: dict[str, dict[str, Any]]) -> str:
    parts = [INTRODUCTION, machines(found), in_short(found)]
    for name, section in SECTIONS.items():
        if name in found:
            note = "" if found[name]["scale"] == "page" else trial_note(found[name]["scale"])
            parts.append(f"## {section.TITLE}\n\n{note}{section.text(found[name]['result'])}")
    return "\n\n".join(parts) + "\n"


def in_short(found: dict[str, dict[str, Any]]) -> str:
    lines = ["## In short"]
    for name, entry in found.items():
        section = SECTIONS[name]
        said = "\n".join(f"- {line}" for line in section.headlines(entry["result"]))
        target = getattr(section, "TARGET", None)
        at = f", at a largest error of {target:g}" if target else ""
        lines.append(f"{section.TITLE}{at}:\n\n{said}")
    return "\n\n".join(lines)


def trial_note(scale: str) -> str:
    return f"*This section is from the `{scale}` scale, not that of the published page.*\n\n"


def machines(found: dict[str, dict[str, Any]]) -> str:
    """On what it was run: once, if all sections agree."""
    titles: dict[str, list[str]] = {}
    for name, entry in found.items():
        titles.setdefault(entry["machine"], []).append(SECTIONS[name].TITLE)
    if len(titles) == 1:
        return f"Machine: {next(iter(titles))}."
    return "\n".join(f"- {listed(names)}: {machine}." for machine, names in titles.items())


INTRODUCTION = f"""\
# Benchmarks

Written by `make bench`, verdicts included: every sentence with a number comes from the measurements
in `benchmarks/results/page`.

**Time** is processor seconds of one thread, the best of two to {REPEATS} calls, compilation apart
(it has a section of its own). What does not compile may be called once. Each section runs on a core
of its own, two at a time. Absolute times depend on the machine; read the ratios, which are always
within one run.

**A failure** is what a solver itself reports as one. **A false success** is declared solved, but
its measured error is above {WRONG:g} of the size of the solution. **Bad** is both together.
Solvers are compared at equal measured error against closed-form or much tighter solutions, not at
equal tolerance; a setting at which any member is bad does not count there. A dash means that a
solver did not reach the error with any setting.

`python benchmarks/run.py --only bvps` measures one section anew, `--scale long` more of
everything."""


def draw(found: dict[str, dict[str, Any]], folder: Path = IMAGES) -> None:
    for name, entry in found.items():
        SECTIONS[name].draw(entry["result"], folder)


def write() -> None:
    found = stored()
    draw(found)
    PAGE.write_text(page(found))
