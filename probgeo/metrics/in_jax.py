"""The methods of a metric for tracers of JAX, from `metric(x)` and automatic differentiation."""

from typing import Any

import jax
import jax.numpy as jnp


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
        gradient = jax.grad(lambda y: v @ metric(y) @ v)(x)
        _, change = jax.jvp(lambda y: metric(y) @ v, (x,), (v,))
        return jnp.linalg.solve(metric(x), 0.5 * gradient - change)  # erratum 1

    return jnp.vectorize(one, signature="(d),(d)->(d)")(x, v)


def printed_acceleration(metric: Any, x: Any, v: Any) -> jax.Array:
    """What Eq. 2 prints."""

    def one(x: jax.Array, v: jax.Array) -> jax.Array:
        gradient = jax.grad(lambda y: v @ metric(y) @ v)(x)
        return jnp.linalg.solve(metric(x), -0.5 * gradient)

    return jnp.vectorize(one, signature="(d),(d)->(d)")(x, v)


def christoffel(metric: Any, x: Any) -> jax.Array:
    """Gamma[k, i, j] at one point."""
    slopes = jax.jacfwd(metric)(x)  # slopes[i, j, k] = d M_ij / d x_k
    lowered = 0.5 * (jnp.moveaxis(slopes, 2, 1) + slopes - jnp.moveaxis(slopes, 2, 0))
    return jnp.einsum("kl,lij->kij", jnp.linalg.inv(metric(x)), lowered)


def pulled_back(decode: Any, x: Any) -> tuple[jax.Array, int]:
    """J'J (..., D, D) of a function of one point, at points (..., D), and its number of outputs."""
    x = jnp.asarray(x)

    def one(x: jax.Array) -> jax.Array:
        J = jax.jacfwd(decode)(x)
        return J.T @ J

    outputs = jax.eval_shape(decode, jax.ShapeDtypeStruct(x.shape[-1:], x.dtype)).size
    return jnp.vectorize(one, signature="(d)->(d,d)")(x), outputs


def at_points(metric: Any, x: Any) -> jax.Array:
    """metric(x) of one point, at points (..., D)."""
    x = jnp.asarray(x)
    return metric(x) if x.ndim == 1 else jnp.vectorize(metric, signature="(d)->(d,d)")(x)
