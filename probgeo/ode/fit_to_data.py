"""Curves given noisy data: what these say of uncertain initial and boundary values.

The data of a problem move with standard normal numbers xi (R,), and so does its solution, by the
columns S of its linearisation: the ODE holds whatever they are. With x = H y(xi) + noise,

    - log p(x, xi) = |xi|^2 / 2 + |x - H y(xi)|^2 / 2 in units of noise and numerical error + const

has its minimum where the Gauss-Newton method ends; its curvature there is the posterior, and its
integral over xi the likelihood (both exact where y is linear in xi). A number of infinite variance
has no prior term. The numerical error counts as noise: data do not tell about it.
"""

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from probgeo.ode.curve import OK, SINGULAR, UNSETTLED, Curve, CurveWithParameters, Posterior
from probgeo.ode.observed import Data
from probgeo.ode.piecewise import PiecewisePosterior
from probgeo.ode.problem import ConditionedProblem, Problem
from probgeo.ragged import elements_of, members_of


class _Seen(NamedTuple):
    """What the data say of xi, where a problem was solved: of each member.

    cost (B,) : - log p(x, xi) but for a constant; log_det (B,) of 2 pi (noise + numerical error)
    information (B, R, R), downhill (B, R) : minus the gradient of the cost
    """

    cost: np.ndarray
    log_det: np.ndarray
    information: np.ndarray
    downhill: np.ndarray


def fitted(problem: Problem | ConditionedProblem, solver: Any, guess: Any, data: Data) -> Curve:
    """The posterior curves of a problem and data, with their `log_likelihood`."""
    B, columns = problem.count, problem.columns()
    R = 0 if columns is None else columns.shape[-1]
    best, step, cost, share = np.zeros((B, R)), np.zeros((B, R)), np.full(B, np.inf), np.ones(B)
    evaluations, unsettled = np.zeros(problem.batch_shape, dtype=np.int64), np.ones(B, dtype=bool)
    xi, settled = best, 1e-2  # length of a step in standard deviations that is not worth another
    for _ in range(1 + solver.iterations):
        curve = solver.solve(problem.moved(xi), guess)
        evaluations = evaluations + curve.n_evaluations
        seen = _seen(problem, curve, xi, data)
        with np.errstate(invalid="ignore"):
            # numerical error, which counts as noise, is a little different every time
            better = seen.cost <= cost + 0.1
        ahead, length = _step(seen)
        best, step = (np.where(better[:, None], *pair) for pair in ((xi, best), (ahead, step)))
        cost = np.where(better, seen.cost, cost)
        share = np.where(better, 1.0, share / 4)
        unsettled = np.where(better, length > settled, unsettled & np.isfinite(cost))
        if not unsettled.any() or share[unsettled].max() < settled:
            break
        xi = np.where(unsettled[:, None], best + share[:, None] * step, best)
        if np.all(curve.converged) and not (isinstance(problem, Problem) and problem.kind == "initial"):
            guess = curve
    if not np.array_equal(xi, best):
        curve = solver.solve(problem.moved(best), guess)
        seen = _seen(problem, curve, best, data)
    lost = unsettled.reshape(curve.batch_shape) & (curve.status == OK)
    return _posterior(problem, curve, seen, np.where(lost, UNSETTLED, curve.status), evaluations)


def _seen(problem: Problem | ConditionedProblem, curve: Curve, xi: np.ndarray, data: Data) -> _Seen:
    B, R = xi.shape
    x = np.broadcast_to(data.x, (*problem.batch_shape, data.x.shape[-1])).reshape(B, -1)
    prior = np.ones((B, R)) if problem.flat is None else 1.0 - problem.flat
    out = _Seen(np.full(B, np.nan), np.zeros(B), np.zeros((B, R, R)), np.zeros((B, R)))
    for m in range(B):
        own = curve.posterior.take(np.array([m]))
        seen, moves, error = _predicted(own, data)
        missed = x[m] - seen
        total = data.noise + error
        if not (np.isfinite(missed).all() and np.isfinite(moves).all() and np.isfinite(total).all()):
            continue
        factor = np.linalg.cholesky(total)
        scaled = np.linalg.solve(factor, np.concatenate([missed[:, None], moves], axis=1))
        r, S = scaled[:, 0], scaled[:, 1:]
        out.cost[m] = 0.5 * (r @ r + prior[m] @ xi[m] ** 2)
        out.log_det[m] = 2 * np.sum(np.log(np.diag(factor))) + len(r) * np.log(2 * np.pi)
        out.information[m] = S.T @ S + np.diag(prior[m])
        out.downhill[m] = S.T @ r - prior[m] * xi[m]
    return out


def _predicted(posterior: Posterior, data: Data) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """What one curve predicts for the data (N,), how that moves with xi (N, R), its numerical covariance (N, N)."""
    t, U, D = data.times, len(data.times), posterior.dimension
    first, second = (y.ravel() for y in np.meshgrid(t, t, indexing="ij"))

    def columns(d: int) -> np.ndarray:
        return np.moveaxis(posterior.boundary_columns(t, d)[0], -1, 0)

    def errors(d: int, e: int) -> np.ndarray:
        return posterior.cov(first, second, (d, e), "numerical").reshape(U, U, D, D)

    return (data.of(lambda d: posterior.mean(t, d)[0]), np.moveaxis(data.of(columns), 0, -1), data.covariances(errors))


def _step(seen: _Seen) -> tuple[np.ndarray, np.ndarray]:
    """The Gauss-Newton step (B, R), and its length in standard deviations (B,)."""
    roots, unknown = _roots(seen.information)
    along = np.einsum("bri,br->bi", roots, seen.downhill) * ~unknown
    return np.einsum("bri,bi->br", roots, along), np.sqrt(np.sum(along**2, axis=1))


def _roots(information: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """A (B, R, R) with A A' = information^-1, and which of its columns are not known at all.

    Those are of directions whose information is rounding beside that of others: they get as much.
    """
    diagonal = np.einsum("bii->bi", information)
    unit = np.where(diagonal > 0, np.sqrt(np.abs(diagonal)), 1.0)
    values, vectors = np.linalg.eigh(information / (unit[:, :, None] * unit[:, None, :]))
    least = information.shape[1] * np.finfo(float).eps
    unknown = values <= least
    values = np.where(unknown, least, values)
    return vectors / unit[:, :, None] / np.sqrt(values)[:, None, :], unknown


def _posterior(
    problem: Problem | ConditionedProblem, curve: Curve, seen: _Seen, status: np.ndarray, evaluations: np.ndarray
) -> Curve:
    """The curve whose data move with the standard normal numbers of the posterior of xi."""
    roots, unknown = _roots(seen.information)
    posterior = curve.posterior
    assert isinstance(posterior, PiecewisePosterior)
    changed: dict[str, Any] = {}
    if posterior.spread is not None:
        member = members_of(elements_of(posterior.offsets))
        spread = posterior.spread @ roots[member][:, None]
        changed["posterior"] = replace(posterior, spread=spread)
    lost = np.reshape(unknown.any(axis=1), status.shape)
    status = np.where(lost & (status == OK), SINGULAR, status)
    if isinstance(curve, CurveWithParameters) and curve.parameter_columns.shape[-1]:
        by_batch = roots.reshape(*status.shape, *roots.shape[1:])
        changed["parameter_columns"] = curve.parameter_columns @ by_batch
        error = np.where(np.expand_dims(lost, (-2, -1)), np.inf, curve.parameter_error)
        changed["parameter_error"] = error
    flat = 0 if problem.flat is None else problem.flat.sum(axis=1)
    inverse = np.linalg.slogdet(seen.information)[1]
    density = -seen.cost - 0.5 * (seen.log_det + inverse - flat * np.log(2 * np.pi))
    return replace(
        curve, status=status, n_evaluations=evaluations,
        log_likelihood=density.reshape(status.shape), **changed,
    )  # fmt: skip
