"""Fig. 1: convergence as the number of evaluations grows.

Grey: points whose distribution makes a Riemannian manifold. Black: two ends. Red: the mean of the
posterior over geodesics between them, dashed where the solver says that it is not converged.
Green: samples. Orange: where the ODE was evaluated, N times. Upper row: the paper's solver, from no
evaluation at all (a bridge of the prior between the ends). Lower row: the default solver of probgeo with so many nodes;
in its last panel it chose N for itself.
"""

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes

from probgeo import Curve, Manifold, data, kernels, metrics, plot, solvers
from probgeo.gaussian import covariance_factor
from probgeo.ode.kernels import Pinned
from probgeo.paper.classical import NumpyMetric, reference_geodesic
from probgeo.paper.experiment import TIMES, Claim, Outcome, Settings, movie, paper_solver, verdict

ANGLES = np.deg2rad([155, 25])
ENDS = np.stack([np.cos(ANGLES), np.sin(ANGLES)], axis=1)
SAMPLES = 20
LENGTHSCALE = 0.4
Stage = tuple[np.ndarray, np.ndarray, np.ndarray]  # the mean (T, 2) of a posterior, two sets of samples (n, T, 2)


def run(settings: Settings) -> Outcome:
    X = data.half_circle(150, noise=0.08, seed=settings.seed)
    metric = metrics.from_mixture(X, 4, rho=0.1, regularisation=0.02, seed=settings.seed)
    # evaluations of the paper's solver, nodes of the default one
    whole = (4, 16, 40), (4, 8, 16)
    numbers, nodes = settings.choose(whole, whole, ((16,), (16,)))
    solved: dict[str, list[Curve]] = {"paper": [], "default": []}
    for N, n in zip(numbers, nodes, strict=True):
        solved["paper"].append(Manifold(metric, paper_solver(X, LENGTHSCALE, N)).geodesic(*ENDS))
        solved["default"].append(Manifold(metric, solvers.Markov(n_points=n)).geodesic(*ENDS))
    own = Manifold(metric).geodesic(*ENDS)
    truth = reference_geodesic(NumpyMetric(metric), own.mean(TIMES))
    errors = {name: [float(np.abs(c.mean(TIMES) - truth).max()) for c in curves] for name, curves in solved.items()}
    stds = {name: [float(np.max(c.std(TIMES))) for c in curves] for name, curves in solved.items()}
    stages = {"N = 0": bridge(X, settings)}
    for N, c in zip(numbers, solved["paper"], strict=True):
        draws = (c.sample(settings.seed + k, SAMPLES, TIMES) for k in (0, 1))
        stages[f"N = {N}"] = c.mean(TIMES), *draws

    figure, axes = plt.subplots(2, len(numbers) + 1, figsize=(7.0, 3.1), sharex=True, sharey=True, squeeze=False)
    upper = ["paper's solver, N = 0", *(f"N = {N}" for N in numbers)]
    lower = [*(f"N = {N}" for N in nodes), f"N = {own.nodes.size}, its own choice"]
    lower[0] = f"default solver, {lower[0]}"
    for ax, title in zip(axes.flat, upper + lower, strict=True):
        _frame(ax, X, title)
    _draw_samples(axes[0, 0], *stages["N = 0"][:2])
    for ax, c in zip(axes.flat[1:], [*solved["paper"], *solved["default"], own], strict=True):
        plot.curve(c, ax, n_samples=SAMPLES)
    for ax in axes[-1]:
        ax.set_xlabel("$x_1$")
    for ax in axes[:, 0]:
        ax.set_ylabel("$x_2$")

    turns = settings.choose(16, 16, 2)

    def draw(panels: np.ndarray, k: int) -> None:
        """Samples in motion: cos(a) x + sin(a) y of two draws x, y about the mean is a draw again."""
        title, (mean, first, second) = list(stages.items())[k // turns]
        angle = 2 * np.pi * (k % turns) / turns
        _frame(panels[0], X, title)
        _draw_samples(panels[0], mean, mean + np.cos(angle) * (first - mean) + np.sin(angle) * (second - mean))
        panels[0].set(xlabel="$x_1$", ylabel="$x_2$")

    falls = all(found["paper"][-1] < found["paper"][0] for found in (errors, stds))
    claim = Claim(
        "The posterior gathers around the geodesic as evaluations are added.",
        f"largest error, N = {numbers[0]} to {numbers[-1]}: paper's solver "
        f"{errors['paper'][0]:.2g} to {errors['paper'][-1]:.2g}, its standard deviation "
        f"{stds['paper'][0]:.2g} to {stds['paper'][-1]:.2g}; default solver "
        f"{errors['default'][0]:.2g} to {errors['default'][-1]:.2g}",
        verdict(falls or len(numbers) == 1),
        "The default solver estimates its error, and its bars follow; the paper's are set "
        "before any evaluation, and stay wide.",
    )
    return Outcome(
        figures={"fig1": figure},
        movies={"fig1_animated": movie(draw, turns * len(stages), 1, 2.6)},
        numbers={
            "N": {"paper": numbers, "default": nodes},
            "largest_error": errors,
            "largest_std": stds,
            "converged": {name: [bool(c.converged) for c in curves] for name, curves in solved.items()},
            "own_N": own.nodes.size,
            "own_error": float(np.abs(own.mean(TIMES) - truth).max()),
        },
        settings={
            "data": "150 noisy points on a half circle",
            "metric": "mixture of 4 Gaussians (EM), inverse covariances, rho = 0.1: with rho = 1 "
            "the paper's solver does not find the geodesic with 40 evaluations either",
            "paper's solver": f"squared exponential kernel, length scale {LENGTHSCALE}, V from the ends, at most 50 "
            "refinements",
            "reference": "SciPy's solve_bvp at 1e-8, from our curve",
        },
        claims=[claim],
    )


def bridge(X: np.ndarray, settings: Settings) -> Stage:
    """The prior of the paper's solver given the ends, before any evaluation."""
    S, apart = np.cov(X.T), ENDS[1] - ENDS[0]
    V = (apart @ np.linalg.solve(S, apart)) * S
    kernel = Pinned(kernels.SquaredExponential(LENGTHSCALE), ((0.0, 0), (1.0, 0)))
    L = covariance_factor(kernel(TIMES[:, None], TIMES[None, :]))
    noise = settings.rng.normal(size=(2, SAMPLES, len(TIMES), 2))
    line = ENDS[0] + TIMES[:, None] * apart
    first, second = line + np.einsum("st,knti,ji->knsj", L, noise, np.linalg.cholesky(V))
    return line, first, second


def _frame(ax: Axes, X: np.ndarray, title: str) -> None:
    plot.points(X, ax)
    ax.plot(*ENDS.T, "o", color=plot.COLOURS["ends"], markersize=4, zorder=6)
    ax.set(title=title, xlim=(-1.4, 1.4), ylim=(-0.5, 1.45), aspect="equal")
    ax.set(xticks=[-1, 0, 1], yticks=[0, 1])


def _draw_samples(ax: Axes, mean: np.ndarray, samples: np.ndarray) -> None:
    for sample in samples:
        ax.plot(*sample.T, color=plot.COLOURS["samples"], linewidth=0.5, alpha=0.7, zorder=2)
    ax.plot(*mean.T, color=plot.COLOURS["mean"], linewidth=1.5, zorder=3)
