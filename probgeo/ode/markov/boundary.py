"""Boundary value problems of `Markov`: start, solve, measure, refine.

Every member of a batch has a mesh of its own. Newton's method solves the equations of its elements,
the linearised ODE says how far that is from the solution, and nodes go where the error is, until
the error bars are as small as asked for. Members that Newton's method cannot solve start again: on
finer meshes, then with an ODE that is turned on slowly, y'' = share * f.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from probgeo.ode.curve import OK, SINGULAR, STALLED, TOO_COARSE, Curve, collected
from probgeo.ode.guess import guess_samples, sample_states
from probgeo.ode.markov import boundary_loops as loops
from probgeo.ode.markov.collocation import Chains, Linearised, basis, largest_of, pieces
from probgeo.ode.markov.errors import Bars, Errors, error_bars, estimated_errors, is_doubtful
from probgeo.ode.markov.mesh import MOST, on_mesh, remeshed, wanted
from probgeo.ode.markov.newton import Equations, Iteration, Settled
from probgeo.ode.piecewise import PiecewisePosterior
from probgeo.ode.problem import ConditionedProblem, Problem
from probgeo.ragged import blas_on_one_thread, in_chunks, joined, members_at_a_time, offsets_of, rows_of

if TYPE_CHECKING:
    from probgeo.ode.markov.solver import Markov

FIRST_ELEMENTS = (4, 16)  # of the first mesh of the first attempts, at equal steps
LEAST_SHARE = 1e-4  # of f, at which continuation begins
RESOLVED = 0.3  # error, relative to the solution, above which a mesh shows little of it
SUSPICIOUS = 1e3  # sensitivity (1.2 where no force acts) from which on a problem may be singular
# Relative error that will do on the way to the solution. Ten times as much loses problem 20 of
# Cash and Mazzia at epsilon below 0.001.
SKETCHED = 3e-4


def solve_boundary(problem: Problem, solver: "Markov", guess: Any = None) -> Curve:
    """Posterior curves of a batch of boundary value problems y'' = f(t, y, y').

    The log evidence is the log density of the accelerations at the Gauss points, given the first
    one, under the prior that y'' is a Brownian motion, its scale by maximum likelihood.
    """
    k, D = solver.order - 1, problem.dimension
    start = first_curves(problem, k, FIRST_ELEMENTS[0], guess)
    bytes_a_member = 8 * (k * k + 4 * k + 10) * D * D * 16

    def work(members: np.ndarray) -> list[tuple[np.ndarray, Curve]]:
        return Work(problem, solver, members, start.take(members)).run()

    return solved(work, problem, bytes_a_member)


def solved(work: Callable[[np.ndarray], list], problem: Problem | ConditionedProblem, bytes_a_member: float) -> Curve:
    """The answers of work(members), which are [(members, curves), ...], as one batch."""
    if problem.count == 1:  # neither chunks nor a bar, which would take a tenth of the time
        with blas_on_one_thread:
            return collected(work(np.zeros(1, dtype=np.int64)), problem.batch_shape)
    most = min(1024, members_at_a_time(bytes_a_member))
    parts = in_chunks(work, problem.count, most=most)
    return collected([answer for part in parts for answer in part], problem.batch_shape)


def first_curves(problem: Problem, k: int, elements: int, guess: Any = None) -> Chains:
    """Straight lines, or guesses, on equal steps."""
    B, D = problem.count, problem.dimension
    samples = None if guess is None else guess_samples(guess, problem)
    if samples is not None:
        elements = int(np.clip(samples.shape[1] - 1, elements, max(elements, 16)))
    s = np.linspace(0.0, 1.0, elements + 1)
    t = np.tile(problem.t0 + s * problem.duration, B)
    t[elements :: elements + 1] = problem.t1
    offsets = offsets_of(np.full(B, elements + 1))
    ya, yb = problem.values[:, :1], problem.values[:, 1:]
    y = (1 - s)[:, None] * ya + s[:, None] * yb
    v = np.zeros((B * elements, k, D))
    if samples is not None:
        inside = (np.arange(elements)[:, None] + basis(k).gauss) / elements
        at_nodes, at_gauss = sample_states(samples, s), sample_states(samples, inside.ravel())
        line = (1 - s)[:, None] * samples[:, :1] + s[:, None] * samples[:, -1:]
        y = y + at_nodes[0] - line
        v = at_gauss[2].reshape(B * elements, k, D) / problem.duration**2
    return Chains(t, offsets, np.ascontiguousarray(y.reshape(-1, D)), np.ascontiguousarray(v))


class Work:
    """The members of a chunk, each on its way from a first curve to an answer.

    Members are numbered within the chunk; per number there are the attempt it is at, meshes it has
    had in this attempt, the share of f (1 except in continuation), how fast that grows, and how
    often the problem could not be told from a singular one.
    """

    def __init__(self, problem: Problem, solver: "Markov", members: np.ndarray, start: Chains) -> None:
        self.problem, self.solver, self.members, self.start = problem, solver, members, start
        count = len(members)
        self.attempt = np.zeros(count, dtype=np.int64)
        self.rounds = np.zeros(count, dtype=np.int64)
        self.share = np.ones(count)
        self.growth = np.ones(count)
        self.reached: list[tuple[float, Chains] | None] = [None] * count  # in continuation
        self.doubts = np.zeros(count)
        self.evaluations = np.zeros(count, dtype=np.int64)
        self.answers: list[tuple[np.ndarray, Curve]] = []  # of these members
        # curves that Newton's method is to be applied to, and whose they are
        self.queue: list[tuple[np.ndarray, Chains]] = [(np.arange(count), self._first_mesh(start))]

    def run(self) -> list[tuple[np.ndarray, Curve]]:
        """Round after round, until everyone has an answer."""
        while self.queue:
            todo, self.queue = self.queue, []
            numbers, curves = _together(todo)
            equations = Equations(self.problem.field, self.members[numbers], self.share[numbers])
            for settled in Iteration(equations, curves).run(self.solver.iterations):
                mine = numbers[settled.chosen]
                self.evaluations[mine] += settled.evaluations
                self.rounds[mine] += 1
                if settled.status == OK:
                    self._judge(mine, settled)
                else:
                    self._try_again(mine, settled)
        return self.answers

    # --- solved on their meshes ---------------------------------------------------------------

    def _judge(self, numbers: np.ndarray, settled: Settled) -> None:
        """Good enough, to be refined, or as good as it gets."""
        curves, limits = settled.curves, self.solver
        errors = estimated_errors(curves, settled.linear, settled.defects)
        bars = error_bars(curves, errors, settled.left)
        size, width = curves.size(), 2 * bars.largest
        tolerance = limits.atol + limits.rtol * size
        doubtful = self._doubtful(settled, errors)
        self.doubts[numbers] += doubtful * np.where(width <= RESOLVED * size, 1.0, 0.5)

        partly = self.share[numbers] < 1.0
        singular = doubtful & (self.doubts[numbers] > 3) & ~partly
        further = partly & (width <= SKETCHED * size)
        if limits.n_points is None:
            enough = (width <= tolerance) & ~doubtful & ~partly
            finest = (curves.sizes >= limits.max_points) | (self.rounds[numbers] > limits.iterations)
            finest &= ~(enough | singular | further)
            onto_own = np.zeros_like(enough)
        else:
            own = (curves.sizes == limits.n_points) & ~partly
            enough, singular = own & ~doubtful, own & doubtful
            onto_own = ~own & ~partly
            finest = partly & ~further & (self.rounds[numbers] > limits.iterations)
        refine = ~(enough | singular | finest | further | onto_own)

        self._turn_on(numbers, curves, further)
        self._onto_own_mesh(numbers, curves, onto_own)
        excess = np.where(width > 0, width / np.maximum(tolerance, 1e-300), 0.0)
        self._refine(numbers, settled, errors, excess, doubtful, refine)
        for which, status in ((enough, OK), (singular, SINGULAR), (finest, TOO_COARSE)):
            if which.any():
                self._answer(numbers, settled, bars, which, status)

    def _doubtful(self, settled: Settled, errors: Errors) -> np.ndarray:
        """Whether the linearised problem may be singular, as far as the mesh can tell."""
        doubtful = ~(errors.sensitivity < SUSPICIOUS)
        members = np.flatnonzero(doubtful)
        if len(members):
            curves, linear = settled.curves.take(members), settled.linear.take(members)
            doubtful[members] = is_doubtful(curves, linear)
        return doubtful

    def _refine(
        self,
        numbers: np.ndarray,
        settled: Settled,
        errors: Errors,
        excess: np.ndarray,
        doubtful: np.ndarray,
        which: np.ndarray,
    ) -> None:
        """Nodes where errors are, until error bars are no longer `excess` times too wide."""
        members = np.flatnonzero(which)
        if not len(members):
            return
        curves = settled.curves
        order = curves.basis.k + 2
        largest = curves.largest(errors.local)
        allowed = 0.5 * largest / np.maximum(excess, 1e-300)
        more = wanted(errors.local, allowed[curves.member], order)
        more = np.where(doubtful[curves.member], np.maximum(more, 2.0), more)
        # a mesh must not merely move, least of all where it shows little of the solution
        size = curves.size()
        tolerance = self.solver.atol + self.solver.rtol * size
        unseen = ~(excess * tolerance <= RESOLVED * size)
        more = np.where(unseen[curves.member], np.maximum(more, waves(settled)), more)
        growth = np.where(unseen, 1.3, 1.1)
        total = np.add.reduceat(more, curves.elements[:-1])
        more = more * np.maximum(1.0, growth * (curves.sizes - 1) / total)[curves.member]
        elements = rows_of(curves.elements, members)
        finer = remeshed(curves.take(members), more[elements], 3, self.solver.max_points)
        self.queue.append((numbers[members], finer))

    # --- a mesh that the user chose -----------------------------------------------------------

    def _first_mesh(self, start: Chains) -> Chains:
        points = self.solver.n_points
        if points is not None and points <= start.sizes.max(initial=0):
            return self._own_mesh(start)
        return start

    def _own_mesh(self, curves: Chains) -> Chains:
        points = self.solver.n_points or 0
        times = np.linspace(self.problem.t0, self.problem.t1, points)
        t = np.tile(times, curves.count)
        return on_mesh(curves, t, offsets_of(np.full(curves.count, points)))

    def _onto_own_mesh(self, numbers: np.ndarray, curves: Chains, which: np.ndarray) -> None:
        members = np.flatnonzero(which)
        if len(members):
            self.queue.append((numbers[members], self._own_mesh(curves.take(members))))

    # --- not solved ---------------------------------------------------------------------------

    def _try_again(self, numbers: np.ndarray, settled: Settled) -> None:
        """Another first mesh, then continuation; in the end the answer that there is none."""
        errors = estimated_errors(settled.curves, settled.linear, settled.defects)
        with np.errstate(invalid="ignore"):
            doubtful = (errors.sensitivity > SUSPICIOUS**2) & (settled.status == STALLED)
        singular = doubtful & (self.doubts[numbers] > 0)
        self.doubts[numbers] += doubtful
        self.attempt[numbers] += 1
        self.rounds[numbers] = 0
        given_up = np.array([not (singular[i] or self._starts_anew(n)) for i, n in enumerate(numbers)])
        for which, status in ((singular, SINGULAR), (given_up, settled.status)):
            if which.any():
                self._answer(numbers, settled, _worthless(settled.curves), which, status)

    def _starts_anew(self, number: int) -> bool:
        """Whether there is something left to try."""
        start, attempt = self.start.take(np.array([number])), self.attempt[number]
        if attempt < len(FIRST_ELEMENTS):
            elements = np.full(len(start.v), FIRST_ELEMENTS[attempt] / len(start.v))
            self._enqueue(number, remeshed(start, elements, 3, self.solver.max_points))
            return True
        if attempt == len(FIRST_ELEMENTS):
            self.share[number], self.growth[number] = LEAST_SHARE, 10.0
            self._enqueue(number, start)
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
        self._enqueue(number, curves)
        return True

    def _turn_on(self, numbers: np.ndarray, curves: Chains, which: np.ndarray) -> None:
        """More of f, for members in continuation whose share of it is solved."""
        for i in np.flatnonzero(which):
            number = numbers[i]
            own = curves.take(np.array([i]))
            self.reached[number] = (self.share[number], own)
            self.growth[number] = min(self.growth[number] ** 1.5, 10.0)
            self.share[number] = min(1.0, self.share[number] * self.growth[number])
            self.rounds[number] = 0
            self._enqueue(number, own)

    def _enqueue(self, number: int, curves: Chains) -> None:
        self.queue.append((np.array([number]), curves))

    # --- answers ------------------------------------------------------------------------------

    def _answer(self, numbers: np.ndarray, settled: Settled, bars: Bars, which: np.ndarray, status: int) -> None:
        members = np.flatnonzero(which)
        curves, chosen = settled.curves.take(members), numbers[members]
        defects = settled.defects[rows_of(settled.curves.elements, members)]
        posterior = PiecewisePosterior(
            curves.t,
            curves.offsets,
            curves.pieces(),
            self._spread(chosen, curves),
            bars.envelope[rows_of(settled.curves.offsets, members)],
            order=2,
            pinned=True,
        )
        answer = Curve(
            posterior,
            (self.problem.t0, self.problem.t1),
            np.full(len(members), status),
            log_evidence(curves),
            self.evaluations[chosen],
            relative_defect(curves, defects),
            bars.scale[members],
        )
        self.answers.append((self.members[chosen], answer))

    def _spread(self, numbers: np.ndarray, curves: Chains) -> np.ndarray | None:
        """How pieces move with the data and, if wanted, with the parameters of f."""
        columns = self.problem.columns()
        if columns is None and not self.problem.with_args:
            return None
        members = self.members[numbers]
        equations = Equations(self.problem.field, members, np.ones(len(members)))
        linear = Linearised.around(curves, equations.jacobians(curves))
        E, k, D = curves.v.shape
        forcing = np.zeros((E, k, D, 0))
        if self.problem.with_args:
            forcing = equations.by_args(curves)
        data = 0 if columns is None else columns.shape[-1]
        at_ends = np.zeros((len(curves.t), D, data + forcing.shape[-1]))
        if columns is not None:
            at_ends[curves.offsets[:-1], :, :data] = columns[members, 0]
            at_ends[curves.offsets[1:] - 1, :, :data] = columns[members, 1]
        forcing = np.concatenate([np.zeros((E, k, D, data)), forcing], axis=-1)
        y, v = linear.solve(forcing, at_ends=at_ends)
        return pieces(curves.basis, curves.h, y[curves.left], y[curves.left + 1], v)


def waves(settled: Settled) -> np.ndarray:
    """Elements that waves ask for in the place of each (E,): one for two radians.

    A dimension swings with a frequency of (-d f_i / d y_i)^(1/2), if that is a number.
    """
    rates = -np.diagonal(settled.linear.jacobians[:, :, 0], axis1=-2, axis2=-1)
    frequency = np.sqrt(np.maximum(rates, 0.0).max(axis=(1, 2)))
    return np.minimum(settled.curves.h * frequency / 2.0, MOST)


def _together(parts: list[tuple[np.ndarray, Chains]]) -> tuple[np.ndarray, Chains]:
    if len(parts) == 1:
        return parts[0]
    curves = [c for _, c in parts]
    offsets, t, y = joined([(c.offsets, c.t, c.y) for c in curves])
    v = np.concatenate([c.v for c in curves])
    return np.concatenate([numbers for numbers, _ in parts]), Chains(t, offsets, y, v)


def _worthless(curves: Chains) -> Bars:
    """Error bars as large as the curves themselves."""
    B = curves.count
    duration = curves.t[curves.offsets[1:] - 1] - curves.t[curves.offsets[:-1]]
    scale = curves.size() / duration**2.5
    envelope = np.repeat(scale, curves.sizes)[:, None] * np.ones(curves.y.shape[1])
    return Bars(envelope, np.full(B, np.inf), scale)


def relative_defect(curves: Chains, defects: np.ndarray) -> np.ndarray:
    """The largest |p'' - f| of every member, relative to its largest acceleration."""
    missed, forces = (curves.largest(largest_of(x)) for x in (defects, curves.v))
    return np.where(missed > 0, missed / np.maximum(forces, 1e-300), 0.0)


def log_evidence(curves: Chains) -> np.ndarray:
    """Log density of the accelerations at the Gauss points, given the first, by member.

    If y'' is a Brownian motion of scale s, increments of accelerations over times dt are
    independent N(0, s^2 dt); s^2 = mean of increment^2 / dt is its maximum likelihood estimate.
    """
    _, k, D = curves.v.shape
    total, logs = np.empty(curves.count), np.empty(curves.count)
    loops.increments(curves.t, curves.offsets, curves.v, curves.basis.gauss, total, logs)
    number = (k * np.diff(curves.elements) - 1) * D
    with np.errstate(invalid="ignore"):
        scale = np.maximum(total / number, np.finfo(float).tiny)
        return -0.5 * (number * (np.log(2 * np.pi * scale) + 1.0) + D * logs)
