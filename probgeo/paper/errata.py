"""Errata: the printed geodesic equation against the right one.

Left: curves between two points, under a metric learned from the grey data. The printed Eq. 2 merges
two terms of the Euler-Lagrange equations that agree only in one dimension; its solutions (dashed) are not geodesics.
Right: how much longer each curve is than the shortest of the three, over many pairs of points. Both equations conserve
the speed, so that a test of constant speed does not tell them apart.
"""

from functools import partial

import matplotlib.pyplot as plt
import numpy as np

from probgeo import data, metrics, plot
from probgeo.paper.classical import NumpyMetric, by_solve_bvp, length_of
from probgeo.paper.experiment import TIMES, Claim, Outcome, Settings, verdict


def run(settings: Settings) -> Outcome:
    X = data.half_circle(200, noise=0.1, seed=settings.seed)
    plain = NumpyMetric(metrics.from_mixture(X, 5, rho=0.3, regularisation=0.02, seed=settings.seed))
    count = settings.choose(60, 20, 4)
    pairs = X[settings.rng.choice(len(X), (count, 2), replace=False)]
    equations = {"right": plain.field, "printed": partial(plain.field, printed=True)}
    solutions: dict[str, list] = {name: [] for name in equations}
    for a, b in pairs:
        for name, field in equations.items():
            solutions[name].append(by_solve_bvp(plain, a, b, 1e-4, field=field))
    solved = np.all([[s.success for s in found] for found in solutions.values()], axis=0)
    lengths = {name: np.array([length_of(plain, s) for s in found]) for name, found in solutions.items()}
    lengths["straight line"] = np.array([np.trapezoid(_speed(plain, *_line(a, b)), TIMES) for a, b in pairs])
    best = np.min(list(lengths.values()), axis=0)
    excess = {name: 100 * (found / best - 1.0)[solved] for name, found in lengths.items()}
    drift = {}
    for name, found in solutions.items():
        speeds = [_speed(plain, *np.split(s.sol(TIMES), 2)) for s in np.array(found, object)[solved]]
        drift[name] = float(np.max(np.ptp(speeds, axis=1) / np.mean(speeds, axis=1)))

    figure, (left, bars) = plt.subplots(1, 2, figsize=(7.0, 2.6), width_ratios=(1.3, 1.0))
    plot.points(X, left)
    looks = (("right", "-", "mean", "right"), ("printed", "--", "second", "as printed"))
    for rank, k in enumerate(np.argsort(-np.where(solved, lengths["right"], 0.0))[:3]):
        for name, style, colour, label in looks:
            path = solutions[name][k].sol(TIMES)[:2]
            left.plot(*path, style, color=plot.COLOURS[colour], label=None if rank else label)
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
                verdict(means["printed"] <= means["right"]),
                "A slip in print: M c'' = 1/2 [d vec M / dc]' (c' x c') - (dM/dt) c'.",
            )
        ],
    )


def _line(a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Points and velocities (2, T) of a straight line at TIMES."""
    v = np.repeat((b - a)[:, None], len(TIMES), axis=1)
    return a[:, None] + v * TIMES, v


def _speed(metric: NumpyMetric, x: np.ndarray, v: np.ndarray) -> np.ndarray:
    return np.sqrt(metric.energy(x, v))
