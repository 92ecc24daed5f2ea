"""Fig. 5: how long each geodesic takes, against SciPy, by its length.

CPU milliseconds of geodesics of Fig. 3, solved one at a time. Above: our solver against SciPy's solve_bvp; the colour
is the length of the curve. Below: how many times faster we are, by length. The dashed line is what one geodesic takes
us if all are solved in one batch. Our times include the posterior over curve and length. An order of magnitude is here
a factor of at least five, in one batch as well as one at a time (partly: in one of them). The run time is almost
unaffected by the length if nineteen of twenty curves take at most twice as long as the median, and if that is less than
with SciPy.
"""

from functools import partial

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.ticker import LogLocator, NullLocator

from probgeo.paper.classical import SCIPY_SETTINGS, by_solve_bvp
from probgeo.paper.experiment import Claim, Outcome, Settings, cpu_seconds, verdict
from probgeo.paper.ones import SETTINGS, ones


def run(settings: Settings) -> Outcome:
    found = ones(settings)
    count = settings.choose(150, 30, 3)
    ends, plain = found.ends[:count], found.plain
    lengths = found.curves["default"].length.mean[:count]
    batched, alone = {}, {}  # milliseconds
    for name, manifold in found.manifolds.items():
        solve = partial(manifold.geodesic, found.mean, progress=False)
        solve(ends)  # loads what Numba has compiled
        batched[name] = 1e3 * cpu_seconds(solve, found.ends) / len(found.ends)
        solve(ends[0])
        alone[name] = np.array([1e3 * cpu_seconds(solve, end) for end in ends])
    scipy = partial(by_solve_bvp, plain, found.mean)
    theirs = np.array([1e3 * cpu_seconds(scipy, end) for end in ends])

    figure, axes = plt.subplots(2, 2, figsize=(7.0, 4.4))
    for (above, below), (name, ours) in zip(axes.T, alone.items(), strict=True):
        style = {"c": lengths, "cmap": "viridis_r", "s": 10, "edgecolor": "black", "linewidth": 0.2}
        dots = above.scatter(theirs, ours, **style)
        below.scatter(lengths, theirs / ours, **style)
        dashed = {"linestyle": "--", "color": "black", "linewidth": 0.8, "label": "in one batch"}
        above.axhline(batched[name], **dashed)
        above.set(title=f"{name} solver", xlabel="SciPy, ms", ylabel="ours, ms", xlim=(0, None), ylim=(0, None))
        above.legend(frameon=False, loc="lower right")
        below.axhline(1.0, color="black", linewidth=0.6)
        below.axhline(theirs.mean() / batched[name], **dashed)
        below.set(xlabel="length of the curve", ylabel="SciPy / ours", yscale="log")
        below.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        below.yaxis.set_major_formatter("{x:g}")
        below.yaxis.set_minor_locator(NullLocator())
    figure.colorbar(dots, ax=axes, label="length", shrink=0.6)

    numbers = {
        name: {
            "ms_alone": float(ours.mean()),
            "ms_in_batch": batched[name],
            "ratio_alone": float(theirs.mean() / ours.mean()),
            "ratio_in_batch": float(theirs.mean() / batched[name]),
            **_spread(lengths, ours),
        }
        for name, ours in alone.items()
    }
    classical = {"ms": float(theirs.mean()), **_spread(lengths, theirs)}
    return Outcome(
        figures={"fig5": figure},
        numbers=numbers | {"scipy": classical, "timed": count, "in_batch": len(found.ends)},
        settings=SETTINGS | {"SciPy": SCIPY_SETTINGS},
        claims=_claims(numbers, classical["slow_over_median"]),
    )


def _spread(lengths: np.ndarray, times: np.ndarray) -> dict[str, float]:
    """How run times depend on the length; and what 19 of 20 stay below, over the median."""
    return {
        "correlation_with_length": float(np.corrcoef(lengths, times)[0, 1]),
        "slow_over_median": float(np.quantile(times, 0.95) / np.median(times)),
    }


def _claims(numbers: dict, their_spread: float) -> list[Claim]:
    speed = [
        Claim(
            f"The cost is lower by about an order of magnitude ({name} solver).",
            f"SciPy / ours: {found['ratio_in_batch']:.1f} in one batch, {found['ratio_alone']:.2f} one at a time",
            verdict(found["ratio_in_batch"] >= 5, found["ratio_alone"] >= 5),
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
            verdict(*(ours < min(2.0, their_spread) for ours in (paper, default))),
            "A curve that the paper's solver flags is tried again from other starts, and long ones "
            "are flagged more often; the default solver flags none here.",
        ),
    ]
