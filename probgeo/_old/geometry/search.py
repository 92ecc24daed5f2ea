"""How geodesics are found: a start, the ODE, a look at the length, and another try if need be."""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import jax
import numpy as np

from probgeo._old._rows import replace_rows
from probgeo._old.geometry.equation import Metric
from probgeo._old.geometry.geodesic import (
    FINE,
    LONGER_THAN_KNOWN,
    LONGER_THAN_LINE,
    NO_LENGTH,
    Shifted,
)
from probgeo._old.geometry.initial import (
    Continuation,
    EnergyDescent,
    Start,
    Starts,
    StraightLine,
)
from probgeo._old.geometry.initial.base import measured as measured_starts
from probgeo._old.geometry.initial.descent import descend_quadratically, resolve
from probgeo._old.geometry.initial.multistart import MetricGraph
from probgeo._old.geometry.ladder import climb, is_adaptive, solve_in_parts
from probgeo._old.geometry.length import Measured, measure_batch
from probgeo._old.geometry.polyline import refined, straight
from probgeo._old.geometry.rows import Rows, padded, replace_curves
from probgeo._old.ode.curve import OK
from probgeo._old.ode.problem import Problem
from probgeo._old.ode.solve import Solver

LINE_SEGMENTS = 32  # on which the straight line is measured
SLACK = 1e-6  # relative excess of a length that is put down to round-off and quadrature
DEVIATIONS = 3.0  # standard deviations of a length that are put down to the numerics
FINEST = 256  # segments of a polygon
RESOLVED, POLISHED = 1e-4, 1e-8  # relative decreases of energy that are not worth another step
POLISHING_STEPS = 100


class Task(NamedTuple):
    """What is to be solved: one chunk of geodesics from a to b, both (B, D)."""

    metric: Metric
    problem: Problem  # in coordinates relative to a
    a: np.ndarray
    b: np.ndarray

    def members(self, index: np.ndarray) -> "Task":
        return Task(self.metric, self.problem.members(index), self.a[index], self.b[index])


class Found(NamedTuple):
    """Geodesics, measured, the number of the start that each comes from, and what is wrong."""

    curve: Rows
    measured: Measured
    won: np.ndarray
    flag: np.ndarray


def search(
    task: Task, solver: Solver, start: Start, guess: np.ndarray | None
) -> tuple[Found, tuple[str, ...]]:
    """Geodesics for one chunk, and the names of the starts that `Found.won` counts.

    The shortest curve known, of the straight line, all starts and all solutions, is what an answer
    has to keep up with.
    """
    line = measured_starts(task.metric, straight(task.a, task.b, LINE_SEGMENTS), "").length
    known = line.copy()
    names: list[str] = []
    best: Starts | None = None
    found: Found | None = None
    left = np.arange(len(task.a))
    for candidate in _candidates(task.metric, start, guess):
        part = task.members(left)
        starts = candidate(part, left, best)
        new = _solve(part, solver, starts, len(names), patient=found is not None)
        names += starts.names
        best = starts if best is None else best.shorter(left, starts)
        known[left] = np.minimum(known[left], starts.length)
        found = new if found is None else _shorter(found, left, new)
        good = found.curve.status == OK
        lengths = np.where(good, found.measured.length, np.inf)
        known = np.minimum(known, np.where(np.isfinite(lengths), lengths, np.inf))
        found = found._replace(flag=_flags(found.measured, line, known))
        left = np.flatnonzero((found.flag != FINE) | ~good)
        if not left.size:
            break
    assert found is not None
    return found, tuple(names)


Candidate = Callable[[Task, np.ndarray, Starts | None], Starts]


def _candidates(metric: Metric, start: Start, guess: np.ndarray | None) -> Iterator[Candidate]:
    """Starts in the order in which they are tried, for the members that are left."""
    if guess is not None:
        yield lambda task, left, _: measured_starts(task.metric, guess[left], "guess")
    yield _from(start)
    descent = EnergyDescent(segments=64, tolerance=RESOLVED)
    if hasattr(metric, "with_rho"):
        yield _from(Continuation(descent=descent))
    yield _polished
    yield _from(descent)
    if hasattr(metric, "with_rho"):
        yield _from(MetricGraph(descent=descent))


def _from(start: Start) -> Candidate:
    def candidate(task: Task, left: np.ndarray, best: Starts | None) -> Starts:
        starts = start.start(task.metric, task.a, task.b)
        # a straight line is meant as one
        return starts if isinstance(start, StraightLine) else _resolved(task, starts)

    return candidate


def _resolved(task: Task, starts: Starts) -> Starts:
    """Finer polygons for those starts that are not resolved as they are."""
    fine = starts.segments == starts.points.shape[1] - 1
    left = np.flatnonzero(fine & (starts.segments < FINEST) & np.isfinite(starts.length))
    if not left.size:
        return starts
    points, needed = resolve(task.metric, starts.points[left], FINEST, RESOLVED)
    new = measured_starts(task.metric, points, "", needed)
    usable = np.isfinite(new.length)
    new = new._replace(which=starts.which[left], names=starts.names)
    return starts.replaced(left[usable], new.members(usable))


def _polished(task: Task, left: np.ndarray, best: Starts | None) -> Starts:
    """The best start so far on the finest polygon, and very close to its least energy."""
    assert best is not None
    points = refined(best.points[left], FINEST + 1)
    points = descend_quadratically(task.metric, points, POLISHING_STEPS, POLISHED)
    return measured_starts(task.metric, points, "polished start")


def _solve(task: Task, solver: Solver, starts: Starts, offset: int, patient: bool) -> Found:
    # a curve on which the metric is not finite is no start
    line = straight(task.a, task.b, starts.points.shape[1] - 1)
    points = np.where(np.isfinite(starts.length)[:, None, None], starts.points, line)
    points = points - task.a[:, None]

    def measure(curve: Rows, members: np.ndarray, least: int = 1) -> Measured:
        rows = (Shifted(curve.posterior, task.a[members]), curve.nodes)
        return padded(measure_batch, task.metric, rows, least=least)

    if is_adaptive(solver):
        curve, measured = climb(solver, task.problem, points, starts.segments, measure, patient)
    else:
        everyone = np.arange(len(points))
        curve = solve_in_parts(solver, task.problem, points)
        measured = measure(curve, everyone)
    return Found(curve, measured, starts.which + offset, np.zeros(len(points), dtype=int))


def _shorter(old: Found, index: np.ndarray, new: Found) -> Found:
    """The old ones, but for those that are solved and shorter now."""

    def rank(found: Found) -> np.ndarray:
        length = np.where(np.isfinite(found.measured.length), found.measured.length, np.inf)
        return np.where(found.curve.status == OK, length, np.inf)

    take = np.flatnonzero(rank(new) < rank(old)[index])
    if not take.size:
        return old
    at = index[take]
    picked = Found(*(_rows(x, take) for x in new))
    curve = replace_curves(old.curve, at, picked.curve)
    rest = replace_rows(tuple(old[1:]), at, tuple(picked[1:]))
    return Found(curve, *rest)


def _rows(tree: Any, index: np.ndarray) -> Any:
    return jax.tree.map(lambda x: x[index], tree)


def _flags(measured: Measured, line: np.ndarray, known: np.ndarray) -> np.ndarray:
    length, std = measured.length, np.sqrt(measured.numerical)
    allowed = DEVIATIONS * std
    flag = np.where(length > known * (1 + SLACK) + allowed, LONGER_THAN_KNOWN, FINE)
    flag = np.where(length > line * (1 + SLACK) + allowed, LONGER_THAN_LINE, flag)
    return np.where(np.isfinite(length), flag, NO_LENGTH)
