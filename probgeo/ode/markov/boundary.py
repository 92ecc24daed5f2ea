"""Boundary value problems of `Markov`: start, solve, measure, refine.

Every member of a batch has a mesh of its own. Newton's method solves the equations of its elements,
the linearised ODE says how far that is from the solution, and nodes go where the error is, until
the error bars are as small as asked for. Members that Newton's method cannot solve start again: on
finer meshes, then with an ODE that is turned on slowly, y^(q) = share * f.
"""

from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from probgeo.ode.conditions import Conditions
from probgeo.ode.curve import NOT_FINITE, OK, SINGULAR, STALLED, TOO_COARSE, Curve, CurveWithParameters, collected
from probgeo.ode.guess import guess_samples, sample_states
from probgeo.ode.markov.collocation import Splines, basis, largest_of, pieces
from probgeo.ode.markov.errors import (
    Bars,
    Errors,
    doubtful,
    error_bars,
    estimated_errors,
    is_lost,
    parameter_covariances,
)
from probgeo.ode.markov.mesh import MOST, on_mesh, remeshed, wanted
from probgeo.ode.markov.newton import Equations, Iteration, Settled
from probgeo.ode.piecewise import PiecewisePosterior
from probgeo.ode.problem import ConditionedProblem, Problem
from probgeo.ragged import blas_on_one_thread, in_chunks, members_at_a_time, rows_of

if TYPE_CHECKING:
    from probgeo.ode.markov.solver import Markov

# Of the first meshes of the first attempts, at equal steps: where the curve is given at both ends, and where conditions
# are of another kind.
FIRST_ELEMENTS = {True: (4, 16), False: (8, 32, 128)}
# Relative length of the last step, in units of rtol, if there are parameters. With 1e-2 the errors of two of six
# eigenvalues of Bessel's equation were more than ten standard deviations.
SETTLED = 1e-5
UNDER_WAY = -1  # beside the statuses of curves
LEAST_SHARE = 1e-4  # of f, at which continuation begins
RESOLVED = 0.3  # error, relative to the solution, above which a mesh shows little of it
# Relative error that will do on the way to the solution. Ten times as much loses problem 20 of
# Cash and Mazzia at epsilon below 0.001.
SKETCHED = 3e-4


def solve_boundary(problem: Problem | ConditionedProblem, solver: "Markov", guess: Any = None) -> Curve:
    """Posterior curves, and parameters, of a batch of boundary value problems.

    The log evidence is the log density of the highest derivatives at the Gauss points, given the first
    one, under the prior that y^(q) is a Brownian motion, its scale by maximum likelihood.
    """
    by_args = isinstance(problem, Problem) and problem.with_args
    stated = as_conditioned(problem) if isinstance(problem, Problem) else problem
    shape = *problem.batch_shape, problem.dimension
    samples = None if guess is None else guess_samples(guess, (problem.t0, problem.t1), shape)

    def work(members: np.ndarray) -> list[tuple[np.ndarray, Curve]]:
        return Work(stated, solver, members, samples, by_args).run()

    if problem.count == 1:  # without chunks and a bar, which would take a tenth of the time
        with blas_on_one_thread:
            return collected(work(np.zeros(1, dtype=np.int64)), problem.batch_shape)
    k, q, D = max(solver.order - 1, problem.order), problem.order, problem.dimension
    bytes_a_member = 8 * (k * k + 2 * k * q + 3 * q * q) * D * D * 16
    parts = in_chunks(work, problem.count, most=min(1024, members_at_a_time(bytes_a_member)))
    return collected([answer for part in parts for answer in part], problem.batch_shape)


def as_conditioned(problem: Problem) -> ConditionedProblem:
    """y(t0) and y(t1) as conditions."""
    B, D, columns = problem.count, problem.dimension, problem.columns()
    unit = np.eye(2 * D).reshape(2 * D, 2, D)
    conditions = Conditions(
        np.array([problem.t0, problem.t1]),
        np.stack([unit, 0.0 * unit], axis=2),
        problem.values.reshape(B, 2 * D),
        [],
        2 * D,
        None if columns is None else columns.reshape(B, 2 * D, -1),
        np.ones((2, D), dtype=bool),
        problem.values,
    )
    span = problem.t0, problem.t1
    return ConditionedProblem(problem.field, *span, 2, conditions, np.zeros((B, 0)), problem.batch_shape)


def gives_ends(problem: ConditionedProblem) -> bool:
    """Whether conditions give a curve of second order at both ends, and nothing else."""
    known = problem.conditions
    alone = problem.order == 2 and not problem.parameters.shape[1] and not known.functions
    return alone and len(known.times) == 2 and not known.matrix[:, :, 1].any()


def at_ends(conditions: Conditions, values: np.ndarray) -> np.ndarray:
    """The positions (B, 2, D, ...) at both ends at which conditions that give these have values (B, 2 D, ...)."""
    B, M, *rest = values.shape
    matrix = conditions.matrix[:, :, 0].reshape(M, M)
    right = values.swapaxes(0, 1).reshape(M, B * int(np.prod(rest)))
    found = np.linalg.solve(matrix, right).reshape(M, B, *rest)
    return found.swapaxes(0, 1).reshape(B, 2, M // 2, *rest)


def first_curves(
    problem: ConditionedProblem, members: np.ndarray, k: int, elements: int, samples: np.ndarray | None
) -> Splines:
    """Guesses, or lines through the given values, on about equal steps."""
    q, D, B = problem.order, problem.dimension, len(members)
    given = gives_ends(problem)
    s, nodes = equal_steps(problem, elements)
    N = len(s)
    z, v = np.zeros((B, N, q, D)), np.zeros((B, N - 1, k, D))
    if samples is None and not given:
        z[:, :, 0] = through_values(problem.conditions, members, problem.t0 + problem.duration * s)
        if q > 1:
            z[:, :-1, 1] = np.diff(z[:, :, 0], axis=1) / np.diff(s)[:, None]
            z[:, -1, 1] = z[:, -2, 1]
    elif samples is not None:
        inside = (s[:-1, None] + np.diff(s)[:, None] * basis(k, q, given).gauss).ravel()
        at_nodes, at_gauss = (sample_states(samples[members], x) for x in (s, inside))
        for m in range(min(q, 3)):
            z[:, :, m] = at_nodes[m]
        if q < 3:
            v[:] = at_gauss[q].reshape(v.shape)
    if given:  # at both ends
        known = problem.conditions
        values = known.values[members] + (known.shift[members] if np.ndim(known.shift) else 0.0)
        ends = at_ends(known, values)
        left, right = ends[:, :1] - z[:, :1, 0], ends[:, 1:] - z[:, -1:, 0]
        z[:, :, 0] += left + s[:, None] * (right - left)
        z[:, :, 1] += right - left
        z[:, 0, 0], z[:, -1, 0] = ends[:, 0], ends[:, 1]
    offsets = np.arange(B + 1) * N
    kept = offsets[:-1, None] + nodes
    p = problem.parameters[members].copy()
    return Splines(
        np.repeat(s[None], B, axis=0).ravel(), offsets, z.reshape(B * N, q, D), v.reshape(-1, k, D), p, kept, given
    )


def equal_steps(problem: ConditionedProblem, elements: int) -> tuple[np.ndarray, np.ndarray]:
    """Nodes from 0 to 1, and which of them are those that conditions speak of."""
    places = (problem.conditions.times - problem.t0) / problem.duration
    return _about_equal_steps(tuple(places.tolist()), elements)


@lru_cache
def _about_equal_steps(places: tuple[float, ...], elements: int) -> tuple[np.ndarray, np.ndarray]:
    counts = np.maximum(np.round(np.diff(places) * elements).astype(int), 1)
    parts = [np.linspace(a, b, n + 1)[:-1] for a, b, n in zip(places, places[1:], counts, strict=False)]
    return np.concatenate([*parts, [1.0]]), np.concatenate([[0], np.cumsum(counts)])


def through_values(conditions: Conditions, members: np.ndarray, times: np.ndarray) -> np.ndarray:
    """Straight lines between values that conditions give, zero where there are none, at times (N,): (B, N, D)."""
    given = conditions.line[members]
    out = np.zeros((len(members), len(times), given.shape[2]))
    for i in range(given.shape[2]):
        known = np.flatnonzero(np.isfinite(given[:, :, i]).all(axis=0))
        for j, unit in zip(known, np.eye(len(known)), strict=True):
            out[:, :, i] += given[:, j, i, None] * np.interp(times, conditions.times[known], unit)
    return out


class Work:
    """The members of a chunk, each on its way from a first curve to an answer.

    Members are numbered within the chunk; per number there are the attempt it is at, meshes it has
    had in this attempt, the share of f (1 except in continuation), how fast that grows, and how
    often the problem could not be told from a singular one.
    """

    def __init__(
        self,
        problem: ConditionedProblem,
        solver: "Markov",
        members: np.ndarray,
        samples: np.ndarray | None,
        by_args: bool,
    ) -> None:
        self.problem, self.solver, self.members, self.samples = problem, solver, members, samples
        self.by_args = by_args
        self.equations = Equations.of(problem, members)
        self.first_elements = FIRST_ELEMENTS[gives_ends(problem)]
        self.k = max(solver.order - 1, problem.order)
        count = len(members)
        self.attempt = np.zeros(count, dtype=np.int64)
        self.rounds = np.zeros(count, dtype=np.int64)
        self.share = np.ones(count)
        self.growth = np.ones(count)
        self.reached: list[tuple[float, Splines] | None] = [None] * count  # in continuation
        self.doubts = np.zeros(count)
        self.evaluations = np.zeros(count, dtype=np.int64)
        self.answers: list[tuple[np.ndarray, Curve]] = []  # of these members
        # members, and their curves for Newton's method to start from
        self.queue: list[tuple[np.ndarray, Splines]] = []
        self._start(np.arange(count), 0)

    def run(self) -> list[tuple[np.ndarray, Curve]]:
        """Round after round, until everyone has an answer."""
        goal = SETTLED * min(max(self.solver.rtol, 1e-12), 1e-3)
        while self.queue:
            todo, self.queue = self.queue, []
            numbers = np.concatenate([part[0] for part in todo])
            curves = Splines.joined([part[1] for part in todo])
            equations = self.equations.take(numbers)
            if (self.share[numbers] < 1.0).any():
                equations = replace(equations, share=self.share[numbers])
            for settled in Iteration(equations, curves, goal).run(self.solver.iterations):
                mine = numbers[settled.chosen]
                self.evaluations[mine] += settled.evaluations
                self.rounds[mine] += 1
                if settled.status == OK:
                    self._judge(mine, settled)
                else:
                    self._try_again(mine, settled)
        return self.answers

    def _start(self, numbers: np.ndarray, attempt: int) -> None:
        elements = self.first_elements[attempt]
        if self.samples is not None and attempt == 0:
            elements = int(np.clip(self.samples.shape[1] - 1, elements, 16))
        if self.solver.n_points is not None:
            elements = min(elements, self.solver.n_points - 1)
        elements = min(elements, self.solver.max_points - 1)
        curves = first_curves(self.problem, self.members[numbers], self.k, elements, self.samples)
        self.queue.append((numbers, curves))

    # --- solved on their meshes ---------------------------------------------------------------

    def _judge(self, numbers: np.ndarray, settled: Settled) -> None:
        """Good enough, to be refined, or as good as it gets."""
        curves, limits, problem = settled.curves, self.solver, self.problem
        errors = estimated_errors(curves, settled.linear, settled.defects)
        size = curves.size()
        rounded = 4 * np.maximum(errors.rounding, np.finfo(float).eps * size)
        others = np.hypot(rounded[:, None], settled.left)
        bars = error_bars(curves, errors.between, others, problem.conditions.known)
        width = 2 * bars.largest
        excess = _over(width, limits.atol + limits.rtol * size)
        cov = parameter_covariances(curves.p, errors.parameters, settled.left_p)
        if curves.p.shape[1]:
            std = np.sqrt(np.einsum("bii->bi", cov))
            allowed = limits.atol + limits.rtol * np.abs(curves.p)
            excess = np.maximum(excess, _over(2 * std, allowed).max(axis=1))
        doubts = doubtful(curves, settled.linear, errors)
        self.doubts[numbers] += doubts * np.where(width <= RESOLVED * size, 1.0, 0.5)

        partly = self.share[numbers] < 1.0
        singular = doubts & (self.doubts[numbers] > 3) & ~partly
        further = partly & (width <= SKETCHED * size)
        if limits.n_points is None:
            enough = (excess <= 1) & ~doubts & ~partly
            finest = (curves.sizes >= limits.max_points) | (self.rounds[numbers] > limits.iterations)
            finest &= ~(enough | singular | further)
            onto_own = np.zeros_like(enough)
        else:
            own = (curves.sizes == len(equal_steps(problem, limits.n_points - 1)[0])) & ~partly
            enough, singular = own & ~doubts, own & doubts
            onto_own = ~own & ~partly
            finest = partly & ~further & (self.rounds[numbers] > limits.iterations)
        refine = ~(enough | singular | finest | further | onto_own)

        self._turn_on(numbers, curves, further)
        self._onto_own_mesh(numbers, curves, onto_own)
        unseen = ~(width <= RESOLVED * size)
        self._refine(numbers, settled, errors, excess, doubts, unseen, refine)
        status = np.select([enough, singular, finest], [OK, SINGULAR, TOO_COARSE], UNDER_WAY)
        if (status != UNDER_WAY).any():
            self._answer(numbers, curves, bars, cov, relative_defect(curves, settled.defects), status)

    def _refine(
        self,
        numbers: np.ndarray,
        settled: Settled,
        errors: Errors,
        excess: np.ndarray,
        doubts: np.ndarray,
        unseen: np.ndarray,
        which: np.ndarray,
    ) -> None:
        """Nodes where errors are, until error bars are no longer `excess` times too wide."""
        members = np.flatnonzero(which)
        if not len(members):
            return
        curves = settled.curves
        allowed = 0.5 * curves.largest(errors.local) / np.maximum(excess, 1e-300)
        more = wanted(errors.local, allowed[curves.member], self.k + self.problem.order)
        more = np.where(doubts[curves.member], np.maximum(more, 2.0), more)
        # meshes must grow, not just move, above all where they show little of the solution
        if self.problem.order == 2 and unseen.any():
            more = np.where(unseen[curves.member], np.maximum(more, waves(settled)), more)
        growth = np.where(unseen, 1.3, 1.1)
        total = np.add.reduceat(more, curves.elements[:-1])
        more = more * np.maximum(1.0, growth * (curves.sizes - 1) / total)[curves.member]
        elements = rows_of(curves.elements, members)
        finer = remeshed(curves.take(members), more[elements], 3, self.solver.max_points)
        self.queue.append((numbers[members], finer))

    def _onto_own_mesh(self, numbers: np.ndarray, curves: Splines, which: np.ndarray) -> None:
        """On as many nodes as the user wants."""
        members = np.flatnonzero(which)
        if len(members):
            s, nodes = equal_steps(self.problem, (self.solver.n_points or 0) - 1)
            offsets = np.arange(len(members) + 1) * len(s)
            kept = offsets[:-1, None] + nodes
            finer = on_mesh(curves.take(members), np.tile(s, len(members)), offsets, kept)
            self.queue.append((numbers[members], finer))

    # --- not solved ---------------------------------------------------------------------------

    def _try_again(self, numbers: np.ndarray, settled: Settled) -> None:
        """Another first mesh, then continuation; in the end the answer that there is none."""
        curves = settled.curves
        with np.errstate(all="ignore"):
            errors = estimated_errors(curves, settled.linear, settled.defects)
        lost = is_lost(settled.linear, errors) & (settled.status in (STALLED, NOT_FINITE))
        singular = lost & (self.doubts[numbers] > 0)
        self.doubts[numbers] += lost
        self.attempt[numbers] += 1
        self.rounds[numbers] = 0
        given_up = np.array([not (singular[i] or self._starts_anew(n)) for i, n in enumerate(numbers)])
        status = np.select([singular, given_up], [SINGULAR, settled.status], UNDER_WAY)
        if (status == UNDER_WAY).all():
            return
        # error bars as large as the curves themselves
        size = np.repeat(curves.size(), np.diff(curves.elements))[:, None, None]
        wrong = np.broadcast_to(size, errors.between.shape)
        bars = error_bars(curves, wrong, 0.0 * settled.left, self.problem.conditions.known)
        B, P = curves.p.shape
        self._answer(numbers, curves, bars, np.full((B, P, P), np.inf), np.full(B, np.inf), status)

    def _starts_anew(self, number: int) -> bool:
        """Whether there is something left to try."""
        attempt = self.attempt[number]
        if attempt < len(self.first_elements):
            self._start(np.array([number]), attempt)
            return True
        if self.problem.parameters.shape[1]:
            return False  # less of f has other solutions for other parameters
        if attempt == len(self.first_elements):
            self.share[number], self.growth[number] = LEAST_SHARE, 10.0
            self._start(np.array([number]), 0)
            return True
        return self._turn_back(number)

    def _turn_back(self, number: int) -> bool:
        """Continuation from the last share of f that could be solved, in smaller steps."""
        reached = self.reached[number]
        if reached is None or self.growth[number] < 1.02 or self.attempt[number] > self.solver.iterations:
            return False
        share, curves = reached
        self.growth[number] **= 0.5
        self.share[number] = min(1.0, share * self.growth[number])
        self.queue.append((np.array([number]), curves))
        return True

    def _turn_on(self, numbers: np.ndarray, curves: Splines, which: np.ndarray) -> None:
        """More of f, for members in continuation whose share of it is solved."""
        for i in np.flatnonzero(which):
            number = numbers[i]
            own = curves.take(np.array([i]))
            self.reached[number] = (self.share[number], own)
            self.growth[number] = min(self.growth[number] ** 1.5, 10.0)
            self.share[number] = min(1.0, self.share[number] * self.growth[number])
            self.rounds[number] = 0
            self.queue.append((np.array([number]), own))

    # --- answers ------------------------------------------------------------------------------

    def _answer(
        self,
        numbers: np.ndarray,
        curves: Splines,
        bars: Bars,
        cov: np.ndarray,
        residual: np.ndarray,
        status: np.ndarray,
    ) -> None:
        """Curves with error bars, covariances of parameters (B, P, P) and the rest, of those not under way."""
        members, problem = np.flatnonzero(status != UNDER_WAY), self.problem
        own, chosen, status = curves.take(members), numbers[members], status[members]
        spread, by_data = self._spread(chosen, own)
        t = problem.t0 + problem.duration * own.t
        t[own.offsets[1:] - 1] = problem.t1
        order = min(problem.order, 2)
        unit = np.float64(problem.duration) ** (order + 0.5)  # of Z in the user's time
        posterior = PiecewisePosterior(
            t,
            own.offsets,
            own.pieces(),
            spread,
            bars.envelope[rows_of(curves.offsets, members)] / unit,
            order,
            pinned=True,
            free=None if bars.free is None else unit**2 * bars.free[members],
        )
        increments = own.v.shape[2] * (self.k * np.diff(own.elements) - 1)
        values = (
            posterior,
            (problem.t0, problem.t1),
            status,
            log_evidence(own) + problem.order * np.log(problem.duration) * increments,
            self.evaluations[chosen],
            residual[members],
            bars.scale[members] / unit,
        )
        answer = Curve(*values)
        if own.p.shape[1]:
            cov = np.where((status == SINGULAR)[:, None, None], np.inf, cov[members])
            answer = CurveWithParameters(*values, own.p, cov, by_data)
        self.answers.append((self.members[chosen], answer))

    def _spread(self, numbers: np.ndarray, curves: Splines) -> tuple[np.ndarray | None, np.ndarray]:
        """How pieces (E, k + q, D, R), and parameters (B, P, R), move with the data and, if wanted, with args of f."""
        known, members = self.problem.conditions.spread, self.members[numbers]
        if known is None and not self.by_args:
            return None, np.zeros((*curves.p.shape, 0))
        equations = self.equations.take(numbers)
        E, k, D = curves.v.shape
        forcing = equations.by_args(curves) if self.by_args else np.zeros((E, k, D, 0))
        missed = np.zeros((curves.count, self.problem.conditions.n_rows, 0)) if known is None else known[members]
        R, A = missed.shape[2], forcing.shape[3]
        if curves.given:
            missed = at_ends(self.problem.conditions, missed).reshape(missed.shape)
        step = equations.linearised(curves)[1].solve(
            curves,
            np.concatenate([np.zeros((E, k, D, R)), forcing], axis=-1),
            np.zeros((E, curves.order * D, R + A)),
            np.concatenate([missed, np.zeros((*missed.shape[:2], A))], axis=-1),
        )
        return pieces(curves.basis, curves.h, step.z[curves.left], step.v), step.p


def waves(settled: Settled) -> np.ndarray:
    """How many elements each (E,) should become to resolve waves: one for two radians.

    A dimension swings with a frequency of (-d f_i / d y_i)^(1/2), if that is a number.
    """
    rates = -np.diagonal(settled.linear.jacobians[:, :, 0], axis1=-2, axis2=-1)
    frequency = np.sqrt(np.maximum(rates, 0.0).max(axis=(1, 2)))
    return np.minimum(settled.curves.h * frequency / 2.0, MOST)


def relative_defect(curves: Splines, defects: np.ndarray) -> np.ndarray:
    """The largest |y^(q) - f| of every member, relative to its largest highest derivative."""
    missed, forces = (curves.largest(largest_of(x)) for x in (defects, curves.v))
    return np.where(missed > 0, missed / np.maximum(forces, 1e-300), 0.0)


def log_evidence(curves: Splines) -> np.ndarray:
    """Log density of the highest derivatives at the Gauss points, given the first, by member.

    If y^(q) is a Brownian motion of scale s, its increments over times dt are
    independent N(0, s^2 dt); s^2 = mean of increment^2 / dt is its maximum likelihood estimate.
    """
    _, k, D = curves.v.shape
    first = k * curves.elements[:-1]
    t = curves.t[curves.left][:, None] + curves.h[:, None] * curves.basis.gauss
    t, v = t.ravel(), curves.v.reshape(-1, D)
    dt, rise = t[1:] - t[:-1], v[1:] - v[:-1]
    dt[first[1:] - 1], rise[first[1:] - 1] = 1.0, 0.0  # from member to member
    total, logs = (np.add.reduceat(x, first) for x in (np.einsum("nd,nd->n", rise, rise) / dt, np.log(dt)))
    number = (k * np.diff(curves.elements) - 1) * D
    with np.errstate(invalid="ignore"):
        scale = np.maximum(total / number, np.finfo(float).tiny)
        return -0.5 * (number * (np.log(2 * np.pi * scale) + 1.0) + D * logs)


def _over(width: np.ndarray, allowed: np.ndarray) -> np.ndarray:
    """By what factor error bars are too wide."""
    return np.where(width > 0, width / np.maximum(allowed, 1e-300), 0.0)
