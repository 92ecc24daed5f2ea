"""Fig. 6: the first principal geodesic of body shapes under a metric that knows about bellies.

Bodies at the mean (centre) and three standard deviations of the data along the first principal
geodesic each way, six samples of the posterior at each. Above the default solver, from the front;
below, from the front and from the side, the paper's solver with five evaluations from the same mean
and in the same direction, whose samples differ so much that it can be seen (by a centimetre of the
belly, which is what the claim asks for).
The metric comes from seven clusters of belly circumference, one diagonal LMNN metric each, so that
the geodesic follows what changes with the belly. The plot on its own shows the circumference along
the geodesic, with a band of two numerical standard deviations.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes

from probgeo import Curve, Manifold, PrincipalGeodesics, data, metrics, plot
from probgeo.data import Bodies
from probgeo.paper.experiment import TIMES, Claim, Outcome, Progress, Settings, movie, paper_solver

APART = {"front": 1.0, "side": 0.6}  # metres between the bodies of a row


def run(settings: Settings, progress: Progress) -> Outcome:
    people = data.bodies()
    progress.say("learning seven metrics")
    known = settings.choose(len(people.scores), 300)  # what the metric is learned from
    metric = metrics.from_lmnn(people.scores[:known], people.belly[:known], n_clusters=7)
    count = settings.choose(len(people.scores), 64, 12)
    X = people.scores[settings.rng.choice(len(people.scores), count, replace=False)]
    progress.say("mean and principal geodesic")
    pga = PrincipalGeodesics(metric, 1).fit(X)
    reach = 3.0 * float(np.sqrt(pga.explained_variance_[0]))
    # towards larger bellies
    slope, start = _belly_regression(people)
    v = pga.components_.mean[0]
    sign = 1.0 if slope @ v > 0 else -1.0
    ways = [pga.geodesic(0, sign * way * reach) for way in (-1.0, 1.0)]
    belly = _belly(ways, slope, start)
    sloppy = Manifold(metric, paper_solver(people.scores, 0.4, n_points=5, refinements=20))
    rough = [sloppy.shoot(pga.mean_, sign * way * reach * v) for way in (-1.0, 1.0)]
    rough_belly = _belly(rough, slope, start)
    stops = [0, len(TIMES) - 1, -1]  # three standard deviations down, the mean, three up
    (low, _, high), ours = belly[0][stops], belly[1][stops]
    rise, theirs = high - low, rough_belly[1][stops]
    return Outcome(
        figures={
            "fig6": _draw_bodies(people, ways, rough, settings.seed),
            "fig6_belly": _draw_belly(people, belly, rough_belly),
        },
        movies={"fig6_animated": _movie(people, ways, settings.choose(24, 8, 2))},
        numbers={
            "points": count,
            "explained_variance": float(pga.explained_variance_[0]),
            "explained_variance_std": float(pga.explained_variance_std_[0]),
            "explained_variance_ratio": float(pga.explained_variance_ratio_[0]),
            "belly_m_at_-3_0_3": belly[0][stops],
            "belly_std_m_at_-3_0_3": ours,
            "rough_belly_m_at_-3_0_3": rough_belly[0][stops],
            "rough_belly_std_m_at_-3_0_3": theirs,
            "monotone": bool(np.all(np.diff(belly[0]) > 0)),
            "belly_of_data_std_m": float(people.belly.std()),
            "converged": bool(pga.converged_),
            "message": pga.message_,
        },
        settings={
            "data": f"{count} of 1191 synthetic body shapes in 50 dimensions (they stand in for "
            "CAESAR and SCAPE, which are not free)",
            "metric": f"7 clusters of belly circumference of {known} bodies, one diagonal LMNN metric each",
            "paper's solver": "squared exponential kernel, length scale 0.4, five evaluations, at most 20 refinements",
            "belly": "linear regression of the circumference on the 50 coefficients",
        },
        claims=[
            Claim(
                "The principal geodesic shows an increasing belly circumference.",
                f"from {low:.2f} m to {high:.2f} m over six standard deviations, "
                f"{rise / people.belly.std():.1f} of those of the circumference in the data",
                "agrees" if rise > people.belly.std() else "disagrees",
            ),
            Claim(
                "The uncertainty of the principal geodesic can be seen in samples.",
                f"standard deviation of the belly at the ends: {1e3 * theirs[0]:.2g} and "
                f"{1e3 * theirs[2]:.2g} mm with five evaluations of the paper's solver, "
                f"{1e3 * ours[0]:.2g} and {1e3 * ours[2]:.2g} mm with the default solver",
                "agrees" if min(theirs[0], theirs[2]) > 1e-2 else "disagrees",
                "With the default solver they are too close to each other to be seen.",
            ),
        ],
    )


def _belly_regression(people: Bodies) -> tuple[np.ndarray, float]:
    """Circumference as a linear function of the coefficients."""
    ones = np.ones((len(people.scores), 1))
    solution, *_ = np.linalg.lstsq(np.hstack([people.scores, ones]), people.belly, rcond=None)
    return solution[:-1], float(solution[-1])


def _belly(ways: list[Curve], slope: np.ndarray, start: float) -> tuple[np.ndarray, np.ndarray]:
    """Circumference from one end of the geodesic to the other, and its standard deviation."""
    down, up = (way(TIMES) for way in ways)
    points = np.concatenate([down.mean[::-1], up.mean[1:]])
    covs = np.concatenate([down.cov[::-1], up.cov[1:]])
    variance = np.einsum("i,tij,j->t", slope, covs, slope)
    return points @ slope + start, np.sqrt(np.maximum(variance, 0.0))


# --- drawing ------------------------------------------------------------------------------------


def _draw_bodies(people: Bodies, ways: list[Curve], rough: list[Curve], seed: int) -> Any:
    figure, axes = plt.subplots(3, 3, figsize=(7.0, 3.0), height_ratios=(0.7, 0.7, 1.2))
    names = ("$\\mu - 3\\sigma$", "$\\mu$", "$\\mu + 3\\sigma$")
    rows = (("default solver", ways, "front"), ("paper's solver", rough, "front"), ("paper's solver", rough, "side"))
    for row, (solver, (down, up), view) in zip(axes, rows, strict=True):
        for ax, way, time in zip(row, (down, up, up), (1.0, 0.0, 1.0), strict=True):
            for k, draw in enumerate(way.sample(seed, 6, [time])[:, 0]):
                shift = (k * APART[view], 0.0)
                plot.mesh(people.vertices(draw), people.faces, ax, view=view, shift=shift)
            _bare(ax)
        row[0].set_ylabel(f"{solver}, {view}".replace(" ", "\n"), rotation=0, ha="right", va="center")
    for ax, name in zip(axes[0], names, strict=True):
        ax.set_title(name)
    return figure


def _bare(ax: Axes) -> None:
    for mesh in ax.collections:  # thousands of triangles would take long to write and to open
        mesh.set_rasterized(True)
    ax.set(xticks=[], yticks=[], aspect="equal")
    ax.spines[:].set_visible(False)


def _draw_belly(people: Bodies, belly: tuple, rough: tuple) -> Any:
    figure, ax = plt.subplots(figsize=(3.4, 2.8))
    low, high = 100 * np.quantile(people.belly, [0.05, 0.95])
    ax.axhspan(low, high, color=plot.COLOURS["data"], alpha=0.3, linewidth=0, label="90 % of data")
    sigma = 3.0 * np.concatenate([-TIMES[::-1], TIMES[1:]])
    series = (("paper's solver", rough, "samples"), ("default solver", belly, "mean"))
    for label, found, colour in series:
        mean, std = 100 * found[0], 100 * found[1]
        band: Any = {"color": plot.COLOURS[colour], "alpha": 0.3, "linewidth": 0}
        ax.fill_between(sigma, mean - 2 * std, mean + 2 * std, **band)
        ax.plot(sigma, mean, color=plot.COLOURS[colour], label=label)
    ax.set(xlabel="standard deviations along the geodesic", ylabel="belly circumference, cm")
    ax.legend(frameon=False, loc="lower right")
    return figure


def _movie(people: Bodies, ways: list[Curve], frames: int) -> Callable[[Path], None]:
    """From one end of the geodesic to the other and back."""
    half = np.linspace(0.0, 1.0, frames)
    there = np.concatenate([ways[0].mean(half)[::-1], ways[1].mean(half)[1:]])
    sigma = 3.0 * np.concatenate([-half[::-1], half[1:]])
    order = np.concatenate([np.arange(len(there)), np.arange(len(there))[-2:0:-1]])
    extremes = people.vertices(there[[0, -1]])
    reach = np.abs(extremes[..., :2]).max()
    low, high = extremes[..., 2].min(), extremes[..., 2].max()

    def draw(axes: np.ndarray, k: int) -> None:
        for ax, view in zip(axes, ("front", "side"), strict=True):
            plot.mesh(people.vertices(there[order[k]]), people.faces, ax, view=view)
            _bare(ax)
            ax.set(xlim=(-1.05 * reach, 1.05 * reach), ylim=(low - 0.05, high + 0.05), title=view)
        axes[0].figure.suptitle(f"{sigma[order[k]]:+.1f} standard deviations", fontsize=8)

    return movie(draw, len(order), 2, 3.2)
