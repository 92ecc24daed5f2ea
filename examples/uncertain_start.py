"""An ODE whose start is uncertain: two kinds of uncertainty, kept apart.

    python examples/uncertain_start.py --out figures

A pendulum, let go at an angle that is known to about five degrees only. The curve carries two kinds
of uncertainty: what the start leaves open ("boundary"; it nearly vanishes where swings from all
starts cross), and what the solver does not know for lack of evaluations ("numerical"). More of
these would lower the second, only a better measurement the first.
"""

import argparse
from pathlib import Path

import jax.numpy as jnp
import matplotlib as mpl
import numpy as np

from probgeo import Curve, Gaussian, kernels, plot, solve_ivp, solvers

mpl.use("Agg")
import matplotlib.pyplot as plt

mpl.rcParams.update({"font.size": 8, "axes.titlesize": 8, "legend.fontsize": 7})


def swing() -> Curve:
    """A pendulum let go at 1.5 +- 0.08 rad, over about one and a half periods."""
    solver = solvers.Dense(kernels.SquaredExponential(0.15), n_points=30, error_model="linearised")
    start = Gaussian([1.5], [[0.08**2]])
    return solve_ivp(lambda t, y, dy: -jnp.sin(y), (0.0, 12.0), start, [0.0], solver=solver)


def draw(curve: Curve) -> plt.Figure:
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
    parser.add_argument("--out", type=Path, default=Path("figures"), help="folder for the figure")
    folder = parser.parse_args().out
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "uncertain_start.png"
    draw(swing()).savefig(path, dpi=200)
    print(f"wrote {path}")


if __name__ == "__main__":
    main()
