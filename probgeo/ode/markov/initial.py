"""Initial value problems: classical steps for the curve, the linearised ODE for its error.

Solve, estimate the global error, and where it is above what was asked for solve again with a
smaller local tolerance: plain decisions over the members that are not good enough yet.
"""

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from probgeo.ode.curve import NOT_FINITE, OK, TOO_COARSE, Curve
from probgeo.ode.markov.defect import Estimate, estimate_errors
from probgeo.ode.markov.implicit import ImplicitWalk
from probgeo.ode.markov.runge_kutta import ExplicitWalk
from probgeo.ode.markov.steps import Demand, Steps
from probgeo.ode.piecewise import PiecewisePosterior
from probgeo.ode.problem import Problem
from probgeo.ode.shape import shape_variance
from probgeo.ragged import in_chunks, members_of, offsets_of, rows_of

# Local tolerance of the first round, as a share of the tolerance. Of 100 copies of Duffing's
# equation, 7-28 need a second round with .3, 1-10 with .1, none with .03 (steps 15 % shorter).
FIRST_SHARE = 0.03
ROUNDS = 8
AIM = 0.25  # error of the next round over the tolerance
INSISTENCE = 0.1  # by what else to lower it where once was not enough: layers that steps jump over
SMALLEST_RTOL = 1e-15  # local tolerances below this are a matter of rounding
MEANINGFUL = 0.1  # of the size of the curve: errors beyond are beyond the linearised equation, too
MEMORY = 2.0e7  # numbers in the Jacobians and columns of one chunk, at some fifty steps a member


class Settings(Protocol):
    """The fields of a solver that matter here."""

    @property
    def rtol(self) -> float: ...
    @property
    def atol(self) -> float: ...
    @property
    def n_points(self) -> int | None: ...
    @property
    def max_points(self) -> int: ...
    @property
    def stiff(self) -> bool: ...


@dataclass
class Solution:
    """The answer for some members: curves on their meshes, standard deviations, how it went."""

    members: np.ndarray
    t: np.ndarray
    offsets: np.ndarray
    pieces: np.ndarray
    std: np.ndarray
    spread: np.ndarray | None
    status: np.ndarray
    evaluations: np.ndarray
    log_evidence: np.ndarray
    residual: np.ndarray


def solve_initial(problem: Problem, solver: Settings) -> Curve:
    """Posterior curves of a batch of initial value problems."""
    D, R = problem.dimension, 0 if problem.spread is None else problem.order * problem.dimension
    a_member = 50 * 8 * problem.order * D * (D + 9 + R)
    most = int(np.clip(MEMORY / a_member, 1, 1024))
    parts = in_chunks(
        lambda members: _solve_some(problem, solver, members), problem.count, most=most
    )
    return _as_curve(problem, _joined([part for chunk in parts for part in chunk], problem.count))


def _solve_some(problem: Problem, solver: Settings, members: np.ndarray) -> list[Solution]:
    """Rounds over some members: those that are good enough leave, the others get smaller steps.

    Where these are too many, what the round before has come to is the answer, and flagged.
    """
    share = np.full(len(members), FIRST_SHARE)
    evaluations = np.zeros(len(members), dtype=np.int64)
    done: list[Solution] = []
    left, before = np.arange(len(members)), None
    for round_number in range(1, ROUNDS + 1):
        demand = _demand(solver, share[left])
        steps = _steps(problem, solver, members[left], demand)
        accuracy = np.inf if solver.n_points is not None else FIRST_SHARE * solver.rtol
        estimate = estimate_errors(problem, members[left], steps, accuracy, stiff=solver.stiff)
        evaluations[left] += steps.evaluations + estimate.defect.shape[1] * np.diff(steps.elements)
        solution = _solution(members[left], steps, estimate, evaluations[left])
        excess = _excess(solution, solver)
        good = excess <= 1.0
        solution.status[(solution.status == OK) & ~good] = TOO_COARSE
        rounding = np.maximum(demand.rtol, demand.atol) <= SMALLEST_RTOL
        final = rounding | (solver.n_points is not None) | (round_number == ROUNDS)
        leave = good | final | (steps.status != OK)
        back = (steps.status != OK) & (before is not None)
        done.append(_taken(solution, np.flatnonzero(leave & ~back)))
        if before is not None and back.any():
            done.append(_taken(before, np.flatnonzero(back)))
        if leave.all():
            break
        share[left] *= _smaller(excess) * (1.0 if round_number == 1 else INSISTENCE)
        left, before = left[~leave], _taken(solution, np.flatnonzero(~leave))
    return done


def _smaller(excess: np.ndarray) -> np.ndarray:
    """By what to lower the local tolerance, to which the error is proportional by and large."""
    known = np.isfinite(excess)
    return np.clip(np.where(known, AIM / np.where(known, excess, 1.0), 1e-3), 1e-4, AIM)


def _demand(solver: Settings, share: np.ndarray) -> Demand:
    equal = None if solver.n_points is None else solver.n_points - 1
    rtol = np.maximum(share * solver.rtol, SMALLEST_RTOL)
    return Demand(rtol, share * solver.atol, solver.max_points - 1, equal)


def _steps(problem: Problem, solver: Settings, members: np.ndarray, demand: Demand) -> Steps:
    start = problem.values[members]
    walk = ImplicitWalk if solver.stiff else ExplicitWalk
    return walk(problem.field, problem.t0, problem.t1, start, members, demand).walk()


def _excess(solution: Solution, solver: Settings) -> np.ndarray:
    """Two standard deviations over the tolerance, where they are largest (B,)."""
    deviation = _largest(solution.std, solution.offsets)
    size = _largest(solution.pieces[:, 0], solution.offsets - np.arange(len(solution.offsets)))
    tolerance = solver.atol + solver.rtol * size
    if solver.n_points is not None:  # the user's mesh: as good as it is, if that is good at all
        tolerance = np.maximum(tolerance, MEANINGFUL * size)
    with np.errstate(all="ignore"):
        return np.where(deviation == 0, 0.0, 2.0 * deviation / tolerance)


def _largest(x: np.ndarray, offsets: np.ndarray) -> np.ndarray:
    """The largest entry (B,) of the rows of every member."""
    if not len(x):
        return np.zeros(len(offsets) - 1)
    return np.maximum.reduceat(np.abs(x).max(axis=tuple(range(1, x.ndim))), offsets[:-1])


def _solution(
    members: np.ndarray, steps: Steps, estimate: Estimate, evaluations: np.ndarray
) -> Solution:
    elements = steps.elements
    member = members_of(elements)
    finite = np.isfinite(estimate.std[:, 0]) & np.isfinite(estimate.std).all(axis=1)
    broken = np.bincount(members_of(steps.offsets), ~finite, len(members)) > 0
    status = np.where((steps.status == OK) & broken, NOT_FINITE, steps.status)
    # no step is better than rounding
    size = _largest(steps.pieces[:, 0], elements)
    floor = 2.0 * np.finfo(float).eps * np.nan_to_num(size)[members_of(steps.offsets)]
    std = np.hypot(estimate.std, floor[:, None])
    middle = estimate.defect[:, estimate.defect.shape[1] // 2]
    with np.errstate(all="ignore"):
        missed = _largest(estimate.defect, elements) / _largest(estimate.rates, elements)
    return Solution(
        members=members,
        t=steps.t,
        offsets=steps.offsets,
        pieces=estimate.pieces,
        std=std,
        spread=estimate.spread,
        status=status,
        evaluations=evaluations,
        log_evidence=_log_density(middle, member, len(members)),
        residual=missed,
    )


def _log_density(defect: np.ndarray, member: np.ndarray, count: int) -> np.ndarray:
    """Of one defect of every step (E, D), as independent Gaussians of the scale they have (B,)."""
    n = np.bincount(member, minlength=count) * defect.shape[1]
    total = np.bincount(member, np.sum(defect**2, axis=1), count)
    with np.errstate(all="ignore"):
        return -0.5 * n * (1.0 + np.log(2.0 * np.pi * total / n))


def _taken(solution: Solution, which: np.ndarray) -> Solution:
    rows = rows_of(solution.offsets, which)
    elements = rows_of(solution.offsets - np.arange(len(solution.offsets)), which)
    return Solution(
        members=solution.members[which],
        t=solution.t[rows],
        offsets=offsets_of(np.diff(solution.offsets)[which]),
        pieces=solution.pieces[elements],
        std=solution.std[rows],
        spread=None if solution.spread is None else solution.spread[elements],
        status=solution.status[which],
        evaluations=solution.evaluations[which],
        log_evidence=solution.log_evidence[which],
        residual=solution.residual[which],
    )


def _joined(parts: list[Solution], count: int) -> Solution:
    """All parts as one batch, in the order of members."""
    offsets = offsets_of(np.concatenate([np.diff(part.offsets) for part in parts]))
    arrays = {
        name: np.concatenate([getattr(part, name) for part in parts])
        for name in (
            "members",
            "t",
            "pieces",
            "std",
            "status",
            "evaluations",
            "log_evidence",
            "residual",
        )
    }
    spread = None
    if parts[0].spread is not None:
        spread = np.concatenate([part.spread for part in parts])
    everyone = Solution(offsets=offsets, spread=spread, **arrays)
    return _taken(everyone, np.argsort(everyone.members, kind="stable"))


def _as_curve(problem: Problem, solution: Solution) -> Curve:
    offsets = solution.offsets
    k = shape_variance(solution.t, offsets, problem.order, False)
    first = offsets[:-1]
    k[first] = 1.0
    envelope = solution.std / np.sqrt(k)[:, None]
    envelope[first] = envelope[first + 1]
    posterior = PiecewisePosterior(
        t=solution.t,
        offsets=offsets,
        pieces=np.ascontiguousarray(solution.pieces),
        spread=solution.spread,
        envelope=envelope,
        order=problem.order,
        pinned=False,
    )
    counts = np.diff(offsets)
    square = np.bincount(members_of(offsets), np.mean(envelope**2, axis=1), len(counts))
    shape = problem.batch_shape
    return Curve(
        posterior=posterior,
        t_span=(problem.t0, problem.t1),
        status=solution.status.reshape(shape),
        log_evidence=solution.log_evidence.reshape(shape),
        n_evaluations=solution.evaluations.reshape(shape),
        residual=solution.residual.reshape(shape),
        scale=np.sqrt(square / counts).reshape(shape),
    )
