"""Errata: the printed geodesic equation against the right one.

Left: curves between two points, under a metric learned from the grey data. The printed Eq. 2 merges
two terms of the Euler-Lagrange equations that agree only in one dimension; its solutions (dashed)
are not geodesics. Right: how much longer each curve is than the shortest of the three, over many
pairs of points. Both equations conserve the speed, so that a test of constant speed does not tell
them apart.
"""

from collections.abc import Callable
from typing import Any

import matplotlib.pyplot as plt
import numpy as np

from probgeo import data, metrics, plot
from probgeo.paper.classical import NumpyMetric, by_solve_bvp, length_of
from probgeo.paper.experiment import TIMES, Claim, Outcome, Progress, Settings


def run(settings: Settings, progress: Progress) -> Outcome:
    X = data.half_circle(200, noise=0.1, seed=settings.seed)
    metric = metrics.from_mixture(X, 5, rho=0.3, regularisation=0.02, seed=settings.seed)
    plain = NumpyMetric(metric)
    count = settings.choose(60, 20, 4)
    pairs = X[settings.rng.choice(len(X), (count, 2), replace=False)]
    right, wrong, lines = [], [], []
    for a, b in progress.over(pairs, "pairs"):
        right.append(by_solve_bvp(plain, a, b, 1e-4))
        wrong.append(by_solve_bvp(plain, a, b, 1e-4, field=printed(plain)))
        lines.append(_line_length(plain, a, b))
    solved = np.array([r.status == 0 and w.status == 0 for r, w in zip(right, wrong, strict=True)])
    lengths = {
        "right": np.array([length_of(plain, s) for s in right]),
        "printed": np.array([length_of(plain, s) for s in wrong]),
        "straight line": np.array(lines),
    }
    best = np.min(list(lengths.values()), axis=0)
    excess = {name: 100 * (found / best - 1.0)[solved] for name, found in lengths.items()}
    drift = {
        name: float(np.max([_speed_drift(plain, s) for s in np.array(found, object)[solved]]))
        for name, found in (("right", right), ("printed", wrong))
    }

    figure, (left, bars) = plt.subplots(1, 2, figsize=(7.0, 2.6), width_ratios=(1.3, 1.0))
    plot.points(X, left)
    far = np.argsort(-np.where(solved, lengths["right"], 0.0))[:3]
    for k in far:
        for solutions, style, colour, label in (
            (right, "-", plot.COLOURS["mean"], "right"),
            (wrong, "--", plot.COLOURS["second"], "as printed"),
        ):
            left.plot(*solutions[k].sol(TIMES)[:2], style, color=colour, label=label if k == far[0] else None)
        left.plot(*pairs[k].T, "o", color="black", markersize=3, zorder=5)
    left.legend(frameon=False, loc="lower center")
    left.set(xlabel="$x_1$", ylabel="$x_2$", aspect="equal", ylim=(-0.75, 1.4))
    bars.boxplot(list(excess.values()), tick_labels=list(excess), widths=0.5, showfliers=False)
    bars.set(ylabel="longer than the shortest, %")

    means = {name: float(np.mean(values)) for name, values in excess.items()}
    return Outcome(
        figures={"errata": figure},
        numbers={
            "pairs": count,
            "solved_by_both": int(solved.sum()),
            "mean_excess_percent": means,
            "largest_relative_change_of_speed": drift,
        },
        settings={
            "data": "200 noisy points on a half circle",
            "metric": "mixture of 5 Gaussians (EM), inverse covariances, rho = 0.3",
            "solver": "SciPy's solve_bvp, tolerance 1e-04, for both equations",
        },
        claims=[
            Claim(
                "Geodesics solve c'' = -1/2 M^-1 [d vec M / dc]' (c' x c') (Eq. 2).",
                f"its solutions are {means['printed']:.1f} % longer than the shortest curves on "
                f"average, the straight lines {means['straight line']:.1f} %, those of the right "
                f"equation {means['right']:.1g} %",
                "disagrees" if means["printed"] > means["right"] else "agrees",
                "A slip in print: M c'' = 1/2 [d vec M / dc]' (c' x c') - (dM/dt) c'.",
            )
        ],
    )


def printed(metric: NumpyMetric) -> Callable:
    """The first-order system of Eq. 2 as printed."""

    def field(t: Any, y: np.ndarray) -> np.ndarray:
        x, v = np.split(y, 2)
        return np.concatenate([v, metric.acceleration(x, v, printed=True)])

    return field


def _line_length(metric: NumpyMetric, a: np.ndarray, b: np.ndarray) -> float:
    s, w = np.polynomial.legendre.leggauss(60)
    t = 0.5 * (s + 1.0)
    x = a[:, None] + (b - a)[:, None] * t
    v = np.repeat((b - a)[:, None], len(t), axis=1)
    return float(0.5 * w @ np.sqrt(metric.energy(x, v)))


def _speed_drift(metric: NumpyMetric, solution: Any) -> float:
    y = solution.sol(TIMES)
    D = len(y) // 2
    speed = np.sqrt(metric.energy(y[:D], y[D:]))
    return float(np.ptp(speed) / speed.mean())
