"""Fig. 5: how long each geodesic takes, against SciPy, by its length.

CPU milliseconds of geodesics of Fig. 3, solved one at a time. Above: our solver against SciPy's
solve_bvp; the colour is the length of the curve. Below: how many times faster we are, by length.
The dashed line is what one geodesic takes us if all are solved in one batch. Our times include the
posterior over curve and length.
"""

import time
from collections.abc import Callable
from typing import Any

import matplotlib.pyplot as plt
import numpy as np

from probgeo import Manifold
from probgeo.paper.classical import by_solve_bvp
from probgeo.paper.experiment import Claim, Outcome, Progress, Settings
from probgeo.paper.ones import SETTINGS, Ones, geodesics_from_mean, ones

TOLERANCE = 1e-3


def run(settings: Settings, progress: Progress) -> Outcome:
    progress.say("geodesics in one batch")
    found = ones(settings)
    count = min(settings.choose(300, 30, 3), len(found.X))
    ends, plain = found.X[:count], found.plain
    batched, alone = _our_seconds(found, ends, progress)
    theirs = np.array(
        [
            _seconds(by_solve_bvp, plain, found.mean, end, TOLERANCE)
            for end in progress.over(ends, "SciPy")
        ]
    )
    lengths = geodesics_from_mean(settings)["default"].length.mean[:count]

    figure, axes = plt.subplots(2, 2, figsize=(7.0, 4.4))
    for column, (name, ours) in zip(axes.T, alone.items(), strict=True):
        style = {"c": lengths, "cmap": "viridis_r", "s": 10, "edgecolor": "black", "linewidth": 0.2}
        dots = column[0].scatter(1e3 * theirs, 1e3 * ours, **style)
        column[1].scatter(lengths, theirs / ours, **style)
        column[0].axhline(1e3 * batched[name], linestyle="--", color="black", linewidth=0.8)
        column[1].axhline(1.0, color="black", linewidth=0.6)
        column[0].set(title=f"{name} solver", xlabel="SciPy, ms", ylabel="ours, ms")
        column[0].set(xlim=(0, None), ylim=(0, None))
        column[1].set(xlabel="length of the curve", ylabel="SciPy / ours", yscale="log")
        column[1].axhline(
            theirs.mean() / batched[name], linestyle="--", color="black", linewidth=0.8
        )
    figure.colorbar(dots, ax=axes, label="length", shrink=0.6)

    numbers = {
        name: {
            "ms_alone": 1e3 * float(alone[name].mean()),
            "ms_in_batch": 1e3 * batched[name],
            "ratio_alone": float(theirs.mean() / alone[name].mean()),
            "ratio_in_batch": float(theirs.mean() / batched[name]),
            "correlation_with_length": float(np.corrcoef(lengths, alone[name])[0, 1]),
            "slowest_over_median": float(alone[name].max() / np.median(alone[name])),
        }
        for name in alone
    }
    return Outcome(
        figures={"fig5": figure},
        numbers=numbers
        | {
            "scipy": {
                "ms": 1e3 * float(theirs.mean()),
                "correlation_with_length": float(np.corrcoef(lengths, theirs)[0, 1]),
                "slowest_over_median": float(theirs.max() / np.median(theirs)),
            },
            "timed": count,
            "in_batch": len(found.X),
        },
        settings=SETTINGS | {"SciPy": f"solve_bvp, tolerance {TOLERANCE:.0e}, vectorised"},
        claims=_claims(numbers, float(theirs.max() / np.median(theirs))),
    )


def _our_seconds(found: Ones, ends: np.ndarray, progress: Progress) -> tuple[dict, dict]:
    """For one geodesic of a batch, and for those to the ends, each alone; by the solver."""
    batched, alone = {}, {}
    for name, manifold in found.manifolds.items():
        _solved(manifold, found.mean, found.X)  # loads what Numba has compiled
        batched[name] = _seconds(_solved, manifold, found.mean, found.X) / len(found.X)
        _solved(manifold, found.mean, ends[0])
        alone[name] = np.array(
            [
                _seconds(_solved, manifold, found.mean, end)
                for end in progress.over(ends, f"{name} solver")
            ]
        )
    return batched, alone


def _solved(manifold: Manifold, a: np.ndarray, b: np.ndarray) -> None:
    manifold.geodesic(a, b, progress=False)


def _seconds(function: Callable, *args: Any) -> float:
    start = time.process_time()
    function(*args)
    return time.process_time() - start


def _claims(numbers: dict, their_spread: float) -> list[Claim]:
    speed = [
        Claim(
            f"The cost is lower by about an order of magnitude ({name} solver).",
            f"SciPy / ours: {found['ratio_in_batch']:.1f} in one batch, {found['ratio_alone']:.2f} "
            "one at a time",
            "agrees"
            if found["ratio_in_batch"] >= 5
            else "partly"
            if found["ratio_in_batch"] > 1
            else "disagrees",
            "The paper compares two solvers written in Matlab; SciPy's is vectorised.",
        )
        for name, found in numbers.items()
    ]
    spread = {name: found["slowest_over_median"] for name, found in numbers.items()}
    paper, default = spread.values()
    return [
        *speed,
        Claim(
            "The cost of the probabilistic solver is almost unaffected by the length of the curve.",
            f"slowest over median: paper's solver {paper:.1f}, default {default:.1f}, SciPy "
            f"{their_spread:.1f}",
            "agrees" if paper < their_spread else "disagrees",
            "A curve that the paper's solver flags is tried again from other starts, and long ones "
            "are flagged more often; the default solver flags none here.",
        ),
    ]
