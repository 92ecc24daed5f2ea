"""Boundary value problems with any conditions and parameters: start, solve, measure, refine.

Every member has a mesh of its own. Newton's method solves the equations of its elements; one more
step on a mesh with every element split in two is the error, with its sign, along the curve and of
the parameters; nodes go where the error is, until error bars are as small as asked for.
"""

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from probgeo.functions import Field
from probgeo.ode.curve import NOT_FINITE, OK, OUT_OF_SWEEPS, SINGULAR, STALLED, TOO_COARSE, Curve, CurveWithParameters
from probgeo.ode.guess import guess_samples, sample_states
from probgeo.ode.markov import boundary_loops
from probgeo.ode.markov import general_loops as loops
from probgeo.ode.markov.boundary import log_evidence, solved
from probgeo.ode.markov.collocation import is_everyone, largest_of
from probgeo.ode.markov.defect import DRAWS, random_signs
from probgeo.ode.markov.errors import smoothed
from probgeo.ode.markov.mesh import wanted
from probgeo.ode.markov.newton import FAST, ROUNDING, SHORTEST
from probgeo.ode.markov.orbits import LinearisedOrbits, Orbits, Step, pieces, rule
from probgeo.ode.piecewise import PiecewisePosterior
from probgeo.ode.problem import ConditionedProblem
from probgeo.ode.shape import Shape
from probgeo.ragged import rows_of

if TYPE_CHECKING:
    from probgeo.ode.markov.solver import Markov

FIRST_ELEMENTS = (8, 32, 128)  # of the first mesh of every attempt, at equal steps
# Least share of the variance with random signs in that of a parameter, whose error may be small by
# chance: the share of a chi-squared number (one degree of freedom) that is lower is one in four.
LEAST = 0.1


def solve_general(problem: ConditionedProblem, solver: "Markov", guess: Any = None) -> Curve:
    """Posterior curves, and parameters, of a batch of problems with any conditions."""
    k, D = max(solver.order - 1, problem.order), problem.dimension
    samples = None if guess is None else guess_samples(guess, problem)
    bytes_a_member = 8 * (k + problem.order + 4) ** 2 * D * D * 32

    def work(members: np.ndarray) -> list[tuple[np.ndarray, Curve]]:
        return Work(problem, solver, members, samples).run()

    return solved(work, problem, bytes_a_member)


def first_curves(
    problem: ConditionedProblem, members: np.ndarray, k: int, elements: int, samples: np.ndarray | None
) -> Orbits:
    """Guesses, or lines through the given values, on about equal steps."""
    q, D, B = problem.order, problem.dimension, len(members)
    places = (problem.conditions.times - problem.t0) / problem.duration
    s, nodes = _about_equal_steps(tuple(places.tolist()), elements)
    N = len(s)
    inside = (s[:-1, None] + np.diff(s)[:, None] * rule(k, q).gauss).ravel()
    own = _lines(problem, members) if samples is None else samples[members]
    states = sample_states(own, np.concatenate([s, inside]))
    y, v = np.zeros((B, N, q, D)), np.zeros((B, N - 1, k, D))
    for m in range(min(q, 3)):
        y[:, :, m] = states[m][:, :N]
    if q < 3:
        v[:] = states[q][:, N:].reshape(v.shape)
    offsets = np.arange(B + 1) * N
    kept = offsets[:-1, None] + nodes
    flat = y.reshape(B * N, q, D), v.reshape(-1, k, D)
    return Orbits(np.tile(s, B), offsets, *flat, problem.parameters[members].copy(), kept)


@lru_cache
def _about_equal_steps(places: tuple[float, ...], elements: int) -> tuple[np.ndarray, np.ndarray]:
    """Nodes from 0 to 1, and which of them are the places."""
    counts = np.maximum(np.round(np.diff(places) * elements).astype(int), 1)
    parts = [np.linspace(a, b, n + 1)[:-1] for a, b, n in zip(places, places[1:], counts, strict=False)]
    return np.concatenate([*parts, [1.0]]), np.concatenate([[0], np.cumsum(counts)])


def _lines(problem: ConditionedProblem, members: np.ndarray) -> np.ndarray:
    """Straight lines between values that conditions give, zero where there are none: (B, 65, D)."""
    times, given = problem.conditions.times, problem.conditions.line[members]
    at = np.linspace(problem.t0, problem.t1, 65)
    out = np.zeros((len(members), len(at), problem.dimension))
    for b, i in np.ndindex(len(members), problem.dimension):
        known = np.isfinite(given[b, :, i])
        if known.any():
            out[b, :, i] = np.interp(at, times[known], given[b, known, i])
    return out


@dataclass(frozen=True)
class System:
    """The equations of some members (B,) of a problem, in time from 0 to 1.

    `own` are their numbers in the field, `first` all the parameters that it started with, `units`
    (q,) the powers of the duration.
    """

    problem: ConditionedProblem
    field: Field
    members: np.ndarray
    own: np.ndarray
    first: np.ndarray
    units: np.ndarray

    @classmethod
    def of(cls, problem: ConditionedProblem, members: np.ndarray) -> "System":
        units = problem.duration ** np.arange(problem.order, dtype=float)
        own, field, first = members, problem.field, problem.parameters[members]
        if first.shape[1]:
            own, field = np.arange(len(members)), problem.field_of(members)
        return cls(problem, field, members, own, first, units)

    def take(self, chosen: np.ndarray) -> "System":
        if is_everyone(chosen, len(self.members)):
            return self
        return replace(self, members=self.members[chosen], own=self.own[chosen])

    def residuals(self, curves: Orbits) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """f - v (E, k, D), gaps between elements (E, n), and of the conditions (B, M), less than 0.

        All with one more axis: changes by these make them vanish.
        """
        field, rows = self._rows(curves)
        return self._missed(curves, field.values(*rows), self._at_kept(curves))

    def linearised(self, curves: Orbits) -> tuple[tuple, LinearisedOrbits]:
        """Residuals, and the factorised equations."""
        (E, k, D), q, P = curves.v.shape, self.problem.order, curves.p.shape[1]
        highest = self.problem.duration * self.units[-1]
        field, rows = self._rows(curves)
        by_p = np.zeros((E, k, D, 0))
        if P:
            values, jacobians, by_p = field.linearised(*rows)
            by_p = highest * by_p.reshape(E, k, D, P)
        else:
            values, jacobians = field.values_and_jacobians(*rows)
        jacobians = jacobians.reshape(E, k, q, D, D) * (highest / self.units)[:, None, None]
        at_kept = self._at_kept(curves)
        conditions = self.problem.conditions.derivatives(at_kept, curves.p)
        S = conditions.shape[2] - P
        by_state = conditions[:, :, :S].reshape(*conditions.shape[:2], -1, q, D)
        by_state /= self.units[:, None]
        linear = LinearisedOrbits.around(curves, jacobians, by_p, conditions)
        return self._missed(curves, values, at_kept), linear

    def _missed(self, curves: Orbits, values: np.ndarray, at_kept: np.ndarray) -> tuple:
        forcing = self.problem.duration * self.units[-1] * values.reshape(curves.v.shape)
        forcing -= curves.v
        missed = self.problem.conditions.residuals(self.members, at_kept, curves.p)
        return forcing[..., None], curves.gaps()[..., None], -missed[..., None]

    def _at_kept(self, curves: Orbits) -> np.ndarray:
        return curves.at_kept() / self.units[:, None]

    def _rows(self, curves: Orbits) -> tuple[Field, tuple]:
        problem, field = self.problem, self.field
        (E, k, D), q = curves.v.shape, problem.order
        at, states = curves.states()
        if curves.p.shape[1]:
            p = self.first.copy()
            p[self.own] = curves.p
            field = field.with_first(p)
        at *= problem.duration
        at += problem.t0
        states /= self.units[:, None]
        return field, (at.ravel(), states.reshape(E * k, q, D), self.own[curves.member_at_gauss])


def newton(system: System, curves: Orbits, goal: float, iterations: int) -> tuple[Orbits, np.ndarray, np.ndarray]:
    """Damped Newton's method: curves, their status (B,) and evaluations of f (B,).

    A step is accepted if the next one, with the same Jacobians, would be shorter (Deuflhard 2004).
    While steps shrink fast, the Jacobians are kept.
    """
    numbers, finished = np.arange(curves.count), []
    evaluations = np.zeros(curves.count, dtype=np.int64)
    k = curves.v.shape[1]
    for sweep in range(iterations):
        missed, linear = system.linearised(curves)
        step = linear.solve(*missed).column(0)
        sizes = _sizes(curves, step)
        length = _norm(curves, step, sizes)
        damping, points = np.ones(curves.count), k * (curves.sizes - 1)
        evaluations[numbers] += points
        while True:
            trial = curves.changed(step, damping)
            with np.errstate(all="ignore"):
                ahead = linear.solve(*system.residuals(trial)).column(0)
                after = _norm(curves, ahead, sizes)
                good = (after <= (1 - damping / 4) * length) | (after <= ROUNDING)
            evaluations[numbers] += points
            accepted = good | ~np.isfinite(length)
            if (accepted | (damping < SHORTEST)).all():
                break
            shorter = _shorter(curves, (step, ahead), damping, length, sizes)
            damping = np.where(accepted, damping, shorter)
        full = good & (damping == 1.0)
        done = full & _is_settled(length, after, goal)
        fast = full & (after <= FAST * length)
        curves = trial.changed(ahead, fast.astype(float))
        while (done | fast).all() and not done.all():
            ahead, before = linear.solve(*system.residuals(curves)).column(0), after
            after = _norm(curves, ahead, sizes)
            evaluations[numbers] += points * ~done
            fast = ~done & (after <= FAST * before)
            done |= (fast | (after <= ROUNDING)) & _is_settled(before, after, goal)
            curves = curves.changed(ahead, fast.astype(float))
        status = np.where(good, OUT_OF_SWEEPS, STALLED)
        lost = ~np.isfinite(length)
        status[lost] = NOT_FINITE
        if lost.any():
            status[lost & linear.is_singular() & _finite(curves, missed)] = SINGULAR
        status[done] = OK
        over = np.ones_like(done) if sweep == iterations - 1 else done | ~good
        if over.any():
            which = np.flatnonzero(over)
            finished.append((numbers[which], curves.take(which), status[which]))
            on = np.flatnonzero(~over)
            if not len(on):
                break
            numbers, curves, system = numbers[on], curves.take(on), system.take(on)
    if len(finished) == 1:
        return *finished[0][1:], evaluations
    order = np.argsort(np.concatenate([part[0] for part in finished]))
    together = Orbits.joined([part[1] for part in finished]).take(order)
    return together, np.concatenate([part[2] for part in finished])[order], evaluations


def _shorter(
    curves: Orbits, steps: tuple[Step, Step], damping: np.ndarray, length: np.ndarray, sizes: np.ndarray
) -> np.ndarray:
    """A smaller share (B,) of steps, by how far the next ones were from shorter ones.

    The next is (1 - damping) times this one, and what grows with the square of the damping.
    """
    step, ahead = steps
    rest = np.repeat(1 - damping, curves.sizes)[:, None, None]
    bend = Step(ahead.z - rest * step.z, step.v, ahead.p - (1 - damping)[:, None] * step.p)
    with np.errstate(all="ignore"):
        best = 0.5 * damping**2 * length / _norm(curves, bend, sizes)
    return np.clip(np.nan_to_num(best), 0.1 * damping, 0.5 * damping)


def _is_settled(before: np.ndarray, after: np.ndarray, goal: float) -> np.ndarray:
    """Whether the step after the next would be short enough, by the lengths of the last two."""
    with np.errstate(invalid="ignore", divide="ignore"):
        left = after * np.minimum(np.where(before > 0, after / before, 0.0), 1.0)
    return (left <= goal) | (after <= ROUNDING)


def _finite(curves: Orbits, missed: tuple) -> np.ndarray:
    return np.isfinite(curves.largest(largest_of(missed[0][..., 0])))


def _sizes(curves: Orbits, step: Step) -> np.ndarray:
    """What steps are measured by: of every derivative, and of parameters (B, q + P).

    A derivative by time from 0 to 1 that is smaller than those below it counts for as little.
    """
    q = curves.order
    sizes = np.full((curves.count, q + curves.p.shape[1]), 1e-300)
    loops.largest_of_parts(curves.offsets, curves.y, curves.p, sizes)
    loops.largest_of_parts(curves.offsets, step.z, step.p, sizes)
    np.maximum.accumulate(sizes[:, :q], axis=1, out=sizes[:, :q])
    return sizes


def _norm(curves: Orbits, step: Step, sizes: np.ndarray) -> np.ndarray:
    """The largest change of every member, relative to the size of what changes."""
    changes = np.zeros_like(sizes)
    loops.largest_of_parts(curves.offsets, step.z, step.p, changes)
    changes /= sizes
    return changes.max(axis=1)


@dataclass(frozen=True)
class Measured:
    """What one step on the split mesh says of curves.

    Attributes
    ----------
    errors (E, 8, D) : at equal steps within the elements
    local (E,) : the largest that an element itself is to blame for
    parameters (B, P, P) : covariance of the numerical error of the parameters
    data : columns of the uncertain conditions, or None
    residual (B,) : the largest |v - f| relative to the largest v
    singular (B,)
    """

    errors: np.ndarray
    local: np.ndarray
    parameters: np.ndarray
    data: Step | None
    residual: np.ndarray
    singular: np.ndarray


def measured(system: System, curves: Orbits) -> Measured:
    """Errors by one Newton step with every element split in two, and columns of uncertain data."""
    fine = curves.split()
    missed, linear = system.linearised(fine)
    P, D = curves.p.shape[1], curves.v.shape[2]
    forced = missed
    if P:  # and errors with random signs, which say how uncertain the parameters are
        signs = random_signs(curves.elements).repeat(2, axis=0)[:, None, None, :]
        first = np.arange(1 + DRAWS) == 0
        forced = (missed[0] * signs, missed[1] * first, missed[2] * first)
    step = linear.solve(*forced)
    error = fine.with_values(step.column(0))
    at_points = error.states(gauss_only=False)[1][:, :, 0].reshape(len(curves.v), 8, D)
    ends = error.y[:, 0]
    left = ends[fine.left[::2]][:, None]
    s = ((np.arange(8) + 0.5) / 8)[:, None]
    bumps = at_points - (1 - s) * left - s * ends[fine.left[1::2] + 1][:, None]
    spread = system.problem.conditions.spread
    data = None
    if spread is not None:
        columns = np.ascontiguousarray(spread[system.members])
        R = columns.shape[2]
        shape = fine.v.shape
        gaps = np.zeros((*missed[1].shape[:2], R))
        data = linear.solve(np.zeros((*shape, R)), gaps, columns)
    defect, highest = (fine.largest(largest_of(x)) for x in (missed[0][..., 0], fine.v))
    with np.errstate(invalid="ignore", divide="ignore"):
        residual = np.where(defect > 0, defect / np.maximum(highest, 1e-300), 0.0)
    return Measured(at_points, largest_of(bumps), _covariances(curves.p, step.p), data, residual, linear.is_singular())


def _covariances(p: np.ndarray, errors: np.ndarray) -> np.ndarray:
    """Of parameters (B, P): from their error and errors with random signs, (B, P, 1 + DRAWS).

    Their mean product with random signs, scaled to fit the error itself; no less than rounding.
    """
    B, P, _ = errors.shape
    if not P:
        return np.zeros((B, 0, 0))
    drawn = np.einsum("bir,bjr->bij", errors[..., 1:], errors[..., 1:]) / DRAWS
    variance = np.einsum("bii->bi", drawn)
    with np.errstate(invalid="ignore", divide="ignore"):
        ratio = np.where(variance > 0, errors[..., 0] ** 2 / variance, 0.0)
    scale = np.sqrt(np.maximum(ratio, LEAST))
    out = drawn * scale[:, :, None] * scale[:, None, :]
    floor = (8 * np.finfo(float).eps * np.abs(p)) ** 2
    out[:, np.arange(P), np.arange(P)] += floor
    return out


@dataclass(frozen=True)
class Bars:
    """Envelopes (rows, D) of error bars, their free ends (B, 2, D), width (B,) and scale (B,)."""

    envelope: np.ndarray
    free: np.ndarray
    largest: np.ndarray
    scale: np.ndarray


def error_bars(problem: ConditionedProblem, curves: Orbits, errors: np.ndarray) -> Bars:
    """As in `errors.error_bars`: g is the size of e / k(t, t)^(1/2) averaged over neighbours.

    Ends at which no condition gives the curve have errors too, as large as elsewhere.
    """
    E, count, _ = errors.shape
    s = (np.arange(count) + 0.5) / count
    line = (curves.t[curves.left][:, None] + curves.h[:, None] * s)[..., None]
    if problem.order == 1:
        member, at = np.repeat(curves.member, count), line.ravel()
        shape = Shape.on(curves.t, curves.offsets, 1, True)
        variances = shape.cov(member, at, at)[:, 0, 0].reshape(E, count)
    else:
        variances = np.empty((E, count))
        boundary_loops.pinned_variances(curves.t, curves.offsets, s, variances)
    variances *= problem.duration ** (2 * min(problem.order, 2) + 1)
    number = np.diff(curves.elements)
    mean = np.add.reduceat(variances.mean(axis=1), curves.elements[:-1]) / number
    free = mean[:, None, None] * ~problem.conditions.known
    own = free[curves.member]
    k = variances[..., None] + (1 - line) ** 2 * own[:, None, 0] + line**2 * own[:, None, 1]
    floor = (8 * np.finfo(float).eps * curves.size()) ** 2
    sizes = np.sqrt(np.mean((errors**2 + floor[curves.member][:, None, None]) / k, axis=1))
    envelope = smoothed(curves, sizes)
    largest = curves.largest((sizes * np.sqrt(k.max(axis=1))).max(axis=1))
    scale = np.add.reduceat(sizes.mean(axis=1), curves.elements[:-1]) / number
    return Bars(envelope, free, largest, scale)


class Work:
    """The members of a chunk, each on its way from a first curve to an answer."""

    def __init__(
        self, problem: ConditionedProblem, solver: "Markov", members: np.ndarray, samples: np.ndarray | None
    ) -> None:
        self.problem, self.solver, self.members, self.samples = problem, solver, members, samples
        self.system = System.of(problem, members)
        self.k = max(solver.order - 1, problem.order)
        self.attempt = np.zeros(len(members), dtype=np.int64)
        self.rounds = np.zeros(len(members), dtype=np.int64)
        self.evaluations = np.zeros(len(members), dtype=np.int64)
        self.answers: list[tuple[np.ndarray, Curve]] = []
        self.queue: list[tuple[np.ndarray, Orbits]] = []
        self._start(np.arange(len(members)))

    def run(self) -> list[tuple[np.ndarray, Curve]]:
        """Round after round, until everyone has an answer."""
        goal = 0.01 * min(max(self.solver.rtol, 1e-12), 1e-3)
        while self.queue:
            todo, self.queue = self.queue, []
            numbers = np.concatenate([part[0] for part in todo])
            curves = Orbits.joined([part[1] for part in todo])
            system = self.system.take(numbers)
            curves, status, evaluations = newton(system, curves, goal, self.solver.iterations)
            self.evaluations[numbers] += evaluations
            self.rounds[numbers] += 1
            good = np.flatnonzero(status == OK)
            if len(good):
                self._judge(numbers[good], system.take(good), curves.take(good))
            self._try_again(numbers, system, curves, status)
        return self.answers

    def _start(self, numbers: np.ndarray) -> None:
        for attempt in np.unique(self.attempt[numbers]):
            some = numbers[self.attempt[numbers] == attempt]
            elements = FIRST_ELEMENTS[attempt]
            if self.solver.n_points is not None:
                elements = self.solver.n_points - 1
            curves = first_curves(self.problem, self.members[some], self.k, elements, self.samples)
            self.queue.append((some, curves))

    def _try_again(self, numbers: np.ndarray, system: System, curves: Orbits, status: np.ndarray) -> None:
        """Another first mesh; in the end the answer that there is none."""
        bad = status != OK
        more = self.attempt[numbers] < len(FIRST_ELEMENTS) - 1
        more &= self.solver.n_points is None
        again = bad & more
        self.attempt[numbers[again]] += 1
        self.rounds[numbers[again]] = 0
        if again.any():
            self._start(numbers[again])
        for i in np.flatnonzero(bad & ~again):
            own = curves.take(np.array([i]))
            shape = (1, own.p.shape[1], own.p.shape[1])
            nothing = np.zeros((len(own.v), 8, own.v.shape[2]))
            found = Measured(
                nothing + own.size(), nothing[:, 0, 0], np.full(shape, np.inf), None,
                np.full(1, np.inf), np.ones(1, bool),
            )  # fmt: skip
            bars = error_bars(self.problem, own, found.errors)
            self._answer(numbers[[i]], own, found, bars, np.array([True]), int(status[i]))

    def _judge(self, numbers: np.ndarray, system: System, curves: Orbits) -> None:
        """Good enough, to be refined, or as good as it gets."""
        limits = self.solver
        found = measured(system, curves)
        self.evaluations[numbers] += 2 * self.k * (curves.sizes - 1)
        bars = error_bars(self.problem, curves, found.errors)
        size, width = curves.size(), 2 * bars.largest
        excess = _over(width, limits.atol + limits.rtol * size)
        if curves.p.shape[1]:
            std = np.sqrt(np.einsum("bii->bi", found.parameters))
            allowed = limits.atol + limits.rtol * np.abs(curves.p)
            excess = np.maximum(excess, _over(2 * std, allowed).max(axis=1))
        enough = (excess <= 1) & ~found.singular
        stop = (curves.sizes >= limits.max_points) | (self.rounds[numbers] > limits.iterations)
        if limits.n_points is not None:
            enough, stop = ~found.singular, np.ones(len(numbers), dtype=bool)
        singular = found.singular & (stop | (self.rounds[numbers] > 3))
        finest = stop & ~enough & ~singular
        refine = np.flatnonzero(~(enough | singular | finest))
        if len(refine):
            self.queue.append((numbers[refine], self._refined(curves, found, excess, refine)))
        for which, status in ((enough, OK), (singular, SINGULAR), (finest, TOO_COARSE)):
            if which.any():
                self._answer(numbers, curves, found, bars, which, status)

    def _refined(self, curves: Orbits, found: Measured, excess: np.ndarray, members: np.ndarray) -> Orbits:
        """Nodes where errors are, until error bars are no longer `excess` times too wide."""
        order = self.k + self.problem.order
        allowed = 0.5 * curves.largest(found.local) / np.maximum(excess, 1e-300)
        more = wanted(found.local, allowed[curves.member], order)
        total = np.add.reduceat(more, curves.elements[:-1])
        more = more * np.maximum(1.0, 1.1 * (curves.sizes - 1) / total)[curves.member]
        elements = rows_of(curves.elements, members)
        return curves.take(members).remeshed(more[elements], self.solver.max_points)

    def _answer(
        self, numbers: np.ndarray, curves: Orbits, found: Measured, bars: Bars, which: np.ndarray, status: int
    ) -> None:
        members = np.flatnonzero(which)
        chosen = self.members[numbers[members]]
        own, problem = curves.take(members), self.problem
        cov = found.parameters[members]
        if status == SINGULAR:
            cov = np.full_like(cov, np.inf)
        spread, by_data = None, np.zeros((*own.p.shape, 0))
        if problem.conditions.spread is not None:
            spread, by_data = self._spread(curves, found.data, members)
        posterior = PiecewisePosterior(
            problem.t0 + problem.duration * own.t,
            own.offsets,
            own.pieces(),
            spread,
            bars.envelope[rows_of(curves.offsets, members)],
            order=min(problem.order, 2),
            pinned=True,
            free=bars.free[members],
        )
        values = (
            posterior,
            (problem.t0, problem.t1),
            np.full(len(members), status),
            log_evidence(own),
            self.evaluations[numbers[members]],
            found.residual[members],
            bars.scale[members],
        )
        answer = Curve(*values)
        if own.p.shape[1]:
            answer = CurveWithParameters(*values, own.p, cov, by_data)
        self.answers.append((chosen, answer))

    def _spread(self, curves: Orbits, data: Step | None, members: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """How pieces of some members (E, k + q, D, R), and parameters (B, P, R), move with data."""
        elements = rows_of(curves.elements, members)
        R = self.problem.conditions.n_rows
        q, D, P = self.problem.order, self.problem.dimension, curves.p.shape[1]
        if data is None:
            return np.zeros((len(elements), self.k + q, D, R)), np.zeros((len(members), P, R))
        fine = curves.split()
        # the coarse elements, from the states at their nodes and v where their Gauss points are
        at = rule(self.k, q).gauss
        half = (at * 2).astype(int).clip(0, 1)
        inside = at * 2 - half
        columns = pieces(fine.rule, fine.h, data.z[fine.left], data.v)  # (fine E, k + q, D, R) by powers of s
        E = len(curves.v)
        v = np.empty((E, self.k, D, R))
        for j in range(self.k):
            piece, h = columns[half[j] :: 2], fine.h[half[j] :: 2]
            v[:, j] = _highest(piece, inside[j], q) / h.reshape(-1, 1, 1) ** q
        out = pieces(curves.rule, curves.h, data.z[fine.left[::2]], v)
        return out[elements], data.p[members]


def _highest(columns: np.ndarray, s: float, q: int) -> np.ndarray:
    """The q-th derivative by s of polynomials (E, degree + 1, ...) at s."""
    total = np.zeros((len(columns), *columns.shape[2:]))
    for a in range(q, columns.shape[1]):
        falling = float(np.prod(np.arange(a - q + 1, a + 1)))
        total += falling * s ** (a - q) * columns[:, a]
    return total


def _over(width: np.ndarray, allowed: np.ndarray) -> np.ndarray:
    """How many times too wide."""
    return np.where(width > 0, width / np.maximum(allowed, 1e-300), 0.0)
