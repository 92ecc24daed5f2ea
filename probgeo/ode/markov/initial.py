"""Initial value problems: classical steps for the curve, the linearised ODE for its error.

Solve, estimate the global error, and where it is above what was asked for solve again with a
smaller local tolerance: plain decisions over the members that are not good enough yet.
"""

from typing import TYPE_CHECKING

import numpy as np

from probgeo.ode.curve import NOT_FINITE, OK, TOO_COARSE, Curve, collected
from probgeo.ode.error_shape import ErrorShape
from probgeo.ode.markov.defect import Estimate, estimate_errors
from probgeo.ode.markov.implicit import ImplicitWalk
from probgeo.ode.markov.runge_kutta import ExplicitWalk
from probgeo.ode.markov.steps import Demand, Steps
from probgeo.ode.piecewise import PiecewisePosterior
from probgeo.ode.problem import Problem
from probgeo.ragged import in_chunks, members_at_a_time, members_of

if TYPE_CHECKING:
    from probgeo.ode.markov.solver import Markov

# Local tolerance of the first round, as a share of the tolerance. Of 100 copies of Duffing's equation, 7-28 need a
# second round with .3, 1-10 with .1, none with .03 (steps 15 % shorter).
FIRST_SHARE = 0.03


def solve_initial(problem: Problem, solver: "Markov") -> Curve:
    """Posterior curves of a batch of initial value problems."""
    D, R = problem.dimension, 0 if problem.spread is None else problem.order * problem.dimension
    a_member = 8 * 50 * 8 * problem.order * D * (D + 9 + R)  # at some fifty steps of eight points
    most = min(1024, members_at_a_time(a_member))
    parts = in_chunks(lambda members: _solve_some(problem, solver, members), problem.count, most=most)
    return collected([answer for part in parts for answer in part], problem.batch_shape)


def _solve_some(problem: Problem, solver: "Markov", members: np.ndarray) -> list[tuple[np.ndarray, Curve]]:
    """Rounds over some members: those that are good enough leave, the others get smaller steps.

    Where these are too many, what the round before has come to is the answer, and flagged.
    """
    share = np.full(len(members), FIRST_SHARE)
    evaluations = np.zeros(len(members), dtype=np.int64)
    done: list[tuple[np.ndarray, Curve]] = []
    left, before = np.arange(len(members)), None
    own_mesh = solver.n_points is not None
    walk = ImplicitWalk if solver.stiff else ExplicitWalk
    smallest = 4 * np.finfo(float).eps  # local tolerances below this are lost in rounding
    while True:
        chosen = members[left]
        demand = Demand(
            np.maximum(share[left] * solver.rtol, smallest),
            share[left] * solver.atol,
            solver.max_points - 1,
            None if solver.n_points is None else solver.n_points - 1,
        )
        steps = walk(problem, chosen, demand).walk()
        accuracy = np.inf if own_mesh else FIRST_SHARE * solver.rtol
        estimate = estimate_errors(problem, chosen, steps, accuracy, stiff=solver.stiff)
        evaluations[left] += steps.evaluations + estimate.defect.shape[1] * np.diff(steps.elements)
        size = _largest(steps.pieces[:, 0], steps.elements)
        rounding = 2.0 * np.finfo(float).eps * np.nan_to_num(size)
        std = np.hypot(estimate.std, rounding[members_of(steps.offsets), None])
        excess = _excess(_largest(std, steps.offsets), size, solver)
        curve = _curve(problem, steps, estimate, std, excess, evaluations[left])
        lost = steps.status != OK
        leave = (excess <= 1.0) | lost | own_mesh
        leave |= np.maximum(demand.rtol, demand.atol) <= smallest
        back = lost & (before is not None)
        done.append((chosen[leave & ~back], curve[leave & ~back]))
        if before is not None and back.any():
            done.append((chosen[back], before[back]))
        if leave.all():
            return done
        # to a quarter of the tolerance: the error is proportional to the local one by and large
        with np.errstate(all="ignore"):
            share[left] *= np.clip(np.where(np.isfinite(excess), 0.25 / excess, 1e-3), 1e-4, 0.25)
        left, before = left[~leave], curve[~leave]


def _excess(deviation: np.ndarray, size: np.ndarray, solver: "Markov") -> np.ndarray:
    """Two standard deviations over the tolerance, where they are largest (B,)."""
    tolerance = solver.atol + solver.rtol * size
    if solver.n_points is not None:  # the user's mesh is taken as it is, unless the linearised equation is wrong, too
        tolerance = np.maximum(tolerance, 0.1 * size)
    with np.errstate(all="ignore"):
        return np.where(deviation == 0, 0.0, 2.0 * deviation / tolerance)


def _largest(x: np.ndarray, offsets: np.ndarray) -> np.ndarray:
    """The largest entry (B,) of the rows of every member."""
    if not len(x):
        return np.zeros(len(offsets) - 1)
    return np.maximum.reduceat(np.abs(x).max(axis=tuple(range(1, x.ndim))), offsets[:-1])


def _curve(
    problem: Problem, steps: Steps, estimate: Estimate, std: np.ndarray, excess: np.ndarray, evaluations: np.ndarray
) -> Curve:
    """The result of a round as a flat batch."""
    offsets, elements = steps.offsets, steps.elements
    count, member = len(offsets) - 1, members_of(offsets)
    broken = np.bincount(member, ~np.isfinite(std).all(axis=1), count) > 0
    status = np.where(broken, NOT_FINITE, np.where(excess <= 1.0, OK, TOO_COARSE))
    k = ErrorShape.on(steps.t, offsets, problem.order, False).variances()
    first = offsets[:-1]
    k[first] = 1.0
    envelope = std / np.sqrt(k)[:, None]
    envelope[first] = envelope[first + 1]
    pieces = np.ascontiguousarray(estimate.pieces)
    # evidence: one defect of every step, as independent Gaussians of the scale they have
    middle, of_step = estimate.defect[:, estimate.defect.shape[1] // 2], members_of(elements)
    n = np.diff(elements) * problem.dimension
    total = np.bincount(of_step, np.sum(middle**2, axis=1), count)
    square = np.bincount(member, np.mean(envelope**2, axis=1), count) / np.diff(offsets)
    with np.errstate(all="ignore"):
        missed = _largest(estimate.defect, elements) / _largest(estimate.rates, elements)
        log_evidence = -0.5 * n * (1.0 + np.log(2.0 * np.pi * total / n))
    return Curve(
        posterior=PiecewisePosterior(steps.t, offsets, pieces, estimate.spread, envelope, problem.order, pinned=False),
        t_span=(problem.t0, problem.t1),
        status=np.where(steps.status == OK, status, steps.status),
        log_evidence=log_evidence,
        n_evaluations=evaluations,
        residual=missed,
        scale=np.sqrt(square),
    )
