"""Fig. 5: how long each geodesic takes, against SciPy, by its length.

CPU milliseconds of geodesics of Fig. 3, solved one at a time. Above: our solver against SciPy's
solve_bvp; the colour is the length of the curve. Below: how many times faster we are, by length.
The dashed line is what one geodesic takes us if all are solved in one batch. Our times include the
posterior over curve and length. An order of magnitude is here a factor of at least five, in one
batch as well as one at a time (partly: in one of them). The run time is almost
unaffected by the length if nineteen of twenty curves take at most twice as long as the median, and
if that is less than with SciPy.
"""

from collections.abc import Callable, Iterable
from functools import partial

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.ticker import LogLocator, NullLocator

from probgeo.paper.classical import by_solve_bvp
from probgeo.paper.experiment import Claim, Outcome, Progress, Settings, cpu_seconds
from probgeo.paper.ones import SETTINGS, Ones, geodesics_from_mean, ones


def run(settings: Settings, progress: Progress) -> Outcome:
    progress.say("geodesics in one batch")
    found = ones(settings)
    count = settings.choose(150, 30, 3)
    ends, plain = found.ends[:count], found.plain
    batched, alone = _our_seconds(found, ends, progress)
    theirs = _each(progress.over(ends, "SciPy"), lambda end: by_solve_bvp(plain, found.mean, end, settings.tolerance))
    lengths = geodesics_from_mean(settings)["default"].length.mean[:count]

    figure, axes = plt.subplots(2, 2, figsize=(7.0, 4.4))
    for column, (name, ours) in zip(axes.T, alone.items(), strict=True):
        style = {"c": lengths, "cmap": "viridis_r", "s": 10, "edgecolor": "black", "linewidth": 0.2}
        dots = column[0].scatter(1e3 * theirs, 1e3 * ours, **style)
        column[1].scatter(lengths, theirs / ours, **style)
        dashed = {"linestyle": "--", "color": "black", "linewidth": 0.8, "label": "in one batch"}
        column[0].axhline(1e3 * batched[name], **dashed)
        column[1].axhline(1.0, color="black", linewidth=0.6)
        column[0].set(title=f"{name} solver", xlabel="SciPy, ms", ylabel="ours, ms")
        column[0].set(xlim=(0, None), ylim=(0, None))
        column[1].set(xlabel="length of the curve", ylabel="SciPy / ours", yscale="log")
        column[1].yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        column[1].yaxis.set_major_formatter("{x:g}")
        column[1].yaxis.set_minor_locator(NullLocator())
        column[1].axhline(theirs.mean() / batched[name], **dashed)
        column[0].legend(frameon=False, loc="lower right")
    figure.colorbar(dots, ax=axes, label="length", shrink=0.6)

    numbers = {
        name: {
            "ms_alone": 1e3 * float(alone[name].mean()),
            "ms_in_batch": 1e3 * batched[name],
            "ratio_alone": float(theirs.mean() / alone[name].mean()),
            "ratio_in_batch": float(theirs.mean() / batched[name]),
            **_spread(lengths, alone[name]),
        }
        for name in alone
    }
    scipy = {"ms": 1e3 * float(theirs.mean()), **_spread(lengths, theirs)}
    return Outcome(
        figures={"fig5": figure},
        numbers=numbers | {"scipy": scipy, "timed": count, "in_batch": len(found.ends)},
        settings=SETTINGS | {"SciPy": settings.scipy},
        claims=_claims(numbers, scipy["slow_over_median"]),
    )


def _our_seconds(found: Ones, ends: np.ndarray, progress: Progress) -> tuple[dict, dict]:
    """For one geodesic of a batch, and for those to the ends, each alone; by the solver."""
    batched, alone = {}, {}
    for name, manifold in found.manifolds.items():
        solve = partial(manifold.geodesic, found.mean, progress=False)
        solve(ends)  # loads what Numba has compiled
        batched[name] = cpu_seconds(solve, found.ends) / len(found.ends)
        solve(ends[0])
        alone[name] = _each(progress.over(ends, f"{name} solver"), solve)
    return batched, alone


def _each(ends: Iterable[np.ndarray], solve: Callable) -> np.ndarray:
    return np.array([cpu_seconds(solve, end) for end in ends])


def _spread(lengths: np.ndarray, seconds: np.ndarray) -> dict[str, float]:
    """How run times depend on the length; and what 19 of 20 stay below, over the median."""
    return {
        "correlation_with_length": float(np.corrcoef(lengths, seconds)[0, 1]),
        "slow_over_median": float(np.quantile(seconds, 0.95) / np.median(seconds)),
    }


def _claims(numbers: dict, their_spread: float) -> list[Claim]:
    speed = [
        Claim(
            f"The cost is lower by about an order of magnitude ({name} solver).",
            f"SciPy / ours: {found['ratio_in_batch']:.1f} in one batch, {found['ratio_alone']:.2f} one at a time",
            ("disagrees", "partly", "agrees")[(found["ratio_in_batch"] >= 5) + (found["ratio_alone"] >= 5)],
            "The paper compares two solvers written in Matlab; SciPy's is vectorised.",
        )
        for name, found in numbers.items()
    ]
    paper, default = (found["slow_over_median"] for found in numbers.values())
    return [
        *speed,
        Claim(
            "The cost of the probabilistic solver is almost unaffected by the length of the curve.",
            "what nineteen of twenty stay below, over the median: paper's solver "
            f"{paper:.1f}, default {default:.1f}, SciPy {their_spread:.1f}",
            ("disagrees", "partly", "agrees")[sum(ours < min(2.0, their_spread) for ours in (paper, default))],
            "A curve that the paper's solver flags is tried again from other starts, and long ones "
            "are flagged more often; the default solver flags none here.",
        ),
    ]
