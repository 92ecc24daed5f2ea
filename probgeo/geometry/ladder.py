"""Boundary value problems on meshes of a few sizes, each twice as fine as the one before.

`solvers.Markov` can find a mesh for every curve, and compiles a program for every size of mesh and
batch that it meets on the way. Geodesics come in crowds, and most of them are smooth: equal steps
of a few sizes do, for batches of a few sizes, and the first call is over ten times sooner.
"""

from collections.abc import Callable
from typing import Any, Protocol

import equinox as eqx
import numpy as np

from probgeo.geometry.batches import filled, replace_rows
from probgeo.geometry.joining import Rows, as_rows, replaced, take
from probgeo.geometry.polyline import resized
from probgeo.ode.curve import OK, OUT_OF_SWEEPS, TOO_COARSE
from probgeo.ode.markov import Markov
from probgeo.ode.problem import Problem

RUNGS = (32, 80, 200, 512, 1280)  # numbers of nodes
SWEEPS = 6  # from a good start fewer do, and a bad one is better mended than followed
NODES_A_SEGMENT = 0.75  # of a start that is fine enough: what a first mesh needs
SAFETY = 1.1


class Quality(Protocol):
    """What is asked of a solution: its numerical error, and how far it goes, both (B,)."""

    error: Any
    extent: Any


def is_adaptive(solver: Any) -> bool:
    return isinstance(solver, Markov) and solver.n_points is None


def on_mesh(solver: Markov, size: int, sweeps: int) -> Markov:
    """The same solver with a fixed number of nodes."""
    changed = {"n_points": size, "sweeps": sweeps}
    fixed = object.__new__(Markov)
    for name in solver.__dataclass_fields__:
        object.__setattr__(fixed, name, changed.get(name, getattr(solver, name)))
    return fixed


def climb(
    solver: Any,
    problem: Problem,
    measure: Callable[[Rows, np.ndarray], Any],
    points: np.ndarray | None = None,
    segments: np.ndarray | None = None,
    patient: bool = False,
) -> tuple[Rows, Any]:
    """Curves that meet the tolerance of the solver, each on the first mesh that allows it.

    Parameters
    ----------
    measure : function (rows, members) -> Quality
    points : array (B, T, D), optional
        First curves of a boundary value problem.
    segments : array (B,), optional
        How many it takes to resolve each.
    patient : bool
        Whether to go on with all sweeps, and on finer meshes, where the solver does not converge.
    """
    rungs = [n for n in RUNGS if n <= solver.max_points] or [solver.max_points]
    count = len(problem.values)
    wanted = np.zeros(count) if segments is None else NODES_A_SEGMENT * segments
    # number of the rung on which a member is tried next
    due = np.minimum(np.searchsorted(rungs, wanted), len(rungs) - 1)
    evaluations = np.zeros(count, dtype=int)
    curve: Rows = None
    for k, size in enumerate(rungs):
        here = np.flatnonzero(due == k)
        if not here.size:
            continue
        sweeps = solver.sweeps if patient else min(SWEEPS, solver.sweeps)
        guess = None if points is None else points[here]
        new = solve_padded(on_mesh(solver, size, sweeps), problem, here, guess)
        evaluations[here] += new.n_evaluations
        found = measure(new, here)
        allowed = float(solver.atol) + float(solver.rtol) * found.extent
        excess = np.asarray(found.error) / np.maximum(allowed, 1e-300)
        solved = new.status == OK
        going = solved | ((new.status == OUT_OF_SWEEPS) & patient)
        due[here] = np.where(going, _next_rung(rungs, k, solver.prior.q, excess), -1)
        new.status[solved & (excess > 1.0)] = TOO_COARSE
        if points is not None:
            usable = going & np.isfinite(found.points).all(axis=(1, 2))
            points = resized(points, found.points.shape[1])
            points[here[usable]] = found.points[usable]
        if curve is None:  # rows of others are filled in later
            rows = np.zeros(count, dtype=int)
            rows[here] = np.arange(len(here))
            curve, measured = take((new, found), rows)
        else:
            curve = replaced(curve, here, new)
            measured = replace_rows(measured, here, found)
    return eqx.tree_at(lambda c: c.n_evaluations, curve, evaluations), measured


def _next_rung(rungs: list[int], k: int, order: int, excess: np.ndarray) -> np.ndarray:
    """Where to go from rung k for errors `excess` times too large; -1 if nowhere."""
    safe = np.maximum(np.nan_to_num(excess, nan=np.inf), 1e-300)
    step = np.searchsorted(rungs, rungs[k] * SAFETY * safe ** (1.0 / order))
    step = np.where(excess <= 1.0, -1, np.clip(step, k + 1, k + 2))
    return np.where(step >= len(rungs), -1, step)


def solve_padded(
    solver: Any, problem: Problem, index: np.ndarray, points: np.ndarray | None = None
) -> Rows:
    """Some members of a batch, filled up to one of a few sizes."""
    fill = filled(np.arange(len(index)))
    guess = None if points is None else points[fill]
    curve = solver.solve(problem.members(index[fill]), guess)
    return take(as_rows(curve), np.arange(len(index)))
