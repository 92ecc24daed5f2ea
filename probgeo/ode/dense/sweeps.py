"""Iterative refinement of the evaluations (Sec. 3.3.1), damped."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from probgeo.ode.curve import NOT_FINITE, OK, OUT_OF_SWEEPS, STALLED
from probgeo.ode.dense.error_models import ErrorModel, LinearisedError
from probgeo.ode.dense.gram import Observations, PriorAtNodes, take_members


class Sweeps(NamedTuple):
    """The best iterates (P, ...), their relative residuals (P,), how they ended and after how many
    sweeps."""

    x: np.ndarray
    residual: np.ndarray
    status: np.ndarray
    sweeps: np.ndarray


def sweep_until_settled(
    prior: PriorAtNodes, model: ErrorModel, guess: np.ndarray | None, sweeps: int, tolerance: float
) -> tuple[Observations, np.ndarray, Sweeps]:
    """The recursion, and sweeps after it: observations, their Gram matrix, and how they ended.

    Sweeps evaluate f again at the posterior mean. With a linearised model that is a Gauss-Newton
    step of the states; else the Gram matrix is fixed, and the evaluations are what is iterated.
    """
    observations, L = prior.sweep(model, guess)
    newton = isinstance(model, LinearisedError)

    def missed(x: np.ndarray, members: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """By how much f is missed, and f, both (P, N, D)."""
        part, states = prior.take(members), x
        if not newton:
            states = part.states(observations.take(members)._replace(values=x), take_members(L, members))
        values = part.evaluate(states)
        return (x[:, :, -1] if newton else x) - values, values

    def sweep(x: np.ndarray, members: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        part, (residual, proposal) = prior.take(members), missed(x, members)
        size = relative_size(part, residual, proposal)
        if newton:
            seen = part.observe(model, x)
            proposal = part.states(seen, part.factor(seen))
        return size, proposal

    start = prior.states(observations, L) if newton else observations.values
    if guess is None:  # the recursion can run away where the straight line does not
        line = prior.prior_mean if newton else prior.evaluate(prior.prior_mean)
        everyone = np.arange(len(start))
        of_start, of_line = (np.sum(missed(x, everyone)[0] ** 2, axis=(1, 2)) for x in (start, line))
        worse = ~(of_start <= of_line)  # also for NaN
        start[worse] = line[worse]
    refined = damped_sweeps(sweep, start, sweeps, tolerance)
    if newton:
        observations = prior.observe(model, refined.x)
        return observations, prior.factor(observations), refined
    return observations._replace(values=refined.x), L, refined


def relative_size(prior: PriorAtNodes, residual: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Size (P,) of residuals (P, N, D) against that of f and of the slope of the straight line."""
    slope = prior.prior_mean[:, :, 1]
    sizes = [np.sqrt(np.mean(x**2, axis=(1, 2))) for x in (residual, values, slope)]
    return sizes[0] / np.maximum(sizes[1] + sizes[2], np.finfo(float).tiny)


def damped_sweeps(
    sweep: Callable[[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]],
    x: np.ndarray,
    sweeps: int,
    tolerance: float,
) -> Sweeps:
    """Iterate x (P, ...) towards the proposals of `sweep(x, members) -> (residual, proposal)`.

    A step is kept only if the residual falls, and halved otherwise; every member has its own. Only
    members that are not done yet are swept.
    """
    x = x.copy()
    residual, proposal = sweep(x, np.arange(len(x)))
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
    return Sweeps(x, residual, status, count)
