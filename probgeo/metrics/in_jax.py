"""The methods of a metric for tracers of JAX, from `metric(x)` and automatic differentiation."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from probgeo.functions.formulas import of_metric


def at_points(function: Callable, x: Any, result: str = "d,d") -> jax.Array:
    """A function of one point at points (..., D); `result` is the shape of its value."""
    x = jnp.asarray(x)
    return function(x) if x.ndim == 1 else jnp.vectorize(function, signature=f"(d)->({result})")(x)


def apply(metric: Any, x: Any, v: Any) -> jax.Array:
    """M(x) v."""
    return jnp.einsum("...ij,...j->...i", at_points(metric, x), v)


def solve(metric: Any, x: Any, p: Any) -> jax.Array:
    """M(x)^-1 p."""
    return jnp.linalg.solve(at_points(metric, x), jnp.asarray(p)[..., None])[..., 0]


def energy(metric: Any, x: Any, v: Any) -> jax.Array:
    """v' M(x) v."""
    return jnp.einsum("...i,...ij,...j->...", v, at_points(metric, x), v)


def acceleration(metric: Any, x: Any, v: Any) -> jax.Array:
    """c'' of the geodesic with c = x and c' = v."""

    def one(x: jax.Array, v: jax.Array) -> jax.Array:
        force, M = of_metric(jax, metric)["force"](x, v)
        return jnp.linalg.solve(M, force)

    return jnp.vectorize(one, signature="(d),(d)->(d)")(x, v)


def printed_acceleration(metric: Any, x: Any, v: Any) -> jax.Array:
    """What Eq. 2 prints."""

    def one(x: jax.Array, v: jax.Array) -> jax.Array:
        _, by_x, _ = of_metric(jax, metric)["gradient"](x, v)
        return jnp.linalg.solve(metric(x), -by_x)

    return jnp.vectorize(one, signature="(d),(d)->(d)")(x, v)


def slopes(metric: Any, x: Any) -> jax.Array:
    """d M_ij / d x_k, [i, j, k], at one point."""
    return jax.jacfwd(metric)(x)


def pulled_back(decode: Any, x: Any) -> tuple[jax.Array, int]:
    """J'J (..., D, D) of a function of one point, at points (..., D), and its number of outputs."""
    x = jnp.asarray(x)

    def one(x: jax.Array) -> jax.Array:
        J = jax.jacfwd(decode)(x)
        return J.T @ J

    outputs = jax.eval_shape(decode, jax.ShapeDtypeStruct(x.shape[-1:], x.dtype)).size
    return at_points(one, x), outputs
