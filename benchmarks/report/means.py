"""Means and principal geodesics: against the same descent with SciPy, and how long they take."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from report.scale import Scale
from report.writing import number, table, two_digits

TITLE = "Means and principal geodesics"
ITERATIONS = 5
POINTS = 100  # where precision is varied,
DIMENSIONS = (2, 5, 10)  # and for which digits
TOL = 1e-2  # of SciPy
GOAL = 10.0  # times faster than SciPy
PRECISIONS = {"as precise as needed": None, "always at 1e-3": 1e-3, "always at 1e-6": 1e-6}
LIMITS = {"bodies": 10.0, "spiral": 2.0}  # seconds, once compiled


def run(scale: Scale) -> dict[str, Any]:
    return {"descents": [descent(*sizes) for sizes in scale.means], "sloppy": sloppy(), "large": large()}


def sample(D: int, count: int) -> tuple[np.ndarray, Any]:
    """Some of the digits, and the metric of all of them."""
    from learned import digits

    X, metric = digits("all", D)
    return X[np.random.default_rng(0).choice(len(X), count, replace=False)], metric


def descent(D: int, points: int, compared: int) -> dict[str, Any]:
    """So many iterations of Eq. 5 by us and, for some of the points, one by SciPy."""
    from measures import cpu_seconds

    from probgeo import FrechetMean
    from probgeo.paper.classical import NumpyMetric, logs

    X, metric = sample(D, points)
    start = X[np.argmin(np.sum((X - X.mean(axis=0)) ** 2, axis=1))]
    estimator = FrechetMean(metric, step="fixed", max_iter=ITERATIONS, init=start)
    estimator.fit(X[:5])  # compiles
    _, seconds = cpu_seconds(lambda: estimator.fit(X))
    some = X[np.any(start != X, axis=1)][:compared]
    (_, lost), theirs = cpu_seconds(lambda: logs(NumpyMetric(metric), start, some, TOL))
    out = {
        "D": D,
        "points": points,
        "time": seconds,
        "compared": len(some),
        "scipy": theirs * points / len(some) * ITERATIONS,
        "lost": lost,
    }
    print("   ", *out.values(), flush=True)
    return out


def sloppy() -> list[dict[str, Any]]:
    from measures import timed

    from probgeo import FrechetMean, Manifold, solvers

    rows = []
    for D, (name, rtol) in product(DIMENSIONS, PRECISIONS.items()):
        X, metric = sample(D, POINTS)
        solver = None if rtol is None else solvers.Markov(rtol=rtol)
        estimator = FrechetMean(Manifold(metric, solver))
        _, seconds = timed(lambda e=estimator, x=X: e.fit(x))
        last = estimator.history_[-1]
        rows.append({"D": D, "case": name, "time": seconds, "iterations": int(estimator.n_iter_),
                     "numerical": float(last.numerical),
                     "statistical": float(last.statistical)})  # fmt: skip
        print("   ", *rows[-1].values(), flush=True)
    return rows


def large() -> list[dict[str, Any]]:
    """Mean and two principal geodesics of many points."""
    from measures import cpu_seconds

    from probgeo import PrincipalGeodesics, data, metrics

    people = data.bodies()
    X = data.spiral(1000)
    cases = {
        "bodies": (metrics.from_lmnn(people.scores, people.belly, 7), people.scores),
        "spiral": (metrics.from_mixture(X, 8), X),
    }
    rows = []
    for name, (metric, points) in cases.items():
        estimator = PrincipalGeodesics(metric, 2)
        estimator.fit(points[:50])
        _, seconds = cpu_seconds(lambda e=estimator, p=points: e.fit(p))
        rows.append({"data": name, "points": len(points), "D": points.shape[1], "time": seconds,
                     "converged": bool(estimator.converged_)})  # fmt: skip
        print("   ", *rows[-1].values(), flush=True)
    return rows


def text(result: dict[str, Any]) -> str:
    descents = [[r["D"], r["points"], number(r["time"], ".2g"), number(r["scipy"], ".3g"),
                 r["compared"], r["lost"], number(r["scipy"] / r["time"], ".0f")]
                for r in result["descents"]]  # fmt: skip
    sloppiness = [[r["D"], r["case"], number(r["time"], ".2g"), r["iterations"],
                   number(r["numerical"], ".1e"), number(r["statistical"], ".1e")]
                  for r in result["sloppy"]]  # fmt: skip
    many = [[r["data"], r["points"], r["D"], number(r["time"], ".2g"),
             "yes" if r["converged"] else "no"] for r in result["large"]]  # fmt: skip
    return "\n\n".join([
        f"CPU seconds of one thread. Means of random digits, metrics as above, {ITERATIONS} "
        "iterations of Eq. 5 with alpha = 1. SciPy's is the same descent with `solve_bvp` at "
        f"{TOL:g}: the first iteration for some of the points, times {ITERATIONS}.",
        table(["D", "points", "ours", "SciPy", "its points", "it lost", "SciPy's time over ours"],
              descents),
        "What it saves that the geodesics of a mean are only as precise as it needs them:",
        table(["D", "geodesics", "CPU s", "iterations", "numerical std", "standard error"], sloppiness),
        "Mean and two principal geodesics of many points, once compiled: bodies with seven "
        "diagonal metrics by LMNN (the paper: about ten minutes), a spiral with a mixture of "
        "eight.",
        table(["data", "points", "D", "CPU s", "converged"], many),
        "\n".join(f"- {line}" for line in headlines(result)),
    ])  # fmt: skip


def headlines(result: dict[str, Any]) -> list[str]:
    faster = {r["D"]: r["scipy"] / r["time"] for r in result["descents"]}
    least = min(faster, key=faster.__getitem__)
    times = {(r["D"], r["case"]): r["time"] for r in result["sloppy"]}
    needed, *_, tight = PRECISIONS
    saved = [f"{two_digits(times[D, tight] / times[D, needed])} (D = {D})" for D in DIMENSIONS]
    lines = [
        f"Five iterations of a mean are {two_digits(faster[least])} (D = {least}) to "
        f"{two_digits(max(faster.values()))} times faster than with SciPy; the goal is {GOAL:g}.",
        f"Geodesics only as precise as needed: {', '.join(saved)} times faster than always at 1e-6; the goal is 3.",
    ]
    for r in result["large"]:
        limit = LIMITS[r["data"]]
        word = "within" if r["time"] < limit else "beyond"
        lines.append(f"{r['points']} points in {r['D']} dimensions ({r['data']}): "
                     f"{r['time']:.2g} s, {word} the goal of {limit:g} s.")  # fmt: skip
    return lines


def draw(result: dict[str, Any], folder: Path) -> None:
    """Tables say it all."""
