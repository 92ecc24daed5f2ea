"""How time is counted, how answers are judged, how solvers are compared at equal error."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

WRONG = 1e-2  # error, relative to the size of the solution, of a false success
REPEATS = 5  # calls of which the quickest counts,
ENOUGH = 0.3  # unless they take more than so many seconds together


def cpu_seconds(function: Callable[[], Any]) -> tuple[Any, float]:
    """What a function returns, and the processor seconds it took."""
    start = time.process_time()
    out = function()
    return out, time.process_time() - start


def timed(function: Callable[[], Any], compiles: bool = True) -> tuple[Any, float]:
    """The same, for the quickest of a few calls after a first one that compiles.

    What does not compile is called only once: it takes long enough for one measurement.
    """
    if not compiles:
        return cpu_seconds(function)
    out, spent = function(), []
    while len(spent) < 2 or (len(spent) < REPEATS and sum(spent) < ENOUGH):
        spent.append(cpu_seconds(function)[1])
    return out, min(spent)


def judged(errors: Any, converged: Any) -> dict[str, Any]:
    """Counts of failures and false successes, and the errors of those declared solved."""
    errors = np.nan_to_num(np.asarray(errors, float), nan=np.inf, posinf=np.inf)
    converged = np.asarray(converged, bool)
    declared = errors[converged]
    return {
        "count": len(errors),
        "failures": int((~converged).sum()),
        "false": int((declared > WRONG).sum()),
        "error": float(declared.max()) if declared.size else None,
        "median_error": float(np.median(declared)) if declared.size else None,
    }


def largest_errors(found: Any, exact: Any) -> np.ndarray:
    """The largest error of each member (P,) relative to the size of its solution; (P, ..., D)."""
    found, exact = np.asarray(found), np.asarray(exact)
    axes = tuple(range(1, exact.ndim))
    return np.abs(found - exact).max(axis=axes) / np.abs(exact).max(axis=axes)


def time_at_error(errors: Any, times: Any, target: float) -> float:
    """The time at which a work-precision curve reaches an error; nan if it never does.

    Only points that no other point beats in both respects count, and they are joined by straight
    lines in the logarithms. A curve that starts out more accurate than `target` is not extended:
    its cheapest point is then what the solver needs.
    """
    order = np.argsort(errors)
    errors, times = np.asarray(errors, float)[order], np.asarray(times, float)[order]
    front = times <= np.minimum.accumulate(times)
    errors, times = errors[front], times[front]
    if not errors.size or errors[0] > target:
        return float("nan")
    return float(np.exp(np.interp(np.log(target), np.log(errors), np.log(times))))


def time_needed(rows: Sequence[dict], target: float) -> float:
    """Seconds a problem that a solver needs for an error, from its sweep over settings.

    A setting at which a member failed, or was falsely declared solved, does not count.
    """
    good = [row for row in rows if not row["failures"] and not row["false"]]
    errors = [max(row["error"], 1e-300) for row in good]
    return time_at_error(errors, [row["time"] for row in good], target)


def ratios(rows: Sequence[dict], ours: str, other: str, target: float) -> dict[str, float]:
    """Our time over that of another solver, by problem; nan where one does not get there."""
    found = {}
    for problem in dict.fromkeys(row["problem"] for row in rows):
        needed = [
            time_needed([r for r in rows if (r["problem"], r["solver"]) == (problem, name)], target)
            for name in (ours, other)
        ]
        found[problem] = needed[0] / needed[1]
    return found


def calibration(error: Any, std: Any) -> tuple[float, float]:
    """Share of errors within two standard deviations, and median normalised squared error.

    error, std (P, ..., D). The squares of error / std are averaged over each of the P members; the
    median over members is about one at best.
    """
    error, std = np.asarray(error, float), np.asarray(std, float)
    squares = ((error / std) ** 2).reshape(len(error), -1).mean(axis=1)
    return float(np.mean(np.abs(error) <= 2 * std)), float(np.median(squares))


def slope(sizes: Sequence[float], times: Sequence[float]) -> float:
    """The exponent with which time grows, between the two largest sizes."""
    x, y = np.log(sizes[-2:]), np.log(times[-2:])
    return float((y[1] - y[0]) / (x[1] - x[0]))
