"""Boundary value problems on meshes of a few sizes, each twice as fine as the one before.

`solvers.Markov` can find a mesh for every curve, and compiles a program for every size of mesh and
batch that it meets on the way. Geodesics come in crowds, and most of them are smooth: equal steps
of a few sizes do, for batches of a few sizes, and the first call is over ten times sooner.
"""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import numpy as np

from probgeo.geometry.batches import filled, replace_rows
from probgeo.geometry.joining import Rows, as_rows, replaced, take
from probgeo.geometry.length import Measured
from probgeo.geometry.polyline import resized
from probgeo.ode.curve import OK, OUT_OF_SWEEPS, TOO_COARSE
from probgeo.ode.markov import Markov
from probgeo.ode.problem import Problem

RUNGS = (32, 64, 128, 256, 512, 1024)  # numbers of nodes
LARGEST_LOST = 512  # nodes up to which members that went astray start again
NODES_A_SEGMENT = 1.0  # of a start that is fine enough: what a first mesh needs
SAFETY = 1.1

Measure = Callable[[Rows, np.ndarray], Measured]


def is_adaptive(solver: Any) -> bool:
    return isinstance(solver, Markov) and solver.n_points is None


def on_mesh(solver: Markov, size: int) -> Markov:
    """The same solver with a fixed number of nodes."""
    changed = {"n_points": size}
    fixed = object.__new__(Markov)
    for name in solver.__dataclass_fields__:
        object.__setattr__(fixed, name, changed.get(name, getattr(solver, name)))
    return fixed


def climb(
    solver: Any,
    problem: Problem,
    points: np.ndarray,
    segments: np.ndarray,
    measure: Measure,
) -> tuple[Rows, Measured]:
    """Curves that meet the tolerance of the solver, each on the first mesh that allows it.

    `points` (B, T, D) are first curves, and `segments` (B,) how many it takes to resolve each.
    `measure(rows, members)` tells the error of solutions.
    """
    rungs = [n for n in RUNGS if n <= solver.max_points] or [solver.max_points]
    count = len(points)
    # number of the rung on which a member is tried next
    due = np.minimum(np.searchsorted(rungs, NODES_A_SEGMENT * segments), len(rungs) - 1)
    evaluations = np.zeros(count, dtype=int)
    guess = np.array(points)
    curve: Rows = None
    for k, size in enumerate(rungs):
        here = np.flatnonzero(due == k)
        if not here.size:
            continue
        new = solve_padded(on_mesh(solver, size), problem, here, guess[here])
        evaluations[here] += new.n_evaluations
        found = measure(new, here)
        allowed = float(solver.atol) + float(solver.rtol) * found.extent
        excess = np.asarray(found.error) / np.maximum(allowed, 1e-300)
        solved = new.status == OK
        more = _next_rung(rungs, k, solver.prior.q, solved, excess)
        due[here] = more
        new.status[solved & (excess > 1.0)] = TOO_COARSE
        going = solved | (new.status == OUT_OF_SWEEPS)
        usable = going & np.isfinite(found.points).all(axis=(1, 2))
        guess = resized(guess, found.points.shape[1])
        guess[here[usable]] = found.points[usable]
        if curve is None:  # rows of others are filled in later
            rows = np.zeros(count, dtype=int)
            rows[here] = np.arange(len(here))
            curve, measured = take((new, found), rows)
        else:
            curve = replaced(curve, here, new)
            measured = replace_rows(measured, here, found)
    return eqx.tree_at(lambda c: c.n_evaluations, curve, evaluations), measured


def _next_rung(
    rungs: list[int], k: int, order: int, solved: np.ndarray, excess: np.ndarray
) -> np.ndarray:
    """Where to go from rung k: -1 if all is well, or nothing finer is left."""
    needed = (
        rungs[k] * SAFETY * np.maximum(np.nan_to_num(excess, nan=np.inf), 1e-300) ** (1.0 / order)
    )
    step = np.searchsorted(rungs, needed)
    step = np.clip(step, k + 1, k + 2)
    step = np.where(solved & (excess <= 1.0), -1, step)
    lost = -1 if rungs[k] >= LARGEST_LOST else k + 1
    step = np.where(solved, step, lost)
    return np.where(step >= len(rungs), -1, step)


def solve_padded(solver: Any, problem: Problem, index: np.ndarray, points: np.ndarray) -> Rows:
    """Some members of a batch, filled up to one of a few sizes."""
    fill = filled(np.arange(len(index)))
    curve = solver.solve(problem.members(index[fill]), points[fill])
    return take(as_rows(curve), np.arange(len(index)))
