"""What a newcomer waits for: imports and compilation."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from report.scale import Scale
from report.writing import number, table

TITLE = "First use"
GOALS = {("first geodesic", "empty"): 10.0, ("first geodesic", "warm"): 3.0}
IMPORT_GOAL = 2.0


def run(scale: Scale) -> dict[str, Any]:
    from first_use import measure

    return {"rows": measure()}


def text(result: dict[str, Any]) -> str:
    rows = result["rows"]
    cells = [[r["task"], r["cache"], f"{r['import']:.1f}", f"{r['seconds']:.1f}",
              number(r.get("cpu"), ".1f")] for r in rows]  # fmt: skip
    return "\n\n".join([
        "Every line is a process of its own, on the clock, with all cores; where CPU seconds are "
        "far fewer, the machine was busy with something else. The cache is JAX's "
        "persistent one: empty, or as the process before left it. The geodesic is one between two "
        "points of two moons, metric of a mixture of three Gaussians, with its length. "
        "`python benchmarks/first_use.py` measures this alone.",
        table(["task", "cache", "import, s", "then, s", "then, CPU s"], cells, words=2),
        "\n".join(f"- {line}" for line in headlines(result)),
    ])  # fmt: skip


def headlines(result: dict[str, Any]) -> list[str]:
    rows = result["rows"]
    lines = [goal("Importing", min(row["import"] for row in rows), IMPORT_GOAL)]
    for row in rows:
        if (row["task"], row["cache"]) in GOALS:
            what = f"The {row['task']} with {article(row['cache'])} cache"
            lines.append(goal(what, row["seconds"], GOALS[row["task"], row["cache"]]))
    return lines


def article(word: str) -> str:
    return f"an {word}" if word[0] in "aeiou" else f"a {word}"


def goal(what: str, seconds: float, limit: float) -> str:
    word = "within" if seconds < limit else "beyond"
    return f"{what} takes {seconds:.1f} s, {word} the goal of {limit:g} s."


def draw(result: dict[str, Any], folder: Path) -> None:
    """A table says it all."""
