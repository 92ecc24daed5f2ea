"""What a newcomer waits for: imports and compilation."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from report.scale import Scale
from report.writing import table

TITLE = "First use"
GEODESICS = """
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA
X = PCA({D}).fit_transform(load_digits().data)
manifold = probgeo.Manifold(probgeo.metrics.from_mixture(X, 10))
start, used = clock(), cpu()
manifold.geodesic(X[:40], X[-40:]).length.std
"""
EQUATION = """
import jax.numpy as jnp
start, used = clock(), cpu()
"""
TASKS = {
    "import probgeo": "",
    "40 geodesics, D = 2": GEODESICS.format(D=2),
    "40 geodesics, D = 10": GEODESICS.format(D=10),
    "a boundary value problem": EQUATION
    + "probgeo.solve_bvp(lambda t, y, dy: -jnp.sin(y), (0.0, 3.0), [0.4], [2.0])(0.5).std",
    "an initial value problem": EQUATION + "probgeo.solve_ivp(lambda t, y: jnp.sin(y), (0.0, 10.0), [0.1])(5.0).std",
}
PROGRAM = """
from time import perf_counter as clock, process_time as cpu
begun = clock()
import probgeo
imported = start = clock()
used = cpu()
{task}
print("seconds", imported - begun, clock() - start, cpu() - used)
"""
GOALS = {"import probgeo": (0.5, 0.5)}  # seconds with an empty and with a warm cache; else
GOAL = (10.0, 1.0)


def run(scale: Scale) -> dict[str, Any]:
    rows = []
    for task, program in TASKS.items():
        with tempfile.TemporaryDirectory() as cache:
            for state in ("empty", "warm"):
                importing, clock, cpu = seconds(program, cache)
                found = {"import": importing, "seconds": clock, "cpu": cpu}
                rows.append({"task": task, "cache": state} | found)
                print("   ", *rows[-1].values(), flush=True)
    return {"rows": rows}


def seconds(program: str, cache: str) -> list[float]:
    """For importing, for the task after that, and of the processor for it, in a new process."""
    unset = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "PROBGEO_THREADS", "XLA_FLAGS")
    environment = {k: v for k, v in os.environ.items() if k not in unset}
    command = [sys.executable, "-W", "ignore", "-c", PROGRAM.format(task=program)]
    out = subprocess.run(
        command, env=environment | {"NUMBA_CACHE_DIR": cache}, capture_output=True, text=True, check=True
    )
    return list(map(float, out.stdout.strip().splitlines()[-1].split()[1:]))


def waited(row: dict[str, Any]) -> float:
    return row["import"] if row["task"] == "import probgeo" else row["seconds"]


def text(result: dict[str, Any]) -> str:
    cells = [[r["task"], r["cache"], f"{r['import']:.2f}", f"{r['seconds']:.2f}", f"{r['cpu']:.2f}"]
             for r in result["rows"]]  # fmt: skip
    return "\n\n".join([
        "Every line is a process of its own, on the clock, with all cores; where CPU seconds are "
        "far fewer, the machine was busy with something else. The cache is Numba's: empty, or as "
        "the process before left it. Data and metric, and JAX where the function is written with "
        "it, are there before the clock starts.",
        table(["task", "cache", "import, s", "then, s", "then, CPU s"], cells, words=2),
        "\n".join(f"- {line}" for line in headlines(result)),
    ])  # fmt: skip


def headlines(result: dict[str, Any]) -> list[str]:
    lines = []
    for k, state in enumerate(("empty", "warm")):
        own = [r for r in result["rows"] if r["cache"] == state]
        lines += [goal(f"{r['task']}, {state} cache", waited(r), GOALS.get(r["task"], GOAL)[k])
                  for r in own]  # fmt: skip
    return lines


def goal(what: str, seconds: float, limit: float) -> str:
    word = "within" if seconds < limit else "beyond"
    return f"{what[0].upper()}{what[1:]}: {seconds:.2g} s, {word} the goal of {limit:g} s."


def draw(result: dict[str, Any], folder: Path) -> None:
    """A table says it all."""
