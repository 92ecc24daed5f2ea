"""Fig. 4: lengths of the geodesics of Fig. 3, with their error bars, against SciPy.

Every dot is a geodesic from the mean to an image. Above: its length by the probabilistic solver
against that by SciPy's solve_bvp at a tolerance of 1e-9, which is taken for the truth. Below: the
difference, relative to the length, with bars of two standard deviations; light where the solver
flags the curve. In the last column the default solver has five nodes, and no more.
"""

import matplotlib.pyplot as plt
import numpy as np

from probgeo import Geodesic, Manifold, plot, solvers
from probgeo.paper.classical import by_solve_bvp, length_of
from probgeo.paper.experiment import Claim, Outcome, Progress, Settings, Verdict
from probgeo.paper.ones import SETTINGS, geodesics_from_mean, ones

TOLERANCE = 1e-9
COARSE = "coarse"
NODES = 5  # of the coarse one
SAME = 1e-2  # relative difference of lengths from which on curves are not the same geodesic


def run(settings: Settings, progress: Progress) -> Outcome:
    progress.say("geodesics")
    found, curves = ones(settings), dict(geodesics_from_mean(settings))
    coarse = Manifold(found.metric, solvers.Markov(n_points=NODES))
    curves[COARSE] = coarse.geodesic(found.mean, found.X, progress=False)
    plain = found.plain
    solutions = [
        by_solve_bvp(plain, found.mean, x, TOLERANCE, max_nodes=20000)
        for x in progress.over(found.X, "SciPy")
    ]
    truth = np.array([length_of(plain, s) for s in solutions])
    reliable = np.array([s.status == 0 for s in solutions])
    numbers = {name: _compared(c, truth, reliable) for name, c in curves.items()}

    figure, axes = plt.subplots(2, 3, figsize=(7.0, 4.0), sharex=True)
    for column, (name, c) in zip(axes.T, curves.items(), strict=True):
        mean, std = c.length.mean, c.length.std
        flagged = c.flagged
        off = (mean - truth) / truth
        for chosen, colour in ((flagged, plot.COLOURS["nodes"]), (~flagged, plot.COLOURS["mean"])):
            k = chosen & reliable
            style = {"fmt": ".", "color": colour, "markersize": 3, "elinewidth": 0.5}
            column[0].errorbar(truth[k], mean[k], 2 * std[k], **style)
            column[1].errorbar(truth[k], off[k], 2 * std[k] / truth[k], **style)
        top = 1.05 * truth[reliable].max()
        column[0].plot([0, top], [0, top], color="black", linewidth=0.6, zorder=0)
        column[1].axhline(0.0, color="black", linewidth=0.6, zorder=0)
        column[0].set(title=f"{name} solver", xlim=(0, top), ylim=(0, 1.2 * top))
        column[1].set(xlabel="length by SciPy")
        widest = np.quantile((np.abs(off) + 2 * std / truth)[reliable], 0.99)
        column[1].set_ylim(-1.1 * widest, 1.1 * widest)
        column[1].ticklabel_format(axis="y", scilimits=(-2, 2))
    axes[0, 0].set_ylabel("length $\\pm$ 2 std. deviations")
    axes[1, 0].set_ylabel("relative difference")
    for colour, label in ((plot.COLOURS["mean"], "converged"), (plot.COLOURS["nodes"], "flagged")):
        axes[0, 0].plot([], [], ".", color=colour, label=label)
    axes[0, 0].legend(frameon=False, loc="upper left")

    return Outcome(
        figures={"fig4": figure},
        numbers=numbers | {"scipy_failed": int(np.sum(~reliable)), "geodesics": len(truth)},
        settings=SETTINGS
        | {
            "coarse solver": f"the default one with {NODES} nodes",
            "SciPy": f"solve_bvp, tolerance {TOLERANCE:.0e}, from straight lines with 20 nodes",
        },
        claims=[_claim(name, numbers[name]) for name in curves],
    )


def _compared(curves: Geodesic, truth: np.ndarray, reliable: np.ndarray) -> dict:
    mean, std = curves.length.mean, curves.length.std
    off = mean - truth
    same = reliable & (np.abs(off) <= SAME * truth)
    # what is below the tolerance of the truth is no difference
    inside = np.abs(off) <= 2 * std + TOLERANCE * truth
    return {
        "coverage": float(np.mean(inside[reliable])),
        "coverage_of_the_same": float(np.mean(inside[same])),
        "mean_relative_difference": float(np.mean(np.abs(off[reliable]) / truth[reliable])),
        "median_relative_difference": float(np.median(np.abs(off[reliable]) / truth[reliable])),
        "below_the_tolerance": float(np.mean(np.abs(off[reliable]) <= TOLERANCE * truth[reliable])),
        "mean_relative_std": float(np.mean(std[reliable] / truth[reliable])),
        "longer_by_1_percent": int(np.sum(reliable & (off > SAME * truth))),
        "shorter_by_1_percent": int(np.sum(reliable & (off < -SAME * truth))),
        "flagged": int(np.sum(curves.flagged)),
    }


def _claim(name: str, numbers: dict) -> Claim:
    covered, spread = numbers["coverage"], numbers["mean_relative_std"]
    off, beyond_truth = numbers["mean_relative_difference"], numbers["below_the_tolerance"]
    too_long = spread > 5 * off
    verdict: Verdict = "disagrees"
    if covered >= 0.88:
        verdict = "partly" if too_long else "agrees"
    why = "Bars that cover everything are longer than they need to be." if too_long else ""
    if beyond_truth > 0.5:
        verdict = "not tested"
        why = f"{100 * beyond_truth:.0f} % of the differences are below the tolerance of the truth."
    return Claim(
        f"The error estimates reflect the imprecision of the lengths quite well ({name} solver).",
        f"the lengths of SciPy are within two standard deviations for {100 * covered:.0f} % of the "
        f"geodesics; the mean relative difference is {off:.1e}, the mean relative standard "
        f"deviation {spread:.1e}; {numbers['flagged']} are flagged",
        verdict,
        why,
    )
