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
from jaxtyping import Array, Float

from probgeo._old._compile import compiled
from probgeo._old._rows import replace_rows
from probgeo._old.ode.curve import NOT_FINITE, OK, OUT_OF_SWEEPS, STALLED, TOO_COARSE
from probgeo._old.ode.markov.forward import states_of_batch, walking_tolerance
from probgeo._old.ode.markov.integral import is_small, solve_by_fixed_points
from probgeo._old.ode.markov.mesh import WORTHWHILE, at_least, density_of_nodes, redistribute, wanted
from probgeo._old.ode.markov.solve import Settings, Solution, finish, iterate
from probgeo._old.ode.problem import BOUNDARY, Problem
from probgeo._old.ode.sweeps import Refined

SWEEPS_A_ROUND = 6
SWEEPS_FROM_A_WALK = 2  # from the states of a classical solver, with Jacobians
LARGEST_LOST = 128  # nodes up to which members that went astray start again
BATCHES = (1, 4, 16, 32, 64, 128, 256, 512, 1024)  # sizes that are compiled
MESHES_REMEMBERED = 16
SETTLING = 4  # most times that a posterior is linearised anew about its own mean


class Task(NamedTuple):
    """Members of the batch that share a size of mesh, or the mesh itself: nodes (n,)."""

    members: np.ndarray
    nodes: np.ndarray  # (members, n) or (n,)
    states: np.ndarray  # (members, n, m, d)
    spent: np.ndarray | int = 0  # evaluations that it took to find these

    @property
    def shared(self) -> bool:
        return self.nodes.ndim == 1

    def nodes_of(self, index: np.ndarray) -> np.ndarray:
        return self.nodes if self.shared else self.nodes[index]


class Finished(NamedTuple):
    """What is kept of finished members."""

    members: np.ndarray
    posterior: Any
    status: np.ndarray
    log_evidence: np.ndarray
    residual: np.ndarray
    scale: np.ndarray
    n_evaluations: np.ndarray
    excess: np.ndarray


def map_over_meshes(function: Callable, problem: Problem, nodes: Array, *rows: Array) -> Any:
    """function(member, nodes, *row), for a mesh that is shared (n,) or one for each member."""
    if nodes.ndim == 1:
        return problem.map(lambda member, *row: function(member, nodes, *row), *rows)
    return problem.map(function, nodes, *rows)


@compiled
def _iterate(
    settings: Settings, problem: Problem, nodes: Array, states: Array, n: Array, W: Array | None
) -> tuple[Refined, Array]:
    """Sweeps, and the derivatives they came to."""

    def one(member: Problem, nodes: Array, states: Array) -> tuple[Refined, Array]:
        found = iterate(settings, member, nodes, states, n, W)
        return found, settings.model(member, nodes).derivatives(found.x)

    return map_over_meshes(one, problem, nodes, states)


@compiled
def _fixed_points(
    settings: Settings, problem: Problem, nodes: Array, states: Array, W: Array
) -> Refined:
    """A cheap attempt, for problems whose Newton steps are not."""

    def one(member: Problem, nodes: Array, states: Array) -> Refined:
        start = jnp.where(jnp.isfinite(states), states, 0.0)
        return solve_by_fixed_points(settings.model(member, nodes), W, start, settings.tolerance)

    return map_over_meshes(one, problem, nodes, states)


def _integration(settings: Settings, problem: Problem, task: Task) -> Array | None:
    """W for a mesh that is shared, from the last time where it was needed before."""
    if not task.shared:
        return None
    prior = settings.prior
    values = tuple(np.asarray(x).tobytes() for x in jax.tree.leaves(prior))
    kind = (type(prior), prior.q, values, problem.conditions, problem.order, problem.dimension)
    key = (*kind, settings.first_order, task.nodes.tobytes())
    if key not in _remembered:
        while len(_remembered) >= MESHES_REMEMBERED:
            _remembered.pop(next(iter(_remembered)))
        _remembered[key] = _new_integration(settings, problem, jnp.asarray(task.nodes))
    return _remembered[key]


_remembered: dict[tuple, Array | None] = {}


@compiled
def _new_integration(settings: Settings, problem: Problem, nodes: Array) -> Array | None:
    return settings.integration(problem, nodes)


@compiled
def _finish(settings: Settings, problem: Problem, nodes: Array, x: Array) -> Solution:
    return map_over_meshes(lambda *member: finish(settings, *member), problem, nodes, x)


@compiled
def straight_lines(settings: Settings, problem: Problem, nodes: Float[Array, " n"]) -> Array:
    """States (batch, n, m, d) along the straight lines through the data."""
    return problem.map(lambda member: settings.model(member, nodes).line)


@compiled
def _densities(nodes: Array, defects: Array, order: int) -> Array:
    return jax.vmap(lambda t, d: density_of_nodes(t, d, order))(nodes, defects)


@compiled
def _remesh(posterior: Any, density: Array, order: int, size: int) -> tuple:
    """Meshes of a given density, and the old solution on them."""

    def one(posterior: Any, density: Array) -> tuple:
        new = redistribute(posterior.nodes, density, size)
        return new, jnp.stack([posterior.mean(new, d) for d in range(order + 1)], axis=1)

    return jax.vmap(one)(posterior, density)


def states_at(posterior: Any, nodes: np.ndarray, order: int) -> np.ndarray:
    """The means of some posteriors and their derivatives at the same nodes: (batch, n, m, d)."""
    return _padded_rows(_means_at, (posterior,), jnp.asarray(nodes), order)


@compiled
def _means_at(posterior: Any, nodes: Array, order: int) -> Array:
    def one(posterior: Any) -> Array:
        return jnp.stack([posterior.mean(nodes, d) for d in range(order + 1)], axis=1)

    return jax.vmap(one)(posterior)


def solve_in_rounds(
    settings: Settings,
    problem: Problem,
    tasks: list[Task],
    sweeps: int,
    most_points: int,
    adaptive: bool,
) -> Finished:
    """All members of a batch with one axis, in their order."""
    evaluations = np.zeros(len(problem.values), dtype=int)
    for task in tasks:
        evaluations[task.members] += task.spent
    problem = problem.as_arrays(np.asarray)
    initial = problem.conditions != BOUNDARY
    if initial and not settings.first_order:
        sweeps = 0  # f stays at the states of the walk: fixed-point iterations would leave them
    elif initial and adaptive:
        sweeps = min(sweeps, SWEEPS_FROM_A_WALK)
    finished, queue = [], [part for task in tasks for part in _in_parts(task)]
    while queue:
        task = queue.pop()
        part = problem if len(task.members) == len(evaluations) else problem.members(task.members)
        refined = _sweep_in_rounds(settings, part, task, sweeps)
        solution, settled = _settle(settings, part, task, refined, adaptive)
        size = task.nodes.shape[-1]
        evaluations[task.members] += size * (3 + refined.sweeps + settled)
        status = np.where(np.isfinite(solution.excess), refined.status, NOT_FINITE)
        if initial:  # one sweep from a good start may be enough
            status = np.where((status == OUT_OF_SWEEPS) & solution.settled, OK, status)
        coarse = (status == OK) & (solution.excess > 1.0) & adaptive
        if initial:  # the walk is right, so the mesh must be wrong
            coarse |= adaptive & ((status == OUT_OF_SWEEPS) | (status == STALLED))
        lost = (status != OK) & ~coarse & adaptive & (size < LARGEST_LOST)
        again = (coarse | lost) & (size < most_points)
        unsettled = (status == OK) & ~solution.settled
        status = np.where(unsettled, OUT_OF_SWEEPS, np.where(coarse, TOO_COARSE, status))
        result = Finished(
            task.members,
            solution.posterior,
            status,
            solution.log_evidence,
            solution.residual,
            solution.scale,
            evaluations[task.members],
            solution.excess,
        )
        finished.append(result if not again.any() else _rows(result, ~again))
        queue += _refined_tasks(settings, part, task, solution, again, coarse, most_points)
    return _joined(finished)


def _in_parts(task: Task) -> list[Task]:
    """The same task in parts of bounded memory."""
    most, count = BATCHES[-1], len(task.members)
    parts = [np.arange(k, min(k + most, count)) for k in range(0, count, most)]
    return [Task(task.members[k], task.nodes_of(k), task.states[k]) for k in parts]


def _rows(tree: Any, index: np.ndarray) -> Any:
    return jax.tree.map(lambda x: x[index], tree)


def _settle(
    settings: Settings, part: Problem, task: Task, refined: Refined, adaptive: bool
) -> tuple[Any, np.ndarray]:
    """Posteriors linearised about their own mean, and how many times that was done again.

    One sweep is enough for almost all; what will get a finer mesh anyway is left as it is.
    """
    solution = _padded(_finish, settings, part, task.nodes, refined.x)
    rounds = np.zeros(len(task.members), dtype=int)
    for _ in range(SETTLING):
        moving = (refined.status == OK) & ~solution.settled
        moving &= (solution.excess <= 1.0) | (not adaptive)
        left = np.flatnonzero(moving)
        if not left.size:
            break
        x = solution.posterior.states[left]
        better = _padded(_finish, settings, part.members(left), task.nodes_of(left), x)
        solution = replace_rows(solution, left, better)
        rounds[left] += 1
    return solution, rounds


def _refined_tasks(
    settings: Settings,
    part: Problem,
    task: Task,
    solution: Solution,
    again: np.ndarray,
    good: np.ndarray,
    most_points: int,
) -> list[Task]:
    """The members that need a finer mesh, grouped by its size.

    Equal steps are kept where a graded mesh would not need far fewer: they are shared by the batch.
    """
    if not again.any():
        return []
    size, order = task.nodes.shape[-1], settings.prior.q
    boundary = part.conditions == BOUNDARY
    defects = np.where(good[:, None], solution.defects, 1.0)
    order_of_defect = max(1, order + 1 - part.order)
    rows = (solution.posterior.nodes, defects)
    density = _padded_rows(_densities, rows, order_of_defect)
    share = 1.0 / density.max(axis=1) if task.shared else np.ones(len(density))
    graded = good & (~np.array(task.shared) | (share < WORTHWHILE))
    graded &= settings.first_order or not boundary
    excess = np.where(good, solution.excess, np.inf)
    sizes = wanted(size, excess, order, np.where(graded, share, 1.0))
    sizes = np.minimum(np.where(good, sizes, at_least(2 * size)), most_points)
    tasks = []
    for new in np.unique(sizes[again]):
        here = again & (sizes == new)
        equal = np.linspace(0.0, 1.0, new)
        for k in map(np.flatnonzero, (here & graded, here & good & ~graded)):
            if k.size:
                rows = jax.tree.map(lambda x, k=k: x[k], (solution.posterior, density))
                if not graded[k[0]]:
                    rows = (rows[0], np.ones_like(rows[1]))
                nodes, states = _padded_rows(_remesh, rows, part.order, int(new))
                if not boundary:
                    states = _walk(settings, part.members(k), nodes)
                tasks.append(Task(task.members[k], nodes if graded[k[0]] else equal, states))
        k = np.flatnonzero(here & ~good)
        if k.size:  # lost: a finer mesh, and start again
            members = part.members(k).as_arrays(jnp.asarray)
            states = np.asarray(straight_lines(settings, members, jnp.asarray(equal)))
            nodes = equal
            if not boundary:
                nodes = np.broadcast_to(equal, (k.size, new))
                states = _walk(settings, part.members(k), nodes)
            tasks.append(Task(task.members[k], nodes, states))
    return tasks


def _walk(settings: Settings, part: Problem, nodes: np.ndarray) -> np.ndarray:
    """States of a classical solver."""
    rtol = walking_tolerance(settings.rtol)
    part = part.as_arrays(jnp.asarray)
    return np.asarray(states_of_batch(part, rtol, settings.stiff, jnp.asarray(nodes)))


def _sweep_in_rounds(settings: Settings, part: Problem, task: Task, sweeps: int) -> Refined:
    """Sweeps for all, then for those that need more, and so on."""
    left = np.arange(len(task.members))
    done = np.zeros(left.size, dtype=int)
    states, total = task.states, None
    W = _integration(settings, part, task)
    if W is not None and not settings.first_order and not is_small(len(W), part.dimension):
        total = _padded(_fixed_points, settings, part, task.nodes, states, shared=(W,))
        done += total.sweeps
        left = np.flatnonzero(total.status != OK)
        states = states[left]
        done[left] = 0  # Newton's method has its own
    while left.size:
        n = jnp.array(min(SWEEPS_A_ROUND, sweeps - int(done[left[0]])))
        rows = (task.nodes_of(left), states)
        found, states = _padded(_iterate, settings, part.members(left), *rows, shared=(n, W))
        total = found if total is None else replace_rows(total, left, found)
        done[left] += found.sweeps
        more = (found.status == OUT_OF_SWEEPS) & (done[left] < sweeps)
        left, states = left[more], states[more]
    assert total is not None
    return total._replace(sweeps=done)


def _padded(
    function: Callable, settings: Settings, part: Problem, *rows: Any, shared: tuple = ()
) -> Any:
    """Call on a batch filled up to one of a few sizes, with copies of its first member.

    A row with one axis, a mesh, is shared by the batch.
    """
    count = len(part.values)
    fill = _filling(count)
    if fill.size > count:
        part = part.members(fill)
        rows = tuple(r[fill] if np.ndim(r) > 1 else r for r in rows)
    out = function(settings, part, *rows, *shared)
    return jax.tree.map(lambda x: np.asarray(x)[:count], out)


def _padded_rows(function: Callable, rows: Any, *extra: Any) -> Any:
    count = len(jax.tree.leaves(rows)[0])
    fill = _filling(count)
    out = function(*jax.tree.map(lambda x: x[fill], rows), *extra)
    return jax.tree.map(lambda x: np.asarray(x)[:count], out)


def _filling(count: int) -> np.ndarray:
    """Indices of a batch filled up to a size that is compiled anyway."""
    size = next((size for size in BATCHES if size >= count), count)
    return np.concatenate([np.arange(count), np.zeros(size - count, dtype=int)])


def _joined(parts: list[Finished]) -> Finished:
    """Members on meshes of different sizes as one batch, in their order.

    Short meshes are filled up with nodes beyond the end of the interval, which are never visited.
    """
    parts = [part for part in parts if len(part.members)]
    if len(parts) > 1:
        most = max(part.posterior.nodes.shape[1] for part in parts)
        parts = [part._replace(posterior=_filled_up(part.posterior, most)) for part in parts]
        parts = [jax.tree.map(lambda *x: np.concatenate(x), *parts)]
    order = np.argsort(parts[0].members)
    in_order = np.array_equal(order, np.arange(len(order)))
    return parts[0] if in_order else _rows(parts[0], order)


def _filled_up(posterior: Any, most: int) -> Any:
    count, size = posterior.nodes.shape
    if size == most:
        return posterior
    beyond = np.broadcast_to(2.0 + np.arange(most - size), (count, most - size))

    def along(p: Any) -> list:
        moving = [] if p.moves is None else [p.moves]
        return [p.scale, p.states, p.E, *p.given, *moving]

    def pad(x: np.ndarray) -> np.ndarray:
        return np.concatenate([x, np.zeros((count, most - size, *x.shape[2:]))], axis=1)

    filled = eqx.tree_at(along, posterior, [pad(x) for x in along(posterior)])
    nodes = np.concatenate([posterior.nodes, beyond], axis=1)
    return eqx.tree_at(lambda p: p.nodes, filled, nodes)
