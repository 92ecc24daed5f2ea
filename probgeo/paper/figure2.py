"""Fig. 2: five boundary value problems in one data set.

Grey: data. Red: means of the probabilistic solver, dashed where it says that it has not converged.
Green: 30 samples of each. Orange, dashed: SciPy's solve_bvp, where it says that it has. The curve
at the top right ends in a point that is known only up to the ellipse of two standard deviations,
which classical solvers cannot take.
"""

import matplotlib.pyplot as plt
import numpy as np

from probgeo import Gaussian, Geodesic, Manifold, data, metrics, plot
from probgeo.paper.classical import NumpyMetric, by_solve_bvp, length_of
from probgeo.paper.experiment import (
    TIMES,
    Claim,
    Outcome,
    Progress,
    Settings,
    draw_classical,
    explain_curves,
    paper_solver,
)

# ends of the curves; the last of them is uncertain
FROM = np.array([[-0.9, 0.3], [0.3, -0.1], [1.3, -0.45], [-0.5, 0.8], [0.75, 0.75]])
TO = np.array([[-0.3, 0.95], [0.95, -0.5], [1.95, 0.3], [1.0, 0.1], [1.9, 0.9]])
SPREAD = np.array([[0.02, 0.008], [0.008, 0.01]])


def run(settings: Settings, progress: Progress) -> Outcome:
    X = data.two_moons(200, noise=0.1, seed=settings.seed)
    metric = metrics.from_mixture(X, 6, rho=0.3, regularisation=0.02, seed=settings.seed)
    ends = Gaussian(TO, np.concatenate([np.zeros((4, 2, 2)), SPREAD[None]]))
    solved = {}
    of_both = [("paper's solver", paper_solver(X)), ("default solver", None)]
    for name, solver in progress.over(of_both, "solver"):
        solved[name] = Manifold(metric, solver).geodesic(FROM, ends, progress=False)
    plain = NumpyMetric(metric)
    pairs = zip(FROM, TO, strict=True)
    classical = [by_solve_bvp(plain, a, b, settings.tolerance) for a, b in pairs]
    lengths = np.array([length_of(plain, found) for found in classical])
    fine = np.array([found.status == 0 for found in classical])

    figure, axes = plt.subplots(1, 2, figsize=(7.0, 2.5), sharex=True, sharey=True)
    for ax, (name, curves) in zip(axes, solved.items(), strict=True):
        plot.geodesics(curves, ax, data=X, n_samples=30, seed=settings.seed)
        plot.ellipse(Gaussian(TO[4], SPREAD), ax)
        draw_classical(ax, np.array(classical, dtype=object)[fine])
        ax.set(title=name, xlabel="$x_1$", aspect="equal", xlim=(-1.5, 2.5), ylim=(-1.0, 1.5))
    axes[0].set_ylabel("$x_2$")
    explain_curves(axes[1], "lower left")

    numbers = {
        name: {
            "length": curves.length.mean,
            "length_std": curves.length.std,
            "largest_std": _spread(curves),
            "converged": curves.converged,
        }
        for name, curves in solved.items()
    }
    at_end = solved["paper's solver"].cov(1.0, 1.0)[4]
    return Outcome(
        figures={"fig2": figure},
        numbers=numbers | {"scipy": {"length": lengths, "converged": fine}},
        settings={
            "data": "200 noisy points on two moons",
            "metric": "mixture of 6 Gaussians (EM), inverse covariances, rho = 0.3",
            "paper's solver": "squared exponential kernel, length scale 0.25, 20 evaluations",
            "SciPy": settings.scipy,
        },
        claims=[_claim_on_difficulty(solved), _claim_on_ends(at_end)],
    )


def _spread(curves: Geodesic) -> np.ndarray:
    """Largest numerical standard deviation of each."""
    return curves.std(TIMES, source="numerical").max(axis=(1, 2))


def _claim_on_difficulty(solved: dict[str, Geodesic]) -> Claim:
    curves = solved["paper's solver"]
    length, spread = curves.length.mean[:4], _spread(curves)[:4]
    order = np.argsort(length)
    grows = spread[order[-1]] > spread[order[0]]
    return Claim(
        "Short, simple curves lead to confident predictions, the difficult one to a drastic uncertainty.",
        f"of the four with certain ends the shortest ({length[order[0]]:.1f} long) has a largest "
        f"standard deviation of {spread[order[0]]:.2g}, the longest ({length[order[-1]]:.1f}) of "
        f"{spread[order[-1]]:.2g}",
        "agrees" if grows else "disagrees",
    )


def _claim_on_ends(found: np.ndarray) -> Claim:
    off = float(np.abs(found - SPREAD).max() / SPREAD.max())
    return Claim(
        "Unlike classical methods, the solver deals with uncertain boundary values.",
        f"the covariance of the curve at its uncertain end is the one that was put in, up to "
        f"{100 * off:.1g} % of its largest entry",
        "agrees" if off < 0.01 else "disagrees",
    )
