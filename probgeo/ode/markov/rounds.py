"""Batches in rounds: solve what is left, keep what is good, refine the mesh of the rest.

No member waits for the slowest: after every round the batch is cut down to those that need another
one. Meshes and batches come in a few sizes, so that little is compiled.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from probgeo.ode.curve import NOT_FINITE, OK, OUT_OF_SWEEPS, TOO_COARSE
from probgeo.ode.markov.mesh import at_least, redistribute, wanted
from probgeo.ode.markov.solve import Settings, Solution, finish, iterate, regression
from probgeo.ode.problem import Problem
from probgeo.ode.sweeps import Refined

SWEEPS_A_ROUND = 6


class Task(NamedTuple):
    """Members of the batch that share a size of mesh."""

    members: np.ndarray
    nodes: np.ndarray  # (members, n)
    states: np.ndarray  # (members, n, m, d)


class Record(NamedTuple):
    """What is kept of a finished member."""

    posterior: Any
    status: int
    log_evidence: float
    residual: float
    scale: float
    n_evaluations: int


@eqx.filter_jit
def _iterate(settings: Settings, problem: Problem, nodes: Array, x: Array, n: Array) -> Refined:
    return problem.map(lambda p, t, y: iterate(settings, p, t, y, n), nodes, x)


@eqx.filter_jit
def _finish(settings: Settings, problem: Problem, nodes: Array, states: Array) -> Solution:
    return problem.map(lambda p, t, y: finish(settings, p, t, y), nodes, states)


@eqx.filter_jit
def straight_lines(settings: Settings, problem: Problem, nodes: Array) -> Array:
    """States (batch, n, m, d) along the straight lines through the data."""
    return problem.map(lambda p, t: regression(settings, p, t).line, nodes)


@eqx.filter_jit
def _remesh(posterior: Any, nodes: Array, defects: Array, order: int, size: int) -> tuple:
    """New meshes of equal errors, and the old solution on them."""

    def one(posterior: Any, nodes: Array, defects: Array) -> tuple:
        new = redistribute(nodes, defects, order, size)
        return new, jnp.stack([posterior.mean(new, d) for d in range(3)], axis=1)

    return jax.vmap(one)(posterior, nodes, defects)


def solve_in_rounds(
    settings: Settings,
    problem: Problem,
    task: Task,
    sweeps: int,
    most_points: int,
    adaptive: bool,
) -> list[Record]:
    """Records of all members of a batch with one axis."""
    records: list[Record | None] = [None] * len(problem.values)
    evaluations = np.zeros(len(problem.values), dtype=int)
    queue = [task]
    while queue:
        task = queue.pop()
        part = problem.members(task.members)
        refined = jax.tree.map(np.asarray, _sweep_in_rounds(settings, part, task, sweeps))
        solution = _padded(_finish, settings, part, task.nodes, refined.x)
        solution = jax.tree.map(np.asarray, solution)
        size = task.nodes.shape[1]
        evaluations[task.members] += size * (3 + refined.sweeps)
        status = np.where(np.isfinite(solution.excess), refined.status, NOT_FINITE)
        coarse = (status == OK) & (solution.excess > 1.0) & adaptive
        again = (coarse | ((status != OK) & adaptive)) & (size < most_points)
        for k in np.flatnonzero(~again):
            member = task.members[k]
            records[member] = Record(
                jax.tree.map(lambda x, k=k: x[k], solution.posterior),
                TOO_COARSE if coarse[k] else int(status[k]),
                float(solution.log_evidence[k]),
                float(refined.residual[k]),
                float(solution.scale[k]),
                int(evaluations[member]),
            )
        queue += _refined_tasks(settings, part, task, solution, again, status, most_points)
    return [record for record in records if record is not None]


def _refined_tasks(
    settings: Settings,
    part: Problem,
    task: Task,
    solution: Solution,
    again: np.ndarray,
    status: np.ndarray,
    most_points: int,
) -> list[Task]:
    """The members that need a finer mesh, grouped by its size."""
    size, order = task.nodes.shape[1], settings.prior.q
    excess = np.where(status == OK, solution.excess, np.inf)
    sizes = np.minimum(wanted(size, excess, order), most_points)
    sizes = np.where(status == OK, sizes, min(at_least(2 * size), most_points))
    tasks = []
    for new in np.unique(sizes[again]):
        for good in (True, False):
            k = np.flatnonzero(again & (sizes == new) & ((status == OK) == good))
            if not k.size:
                continue
            if good:
                rows = jax.tree.map(
                    lambda x, k=k: x[k], (solution.posterior, task.nodes, solution.defects)
                )
                order_of_defect = max(1, order + 1 - part.order)
                nodes, states = _padded_rows(_remesh, rows, order_of_defect, int(new))
                states = states[:, :, : part.order + 1]
            else:  # lost: a finer mesh, and the straight line again
                nodes = np.broadcast_to(np.linspace(0.0, 1.0, new), (k.size, new))
                states = np.asarray(straight_lines(settings, part.members(k), jnp.asarray(nodes)))
            tasks.append(Task(task.members[k], np.asarray(nodes), np.asarray(states)))
    return tasks


def _sweep_in_rounds(settings: Settings, part: Problem, task: Task, sweeps: int) -> Refined:
    """Gauss-Newton for all, then for those that need more, and so on."""
    count = len(task.members)
    x = np.array(task.states)
    residual = np.full(count, np.nan)
    status = np.full(count, OUT_OF_SWEEPS)
    done = np.zeros(count, dtype=int)
    left = np.arange(count)
    while left.size:
        n = min(SWEEPS_A_ROUND, sweeps - int(done[left[0]]))
        found = _padded(
            _iterate, settings, part.members(left), task.nodes[left], x[left], jnp.array(n)
        )
        x[left], residual[left], status[left] = found.x, found.residual, found.status
        done[left] += np.asarray(found.sweeps)
        left = left[(status[left] == OUT_OF_SWEEPS) & (done[left] < sweeps)]
    return Refined(*map(jnp.asarray, (x, residual, status, done)))


def _padded(function: Callable, settings: Settings, part: Problem, *rows: Any) -> Any:
    """Call on a batch filled up to one of a few sizes, with copies of its first member."""
    count = len(part.values)
    fill = _filling(count)
    arrays = [r[fill] if np.ndim(r) > 0 else r for r in rows]
    out = function(settings, part.members(fill), *map(jnp.asarray, arrays))
    return jax.tree.map(lambda x: np.asarray(x)[:count], out)


def _padded_rows(function: Callable, rows: Any, *extra: Any) -> Any:
    count = len(jax.tree.leaves(rows)[0])
    fill = _filling(count)
    out = function(*jax.tree.map(lambda x: jnp.asarray(x[fill]), rows), *extra)
    return jax.tree.map(lambda x: np.asarray(x)[:count], out)


def _filling(count: int) -> np.ndarray:
    """Indices of a batch filled up to a size that is compiled anyway."""
    size = count if count < 8 else max(at_least(count), count)
    return np.concatenate([np.arange(count), np.zeros(size - count, dtype=int)])


def stack_posteriors(posteriors: list[Any]) -> Any:
    """One batch from posteriors on meshes of different sizes.

    Short ones are filled up with nodes beyond the end of the interval, which are never visited.
    """
    most = max(p.nodes.size for p in posteriors)

    def fill(posterior: Any) -> Any:
        size = posterior.nodes.size
        if size == most:
            return posterior
        beyond = np.concatenate([posterior.nodes, 2.0 + np.arange(most - size)])

        def pad(x: np.ndarray) -> np.ndarray:
            return np.concatenate([x, np.zeros((most - size, *x.shape[1:]))])

        def along(p: Any) -> list:
            moving = [] if p.moves is None else [p.moves]
            return [p.scale, p.states, p.E, *p.given, *moving]

        filled = eqx.tree_at(along, posterior, [pad(x) for x in along(posterior)])
        return eqx.tree_at(lambda p: p.nodes, filled, beyond)

    return jax.tree.map(lambda *x: jnp.asarray(np.stack(x)), *map(fill, posteriors))
