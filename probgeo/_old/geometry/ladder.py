"""Geodesics on meshes of a few sizes, each finer than the one before.

`solvers.Markov` can find a mesh for every curve, and compiles a program for every size of mesh and
batch that it meets on the way. Geodesics come in crowds, and most of them are smooth: equal steps
of a few sizes do, for batches of a few sizes, and the first call is over ten times sooner.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from probgeo._old._compile import compiled
from probgeo._old._rows import replace_rows
from probgeo._old.geometry.polyline import resized
from probgeo._old.geometry.rows import (
    LARGEST,
    Rows,
    chunks,
    curve_rows,
    filled,
    join_curves,
    padded,
    replace_curves,
    take,
)
from probgeo._old.ode.curve import OK, TOO_COARSE, Posterior, map_on_one_mesh
from probgeo._old.ode.markov import Markov
from probgeo._old.ode.markov.integral import LARGEST_MESH
from probgeo._old.ode.problem import Problem

RUNGS = (20, 40, 80, 160, 320, 640)  # numbers of nodes: few, for each is compiled
AT_ONCE = (64, 16, 4, 4, 4, 4)  # members solved at a time on each: one program a rung,
FEW = 4  # but for these,
FIRST_RUNG_OF_FEW = 1  # which begin on the second
SWEEPS = 6  # from a good start fewer do, and a bad one is better mended than followed
PATIENT_SWEEPS = 12
LARGEST_LOST = 80  # nodes up to which a finer mesh is tried where the solver does not converge
NODES_A_SEGMENT = 0.6  # of a start that is fine enough: what a first mesh needs
SAFETY = 1.1
POINTS = 65  # of a curve that are kept for the next mesh


Measure = Callable[[Rows, np.ndarray, int], Any]


@compiled
def points_batch(_: None, posterior: Posterior) -> Float[Array, "b t d"]:
    """The means of curves that share their nodes, at equal steps."""
    times = jnp.linspace(0.0, 1.0, POINTS)
    return map_on_one_mesh(lambda p: p.mean(times, 0), posterior)


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
    points: np.ndarray | None = None,
    segments: np.ndarray | None = None,
    measure: Measure | None = None,
    patient: bool = False,
) -> tuple[Rows, Any]:
    """Curves that meet the tolerance of the solver, each on the first mesh that allows it.

    Parameters
    ----------
    points : array (B, T, D), optional
        First curves of a boundary value problem.
    segments : array (B,), optional
        How many it takes to resolve each.
    measure : function (rows, members, least) -> rows, optional
        Whatever else is to be known of the curves; `least` is the size of batches.
    patient : bool
        Whether to go on beyond `LARGEST_LOST` nodes, and with more sweeps on the finest mesh,
        where the solver does not converge.
    """
    # without Jacobians smoothing does not converge from a start that is off
    most = solver.max_points if solver.first_order else min(solver.max_points, LARGEST_MESH)
    rungs = [n for n in RUNGS if n <= most] or [most]
    count = len(problem.values)
    wanted = np.zeros(count) if segments is None else NODES_A_SEGMENT * segments
    # number of the rung on which a member is tried next
    due = np.searchsorted(rungs, wanted)
    if count <= FEW:  # one finer mesh costs less than to compile for two
        due = np.maximum(due, FIRST_RUNG_OF_FEW)
    due = np.minimum(due, len(rungs) - 1)
    evaluations = np.zeros(count, dtype=int)
    curve: Rows = None
    for k, size in enumerate(rungs):
        here = np.flatnonzero(due == k)
        if not here.size:
            continue
        last = patient and size == rungs[-1]
        fixed = on_mesh(solver, size, min(PATIENT_SWEEPS if last else SWEEPS, solver.sweeps))
        at_once = AT_ONCE[k] if len(here) > 2 * FEW else FEW
        solve = partial(_solve_part, fixed, problem, points, measure, at_once)
        parts = [solve(here[part]) for part in chunks(len(here), at_once)]
        new = join_curves([rows for rows, *_ in parts])
        excess, found = jax.tree.map(
            lambda *x: np.concatenate(x), *((excess, found) for _, excess, found in parts)
        )
        evaluations[here] += new.n_evaluations
        solved = new.status == OK
        step = _next_rung(rungs, k, solver.prior.q, np.where(solved, excess, np.inf))
        due[here] = np.where(solved | patient | (size < LARGEST_LOST), step, -1)
        coarse = solved & (excess > 1.0)
        new.status[coarse] = TOO_COARSE
        if points is not None and coarse.any():  # the next mesh begins with this solution
            points = resized(points, POINTS)
            rows = take(new.posterior, np.flatnonzero(coarse))
            points[here[coarse]] = padded(points_batch, None, rows, least=at_once)
        if curve is None:  # rows of others are filled in later
            rows = np.zeros(count, dtype=int)
            rows[here] = np.arange(len(here))
            curve, measured = take((new, found), rows)
        else:
            curve = replace_curves(curve, here, new)
            measured = replace_rows(measured, here, found)
    return eqx.tree_at(lambda c: c.n_evaluations, curve, evaluations), measured


def _next_rung(rungs: list[int], k: int, order: int, excess: np.ndarray) -> np.ndarray:
    """Where to go from rung k for errors `excess` times too large; -1 if nowhere."""
    safe = np.maximum(np.nan_to_num(excess, nan=np.inf), 1e-300)
    step = np.searchsorted(rungs, rungs[k] * SAFETY * safe ** (1.0 / order))
    # in an error of unknown size there is no telling how much finer it has to be
    furthest = np.where(np.isfinite(excess), k + 2, k + 1)
    step = np.where(excess <= 1.0, -1, np.clip(step, k + 1, furthest))
    return np.where(step >= len(rungs), -1, step)


def _solve_part(
    solver: Any,
    problem: Problem,
    points: np.ndarray | None,
    measure: Measure | None,
    size: int,
    index: np.ndarray,
) -> tuple[Rows, np.ndarray, Any]:
    guess = None if points is None else points[index]
    rows, excess = solve_padded(solver, problem, index, guess, size)
    return rows, excess, None if measure is None else measure(rows, index, size)


def solve_in_parts(solver: Any, problem: Problem, points: np.ndarray | None = None) -> Rows:
    """All members of a batch, some at a time, by a solver that does not choose its mesh."""
    parts = chunks(len(problem.values), LARGEST)
    return join_curves(
        [solve_padded(solver, problem, k, None if points is None else points[k])[0] for k in parts]
    )


def solve_padded(
    solver: Any,
    problem: Problem,
    index: np.ndarray,
    points: np.ndarray | None = None,
    least: int = 1,
) -> tuple[Rows, np.ndarray]:
    """Some members of a batch, filled up to one of a few sizes, and their errors over tolerance."""
    fill = filled(np.arange(len(index)), least)
    guess = None if points is None else points[fill]
    part, unknown = problem.members(index[fill]), np.full(len(fill), np.nan)
    markov = isinstance(solver, Markov)
    curve, excess = solver.attempt(part, guess) if markov else (solver.solve(part, guess), unknown)
    return take((curve_rows(curve), excess), np.arange(len(index)))
