"""Fig. 3, left and centre: geodesics from the mean of a thousand ones, and the principal geodesic.

Each dot is an image of the digit 1 in its first two principal components. Left: geodesics from the
mean to some of them. Centre, here right: the first principal geodesic, two standard deviations
each way. Red: mean of the probabilistic solver; green: samples; orange, dashed: SciPy's solve_bvp
with the deterministic algorithms. Black: the mean. Above the paper's solver, of which mean and
principal geodesic are those of the first 300 images, as it takes long; below the default, with all.
Comparable are means less than 5 % of a standard deviation of the data apart, and directions less
than 5 degrees.
"""

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes

from probgeo import Geodesic, PrincipalGeodesics, plot
from probgeo.paper.classical import NumpyMetric, by_solve_bvp, by_solve_ivp, principal_geodesic
from probgeo.paper.experiment import Claim, Outcome, Progress, Settings, draw_classical, explain_curves
from probgeo.paper.ones import SETTINGS, geodesics_from_mean, ones


def run(settings: Settings, progress: Progress) -> Outcome:
    progress.say("mean and principal geodesic")
    found = ones(settings)
    progress.say("geodesics from the mean")
    curves = geodesics_from_mean(settings)
    progress.say("SciPy: mean and principal geodesic")
    start = found.X[np.argmin(np.sum((found.X - found.X.mean(axis=0)) ** 2, axis=1))]
    plain, tolerance = found.plain, settings.tolerance
    classical = {
        name: principal_geodesic(plain, points, start, settings.iterations, tolerance)
        for name, points in (("paper's", found.few), ("default", found.X))
    }
    shown = _spread_around(found.ends, found.mean, count=12)
    theirs = [by_solve_bvp(plain, found.mean, x, tolerance) for x in found.ends[shown]]

    figure, axes = plt.subplots(2, 2, figsize=(7.0, 4.4), sharex=True, sharey=True)
    pgas = {"paper's": found.paper, "default": found.default}
    for (left, right), (name, pga) in zip(axes, pgas.items(), strict=True):
        _draw_geodesics(left, found.X, curves[name][shown], theirs, settings)
        _draw_principal(right, found.X, pga, plain, classical[name], settings)
        left.set(title=f"{name} solver: geodesics from the mean", ylabel="second component")
        right.set(title=f"{name} solver: principal geodesic")
    for ax in axes[-1]:
        ax.set_xlabel("first component")
    for ax in axes.flat:
        ax.set_aspect("equal")
    explain_curves(axes[0, 1], "lower center")

    numbers = {name: _compared(pga, classical[name], plain) for name, pga in pgas.items()}
    numbers["scipy"] = classical["default"]
    return Outcome(
        figures={"fig3": figure},
        numbers=numbers,
        settings=SETTINGS
        | {
            "points": f"{len(found.X)}, of which the paper's solver has {len(found.few)}",
            "SciPy": f"{settings.scipy}; mean by {settings.iterations} steps of Eq. 5",
        },
        claims=[_claim(name, numbers[name]) for name in pgas],
    )


def _compared(pga: PrincipalGeodesics, classical: dict, plain: NumpyMetric) -> dict:
    """Mean and direction beside SciPy's, in the metric at the mean."""
    M = plain.tensor(classical["mean"])
    mean, v = pga.mean_.mean, pga.components_.mean[0]
    apart = mean - classical["mean"]
    u = classical["direction"]
    cosine = abs(u @ M @ v) / np.sqrt((u @ M @ u) * (v @ M @ v))
    return {
        "mean": mean,
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
    close = apart < 0.05 and numbers["angle_degrees"] < 5
    return Claim(
        f"Mean and principal geodesic are comparable to those of the classical solver ({name} solver).",
        f"the means are {100 * apart:.2g} % of a standard deviation of the data apart, the "
        f"directions {numbers['angle_degrees']:.2g} degrees",
        "agrees" if close else "disagrees",
        "" if numbers["converged"] else f"It says itself: {numbers['message']}.",
    )


# --- drawing ------------------------------------------------------------------------------------


def _spread_around(X: np.ndarray, centre: np.ndarray, count: int) -> np.ndarray:
    """The farthest point in each of `count` directions."""
    angle = np.arctan2(*(X - centre).T[::-1])
    sector = ((angle + np.pi) / (2 * np.pi) * count).astype(int) % count
    far = np.sum((X - centre) ** 2, axis=1)
    return np.array([max(np.flatnonzero(sector == k), key=far.__getitem__) for k in set(sector)])


def _draw_geodesics(ax: Axes, X: np.ndarray, curves: Geodesic, theirs: list, settings: Settings) -> None:
    plot.geodesics(curves, ax, data=X, n_samples=10, seed=settings.seed)
    draw_classical(ax, [solution for solution in theirs if solution.status == 0])


def _draw_principal(
    ax: Axes,
    X: np.ndarray,
    pga: PrincipalGeodesics,
    plain: NumpyMetric,
    classical: dict,
    settings: Settings,
    deviations: float = 2.0,
) -> None:
    plot.principal_geodesics(pga, ax, data=X, deviations=deviations, n_samples=20, seed=settings.seed)
    reach = deviations * np.sqrt(classical["variance"])
    vs = [sign * reach * classical["direction"] for sign in (-1.0, 1.0)]
    mean = classical["mean"][None]
    draw_classical(ax, [by_solve_ivp(plain, mean, v[None], 1e-8)[1] for v in vs])
