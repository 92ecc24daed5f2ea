"""Energy descent: a control step in closed form, and a line search on the step actually taken.

The energy of a polygon x_0 = a, ..., x_T = b with steps u_t = x_{t+1} - x_t is
T sum_t u_t' M(m_t) u_t, m_t the middle of a step. With the metric tensors frozen and their
gradients kept to first order, the best steps are

    u_t = 1/2 M(m_t)^-1 (lambda - S_t),   S_t = sum of the gradients at the points after t,

and the multiplier lambda follows from the end point, sum_t u_t = b - a. This is the step of
Rygaard & Hauberg (2025), GEORCE, with the metric at the middle of the steps instead of their
beginning, so that the way back is the way there reversed, and the error falls like 1 / T^2.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from probgeo._old._checks import as_positive, as_whole_number
from probgeo._old._compile import compiled
from probgeo._old._rows import replace_rows
from probgeo._old.geometry.equation import Metric
from probgeo._old.geometry.initial import newton
from probgeo._old.geometry.initial.base import Start, Starts, measured
from probgeo._old.geometry.polyline import coarseness, doubled, straight
from probgeo._old.geometry.rows import filled, padded

STEPS_A_ROUND, NEWTON_STEPS_A_ROUND = 5, 2
SHRINKING = 4  # batches get smaller by this at most: every size is compiled
SMALLEST_STEP = 1e-3
SUFFICIENT = 1e-4  # part of the decrease a step promises that it has to keep
UNRESOLVED = 0.01  # relative gap between energies of polygon and smooth curve that asks for more
DOUBLINGS = 2  # of the number of segments at a time: few sizes are compiled
GROWTH = 4
RESOLVING_STEPS = 30
FINISHING_STEPS = 15


class Descent(NamedTuple):
    """One polygon on its way down."""

    x: Float[Array, "t+1 d"]
    energy: Float[Array, ""]
    target: Float[Array, "t+1 d"]  # where the control step would go
    promise: Float[Array, ""]  # how much energy that would save, to first order
    step: Float[Array, ""]  # fraction of it to be tried next


def control_step(metric: Metric, x: Float[Array, "t+1 d"]) -> tuple[Array, Array, Array]:
    """Energy of a polygon, the polygon that the control step proposes, the decrease it promises."""
    u, middle = jnp.diff(x, axis=0), 0.5 * (x[1:] + x[:-1])
    energies, slopes = jax.vmap(jax.value_and_grad(metric.energy))(middle, u)
    inverse = jax.vmap(lambda m: _inverse(metric, m))(middle)
    at_points = 0.5 * (slopes[1:] + slopes[:-1])
    later = jnp.cumsum(at_points[::-1], axis=0)[::-1]
    S = jnp.concatenate([later, jnp.zeros_like(x[:1])])
    missing = 2.0 * (x[-1] - x[0]) + jnp.einsum("tij,tj->i", inverse, S)
    multiplier = jnp.linalg.solve(jnp.sum(inverse, axis=0), missing)
    new = 0.5 * jnp.einsum("tij,tj->ti", inverse, multiplier - S)
    target = jnp.concatenate([x[:1], x[0] + jnp.cumsum(new, axis=0)]).at[-1].set(x[-1])
    lowered = jax.vmap(metric.apply)(middle, u)
    change = jnp.sum((2.0 * lowered + S) * (u - new))
    return len(u) * jnp.sum(energies), target, len(u) * change


def _inverse(metric: Metric, x: Float[Array, " d"]) -> Float[Array, "d d"]:
    return jax.vmap(lambda e: metric.solve(x, e), out_axes=1)(jnp.eye(x.shape[-1]))


def _begin(x: np.ndarray) -> Descent:
    """Polygons (B, T + 1, D) of which nothing is known: the first step leads to themselves."""
    count = len(x)
    unknown = np.full(count, np.finfo(float).max)  # any energy is less, and worth a step
    state: Any = (x, unknown, x, unknown, np.ones(count))
    return Descent(*state)


def _advance(metric: Metric, state: Descent) -> Descent:
    """Try one step; take it if the energy really falls, else try half of it next time."""
    trial = state.x + state.step * (state.target - state.x)
    energy, target, promise = control_step(metric, trial)
    better = energy < state.energy - SUFFICIENT * state.step * state.promise  # false for NaN
    taken = Descent(trial, energy, target, promise, jnp.minimum(1.0, 2.0 * state.step))
    kept = state._replace(step=0.5 * state.step)
    return jax.tree.map(lambda new, old: jnp.where(better, new, old), taken, kept)


@compiled
def _advance_batch(metric: Metric, states: Descent, steps: Array) -> Descent:
    return jax.lax.fori_loop(
        0, steps, lambda _, s: jax.vmap(lambda one: _advance(metric, one))(s), states
    )


def descend(metric: Metric, points: np.ndarray, steps: int, tolerance: float) -> np.ndarray:
    """Polygons of (nearly) least energy with the same ends, after at most `steps` control steps."""
    states = _begin(points)
    return _in_rounds(_advance_batch, metric, states, steps, STEPS_A_ROUND, tolerance)


def descend_quadratically(
    metric: Metric, points: np.ndarray, steps: int, tolerance: float
) -> np.ndarray:
    """The same from points that are nearly there, by Newton's method where that is cheap."""
    if not newton.is_cheap(points.shape[-1]):
        return descend(metric, points, steps, tolerance)
    states = padded(newton.begin_batch, metric, points)
    return _in_rounds(newton.advance_batch, metric, states, steps, NEWTON_STEPS_A_ROUND, tolerance)


def _in_rounds(
    advance: Callable, metric: Metric, states: Any, steps: int, at_once: int, tolerance: float
) -> np.ndarray:
    """Steps for all, then for those that have not arrived, and so on: none waits for the others."""
    left = np.arange(len(states.x))
    least = len(filled(left)) // SHRINKING
    for _ in range(0, steps, at_once):
        going = states.promise[left] > tolerance * states.energy[left]  # false for NaN
        left = left[going & ~_stuck(states)[left]]
        if not left.size:
            break
        rows = jax.tree.map(lambda x, k=left: x[k], states)
        moved = padded(advance, metric, rows, jnp.asarray(np.array(at_once)), least=least)
        states = replace_rows(states, left, moved)
    return states.x


def _stuck(states: Any) -> Any:
    """Whether no step, however small or damped, lowers the energy."""
    if isinstance(states, Descent):
        return states.step <= SMALLEST_STEP
    return states.damping >= newton.MOST_DAMPING


def resolve(
    metric: Metric, points: np.ndarray, most: int, tolerance: float
) -> tuple[np.ndarray, np.ndarray]:
    """More segments for polygons that are too coarse to know their energy, and steps on these.

    All come back with the number of segments of the most difficult one; each needs so many.
    """
    needed = np.full(len(points), points.shape[1] - 1)
    left = np.arange(len(points))
    while points.shape[1] - 1 < most:
        gap = padded(coarseness, metric, points[left])
        left = left[~(gap <= UNRESOLVED)]
        if not left.size:
            break
        for _ in range(DOUBLINGS):
            points = doubled(points)
        points[left] = descend_quadratically(metric, points[left], RESOLVING_STEPS, tolerance)
        needed[left] = points.shape[1] - 1
    return points, needed


class EnergyDescent(Start):
    """Energy descent from the straight line.

    Parameters
    ----------
    segments : int
        Of the polygon; four times as many for curves that need it.
    steps : int
        Most control steps.
    tolerance : float
        Relative decrease of the energy that is not worth another step.

    References
    ----------
    Rygaard & Hauberg (2025), GEORCE: a fast new control algorithm for computing geodesics.

    Examples
    --------
    In the half plane the line from (0, 1) to (2, 1) is longer than the arc over it:

    >>> from probgeo import metrics
    >>> a, b = np.array([[0.0, 1.0]]), np.array([[2.0, 1.0]])
    >>> found = EnergyDescent().start(metrics.HalfPlane(), a, b)
    >>> float(found.length[0].round(2)), float(metrics.HalfPlane().distance(a, b)[0].round(2))
    (1.76, 1.76)
    """

    segments: int = eqx.field(static=True)
    steps: int = eqx.field(static=True)
    tolerance: float = eqx.field(static=True)

    def __init__(self, segments: int = 16, steps: int = 40, tolerance: float = 1e-3) -> None:
        self.segments = as_whole_number("segments", segments, 2)
        self.steps = as_whole_number("steps", steps, 1)
        self.tolerance = float(as_positive("tolerance", tolerance))

    def start(self, metric: Metric, a: np.ndarray, b: np.ndarray) -> Starts:
        return self.improve(metric, straight(a, b, self.segments), "energy descent")

    def improve(self, metric: Metric, points: np.ndarray, name: str) -> Starts:
        """Descend from given points (B, T + 1, D)."""
        points = descend(metric, points, self.steps, self.tolerance)
        if newton.is_cheap(points.shape[-1]):  # energies are compared: they should be the least
            points = descend_quadratically(metric, points, FINISHING_STEPS, self.tolerance)
        points, needed = resolve(metric, points, GROWTH * self.segments, self.tolerance)
        return measured(metric, points, name, needed)
