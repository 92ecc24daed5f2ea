"""How geodesics are found: a start, the ODE, a look at the length, and another try if need be."""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from probgeo.geometry.batches import padded, replace_rows
from probgeo.geometry.equation import Metric
from probgeo.geometry.geodesic import FINE, LONGER_THAN_KNOWN, LONGER_THAN_LINE, NO_LENGTH
from probgeo.geometry.initial import Continuation, DataGraph, EnergyDescent, Start, Starts
from probgeo.geometry.initial.base import measured as measured_starts
from probgeo.geometry.initial.multistart import MultiStart
from probgeo.geometry.joining import Rows, as_rows, replaced
from probgeo.geometry.length import Measured, measure_batch
from probgeo.geometry.polyline import straight
from probgeo.ode.curve import OK
from probgeo.ode.problem import Problem
from probgeo.ode.solve import Solver

LINE_SEGMENTS = 64  # on which the straight line is measured
SLACK = 1e-6  # relative excess of a length that is put down to round-off and quadrature
DEVIATIONS = 3.0  # standard deviations of a length that are put down to the numerics


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


def search(task: Task, solver: Solver, start: Start, guess: np.ndarray | None) -> tuple:
    """Geodesics for one chunk, and the names of the starts that `Found.won` counts.

    The shortest curve known, of the straight line, all starts and all solutions, is what an answer
    has to keep up with.
    """
    line = measured_starts(task.metric, straight(task.a, task.b, LINE_SEGMENTS), "").length
    known, names = line, []
    found: Found | None = None
    left = np.arange(len(task.a))
    for candidate in _candidates(task.metric, start, guess):
        part = task.members(left)
        starts = candidate(part, left)
        new = _solve(part, solver, starts, len(names))
        names += starts.names
        known = known.copy()
        known[left] = np.minimum(known[left], starts.length)
        found = new if found is None else _better(found, left, new)
        good = found.curve.status == OK
        lengths = np.where(good, found.measured.length, np.inf)
        known = np.minimum(known, np.where(np.isfinite(lengths), lengths, np.inf))
        found = found._replace(flag=_flags(found.measured, line, known))
        left = np.flatnonzero((found.flag != FINE) | ~good)
        if not left.size:
            break
    return found, tuple(names)


def _candidates(metric: Metric, start: Start, guess: np.ndarray | None) -> Iterator[Any]:
    """Starts in the order in which they are tried."""
    if guess is not None:
        yield lambda task, left: measured_starts(task.metric, guess[left], "guess")
    yield lambda task, _: start.start(task.metric, task.a, task.b)
    tight = EnergyDescent(segments=64, steps=400, tolerance=1e-6)
    yield lambda task, _: tight.start(task.metric, task.a, task.b)
    if hasattr(metric, "with_rho"):
        yield lambda task, _: Continuation(descent=tight).start(task.metric, task.a, task.b)
    if hasattr(metric, "centers"):
        graph = DataGraph(metric.centers, descent=tight)
        yield lambda task, _: graph.start(task.metric, task.a, task.b)


def _solve(task: Task, solver: Solver, starts: Starts, offset: int) -> Found:
    # relative to a; a curve on which the metric is not finite is no start
    points = np.where(np.isfinite(starts.length)[:, None, None], starts.points, np.nan)
    line = straight(task.a, task.b, points.shape[1] - 1)
    points = np.where(np.isnan(points), line, points) - task.a[:, None]
    curve = as_rows(solver.solve(task.problem, points))
    return Found(curve, _measure(task, curve), starts.which + offset, np.zeros(len(points), int))


def _measure(task: Task, curve: Rows) -> Measured:
    from probgeo.geometry.geodesic import Shifted

    return padded(measure_batch, task.metric, (Shifted(curve.posterior, task.a), curve.nodes))


def _better(old: Found, index: np.ndarray, new: Found) -> Found:
    """The old ones, but for those that are solved and shorter now."""

    def rank(found: Found) -> np.ndarray:
        length = np.where(np.isfinite(found.measured.length), found.measured.length, np.inf)
        return np.where(found.curve.status == OK, length, np.inf)

    take = np.flatnonzero(rank(new) < rank(old)[index])
    if not take.size:
        return old
    at = index[take]
    picked = Found(*(_rows(x, take) for x in new))
    curve = replaced(old.curve, at, picked.curve)
    rest = replace_rows(tuple(old[1:]), at, tuple(picked[1:]))
    return Found(curve, *rest)


def _rows(tree: Any, index: np.ndarray) -> Any:
    import jax

    return jax.tree.map(lambda x: x[index], tree)


def _flags(measured: Measured, line: np.ndarray, known: np.ndarray) -> np.ndarray:
    length, std = measured.length, np.sqrt(measured.numerical)
    allowed = DEVIATIONS * std
    flag = np.where(length > known * (1 + SLACK) + allowed, LONGER_THAN_KNOWN, FINE)
    flag = np.where(length > line * (1 + SLACK) + allowed, LONGER_THAN_LINE, flag)
    return np.where(np.isfinite(length), flag, NO_LENGTH)
