"""The picture on the first page, `landing.png`: `python docs/images/landing.py` draws it again.

One pair of points on a noisy spiral, of which the shortest path goes around. Left: the straight
line, and SciPy's `solve_bvp` started from it. Centre: the posterior of probgeo on six nodes, few
enough to see it. Right: the default, with an end that is known only roughly.
"""

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

from probgeo import Gaussian, Manifold, data, metrics, plot, solvers
from probgeo.paper.classical import NumpyMetric, by_solve_bvp, length_of
from probgeo.paper.experiment import SCIPY

X = data.spiral(300, turns=1.5, noise=0.05)
METRIC = metrics.from_mixture(X, n_components=8, rho=0.5, regularisation=1e-2)
A, B = X[126], X[151]
ROUGHLY = Gaussian(B, 0.06**2 * np.eye(2))
TIMES = np.linspace(0.0, 1.0, 301)


def solve():
    """What is drawn: SciPy's solution with its length, and three geodesics."""
    plain = NumpyMetric(METRIC)
    scipy = by_solve_bvp(plain, A, B, tol=1e-3)
    return {
        "scipy": scipy,
        "scipy_length": length_of(plain, scipy),
        "tight": Manifold(METRIC, solvers.Markov(rtol=1e-8)).geodesic(A, B),
        "rough": Manifold(METRIC, solvers.Markov(n_points=6)).geodesic(A, B),
        "uncertain": Manifold(METRIC).geodesic(A, ROUGHLY),
    }


def draw(found):
    figure, axes = plt.subplots(1, 3, figsize=(8.0, 3.0), layout="constrained")
    _others(axes[0], found)
    _few_nodes(axes[1], found)
    _uncertain_end(axes[2], found["uncertain"])
    for ax in axes:
        plot.points(X, ax)
        ax.plot(*np.transpose([A, B]), "o", color=plot.COLOURS["ends"], markersize=5, zorder=6)
        ax.set(aspect="equal", xlim=(-1.13, 0.93), ylim=(-0.75, 1.0), xlabel="", ylabel="")
        ax.set(xticks=[], yticks=[])
        ax.spines[:].set_visible(False)
    return figure


def _others(ax, found):
    ax.plot(*np.transpose([A, B]), ":", color="k", linewidth=1.8, zorder=4)
    ax.plot(*found["scipy"].sol(TIMES)[:2], color=SCIPY, linewidth=2.5, zorder=5)
    ax.text(-0.28, 0.36, "straight line", fontsize=8)
    ax.text(-0.5, -0.06, "SciPy", color="#9a6a00", fontsize=9, weight="bold", ha="right")
    length = found["scipy_length"]
    longer = 100.0 * (length / found["tight"].length.mean - 1.0)
    _say(ax, "SciPy, from the straight line", f"solve_bvp: success, length {length:.2f},",
         f"{longer:.0f} % longer than the shortest")  # fmt: skip


def _few_nodes(ax, found):
    rough = found["rough"]
    _posterior(ax, rough)
    ax.plot(*found["tight"].mean(TIMES).T, "--", color="k", linewidth=1.2, zorder=5)
    ax.plot([], [], color=plot.COLOURS["mean"], linewidth=2.5, label="mean")
    ax.plot([], [], color=plot.COLOURS["samples"], linewidth=1.5, label="samples")
    ax.plot([], [], "--", color="k", linewidth=1.2, label="tight solve")
    ax.legend(loc="lower left", frameon=False, fontsize=8, handlelength=1.6, borderpad=0.0)
    _say(ax, "probgeo, six nodes only", f"length {rough.length.mean:.2f} ± {_bar(rough.length)}",
         "numerical uncertainty, in sight")  # fmt: skip


def _uncertain_end(ax, curve):
    _posterior(ax, curve)
    plot.ellipse(ROUGHLY, ax)
    ends, solver = (curve.measure(source=source) for source in ("boundary", "numerical"))
    _say(ax, "probgeo, one end uncertain", f"length {ends.mean:.2f} ± {_bar(ends)} from the end,",
         f"± {_bar(solver)} from the solver")  # fmt: skip


def _posterior(ax, curve):
    for sample in curve.sample(0, 40, TIMES):
        ax.plot(*sample.T, color=plot.COLOURS["samples"], linewidth=0.7, alpha=0.8, zorder=2)
    ax.plot(*curve.mean(TIMES).T, color=plot.COLOURS["mean"], linewidth=2.5, zorder=4)


def _bar(length):
    return f"{2.0 * float(length.std):.1g}"


def _say(ax, title, *lines):
    ax.set_title(title, fontsize=11, weight="bold")
    ax.text(0.5, -0.02, "\n".join(lines), transform=ax.transAxes, fontsize=9, ha="center", va="top")


if __name__ == "__main__":
    plt.switch_backend("Agg")
    draw(solve()).savefig(Path(__file__).with_suffix(".png"), dpi=200, facecolor="white")
