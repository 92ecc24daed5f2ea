"""One problem at a time: what a single call costs, against SciPy."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from report.scale import Scale
from report.writing import milliseconds, number, table, two_digits

TITLE = "One at a time"
TARGET = 1e-5  # error of boundary value problems
BVPS = ("bratu", "hyperbolic", "pendulum", "cash04")
SETS = ("ones", "two moons", "spiral")
PAIRS = 20
TOL = 1e-2  # of SciPy's geodesics


def run(scale: Scale) -> dict[str, Any]:
    rows = [boundary(name) for name in BVPS] + [geodesics(name) for name in SETS]
    for row in rows:
        print("   ", *row.values(), flush=True)
    return {"rows": rows}


def boundary(name: str) -> dict[str, Any]:
    """One boundary value problem, both at the error that is asked for."""
    import spectral  # noqa: F401  (as in all sections: JAX in double precision)
    from baselines import bvp_families, perturbed, solve_copies, solve_with_scipy
    from measures import judged, largest_errors, time_needed, timed

    from probgeo import solvers

    (problem,) = perturbed(bvp_families(0.1)[name], 1)
    t = np.linspace(*problem.t_span, 501)
    exact = problem.solution(t)[None]

    def ours(rtol):
        curve = solve_copies([problem], solvers.Markov(rtol=rtol))
        return lambda: (curve.mean(t), curve.converged)

    def scipy(tol):
        found = solve_with_scipy(problem, tol, 10)
        return lambda: (found.sol(t)[: len(problem.ya)].T[None], [found.success])

    needed = []
    for solve in (ours, scipy):
        rows = []
        for k in range(2, 8):
            answer, seconds = timed(lambda s=solve, tol=10.0**-k: s(tol))
            points, solved = answer()
            rows.append({"time": seconds} | judged(largest_errors(points, exact), solved))
        needed.append(time_needed(rows, TARGET))
    return {"kind": "boundary value problem", "name": name, "time": needed[0], "scipy": needed[1]}


def geodesics(name: str) -> dict[str, Any]:
    """Geodesics one after the other, failures included."""
    from learned import learned, random_pairs
    from measures import cpu_seconds, timed

    from probgeo import Manifold
    from probgeo.paper.classical import NumpyMetric, by_solve_bvp

    X, metric = learned(name)
    manifold, plain = Manifold(metric), NumpyMetric(metric)
    pairs = list(zip(*random_pairs(X, PAIRS), strict=True))
    _, seconds = timed(lambda: [manifold.geodesic(x, y).length.std for x, y in pairs])
    _, theirs = cpu_seconds(lambda: [by_solve_bvp(plain, x, y, TOL) for x, y in pairs])
    return {"kind": "geodesic", "name": name, "time": seconds / PAIRS, "scipy": theirs / PAIRS}


def text(result: dict[str, Any]) -> str:
    cells = [
        [r["kind"], r["name"], milliseconds(r["time"]), milliseconds(r["scipy"]),
         number(r["scipy"] / r["time"], ".1f")]
        for r in result["rows"]
    ]  # fmt: skip
    return "\n\n".join([
        "CPU milliseconds of a call with a single problem, posterior included. Boundary value "
        f"problems at an error of {TARGET:g}, JAX functions for us, NumPy functions with Jacobians "
        f"for SciPy, from 10 nodes. Geodesics: {PAIRS} pairs, one call after the other, at default "
        f"settings; SciPy from 20 nodes at a tolerance of {TOL:g}, failures included.",
        table(["", "", "probgeo, ms", "SciPy, ms", "SciPy's time over ours"], cells, words=2),
        "\n".join(f"- {line}" for line in headlines(result)),
    ])  # fmt: skip


def headlines(result: dict[str, Any]) -> list[str]:
    lines = []
    for kind in dict.fromkeys(r["kind"] for r in result["rows"]):
        faster = [r["scipy"] / r["time"] for r in result["rows"] if r["kind"] == kind]
        lines.append(
            f"One {kind} alone: {two_digits(float(np.exp(np.mean(np.log(faster)))))} times as fast "
            f"as SciPy in the geometric mean, {two_digits(min(faster))} times at least."
        )
    return lines


def draw(result: dict[str, Any], folder: Path) -> None:
    """A table says it all."""
