"""Iterative refinement (Sec. 3.3.1), damped."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from probgeo.ode.curve import NOT_FINITE, OK, OUT_OF_SWEEPS, STALLED


class Refined(NamedTuple):
    """The best iterates (P, ...), their relative residuals (P,), how they ended and after how many
    sweeps."""

    x: np.ndarray
    residual: np.ndarray
    status: np.ndarray
    sweeps: np.ndarray


def damped_sweeps(
    sweep: Callable[[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]],
    x: np.ndarray,
    sweeps: int,
    tolerance: float,
) -> Refined:
    """Iterate x (P, ...) towards the proposals of `sweep(x, members) -> (residual, proposal)`.

    A step is kept only if the residual falls, and halved otherwise; every member has its own. Only
    members that are not done yet are swept.
    """
    x = x.copy()
    members = np.arange(len(x))
    residual, proposal = sweep(x, members)
    step, count = np.ones(len(x)), np.zeros(len(x), dtype=np.int64)
    smallest = np.finfo(float).eps ** 0.25  # halved fourteen times
    while True:
        going_on = (residual > tolerance) & (step > smallest) & (count < sweeps)
        members = np.flatnonzero(going_on)  # not those with NaN
        if not members.size:
            break
        share = step[members].reshape(-1, *[1] * (x.ndim - 1))
        trial = x[members] + share * (proposal[members] - x[members])
        new_residual, new_proposal = sweep(trial, members)
        better = new_residual < residual[members]  # false for NaN
        kept = members[better]
        x[kept], residual[kept] = trial[better], new_residual[better]
        proposal[kept] = new_proposal[better]
        step[members] = np.where(better, np.minimum(1.0, 2.0 * step[members]), 0.5 * step[members])
        count[members] += 1
    status = np.where(step > smallest, OUT_OF_SWEEPS, STALLED)
    status = np.where(residual <= tolerance, OK, status)
    status = np.where(np.isfinite(residual), status, NOT_FINITE)
    return Refined(x, residual, status, count)
