"""Fig. 4: lengths of the geodesics of Fig. 3, with their error bars, against SciPy.

Every dot is a geodesic from the mean to an image. Above: its length by the probabilistic solver against that by SciPy's
solve_bvp at a tolerance of 1e-9, which is taken for the truth. Below: the difference, relative to the length, with bars
of two standard deviations; light where the solver flags the curve. In the last column the default solver has three
nodes, and no more. Bars reflect the error if two standard deviations cover it in at least 90 % of cases, and if the
mean of its square, over the variance (the normalised squared error), is between 0.3 and 3.
"""

import matplotlib.pyplot as plt
import numpy as np

from probgeo import Geodesic, Manifold, plot, solvers
from probgeo.paper.classical import by_solve_bvp, length_of
from probgeo.paper.experiment import Claim, Outcome, Settings
from probgeo.paper.ones import SETTINGS, ones


def run(settings: Settings) -> Outcome:
    found = ones(settings)
    coarse = Manifold(found.metric, solvers.Markov(n_points=3))
    curves = {**found.curves, "coarse": coarse.geodesic(found.mean, found.ends, progress=False)}
    plain = found.plain
    solutions = [by_solve_bvp(plain, found.mean, x, 1e-9, max_nodes=20000) for x in found.ends]
    truth = np.array([length_of(plain, s) for s in solutions])
    reliable = np.array([s.success for s in solutions])
    numbers = {name: _compared(c, truth, reliable) for name, c in curves.items()}

    figure, axes = plt.subplots(2, 3, figsize=(7.0, 4.0), sharex=True)
    for (above, below), (name, c) in zip(axes.T, curves.items(), strict=True):
        mean, std = c.length.mean, c.length.std
        off = (mean - truth) / truth
        kinds = ((c.flagged, plot.COLOURS["nodes"], "flagged"), (~c.flagged, plot.COLOURS["mean"], "converged"))
        for chosen, colour, label in kinds:
            k = chosen & reliable
            style = {"fmt": ".", "color": colour, "markersize": 3, "elinewidth": 0.5, "label": label}
            above.errorbar(truth[k], mean[k], 2 * std[k], **style)
            below.errorbar(truth[k], off[k], 2 * std[k] / truth[k], **style)
        top = 1.05 * truth[reliable].max()
        above.plot([0, top], [0, top], color="black", linewidth=0.6, zorder=0)
        above.set(title=f"{name} solver", xlim=(0, top), ylim=(0, 1.2 * top))
        below.axhline(0.0, color="black", linewidth=0.6, zorder=0)
        widest = np.quantile((np.abs(off) + 2 * std / truth)[reliable], 0.99)
        below.set(xlabel="length by SciPy", ylim=(-1.1 * widest, 1.1 * widest))
        below.ticklabel_format(axis="y", scilimits=(-2, 2))
    axes[0, 0].set_ylabel("length $\\pm$ 2 std. deviations")
    axes[1, 0].set_ylabel("relative difference")
    axes[0, 0].legend(frameon=False, loc="upper left")
    return Outcome(
        figures={"fig4": figure},
        numbers=numbers | {"scipy_failed": int(np.sum(~reliable)), "geodesics": len(truth)},
        settings=SETTINGS
        | {
            "coarse solver": "the default one with three nodes",
            "SciPy": "solve_bvp, tolerance 1e-09, from straight lines with 20 nodes",
        },
        claims=[_claim(name, numbers[name]) for name in curves],
    )


def _compared(curves: Geodesic, truth: np.ndarray, reliable: np.ndarray) -> dict:
    """Lengths that differ by more than a hundredth are those of another geodesic."""
    mean, std = curves.length.mean, curves.length.std
    off = mean - truth
    longer, shorter = reliable & (off > 0.01 * truth), reliable & (off < -0.01 * truth)
    same = reliable & ~longer & ~shorter
    inside, relative = np.abs(off) <= 2 * std, (np.abs(off) / truth)[reliable]
    return {
        "coverage": float(np.mean(inside[reliable])),
        "coverage_of_the_same": float(np.mean(inside[same])),
        "mean_relative_difference": float(np.mean(relative)),
        "median_relative_difference": float(np.median(relative)),
        "normalised_squared_error": float(np.mean((off[same] / std[same]) ** 2)),
        "mean_relative_std": float(np.mean((std / truth)[reliable])),
        "longer_by_1_percent": int(np.sum(longer)),
        "shorter_by_1_percent": int(np.sum(shorter)),
        "flagged": int(np.sum(curves.flagged)),
    }


def _claim(name: str, numbers: dict) -> Claim:
    covered, squared = numbers["coverage"] >= 0.9, numbers["normalised_squared_error"]
    fits = 0.3 <= squared <= 3
    long = covered and squared < 0.3
    return Claim(
        f"The error estimates reflect the imprecision of the lengths quite well ({name} solver).",
        f"the lengths of SciPy are within two standard deviations for {100 * numbers['coverage']:.0f} % of the "
        f"geodesics; the normalised squared error is {squared:.2g}; the mean relative difference "
        f"is {numbers['mean_relative_difference']:.1e}, the mean relative standard deviation "
        f"{numbers['mean_relative_std']:.1e}; {numbers['flagged']} are flagged",
        "disagrees" if not covered else "agrees" if fits else "partly",
        f"The bars are about {squared**-0.5:.0f} times as long as they need to be." if long else "",
    )
