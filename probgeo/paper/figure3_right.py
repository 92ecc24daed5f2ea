"""Fig. 3, right: run time of a mean, by the number of dimensions.

Mean of 100 images of the digit 1 in their first D principal components, five iterations of Eq. 5. CPU seconds,
everything compiled before. The default solver has all of the images in all dimensions, the paper's only in few, since
it costs (20 D)^3 a geodesic. SciPy has all where that takes little; open symbols are extrapolated from a sample, half
of it from the point where the descent begins, half from the one where it ends. Numbers beside the symbols are per cent
of geodesics that failed, or that our solver flagged. The claim holds if a mean is at least twice as fast everywhere,
and the ratio is largest where there are most dimensions.
"""

import time
from typing import Any

import matplotlib.pyplot as plt
import numpy as np

from probgeo import FrechetMean, Manifold, data, metrics, plot
from probgeo.paper.classical import SCIPY_SETTINGS, NumpyMetric, by_solve_bvp, mean_by_descent
from probgeo.paper.experiment import ITERATIONS, SCIPY, Claim, Outcome, Settings, cpu_seconds, paper_solver
from probgeo.paper.ones import LEARNED, SETTINGS, principal_components

IMAGES = 100  # run times are given for this number


def run(settings: Settings) -> Outcome:
    vectors = data.mnist_ones().vectors
    rows: list[dict[str, Any]] = []
    dimensions = settings.choose((2, 5, 10, 20, 50), (2, 5, 10), (2,))
    count = settings.choose(IMAGES, IMAGES, 8)
    patience = settings.choose(15.0, 3.0)  # seconds of SciPy in each dimension
    for D in dimensions:
        everything = principal_components(vectors, D)
        metric = metrics.from_mixture(everything, **LEARNED, seed=settings.seed)
        X = everything[settings.rng.choice(len(everything), count, replace=False)]
        rows.append(_one_dimension(metric, X, patience))

    figure, ax = plt.subplots(figsize=(3.4, 2.8))
    series = (
        ("default", "default solver", "o-", plot.COLOURS["mean"]),
        ("paper's", "paper's solver", "s-", plot.COLOURS["samples"]),
        ("scipy", "SciPy", "^--", SCIPY),
    )
    beside: Any = {"textcoords": "offset points", "xytext": (4, -8), "fontsize": 6}
    for name, label, style, colour in series:
        shown = {row["D"]: row[name] for row in rows if name in row}
        seconds = [found["seconds"] for found in shown.values()]
        ax.plot(list(shown), seconds, style, color=colour, label=label, markersize=4)
        for D, found in shown.items():
            at = (D, found["seconds"])
            if found["extrapolated"]:
                ax.plot(*at, style[0], color="white", mec=colour, markersize=4)
            if found["lost"]:
                ax.annotate(f"{100 * found['lost']:.0f} %", at, color=colour, **beside)
    ax.set(xscale="log", yscale="log", xlabel="dimensions $D$", ylabel="CPU seconds")
    ax.set_xticks(dimensions, map(str, dimensions), minor=False)
    ax.set_xticks([], minor=True)
    ax.margins(x=0.12)
    ax.legend(frameon=False)
    ratios = {row["D"]: row["scipy"]["seconds"] / row["default"]["seconds"] for row in rows}
    return Outcome(
        figures={"fig3_right": figure},
        numbers={"rows": rows, "scipy_over_default": ratios},
        settings={
            "data": f"{count} of the first 1000 ones of MNIST, D principal components",
            "metric": SETTINGS["metric"],
            "descent": f"{ITERATIONS} iterations of Eq. 5, alpha = 1, from the point next to the average",
            "SciPy": f"{SCIPY_SETTINGS}; a sample if it would take more than {patience:.0f} s",
        },
        claims=[_claim(ratios)],
    )


def _one_dimension(metric: metrics.LocalMetrics, X: np.ndarray, patience: float) -> dict[str, Any]:
    D = X.shape[1]
    start = X[np.argmin(np.sum((X - X.mean(axis=0)) ** 2, axis=1))]
    manifolds = {"default": Manifold(metric)} | ({"paper's": Manifold(metric, paper_solver(X))} if D == 2 else {})
    row: dict[str, Any] = {"D": D, "points": len(X)}
    for name, manifold in manifolds.items():
        mean = FrechetMean(manifold, step="fixed", max_iter=ITERATIONS, init=start)
        mean.fit(X[:4])  # loads what Numba has compiled
        row[name] = {
            "seconds": cpu_seconds(mean.fit, X) * IMAGES / len(X),
            "extrapolated": len(X) < IMAGES,
            "lost": mean.n_lost_ / len(X),
            "mean": mean.mean_.mean,
        }
    row["scipy"] = _by_scipy(NumpyMetric(metric), X, (start, row["default"]["mean"]), patience)
    return row


def _by_scipy(
    metric: NumpyMetric, X: np.ndarray, bases: tuple[np.ndarray, np.ndarray], patience: float
) -> dict[str, Any]:
    """The same descent by SciPy, for all images if a sample of its geodesics says that it takes little time.

    The sample is taken from the first and the last base point in turns until time is up.
    """
    seconds: list[float] = []
    lost = 0
    for x in X:
        for base in bases:
            before = time.process_time()
            lost += not by_solve_bvp(metric, base, x).success
            seconds.append(time.process_time() - before)
        if sum(seconds) > patience:
            break
    whole = float(np.mean(seconds)) * ITERATIONS * IMAGES
    if whole * len(X) / IMAGES > patience:
        return {"seconds": whole, "lost": lost / len(seconds), "extrapolated": True, "sample": len(seconds)}
    before = time.process_time()
    mean, lost = mean_by_descent(metric, X, bases[0], ITERATIONS)
    return {
        "seconds": (time.process_time() - before) * IMAGES / len(X),
        "lost": lost / (ITERATIONS * len(X)),
        "extrapolated": len(X) < IMAGES,
        "mean": mean,
    }


def _claim(ratios: dict[int, float]) -> Claim:
    values = list(ratios.values())
    everywhere = min(values) > 2 and values[-1] == max(values)
    return Claim(
        "A mean is substantially faster to compute, the more so the more dimensions there are.",
        "SciPy / default solver: " + ", ".join(f"{ratio:.1f} (D = {D})" for D, ratio in ratios.items()),
        "agrees" if everywhere else "partly" if max(values) > 1 else "disagrees",
        "SciPy's solver is not the Matlab code of the paper.",
    )
