"""A first look at probgeo: two differential equations, solved with error bars, in two figures.

    python examples/first_look.py --out figures

`convergence` (after Fig. 1 of Hennig and Hauberg, 2014). Noisy points on a half circle define a
metric that makes distances short where the data are dense. The shortest path between two points
(black) then bends towards the data. It solves a boundary value problem, of which the solver may
evaluate the right-hand side at N places (orange), and which it answers with a distribution over
paths: the mean (red) and samples from it (green). Few evaluations say little about the path, and
the samples say so; with more of them the mean settles and the samples gather around it.

`uncertain_start`. A pendulum, let go at an angle that is known to about five degrees only. The
curve carries two kinds of uncertainty and keeps them apart: what the start leaves open
("boundary"; it nearly vanishes where swings from all starts cross), and what the solver does not
know for lack of evaluations ("numerical"). More of these would lower the second, only a better
measurement the first.
"""

import argparse
import time
import warnings
from pathlib import Path

import jax
import jax.numpy as jnp
import matplotlib as mpl
import numpy as np

from probgeo import (
    ConvergenceWarning,
    Curve,
    Gaussian,
    kernels,
    plot,
    solve_bvp,
    solve_ivp,
    solvers,
)

mpl.use("Agg")
import matplotlib.pyplot as plt

mpl.rcParams.update({"font.size": 8, "axes.titlesize": 8, "legend.fontsize": 7})

N_POINTS = (2, 4, 16, 40)


def half_circle(n: int = 200, noise: float = 0.08, seed: int = 0) -> np.ndarray:
    """Noisy points on the upper half of the unit circle, (n, 2)."""
    rng = np.random.default_rng(seed)
    angle = rng.uniform(0.0, np.pi, n)
    return np.stack([np.cos(angle), np.sin(angle)], axis=1) + noise * rng.normal(size=(n, 2))


def conformal_geodesic(data: np.ndarray, width: float = 0.3, floor: float = 0.1):
    """Acceleration f(t, c, c') of geodesics under M(x) = I / (density(x) + floor).

    With phi = log(m) / 2 for M = m I:  c'' = |c'|^2 grad phi - 2 (grad phi . c') c'.
    """

    def phi(x):
        density = jnp.mean(jnp.exp(-0.5 * jnp.sum((x - data) ** 2, axis=1) / width**2))
        return -0.5 * jnp.log(density + floor)

    def acceleration(t, c, dc):
        slope = jax.grad(phi)(c)
        return (dc @ dc) * slope - 2 * (slope @ dc) * dc

    return acceleration


def draw_convergence() -> plt.Figure:
    data = half_circle()
    f = conformal_geodesic(data)
    angles = np.deg2rad([150, 30])
    ends = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    shared = {"sharex": True, "sharey": True}
    fig, axes = plt.subplots(1, 4, figsize=(7.0, 1.7), layout="constrained", **shared)
    for n, ax in zip(N_POINTS, axes, strict=True):
        # V from the data and the distance of the ends, before any evaluation (Sec. 3.4)
        solver = solvers.Dense(
            kernels.SquaredExponential(0.4), n, refinements=50, V="ends", S=np.cov(data.T)
        )
        geodesic = solve_bvp(f, (0.0, 1.0), *ends, solver=solver)
        ax.plot(*data.T, ".", color=plot.COLOURS["data"], markersize=2.5, markeredgewidth=0)
        plot.curve(geodesic, ax, n_samples=25, seed=1)
        ax.plot(*ends.T, "o", color=plot.COLOURS["ends"], markersize=5, zorder=3.5)
        ax.set_title(f"N = {n}" + ("" if geodesic.converged else " (not converged)"))
        ax.set(xlim=(-1.5, 1.5), ylim=(-0.55, 1.45), xticks=[-1, 0, 1], yticks=[0, 1])
        ax.set_aspect("equal")
    axes[0].set_ylabel("$x_2$")
    for ax in axes:
        ax.set_xlabel("$x_1$")
    return fig


def swing() -> Curve:
    """A pendulum let go at 1.5 +- 0.08 rad, over about one and a half periods."""
    solver = solvers.Dense(kernels.SquaredExponential(0.15), n_points=30, error_model="linearised")
    start = Gaussian([1.5], [[0.08**2]])
    return solve_ivp(lambda t, y, dy: -jnp.sin(y), (0.0, 12.0), start, [0.0], solver=solver)


def draw_uncertain_start() -> plt.Figure:
    curve = swing()
    fig, (left, right) = plt.subplots(1, 2, figsize=(7.0, 2.3), layout="constrained")
    plot.curve(curve, left, n_samples=10)
    left.set(xlabel="time $t$", ylabel="angle $y$ (rad)")
    left.set_title("mean (red), two standard deviations, samples (green)")
    t = np.linspace(*np.asarray(curve.t_span), 400)[1:]
    styles = {
        "total": {"color": "#999999", "linewidth": 4},
        "boundary": {"color": "#000000", "linewidth": 1.2},
        "numerical": {"color": "#0072b2", "linewidth": 1.5, "linestyle": "--"},
    }
    for source, style in styles.items():
        right.semilogy(t, curve.std(t, source=source), label=source, **style)
    right.set(xlabel="time $t$", ylabel="standard deviation of $y$", ylim=(3e-5, 3.0))
    right.set_title("where the uncertainty comes from")
    right.legend(loc="upper center", ncols=3)
    return fig


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("figures"), help="folder for the figures")
    folder = parser.parse_args().out
    folder.mkdir(parents=True, exist_ok=True)
    warnings.simplefilter("ignore", ConvergenceWarning)  # the titles of the panels say it
    start = time.perf_counter()
    figures = {"convergence": draw_convergence(), "uncertain_start": draw_uncertain_start()}
    for name, figure in figures.items():
        for suffix in ("png", "pdf"):
            path = folder / f"{name}.{suffix}"
            figure.savefig(path, dpi=200)
            print(f"wrote {path}")
    print(f"{time.perf_counter() - start:.0f} s, most of it compilation")


if __name__ == "__main__":
    main()
