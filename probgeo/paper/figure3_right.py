"""Fig. 3, right: run time of a mean, by the number of dimensions.

Mean of 100 images of the digit 1 in their first D principal components, five iterations of Eq. 5.
CPU seconds, the second time that the mean is computed. Open symbols are extrapolated: of SciPy,
from those of its geodesics that were solved in time. Numbers beside the symbols are per cent of
geodesics that failed, or that our solver flagged.
"""

import time
from typing import Any

import matplotlib.pyplot as plt
import numpy as np

from probgeo import FrechetMean, Manifold, data, metrics, plot
from probgeo.paper.classical import NumpyMetric, by_solve_bvp, by_solve_ivp
from probgeo.paper.experiment import SCIPY, Claim, Outcome, Progress, Settings, Verdict
from probgeo.paper.ones import (
    COMPONENTS,
    ITERATIONS,
    SETTINGS,
    SMOOTH,
    paper_solver,
    principal_components,
)

DIMENSIONS, QUICK_DIMENSIONS = (2, 5, 10, 20, 50), (2, 5, 10)
TOLERANCE = 1e-3
IMAGES = 100
LARGEST_DENSE = 2  # dimensions in which the paper's solver, of cost (20 D)^3, is run
PATIENCE, QUICK_PATIENCE = 40.0, 4.0  # seconds of SciPy in each dimension, and its last geodesic


def run(settings: Settings, progress: Progress) -> Outcome:
    vectors = data.mnist_ones().vectors
    rows: list[dict[str, Any]] = []
    dimensions = settings.choose(DIMENSIONS, QUICK_DIMENSIONS, (2,))
    count = settings.choose(IMAGES, IMAGES, 8)
    patience = settings.choose(PATIENCE, QUICK_PATIENCE)
    for D in progress.over(dimensions, "dimension"):
        everything = principal_components(vectors, D)
        metric = metrics.from_mixture(everything, COMPONENTS, **SMOOTH, seed=settings.seed)
        X = everything[settings.rng.choice(len(everything), count, replace=False)]
        rows.append(_one_dimension(metric, X, patience))

    figure, ax = plt.subplots(figsize=(3.4, 2.8))
    series = (
        ("default", "default solver", "o-", plot.COLOURS["mean"]),
        ("paper's", "paper's solver", "s-", plot.COLOURS["samples"]),
        ("scipy", "SciPy", "^--", SCIPY),
    )
    for name, label, style, colour in series:
        shown = [(row["D"], row[name]) for row in rows if name in row]
        ax.plot(
            [D for D, _ in shown],
            [found["seconds"] for _, found in shown],
            style,
            color=colour,
            label=label,
            markersize=4,
        )
        for D, found in shown:
            if found.get("extrapolated"):
                ax.plot(D, found["seconds"], style[0], color="white", mec=colour, markersize=4)
            if found["lost"]:
                ax.annotate(
                    f"{100 * found['lost']:.0f} %",
                    (D, found["seconds"]),
                    textcoords="offset points",
                    xytext=(4, -8),
                    fontsize=6,
                    color=colour,
                )
    ticks = [row["D"] for row in rows]
    ax.set(xscale="log", yscale="log", xlabel="dimensions $D$", ylabel="CPU seconds")
    ax.set_xticks(ticks, [str(D) for D in ticks], minor=False)
    ax.set_xticks([], minor=True)
    ax.legend(frameon=False)
    ratios = {row["D"]: row["scipy"]["seconds"] / row["default"]["seconds"] for row in rows}
    return Outcome(
        figures={"fig3_right": figure},
        numbers={"rows": rows, "scipy_over_default": ratios},
        settings={
            "data": f"{count} of the first 1000 ones of MNIST, D principal components",
            "metric": SETTINGS["metric"],
            "descent": f"{ITERATIONS} iterations of Eq. 5, alpha = 1, from the point next to the "
            "average",
            "SciPy": f"solve_bvp, tolerance {TOLERANCE:.0e}, vectorised, from straight lines with "
            "20 nodes",
        },
        claims=[_claim(ratios)],
    )


def _one_dimension(metric: Any, X: np.ndarray, patience: float) -> dict[str, Any]:
    D = X.shape[1]
    start = X[np.argmin(np.sum((X - X.mean(axis=0)) ** 2, axis=1))]
    manifolds = {"default": Manifold(metric)}
    if D <= LARGEST_DENSE:
        manifolds["paper's"] = Manifold(metric, paper_solver(X))
    row: dict[str, Any] = {"D": D, "points": len(X)}
    for name, manifold in manifolds.items():
        mean = FrechetMean(manifold, step="fixed", max_iter=ITERATIONS, init=start)
        first = _cpu(lambda m=mean: m.fit(X))
        seconds = _cpu(lambda m=mean: m.fit(X))
        row[name] = {
            "seconds": seconds * IMAGES / len(X),
            "extrapolated": len(X) < IMAGES,
            "first": first,
            "lost": mean.n_lost_ / len(X),
            "mean": mean.mean_.mean,
        }
    row["scipy"] = _by_scipy(NumpyMetric(metric), X, start, patience)
    return row


def _by_scipy(
    metric: NumpyMetric, X: np.ndarray, start: np.ndarray, patience: float
) -> dict[str, Any]:
    """The same descent, for `IMAGES` points; after some seconds the rest is extrapolated."""
    mean, done, lost, seconds = start, 0, 0, 0.0
    for _ in range(ITERATIONS):
        vectors = []
        for x in X:
            before = time.process_time()
            found = by_solve_bvp(metric, mean, x, TOLERANCE)
            seconds += time.process_time() - before
            vectors.append(np.nan_to_num(found.sol(0.0)[len(mean) :]))
            done, lost = done + 1, lost + (found.status != 0)
            if seconds > patience:
                whole = seconds * ITERATIONS * IMAGES / done
                return {"seconds": whole, "lost": lost / done, "extrapolated": True}
        step = np.mean(vectors, axis=0)
        mean = by_solve_ivp(metric, mean[None], step[None], 1e-6)[0][0]
    return {
        "seconds": seconds * IMAGES / len(X),
        "lost": lost / done,
        "extrapolated": len(X) < IMAGES,
        "mean": mean,
    }


def _cpu(function: Any) -> float:
    start = time.process_time()
    function()
    return time.process_time() - start


def _claim(ratios: dict[int, float]) -> Claim:
    listed = ", ".join(f"{ratio:.1f} (D = {D})" for D, ratio in ratios.items())
    values = list(ratios.values())
    faster, more_so = min(values) > 2, values[-1] == max(values)
    verdict: Verdict = (
        "agrees" if faster and more_so else "partly" if max(values) > 1 else "disagrees"
    )
    return Claim(
        "A mean is substantially faster to compute, the more so the more dimensions there are.",
        f"SciPy / default solver: {listed}",
        verdict,
        "SciPy's solver is not the Matlab code of the paper.",
    )
