"""First guesses of a solution, as users have them, turned into states at the nodes."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from probgeo._checks import as_float_array
from probgeo._compile import compiled_quickly
from probgeo.ode.curve import Curve
from probgeo.ode.problem import Problem

# another solution, a function t -> (..., D), or samples (..., T, D) at equal steps over t_span
Guess = Curve | Callable[[Array], Array] | Array


def guess_states(
    guess: Any, problem: Problem, nodes: Float[Array, " n"]
) -> Float[Array, "*batch n order d"]:
    """The guess and its derivatives (by unit time, below the order of the ODE) at the nodes."""
    t0, t1 = problem.t_span
    times = t0 + nodes * (t1 - t0)
    if isinstance(guess, Curve):
        states = [guess.mean(times, d) * (t1 - t0) ** d for d in range(problem.order)]
    elif callable(guess):
        states = [_derivative_of(guess, d, times) * (t1 - t0) ** d for d in range(problem.order)]
    else:
        states = _interpolate(as_float_array("guess", guess), nodes, problem.order)
    shape = (*problem.batch_shape, nodes.size, problem.dimension)
    try:
        return jnp.stack([jnp.broadcast_to(s, shape) for s in states], axis=-2)
    except ValueError as error:
        raise ValueError(
            f"guess must give values of shape {shape} at {nodes.size} times, got {states[0].shape}"
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
    return _hermite_pieces(samples, nodes, orders)


@compiled_quickly
def _hermite_pieces(samples: Array, nodes: Array, orders: int) -> list[Array]:
    steps = samples.shape[-2] - 1
    slopes = jnp.asarray(jnp.gradient(samples, axis=-2))
    piece = jnp.clip(jnp.floor(nodes * steps).astype(int), 0, steps - 1)
    y0, y1 = samples[..., piece, :], samples[..., piece + 1, :]
    m0, m1 = slopes[..., piece, :], slopes[..., piece + 1, :]

    def hermite(x: Array) -> Array:
        x = x[:, None]
        return (
            (1 + 2 * x) * (1 - x) ** 2 * y0
            + x * (1 - x) ** 2 * m0
            + x**2 * (3 - 2 * x) * y1
            + x**2 * (x - 1) * m1
        )

    curves: list[Callable[[Array], Array]] = [hermite]
    x = nodes * steps - piece
    for _ in range(orders - 1):
        curves.append(_push(curves[-1]))
    return [curve(x) * steps**d for d, curve in enumerate(curves)]


def _push(function: Callable[[Array], Array]) -> Callable[[Array], Array]:
    """The elementwise derivative of a function of the positions."""
    return lambda x: jax.jvp(function, (x,), (jnp.ones_like(x),))[1]
