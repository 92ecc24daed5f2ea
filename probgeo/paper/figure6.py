"""Fig. 6: the first principal geodesic of body shapes under a metric that knows about bellies.

Bodies at the mean (centre) and three standard deviations of the data along the first principal geodesic each way, six
samples of the posterior at each. Above the default solver, from the front; below, from the front and from the side, the
paper's solver with five evaluations from the same mean and in the same direction, whose samples differ so much that it
can be seen (by a centimetre of the belly, which is what the claim asks for). The metric comes from seven clusters of
belly circumference, one diagonal LMNN metric each, so that the geodesic follows what changes with the belly. The plot
on its own shows the circumference along the geodesic, with a band of two numerical standard deviations.
"""

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes

from probgeo import Curve, Manifold, PrincipalGeodesics, data, metrics, plot
from probgeo.data import Bodies
from probgeo.paper.experiment import TIMES, Claim, Outcome, Settings, movie, paper_solver, verdict

APART = {"front": 1.0, "side": 0.6}  # metres between the bodies of a row
ALONG = 3.0 * np.concatenate([-TIMES[::-1], TIMES[1:]])  # standard deviations, from one end to the other
Ways = tuple[Curve, Curve]  # from the mean, to three standard deviations down and up


def run(settings: Settings) -> Outcome:
    people = data.bodies()
    known = settings.choose(len(people.scores), 300)  # what the metric is learned from
    metric = metrics.from_lmnn(people.scores[:known], people.belly[:known], n_clusters=7)
    count = settings.choose(len(people.scores), 64, 12)
    X = people.scores[settings.rng.choice(len(people.scores), count, replace=False)]
    pga = PrincipalGeodesics(metric, 1).fit(X)
    regression = belly_regression(people)
    v = pga.components_.mean[0]
    reach = 3.0 * np.sqrt(pga.explained_variance_[0]) * np.sign(regression[0] @ v)  # towards larger bellies
    sloppy = Manifold(metric, paper_solver(people.scores, 0.4, n_points=5, refinements=20))
    ours: Ways = (pga.geodesic(0, -reach), pga.geodesic(0, reach))
    rough: Ways = (sloppy.shoot(pga.mean_, -reach * v), sloppy.shoot(pga.mean_, reach * v))
    bellies = {"default solver": _bellies(ours, *regression), "paper's solver": _bellies(rough, *regression)}
    stops = [0, len(TIMES) - 1, -1]  # three standard deviations down, the mean, three up
    (belly, std), (rough_belly, rough_std) = ((found[0][stops], found[1][stops]) for found in bellies.values())
    rise = belly[2] - belly[0]

    rows = (("default solver", ours, "front"), ("paper's solver", rough, "front"), ("paper's solver", rough, "side"))
    figure, axes = plt.subplots(3, 3, figsize=(7.0, 3.0), height_ratios=(0.7, 0.7, 1.2))
    for row, (solver, (down, up), view) in zip(axes, rows, strict=True):
        for ax, way, time in zip(row, (down, up, up), (1.0, 0.0, 1.0), strict=True):
            for k, draw in enumerate(way.sample(settings.seed, 6, [time])[:, 0]):
                plot.mesh(people.vertices(draw), people.faces, ax, view=view, shift=(k * APART[view], 0.0))
            _bare(ax)
        row[0].set_ylabel(f"{solver}, {view}".replace(" ", "\n"), rotation=0, ha="right", va="center")
    for ax, name in zip(axes[0], ("$\\mu - 3\\sigma$", "$\\mu$", "$\\mu + 3\\sigma$"), strict=True):
        ax.set_title(name)

    along, ax = plt.subplots(figsize=(3.4, 2.8))
    low, high = 100 * np.quantile(people.belly, [0.05, 0.95])
    ax.axhspan(low, high, color=plot.COLOURS["data"], alpha=0.3, linewidth=0, label="90 % of data")
    for name, kind in (("paper's solver", "samples"), ("default solver", "mean")):
        (mean, error), colour = (100 * found for found in bellies[name]), plot.COLOURS[kind]
        ax.fill_between(ALONG, mean - 2 * error, mean + 2 * error, color=colour, alpha=0.3, linewidth=0)
        ax.plot(ALONG, mean, color=colour, label=name)
    ax.set(xlabel="standard deviations along the geodesic", ylabel="belly circumference, cm")
    ax.legend(frameon=False, loc="lower right")

    # from one end of the geodesic to the other and back
    half = settings.choose(24, 8, 2)
    there = np.linspace(0, len(ALONG) - 1, 2 * half - 1).round().astype(int)
    order, points = np.concatenate([there, there[-2:0:-1]]), _joined(*(way.mean(TIMES) for way in ours))
    extremes = people.vertices(points[[0, -1]])
    side = 1.05 * np.abs(extremes[..., :2]).max()
    limits = {"xlim": (-side, side), "ylim": (extremes[..., 2].min() - 0.05, extremes[..., 2].max() + 0.05)}

    def draw_frame(panels: np.ndarray, k: int) -> None:
        for ax, view in zip(panels, APART, strict=True):
            plot.mesh(people.vertices(points[order[k]]), people.faces, ax, view=view)
            _bare(ax)
            ax.set(**limits, title=view)
        panels[0].figure.suptitle(f"{ALONG[order[k]]:+.1f} standard deviations", fontsize=8)

    return Outcome(
        figures={"fig6": figure, "fig6_belly": along},
        movies={"fig6_animated": movie(draw_frame, len(order), 2, 3.2)},
        numbers={
            "points": count,
            "explained_variance": float(pga.explained_variance_[0]),
            "explained_variance_std": float(pga.explained_variance_std_[0]),
            "explained_variance_ratio": float(pga.explained_variance_ratio_[0]),
            "belly_m_at_-3_0_3": belly,
            "belly_std_m_at_-3_0_3": std,
            "rough_belly_m_at_-3_0_3": rough_belly,
            "rough_belly_std_m_at_-3_0_3": rough_std,
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
                f"from {belly[0]:.2f} m to {belly[2]:.2f} m over six standard deviations, "
                f"{rise / people.belly.std():.1f} of those of the circumference in the data",
                verdict(rise > people.belly.std()),
            ),
            Claim(
                "The uncertainty of the principal geodesic can be seen in samples.",
                f"standard deviation of the belly at the ends: {1e3 * rough_std[0]:.2g} and "
                f"{1e3 * rough_std[2]:.2g} mm with five evaluations of the paper's solver, "
                f"{1e3 * std[0]:.2g} and {1e3 * std[2]:.2g} mm with the default solver",
                verdict(min(rough_std[0], rough_std[2]) > 1e-2),
                "With the default solver they are too close to each other to be seen.",
            ),
        ],
    )


def belly_regression(people: Bodies) -> tuple[np.ndarray, float]:
    """Circumference as a linear function of the coefficients."""
    ones = np.ones((len(people.scores), 1))
    solution, *_ = np.linalg.lstsq(np.hstack([people.scores, ones]), people.belly, rcond=None)
    return solution[:-1], float(solution[-1])


def _bellies(ways: Ways, slope: np.ndarray, start: float) -> tuple[np.ndarray, np.ndarray]:
    """Circumference along both ways, from one end to the other, and its standard deviation."""
    down, up = (way(TIMES) for way in ways)
    variance = np.einsum("i,tij,j->t", slope, _joined(down.cov, up.cov), slope)
    return _joined(down.mean, up.mean) @ slope + start, np.sqrt(np.maximum(variance, 0.0))


def _joined(down: np.ndarray, up: np.ndarray) -> np.ndarray:
    """Values at TIMES along both ways, joined from one end to the other."""
    return np.concatenate([down[::-1], up[1:]])


def _bare(ax: Axes) -> None:
    for mesh in ax.collections:  # thousands of triangles would take long to write and to open
        mesh.set_rasterized(True)
    ax.set(xticks=[], yticks=[], aspect="equal")
    ax.spines[:].set_visible(False)
