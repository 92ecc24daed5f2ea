"""Fig. 3, left and centre: geodesics from the mean of a thousand ones, and the principal geodesic.

Each dot is an image of the digit 1 in its first two principal components. Left: geodesics from the mean to some of
them. Centre, here right: the first principal geodesic, two standard deviations each way. Red: mean of the probabilistic
solver; green: samples; orange, dashed: SciPy's solve_bvp with the deterministic algorithms. Black: the mean. Above the
paper's solver, of which mean and principal geodesic are those of the first 300 images, as it takes long; below the
default, with all. Comparable are means less than 5 % of a standard deviation of the data apart, and directions less
than 5 degrees.
"""

import matplotlib.pyplot as plt
import numpy as np

from probgeo import PrincipalGeodesics, plot
from probgeo.paper.classical import SCIPY_SETTINGS, NumpyMetric, by_solve_bvp, by_solve_ivp, principal_geodesic
from probgeo.paper.experiment import ITERATIONS, Claim, Outcome, Settings, draw_classical, explain_curves
from probgeo.paper.ones import SETTINGS, ones


def run(settings: Settings) -> Outcome:
    found = ones(settings)
    X, plain, curves = found.X, found.plain, found.curves
    start = X[np.argmin(np.sum((X - X.mean(axis=0)) ** 2, axis=1))]
    shown = _all_around(found.ends, found.mean, count=12)
    theirs = [by_solve_bvp(plain, found.mean, x) for x in found.ends[shown]]

    figure, axes = plt.subplots(2, 2, figsize=(7.0, 4.4), sharex=True, sharey=True, subplot_kw={"aspect": "equal"})
    numbers: dict[str, dict] = {}
    for (left, right), (name, pga), points in zip(axes, found.pgas.items(), (found.few, X), strict=True):
        classical = numbers["scipy"] = principal_geodesic(plain, points, start, ITERATIONS)
        numbers[name] = _compared(pga, classical, plain)
        plot.geodesics(curves[name][shown], left, data=X, n_samples=10, seed=settings.seed)
        draw_classical(left, theirs)
        plot.principal_geodesics(pga, right, data=X, n_samples=20, seed=settings.seed)
        reach = 2.0 * np.sqrt(classical["variance"]) * classical["direction"]
        draw_classical(right, (by_solve_ivp(plain, classical["mean"][None], v[None], 1e-8)[1] for v in (-reach, reach)))
        left.set(title=f"{name} solver: geodesics from the mean", ylabel="second component")
        right.set(title=f"{name} solver: principal geodesic")
    for ax in axes[-1]:
        ax.set_xlabel("first component")
    explain_curves(axes[0, 1], "lower center")
    return Outcome(
        figures={"fig3": figure},
        numbers=numbers,
        settings=SETTINGS
        | {
            "points": f"{len(X)}, of which the paper's solver has {len(found.few)}",
            "SciPy": f"{SCIPY_SETTINGS}; mean by {ITERATIONS} steps of Eq. 5",
        },
        claims=[_claim(name, numbers[name]) for name in found.pgas],
    )


def _compared(pga: PrincipalGeodesics, classical: dict, plain: NumpyMetric) -> dict:
    """Mean and direction beside SciPy's, in the metric at the mean."""
    M, u, v = plain.tensor(classical["mean"]), classical["direction"], pga.components_.mean[0]
    apart = pga.mean_.mean - classical["mean"]
    cosine = abs(u @ M @ v) / np.sqrt((u @ M @ u) * (v @ M @ v))
    return {
        "mean": pga.mean_.mean,
        "mean_std": pga.mean_.std,
        "mean_std_in_metric": float(np.sqrt(np.trace(M @ pga.mean_.cov))),
        "direction": v,
        "direction_std": pga.components_.std[0],
        "explained_variance": float(pga.explained_variance_[0]),
        "distance_of_means": float(np.sqrt(apart @ M @ apart)),
        "spread": float(np.sqrt(classical["variance"])),
        "angle_degrees": float(np.rad2deg(np.arccos(min(cosine, 1.0)))),
        "converged": bool(pga.converged_),
        "message": pga.message_,
    }


def _claim(name: str, numbers: dict) -> Claim:
    apart = numbers["distance_of_means"] / numbers["spread"]
    return Claim(
        f"Mean and principal geodesic are comparable to those of the classical solver ({name} solver).",
        f"the means are {100 * apart:.2g} % of a standard deviation of the data apart, the "
        f"directions {numbers['angle_degrees']:.2g} degrees",
        "agrees" if apart < 0.05 and numbers["angle_degrees"] < 5 else "disagrees",
        "" if numbers["converged"] else f"It says itself: {numbers['message']}.",
    )


def _all_around(X: np.ndarray, centre: np.ndarray, count: int) -> np.ndarray:
    """The farthest point in each of `count` directions."""
    angle = np.arctan2(*(X - centre).T[::-1])
    sector = ((angle + np.pi) / (2 * np.pi) * count).astype(int) % count
    far = np.sum((X - centre) ** 2, axis=1)
    return np.array([max(np.flatnonzero(sector == k), key=far.__getitem__) for k in set(sector)])
