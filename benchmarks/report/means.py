"""Means and principal geodesics: against the same descent with SciPy, and how long they take."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from report.scale import Scale
from report.writing import number, table, two_digits

TITLE = "Means and principal geodesics"
POINTS, ITERATIONS = 100, 5
TOL = 1e-2  # of SciPy
GOAL = 10.0  # times faster than SciPy
PRECISIONS = {"as precise as needed": None, "always at 1e-3": 1e-3, "always at 1e-6": 1e-6}
LIMITS = {"bodies": 10.0, "spiral": 2.0}  # seconds, once compiled


def run(scale: Scale) -> dict[str, Any]:
    return {
        "descents": [descent(D, compared) for D, compared in scale.means],
        "sloppy": sloppy(),
        "large": large(),
    }


def sample(D: int) -> tuple[np.ndarray, Any]:
    """Some of the digits, and the metric of all of them."""
    from learned import digits

    X, metric = digits("all", D)
    return X[np.random.default_rng(0).choice(len(X), POINTS, replace=False)], metric


def descent(D: int, compared: int) -> dict[str, Any]:
    """So many iterations of Eq. 5 by us and, for some of the points, by SciPy."""
    from measures import cpu_seconds

    from probgeo import FrechetMean
    from probgeo.paper.classical import NumpyMetric, by_solve_ivp, logs

    X, metric = sample(D)
    start = X[np.argmin(np.sum((X - X.mean(axis=0)) ** 2, axis=1))]
    fixed = FrechetMean(metric, step="fixed", max_iter=ITERATIONS, init=start)
    usual = FrechetMean(metric, init=start)
    for estimator in (fixed, usual):
        estimator.fit(X[:20])  # compiles
    (_, seconds), (_, default) = (cpu_seconds(lambda e=e: e.fit(X)) for e in (fixed, usual))
    plain, mean, lost, theirs = NumpyMetric(metric), start, 0, 0.0
    iterations = ITERATIONS if compared == POINTS else 1
    for _ in range(iterations):
        (vectors, failed), spent = cpu_seconds(lambda m=mean: logs(plain, m, X[:compared], TOL))
        theirs, lost = theirs + spent, lost + failed
        mean = by_solve_ivp(plain, mean[None], vectors.mean(axis=0)[None], 1e-6)[0][0]
    out = {
        "D": D,
        "time": seconds,
        "default": default,
        "iterations": int(usual.n_iter_),
        "converged": bool(usual.converged_),
        "compared": compared,
        "scipy": theirs * POINTS / compared * ITERATIONS / iterations,
        "lost": lost / (compared * iterations),
    }
    print("   ", *out.values(), flush=True)
    return out


def sloppy() -> list[dict[str, Any]]:
    from measures import timed

    from probgeo import FrechetMean, Manifold, solvers

    X, metric = sample(2)
    rows = []
    for name, rtol in PRECISIONS.items():
        solver = None if rtol is None else solvers.Markov(rtol=rtol)
        estimator = FrechetMean(Manifold(metric, solver))
        _, seconds = timed(lambda e=estimator: e.fit(X))
        last = estimator.history_[-1]
        rows.append({"case": name, "time": seconds, "iterations": int(estimator.n_iter_),
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
    descents = [
        [r["D"], number(r["time"], ".2g"), number(r["default"], ".2g"), r["iterations"],
         number(r["scipy"], ".3g"), r["compared"], f"{100 * r['lost']:.0f} %",
         number(r["scipy"] / r["time"], ".0f")]
        for r in result["descents"]
    ]  # fmt: skip
    sloppiness = [[r["case"], number(r["time"], ".2g"), r["iterations"],
                   number(r["numerical"], ".1e"), number(r["statistical"], ".1e")]
                  for r in result["sloppy"]]  # fmt: skip
    many = [[r["data"], r["points"], r["D"], number(r["time"], ".2g"),
             "yes" if r["converged"] else "no"] for r in result["large"]]  # fmt: skip
    return "\n\n".join([
        f"CPU seconds of one thread. Mean of {POINTS} random digits, metrics as above, "
        f"{ITERATIONS} iterations of Eq. 5 with alpha = 1; our default has a stopping rule and "
        f"counts its own. SciPy: the same descent with `solve_bvp` at {TOL:g}; where it solves "
        "fewer points than there are, its time is extrapolated from one iteration.",
        table(["D", "ours", "default", "its iterations", "SciPy", "its points", "it lost",
               "SciPy's time over ours"], descents),
        "What it saves that the geodesics of a mean are only as precise as it needs them, D = 2:",
        table(["geodesics", "CPU s", "iterations", "numerical std", "standard error"], sloppiness),
        "Mean and two principal geodesics of many points, once compiled: bodies with seven "
        "diagonal metrics by LMNN (the paper: about ten minutes), a spiral with a mixture of "
        "eight.",
        table(["data", "points", "D", "CPU s", "converged"], many),
        "\n".join(f"- {line}" for line in headlines(result)),
    ])  # fmt: skip


def headlines(result: dict[str, Any]) -> list[str]:
    faster = {r["D"]: r["scipy"] / r["time"] for r in result["descents"]}
    least = min(faster, key=faster.__getitem__)
    first, *_, last = result["sloppy"]
    lines = [
        f"Five iterations of a mean are {two_digits(faster[least])} (D = {least}) to "
        f"{two_digits(max(faster.values()))} times faster than with SciPy; the goal is {GOAL:g}.",
        f"Geodesics only as precise as needed: {two_digits(last['time'] / first['time'])} times "
        "faster than always at 1e-6.",
    ]
    for r in result["large"]:
        limit = LIMITS[r["data"]]
        word = "within" if r["time"] < limit else "beyond"
        lines.append(f"{r['points']} points in {r['D']} dimensions ({r['data']}): "
                     f"{r['time']:.2g} s, {word} the goal of {limit:g} s.")  # fmt: skip
    return lines


def draw(result: dict[str, Any], folder: Path) -> None:
    """Tables say it all."""
