"""Fig. 2: five boundary value problems in one data set.

Grey: data. Red: means of the probabilistic solver, dashed where it says that it has not converged.
Green: 30 samples of each. Orange, dashed: SciPy's solve_bvp, where it says that it has. The curve
at the top right ends in a point that is known only up to the ellipse of two standard deviations, which classical
solvers cannot take.
"""

import matplotlib.pyplot as plt
import numpy as np

from probgeo import Gaussian, Manifold, data, metrics, plot
from probgeo.paper.classical import SCIPY_SETTINGS, NumpyMetric, by_solve_bvp, length_of
from probgeo.paper.experiment import (
    TIMES,
    Claim,
    Outcome,
    Settings,
    draw_classical,
    explain_curves,
    paper_solver,
    verdict,
)

# ends of the curves; the last of them is uncertain
FROM = np.array([[-0.9, 0.3], [0.3, -0.1], [1.3, -0.45], [-0.5, 0.8], [0.75, 0.75]])
TO = np.array([[-0.3, 0.95], [0.95, -0.5], [1.95, 0.3], [1.0, 0.1], [1.9, 0.9]])
SPREAD = np.array([[0.02, 0.008], [0.008, 0.01]])


def run(settings: Settings) -> Outcome:
    X = data.two_moons(200, noise=0.1, seed=settings.seed)
    metric = metrics.from_mixture(X, 6, rho=0.3, regularisation=0.02, seed=settings.seed)
    ends = Gaussian(TO, np.concatenate([np.zeros((4, 2, 2)), SPREAD[None]]))
    solved, numbers = {}, {}
    for name, solver in (("paper's solver", paper_solver(X)), ("default solver", None)):
        curves = solved[name] = Manifold(metric, solver).geodesic(FROM, ends, progress=False)
        numbers[name] = {
            "length": curves.length.mean,
            "length_std": curves.length.std,
            "largest_std": curves.std(TIMES, source="numerical").max(axis=(1, 2)),
            "converged": curves.converged,
        }
    plain = NumpyMetric(metric)
    classical = [by_solve_bvp(plain, a, b) for a, b in zip(FROM, TO, strict=True)]
    scipy = {"length": [length_of(plain, c) for c in classical], "converged": [c.success for c in classical]}

    figure, axes = plt.subplots(1, 2, figsize=(7.0, 2.5), sharex=True, sharey=True)
    for ax, (name, curves) in zip(axes, solved.items(), strict=True):
        plot.geodesics(curves, ax, data=X, n_samples=30, seed=settings.seed)
        plot.ellipse(Gaussian(TO[4], SPREAD), ax)
        draw_classical(ax, classical)
        ax.set(title=name, xlabel="$x_1$", aspect="equal", xlim=(-1.5, 2.5), ylim=(-1.0, 1.5))
    axes[0].set_ylabel("$x_2$")
    explain_curves(axes[1], "lower left")

    length, std = (numbers["paper's solver"][name][:4] for name in ("length", "largest_std"))
    short, long = np.argmin(length), np.argmax(length)
    off = np.abs(solved["paper's solver"].cov(1.0, 1.0)[4] - SPREAD).max() / SPREAD.max()
    return Outcome(
        figures={"fig2": figure},
        numbers=numbers | {"scipy": scipy},
        settings={
            "data": "200 noisy points on two moons",
            "metric": "mixture of 6 Gaussians (EM), inverse covariances, rho = 0.3",
            "paper's solver": "squared exponential kernel, length scale 0.25, 20 evaluations",
            "SciPy": SCIPY_SETTINGS,
        },
        claims=[
            Claim(
                "Short, simple curves lead to confident predictions, the difficult one to a drastic uncertainty.",
                f"of the four with certain ends the shortest ({length[short]:.1f} long) has a largest standard "
                f"deviation of {std[short]:.2g}, the longest ({length[long]:.1f}) of {std[long]:.2g}",
                verdict(std[long] > std[short]),
            ),
            Claim(
                "Unlike classical methods, the solver deals with uncertain boundary values.",
                "the covariance of the curve at its uncertain end is the one that was put in, up to "
                f"{100 * off:.1g} % of its largest entry",
                verdict(off < 0.01),
            ),
        ],
    )
