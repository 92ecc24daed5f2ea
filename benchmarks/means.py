"""Means and principal geodesics: speed against SciPy, what sloppiness saves, fifty dimensions.

    python benchmarks/means.py [--only mean,sloppy,bodies] [--dimensions 2,5,10]

Results go to benchmarks/results/means.md, one section a part; parts that were not run keep
what they had. Times of `mean` and `sloppy` are CPU seconds of one thread, compilation apart.
"""

# ruff: noqa: E402  (threads have to be limited before JAX starts them)
from __future__ import annotations

import argparse
import os
import sys
import time
import warnings
from functools import partial
from pathlib import Path

ROOT = Path(__file__).parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "benchmarks")]

parser = argparse.ArgumentParser()
parser.add_argument("--only", default="mean,sloppy,bodies")
parser.add_argument("--dimensions", default="2,5,10,30,50")
options = parser.parse_args()
os.environ.setdefault("PROBGEO_COMPILE", "thorough")  # compilation is apart
if "bodies" not in options.only:
    os.environ.setdefault("XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false")
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        os.environ.setdefault(name, "1")

import jax
import numpy as np
from geodesics import COMPONENTS, cpu, digits, table

from probgeo import (
    ConvergenceWarning,
    FrechetMean,
    Manifold,
    PrincipalGeodesics,
    data,
    metrics,
    solvers,
)
from probgeo.paper.classical import NumpyMetric, by_solve_bvp, by_solve_ivp

RESULTS = ROOT / "benchmarks" / "results" / "means.md"
POINTS, ITERATIONS = 100, 5
COMPARED = {2: 100, 5: 100, 10: 20, 30: 3, 50: 2}  # points that SciPy solves, by dimension


def by_scipy(metric, X, start, tol, count):
    """The same descent with SciPy: seconds, extrapolated from `count` points, and failures."""
    plain, mean, lost, seconds = NumpyMetric(metric), start, 0, 0.0
    iterations = ITERATIONS if count == len(X) else 1
    for _ in range(iterations):
        found, spent = cpu(lambda m=mean: [by_solve_bvp(plain, m, x, tol) for x in X[:count]])
        seconds += spent * len(X) / count
        lost += sum(f.status != 0 for f in found)
        v = np.mean([f.sol(0.0)[X.shape[1] :] for f in found], axis=0)
        mean = by_solve_ivp(plain, mean[None], v[None], 1e-6)[0][0]
    return seconds * ITERATIONS / iterations, lost / (count * iterations), mean


def mean_part(D):
    jax.clear_caches()
    X = digits(False, D)
    X = X[np.random.default_rng(0).choice(len(X), POINTS, replace=False)]
    metric = metrics.from_mixture(digits(False, D), COMPONENTS)
    start = X[np.argmin(np.sum((X - X.mean(axis=0)) ** 2, axis=1))]
    rows, times = [], {}
    cases = {
        "five iterations": FrechetMean(metric, step="fixed", max_iter=ITERATIONS, init=start),
        "default": FrechetMean(metric, init=start),
    }
    for name, estimator in cases.items():
        _, first = cpu(lambda e=estimator: e.fit(X))
        _, times[name] = cpu(lambda e=estimator: e.fit(X))
        lost = "" if estimator.converged_ else estimator.message_
        row = [f"ours, {name}", f"{times[name]:.2f}", "", estimator.n_iter_, lost]
        rows.append([*row, f"{first - times[name]:.0f}"])
        print(D, *rows[-1], flush=True)
    for tol in (1e-2, 1e-3):
        seconds, lost, _ = by_scipy(metric, X, start, tol, COMPARED[D])
        ratios = " / ".join(f"{seconds / t:.1f}" for t in times.values())
        row = [f"SciPy {tol:.0e}, {COMPARED[D]} points", f"{seconds:.2f}", ratios, ITERATIONS]
        rows.append([*row, f"{100 * lost:.0f} % of geodesics failed", ""])
        print(D, *rows[-1], flush=True)
    header = ["descent", "CPU s", "over ours, five iterations / default", "iterations"]
    return table([*header, "problems", "compiling, s"], rows)


def sloppy_part():
    rows = []
    X = digits(False, 2)
    X = X[np.random.default_rng(0).choice(len(X), POINTS, replace=False)]
    metric = metrics.from_mixture(digits(False, 2), COMPONENTS)
    tight = Manifold(metric, solvers.Markov(rtol=1e-6))
    cases = {
        "as precise as needed": FrechetMean(metric),
        "always at 1e-3": FrechetMean(Manifold(metric, solvers.Markov(rtol=1e-3))),
        "always at 1e-6": FrechetMean(tight),
    }
    for name, estimator in cases.items():
        estimator.fit(X)
        _, seconds = cpu(lambda e=estimator, X=X: e.fit(X))
        last = estimator.history_[-1]
        figures = [f"{seconds:.2f}", estimator.n_iter_, f"{last.numerical:.1e}"]
        rows.append([name, *figures, f"{last.statistical:.1e}", estimator.converged_])
        print(*rows[-1], flush=True)
    header = ["geodesics", "CPU s", "iterations", "numerical std", "statistical", "converged"]
    return f"Mean of {POINTS} random digits, D = 2, by Newton's method.\n\n" + table(header, rows)


def bodies_part():
    people = data.bodies()
    X = people.scores
    metric = metrics.from_lmnn(X, people.belly, 7)
    rows = []
    for name in ("first call, with compilation", "second call"):
        start = time.perf_counter()
        found = PrincipalGeodesics(metric, 2).fit(X)
        seconds = time.perf_counter() - start
        rows.append([name, f"{seconds:.0f}", found.n_iter_, found.converged_, found.message_])
        print(*rows[-1], flush=True)
    header = ["", "seconds, two cores", "iterations", "converged", "message"]
    return (
        f"Mean and two principal geodesics of {len(X)} points in {X.shape[1]} dimensions, seven "
        "diagonal metrics by LMNN. The paper: about ten minutes.\n\n" + table(header, rows)
    )


NOTE = (
    f"{POINTS} random digits, mixture of {COMPONENTS} Gaussians, {ITERATIONS} iterations of Eq. 5 "
    "with alpha = 1, or our default with its stopping rule, which counts its own. SciPy's "
    "`solve_bvp` as in the benchmark of geodesics; where it solves fewer points than there are, "
    "its time is extrapolated from one iteration."
)
DIMENSIONS = (2, 5, 10, 30, 50)
PARTS = {f"Mean of 100 points, D = {D}": partial(mean_part, D) for D in DIMENSIONS} | {
    "What sloppiness saves": sloppy_part,
    "Fifty dimensions": bodies_part,
}


def is_wanted(title):
    if title.startswith("Mean"):
        return "mean" in options.only and title.split()[-1] in options.dimensions.split(",")
    return ("sloppy" if "sloppiness" in title else "bodies") in options.only


def main():
    warnings.simplefilter("ignore", ConvergenceWarning)
    found = {}
    if RESULTS.exists():
        parts = RESULTS.read_text().split("\n## ")[1:]
        found = {p.split("\n", 1)[0]: p.split("\n", 1)[1].strip() for p in parts}
    for title in filter(is_wanted, PARTS):
        print(title, flush=True)
        found[title] = PARTS[title]()
        text = f"# Statistics\n\nWritten by `benchmarks/means.py`. {NOTE}\n"
        for name in PARTS:
            text += f"\n## {name}\n\n{found[name]}\n" if name in found else ""
        RESULTS.write_text(text)


if __name__ == "__main__":
    main()
