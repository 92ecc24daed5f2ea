"""Fig. 1: convergence as the number of evaluations grows.

Grey: points whose distribution makes a Riemannian manifold. Black: two ends. Red: the mean of the
posterior over geodesics between them, dashed where the solver says that it is not converged.
Green: samples. Orange: where the ODE was evaluated, N times. Upper row: the paper's solver, from no
evaluation at all (a bridge of the prior between the ends). Lower row: the default solver of probgeo
with so many nodes; in its last panel it chose N for itself.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes

from probgeo import Manifold, data, kernels, metrics, plot, solvers
from probgeo.gaussian import covariance_factor
from probgeo.ode.kernels import Pinned
from probgeo.paper.classical import NumpyMetric, reference_geodesic
from probgeo.paper.experiment import TIMES, Claim, Outcome, Progress, Settings, movie, paper_solver

ANGLES = np.deg2rad([155, 25])
ENDS = np.stack([np.cos(ANGLES), np.sin(ANGLES)], axis=1)


def run(settings: Settings, progress: Progress) -> Outcome:
    X = data.half_circle(150, noise=0.08, seed=settings.seed)
    metric = metrics.from_mixture(X, 4, rho=0.1, regularisation=0.02, seed=settings.seed)
    # evaluations of the paper's solver, nodes of the default one
    whole = (4, 16, 40), (4, 8, 16)
    numbers, nodes = settings.choose(whole, whole, ((16,), (16,)))
    lengthscale = 0.4
    solved: dict[str, list] = {"paper": [], "default": []}
    for N, n in progress.over(list(zip(numbers, nodes, strict=True)), "evaluations"):
        dense = paper_solver(X, lengthscale, N)
        solved["paper"].append(Manifold(metric, dense).geodesic(*ENDS))
        solved["default"].append(Manifold(metric, solvers.Markov(n_points=n)).geodesic(*ENDS))
    own = Manifold(metric).geodesic(*ENDS)
    truth = reference_geodesic(NumpyMetric(metric), own.mean(TIMES))
    errors = {name: [float(np.abs(c.mean(TIMES) - truth).max()) for c in curves] for name, curves in solved.items()}
    stds = {name: [float(np.max(c.std(TIMES))) for c in curves] for name, curves in solved.items()}
    prior = _bridge(X, kernels.SquaredExponential(lengthscale), settings)

    columns = len(numbers) + 1
    figure, axes = plt.subplots(2, columns, figsize=(7.0, 3.1), sharex=True, sharey=True, squeeze=False)
    _frame(axes[0, 0], X, "paper's solver, N = 0")
    _draw_bridge(axes[0, 0], prior[0])
    titles = [f"N = {N}" for N in numbers]
    titles += [f"N = {N}" for N in nodes] + [f"N = {own.nodes.size}, its own choice"]
    titles[columns - 1] = f"default solver, {titles[columns - 1]}"
    curves = [*solved["paper"], *solved["default"], own]
    for title, ax, c in zip(titles, axes.flat[1:], curves, strict=True):
        _frame(ax, X, title)
        plot.curve(c, ax, n_samples=settings.samples)
    for ax in axes[-1]:
        ax.set_xlabel("$x_1$")
    for ax in axes[:, 0]:
        ax.set_ylabel("$x_2$")

    falls = errors["paper"][-1] < errors["paper"][0] and stds["paper"][-1] < stds["paper"][0]
    claim = Claim(
        "The posterior gathers around the geodesic as evaluations are added.",
        f"largest error, N = {numbers[0]} to {numbers[-1]}: paper's solver "
        f"{errors['paper'][0]:.2g} to {errors['paper'][-1]:.2g}, its standard deviation "
        f"{stds['paper'][0]:.2g} to {stds['paper'][-1]:.2g}; default solver "
        f"{errors['default'][0]:.2g} to {errors['default'][-1]:.2g}",
        "agrees" if falls or len(numbers) == 1 else "disagrees",
        "The default solver estimates its error, and its bars follow; the paper's are set "
        "before any evaluation, and stay wide.",
    )
    stages = [prior, *(_stage(c, settings) for c in solved["paper"])]
    stills = [f"N = {N}" for N in (0, *numbers)]
    return Outcome(
        figures={"fig1": figure},
        movies={"fig1_animated": _movie(X, stages, stills, settings.choose(16, 16, 2))},
        numbers={
            "N": {"paper": list(numbers), "default": list(nodes)},
            "largest_error": errors,
            "largest_std": stds,
            "converged": {k: [bool(c.converged) for c in v] for k, v in solved.items()},
            "own_N": int(own.nodes.size),
            "own_error": float(np.abs(own.mean(TIMES) - truth).max()),
        },
        settings={
            "data": "150 noisy points on a half circle",
            "metric": "mixture of 4 Gaussians (EM), inverse covariances, rho = 0.1: with rho = 1 "
            "the paper's solver does not find the geodesic with 40 evaluations either",
            "paper's solver": "squared exponential kernel, length scale 0.4, V from the ends, at most 50 refinements",
            "reference": "SciPy's solve_bvp at 1e-8, from our curve",
        },
        claims=[claim],
    )


# --- drawing ------------------------------------------------------------------------------------


def _frame(ax: Axes, X: np.ndarray, title: str) -> None:
    plot.points(X, ax)
    ax.plot(*ENDS.T, "o", color=plot.COLOURS["ends"], markersize=4, zorder=6)
    ax.set(title=title, xlim=(-1.4, 1.4), ylim=(-0.5, 1.45), aspect="equal")
    ax.set(xticks=[-1, 0, 1], yticks=[0, 1])


def _draw_bridge(ax: Axes, draws: np.ndarray) -> None:
    for draw in draws:
        ax.plot(*draw.T, color=plot.COLOURS["samples"], linewidth=0.5, alpha=0.7, zorder=2)
    ax.plot(*ENDS.T, color=plot.COLOURS["mean"], linewidth=1.5, zorder=3)


def _bridge(X: np.ndarray, prior: kernels.SquaredExponential, settings: Settings) -> tuple[np.ndarray, np.ndarray]:
    """Two sets of samples (n, T, 2) of the prior given the ends, before any evaluation."""
    S = np.cov(X.T)
    apart = ENDS[1] - ENDS[0]
    V = (apart @ np.linalg.solve(S, apart)) * S
    kernel = Pinned(prior, ((0.0, 0), (1.0, 0)))
    L = covariance_factor(kernel(TIMES[:, None], TIMES[None, :]))
    noise = settings.rng.normal(size=(2, settings.samples, len(TIMES), 2))
    line = ENDS[0] + TIMES[:, None] * apart
    draws = line + np.einsum("st,knti,ji->knsj", L, noise, np.linalg.cholesky(V))
    return draws[0], draws[1]


def _stage(c: Any, settings: Settings) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Two independent sets of samples, and the mean."""
    first, second = (c.sample(settings.seed + k, settings.samples, TIMES) for k in (0, 1))
    return first, second, c.mean(TIMES)


def _movie(X: np.ndarray, stages: list, titles: list[str], frames: int) -> Callable[[Path], None]:
    """Samples in motion: cos(a) x + sin(a) y of two draws x, y about the mean is a draw again."""

    def draw(axes: np.ndarray, k: int) -> None:
        (ax,) = axes
        stage, angle = stages[k // frames], 2 * np.pi * (k % frames) / frames
        mean = stage[2] if len(stage) == 3 else ENDS[0] + TIMES[:, None] * (ENDS[1] - ENDS[0])
        _frame(ax, X, titles[k // frames])
        moved = mean + np.cos(angle) * (stage[0] - mean) + np.sin(angle) * (stage[1] - mean)
        for curve in moved:
            ax.plot(*curve.T, color=plot.COLOURS["samples"], linewidth=0.6, alpha=0.8)
        ax.plot(*mean.T, color=plot.COLOURS["mean"], linewidth=1.5)
        ax.set(xlabel="$x_1$", ylabel="$x_2$")

    return movie(draw, frames * len(stages), 1, 2.6)
