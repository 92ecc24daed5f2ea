"""First guesses of a solution, as users have them, turned into states at the nodes."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from probgeo._old._checks import array_module, as_float_array
from probgeo._old.ode.curve import Curve
from probgeo._old.ode.problem import Problem

# another solution, a function t -> (..., D), or samples (..., T, D) at equal steps over t_span
Guess = Curve | Callable[[Array], Array] | Array


def guess_states(
    guess: Any, problem: Problem, nodes: Float[Any, " n"]
) -> Float[Array, "*batch n order d"]:
    """The guess and its derivatives (by unit time, below the order of the ODE) at the nodes."""
    if not (isinstance(guess, Curve) or callable(guess)):
        states = _interpolate(as_float_array("guess", guess), nodes, problem.order)
        return _stacked(states, problem, nodes.size)
    t0, t1 = problem.t_span
    times = t0 + nodes * (t1 - t0)
    if isinstance(guess, Curve):
        states = [guess.mean(times, d) * (t1 - t0) ** d for d in range(problem.order)]
    else:
        states = [_derivative_of(guess, d, times) * (t1 - t0) ** d for d in range(problem.order)]
    return _stacked(states, problem, nodes.size)


def _stacked(states: list[Array], problem: Problem, count: int) -> Array:
    """Derivatives at `count` nodes as one array, in the shape of the batch."""
    shape = (*problem.batch_shape, count, problem.dimension)
    xp = array_module(states)
    try:
        return xp.stack([xp.broadcast_to(s, shape) for s in states], axis=-2)
    except ValueError as error:
        raise ValueError(
            f"guess must give values of shape {shape} at {count} times, got {states[0].shape}"
        ) from error


def _derivative_of(function: Callable, order: int, times: Array) -> Array:
    """The order-th derivative of t -> (..., D) at several times: (..., T, D)."""
    for _ in range(order):
        function = jax.jacfwd(function)
    return jax.vmap(lambda t: jnp.asarray(function(t)), out_axes=-2)(times)


def _interpolate(samples: Array, nodes: Array, orders: int) -> list[Array]:
    """Samples at equal steps as a smooth curve: cubic Hermite pieces, slopes by differences."""
    if samples.ndim < 2 or samples.shape[-2] < 2:
        raise ValueError(
            f"guess must hold at least two samples, (..., T, D), got shape {samples.shape}"
        )
    xp, steps = array_module(samples, nodes), samples.shape[-2] - 1
    samples, nodes = xp.asarray(samples), xp.asarray(nodes)
    slopes = xp.asarray(xp.gradient(samples, axis=-2))
    piece = xp.clip(xp.floor(nodes * steps).astype(int), 0, steps - 1)
    y0, y1 = samples[..., piece, :], samples[..., piece + 1, :]
    m0, m1 = slopes[..., piece, :], slopes[..., piece + 1, :]
    s, rise = (nodes * steps - piece)[:, None], y1 - y0
    value = y0 + s**2 * (3 - 2 * s) * rise + s * (1 - s) ** 2 * m0 + s**2 * (s - 1) * m1
    slope = 6 * s * (1 - s) * rise + (1 - s) * (1 - 3 * s) * m0 + s * (3 * s - 2) * m1
    return [value, steps * slope][:orders]
