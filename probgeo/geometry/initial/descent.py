"""Energy descent: a control step in closed form, and a line search on the step actually taken.

The energy of a polygon x_0 = a, ..., x_T = b with steps u_t = x_{t+1} - x_t is
T sum_t u_t' M(m_t) u_t, m_t the middle of a step. With the metric tensors frozen and their
gradients kept to first order, the best steps are

    u_t = 1/2 M(m_t)^-1 (lambda - S_t),   S_t = sum of the gradients at the points after t,

and the multiplier lambda follows from the end point, sum_t u_t = b - a. This is the step of
Rygaard & Hauberg (2025), GEORCE, with the metric at the middle of the steps instead of their
beginning, so that the way back is the way there reversed, and the error falls like 1 / T^2.
"""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from probgeo._checks import as_positive, as_whole_number
from probgeo.geometry.batches import padded, replace_rows
from probgeo.geometry.equation import Metric
from probgeo.geometry.initial.base import Start, Starts, measured
from probgeo.geometry.polyline import doubled, measure, straight

STEPS_A_ROUND = 5
SMALLEST_STEP = 1e-3
SUFFICIENT = 1e-4  # part of the decrease a step promises that it has to keep
UNRESOLVED = 0.03  # relative gap between energies of polygon and smooth curve that asks for more
DOUBLINGS = 2  # how often the number of segments may be doubled for that


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


def _begin(metric: Metric, x: Array) -> Descent:
    energy, target, promise = control_step(metric, x)
    return Descent(x, energy, target, promise, jnp.array(1.0))


def _advance(metric: Metric, state: Descent) -> Descent:
    """Try one step; take it if the energy really falls, else try half of it next time."""
    trial = state.x + state.step * (state.target - state.x)
    energy, target, promise = control_step(metric, trial)
    better = energy < state.energy - SUFFICIENT * state.step * state.promise  # false for NaN
    taken = Descent(trial, energy, target, promise, jnp.minimum(1.0, 2.0 * state.step))
    kept = state._replace(step=0.5 * state.step)
    return jax.tree.map(lambda new, old: jnp.where(better, new, old), taken, kept)


@eqx.filter_jit
def _begin_batch(metric: Metric, points: Float[Array, "b t+1 d"]) -> Descent:
    # through a loop of one step: batched factorisations side by side may block each other
    first = jax.lax.map(lambda x: jax.vmap(lambda y: _begin(metric, y))(x), points[None])
    return jax.tree.map(lambda x: x[0], first)


@eqx.filter_jit
def _advance_batch(metric: Metric, states: Descent, steps: Array) -> Descent:
    return jax.lax.fori_loop(
        0, steps, lambda _, s: jax.vmap(lambda one: _advance(metric, one))(s), states
    )


def descend(metric: Metric, points: np.ndarray, steps: int, tolerance: float) -> np.ndarray:
    """Polygons of (nearly) least energy with the same ends, after at most `steps` steps.

    In rounds: those that have arrived wait no longer for the others.
    """
    states = padded(_begin_batch, metric, points)
    left = np.arange(len(points))
    for _ in range(0, steps, STEPS_A_ROUND):
        going = states.promise[left] > tolerance * states.energy[left]  # false for NaN
        left = left[going & (states.step[left] > SMALLEST_STEP)]
        if not left.size:
            break
        rows = jax.tree.map(lambda x, k=left: x[k], states)
        moved = padded(_advance_batch, metric, rows, jnp.array(STEPS_A_ROUND))
        states = replace_rows(states, left, moved)
    return states.x


def descend_resolved(
    metric: Metric, points: np.ndarray, steps: int, tolerance: float
) -> np.ndarray:
    """The same, with more segments for polygons that are too coarse to know their energy.

    All come back with the number of segments that the most difficult one needed.
    """
    points = descend(metric, points, steps, tolerance)
    unresolved = np.arange(len(points))
    for _ in range(DOUBLINGS):
        gap = padded(_gap, metric, points[unresolved])
        unresolved = unresolved[~(gap <= UNRESOLVED)]
        if not unresolved.size:
            break
        points = doubled(points)
        points[unresolved] = descend(metric, points[unresolved], steps, tolerance)
    return points


@eqx.filter_jit
def _gap(metric: Metric, points: Float[Array, "b t+1 d"]) -> Float[Array, " b"]:
    """Relative difference between the energies of polygons and of the curves through them."""
    from probgeo.geometry.polyline import discrete_energy

    coarse = jax.vmap(lambda x: discrete_energy(metric, x))(points)
    fine, _ = measure(metric, points)
    return jnp.abs(coarse - fine) / jnp.maximum(fine, jnp.finfo(float).tiny)


class EnergyDescent(Start):
    """Energy descent from the straight line.

    Parameters
    ----------
    segments : int
        Of the polygon; doubled, up to twice, for curves that need it.
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

    def __init__(self, segments: int = 16, steps: int = 100, tolerance: float = 1e-3) -> None:
        self.segments = as_whole_number("segments", segments, 2)
        self.steps = as_whole_number("steps", steps, 1)
        self.tolerance = float(as_positive("tolerance", tolerance))

    def start(self, metric: Metric, a: np.ndarray, b: np.ndarray) -> Starts:
        return self.improve(metric, straight(a, b, self.segments), "energy descent")

    def improve(self, metric: Metric, points: np.ndarray, name: str) -> Starts:
        """Descend from given points (B, T + 1, D)."""
        points = descend_resolved(metric, points, self.steps, self.tolerance)
        return measured(metric, points, name)
