"""Memory of very many curves at once, and what a second thread brings."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from report.scale import Scale
from report.writing import listed, number, table

TITLE = "Memory and threads"
PROGRAM = """
import resource, sys, warnings
from time import perf_counter as clock
sys.path[:0] = {paths!r}
warnings.simplefilter("ignore")
from learned import digits, random_pairs
from probgeo import Manifold
X, metric = digits("all", 2)
manifold = Manifold(metric)
a, b = random_pairs(X, {count})
def work(a, b):
    return {work}
work(a[:20], b[:20])
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
start = clock()
work(a, b)
spent = clock() - start
print("found", spent, (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024)
"""
TASKS = {
    "exponential maps": (100_000, "manifold.exp(a, 0.5 * (b - a), progress=False)"),
    "geodesics": (5_000, "manifold.geodesic(a, b, progress=False).length.std"),
}
MEMORY = 1000.0  # megabytes beyond which memory is not bounded


def run(scale: Scale) -> dict[str, Any]:
    rows = []
    for task, (count, work) in TASKS.items():
        for threads in (1, 2):
            seconds, megabytes = found(count, work, threads)
            case = {"task": task, "count": count, "threads": threads}
            rows.append(case | {"seconds": seconds, "megabytes": megabytes})
            print("   ", *rows[-1].values(), flush=True)
    return {"rows": rows, "cores": os.cpu_count()}


def found(count: int, work: str, threads: int) -> list[float]:
    """Seconds and megabytes of a task in a process of its own."""
    paths = [str(Path(__file__).parents[1]), str(Path(__file__).parents[2])]
    program = PROGRAM.format(paths=paths, count=count, work=work)
    environment = os.environ | {"PROBGEO_THREADS": str(threads), "OMP_NUM_THREADS": "1"}
    out = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True)
    return list(map(float, out.stdout.strip().splitlines()[-1].split()[1:]))


def text(result: dict[str, Any]) -> str:
    cells = [[f"{r['count']:,} {r['task']}", r["threads"], number(r["seconds"], ".1f"),
              number(r["megabytes"], ".0f")] for r in result["rows"]]  # fmt: skip
    return "\n\n".join([
        "The metric of all digits in the plane, default settings, one call. Seconds on the clock, "
        "compiled before; megabytes are what the process holds at its peak beyond what it held "
        "before the call, results included.",
        table(["", "threads", "seconds", "megabytes"], cells),
        "\n".join(f"- {line}" for line in headlines(result)),
    ])  # fmt: skip


def headlines(result: dict[str, Any]) -> list[str]:
    lines = []
    for task in TASKS:
        one, two = (r for r in result["rows"] if r["task"] == task)
        gain = one["seconds"] / two["seconds"]
        lines.append(f"{one['count']:,} {task}: two threads are {gain:.1f} times as fast as one.")
    large = [r["task"] for r in result["rows"] if r["megabytes"] > MEMORY]
    lines.append(f"More than {MEMORY:g} MB: {listed(list(dict.fromkeys(large)))}." if large
                 else f"No call takes more than {MEMORY:g} MB.")  # fmt: skip
    return lines


def draw(result: dict[str, Any], folder: Path) -> None:
    """A table says it all."""
