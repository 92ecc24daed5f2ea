"""Exponential maps of learned metrics, a thousand at once, against Diffrax and SciPy."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

from report import sweeps
from report.scale import Scale
from report.writing import OURS, broken

TITLE = "Exponential maps"
PICTURE = "maps.png"
TARGET = 1e-6
COUNT = 1000
TOLS = (1e-3, 1e-4, 1e-5, 1e-6, 1e-7)


def run(scale: Scale) -> dict[str, Any]:
    return {"rows": [row for D in scale.maps for row in one_dimension(D)]}


def one_dimension(D: int) -> list[dict]:
    import numpy as np
    from learned import digits, random_pairs
    from peers import Batch, Ends, by_diffrax

    from probgeo import Manifold, solvers
    from probgeo.paper.classical import NumpyMetric, by_solve_ivp

    X, metric = digits("all", D)
    plain = NumpyMetric(metric)
    a, b = random_pairs(X, COUNT)
    v = 0.5 * (b - a)
    exact, _ = by_solve_ivp(plain, a, v, 1e-12)
    good = np.ones(COUNT, bool)

    def ours(rtol):
        curve = Manifold(metric, solvers.Markov(rtol=rtol)).shoot(a, v, progress=False)
        return Ends(curve(1.0).mean, curve.converged)

    def scipy(tol):
        return Ends(by_solve_ivp(plain, a, v, tol)[0], good)

    def judge(ends):
        return np.linalg.norm(ends.y - exact, axis=1) / np.linalg.norm(v, axis=1), ends.converged

    batch = Batch(lambda t, y, dy: metric.acceleration(y, dy), (0.0, 1.0), a, v)
    sweep = partial(sweeps.swept, f"D = {D}", judge=judge, members=COUNT)
    rows = sweep(OURS, TOLS, lambda: ours)
    for method in ("Dopri5", "Dopri8"):
        rows += sweep(f"Diffrax {method}", TOLS, lambda m=method: by_diffrax(batch, m))
    return rows + sweep("SciPy DOP853", TOLS, lambda: scipy, compiles=False)


def text(result: dict[str, Any]) -> str:
    rows = result["rows"]
    return "\n\n".join(part for part in [
        f"{COUNT} exponential maps in one call, metrics of all digits as above: ours with the "
        "posterior of the whole curve; Diffrax's ends, mapped and compiled, with the same metric "
        "in JAX; SciPy's as one stacked system. Errors are relative to the length of the tangent "
        "vector.",
        f"![Work against precision on exponential maps](images/benchmarks/{PICTURE})",
        f"CPU milliseconds a map at a largest error of {TARGET:g}:",
        *sweeps.findings(rows, TARGET),
        broken(rows),
    ] if part)  # fmt: skip


def headlines(result: dict[str, Any]) -> list[str]:
    """In the plane."""
    rows = [r for r in result["rows"] if r["problem"] == "D = 2"]
    return sweeps.against(rows, TARGET, ("Diffrax Dopri5", "Diffrax Dopri8"))


def draw(result: dict[str, Any], folder: Path) -> None:
    sweeps.draw(result["rows"], folder / PICTURE, "a map", TARGET)
