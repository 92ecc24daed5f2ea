"""Metrics, and the geodesic equation they imply.

A geodesic is a stationary curve of the energy, the integral of c' M(c) c'. Its Euler-Lagrange
equation is

    M(c) c'' = 1/2 grad_c (c' M(c) c') - (dM/dt) c',   (dM/dt) c' = d/ds M(c + s c') c' at s = 0,

which needs one gradient of a scalar and one directional derivative of a vector, never the D^3
numbers of dM/dc. Eq. 2 of the paper prints another right hand side; see `printed_acceleration`.
"""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from probgeo._old._repr import described
from probgeo._old.geometry.linalg import solve_spd


class Metric(eqx.Module):
    """A smoothly varying inner product: at every point x (D,) a positive definite M(x) (D, D).

    A metric of one's own is a class with one method, `__call__`; a plain function does as well (see
    `as_metric`). The other methods follow by automatic differentiation. A class that knows a
    cheaper way overrides them, and every algorithm will use that.

    Examples
    --------
    >>> class Cone(Metric):
    ...     def __call__(self, x):
    ...         return jnp.diag(jnp.array([2.0, 1.0])) * (1.0 + x @ x)
    >>> float(Cone().energy(jnp.array([1.0, 0.0]), jnp.array([1.0, 1.0])))
    6.0
    """

    def __repr__(self) -> str:
        return described(self)

    def __call__(self, x: Float[Array, " d"]) -> Float[Array, "d d"]:
        """M(x)."""
        raise NotImplementedError(f"{type(self).__name__} must define __call__(x)")

    def apply(self, x: Float[Array, " d"], v: Float[Array, " d"]) -> Float[Array, " d"]:
        """M(x) v."""
        return self(x) @ v

    def solve(self, x: Float[Array, " d"], p: Float[Array, " d"]) -> Float[Array, " d"]:
        """M(x)^-1 p."""
        return solve_spd(lambda u: self.apply(x, u), self(x), p)

    def energy(self, x: Float[Array, " d"], v: Float[Array, " d"]) -> Float[Array, ""]:
        """v' M(x) v, the squared speed of a curve at x with velocity v."""
        return v @ self.apply(x, v)

    def acceleration(self, x: Float[Array, " d"], v: Float[Array, " d"]) -> Float[Array, " d"]:
        """c'' of the geodesic with c = x and c' = v."""
        gradient = jax.grad(self.energy)(x, v)
        _, change = jax.jvp(lambda y: self.apply(y, v), (x,), (v,))
        return self.solve(x, 0.5 * gradient - change)  # erratum 1

    def acceleration_jacobian(
        self, x: Float[Array, " d"], v: Float[Array, " d"]
    ) -> Float[Array, "d 2 d"]:
        """Derivatives of c'' by x, [:, 0], and by v, [:, 1]."""
        return jnp.stack(jax.jacfwd(self.acceleration, argnums=(0, 1))(x, v), axis=1)


class FunctionMetric(Metric):
    """A metric given by a function x (D,) -> (D, D)."""

    function: Callable

    def __call__(self, x: Float[Array, " d"]) -> Float[Array, "d d"]:
        return self.function(x)


def as_metric(metric: Any, dimension: int | None = None) -> Metric:
    """`metric` as a `Metric`: one already, or any JAX-traceable function x (D,) -> (D, D).

    With `dimension`, also make sure that JAX can trace it at one point of that many coordinates
    and gets back a matrix of the right shape.

    Examples
    --------
    >>> metric = as_metric(lambda x: jnp.eye(2) * (1.0 + x @ x), dimension=2)
    >>> metric.apply(jnp.array([1.0, 0.0]), jnp.array([0.0, 3.0])).tolist()
    [0.0, 6.0]
    """
    if not callable(metric):
        given = f"an array of shape {metric.shape}" if hasattr(metric, "shape") else repr(metric)
        raise TypeError(
            f"metric must be a function x (D,) -> (D, D), got {given}; "
            "a constant one is metrics.Flat(A)"
        )
    made = metric if isinstance(metric, Metric) else FunctionMetric(metric)
    if dimension is not None:
        _check_shape(made, dimension)
    return made


def _check_shape(metric: Metric, dimension: int) -> None:
    point = jax.ShapeDtypeStruct((dimension,), jnp.float64)
    try:
        out = eqx.filter_eval_shape(metric, point)
    except (
        jax.errors.ConcretizationTypeError,
        jax.errors.TracerArrayConversionError,
        jax.errors.TracerIntegerConversionError,
        jax.errors.NonConcreteBooleanIndexError,
    ) as error:
        raise TypeError(
            "metric must be traceable by JAX: write it with jax.numpy, and jnp.where instead of "
            f"`if` on values. JAX says: {str(error).splitlines()[0]}"
        ) from error
    except TypeError as error:
        raise TypeError(
            f"metric could not be called for one point of shape {(dimension,)}: {error}"
        ) from error
    got = getattr(out, "shape", type(out).__name__)
    if got != (dimension, dimension):
        raise ValueError(
            f"metric must return shape {(dimension, dimension)} for one point of shape "
            f"{(dimension,)}, got {got}"
        )


def acceleration(metric: Any, x: Any, v: Any) -> Float[Array, "*batch d"]:
    """c'' of the geodesic with c = x and c' = v, both (..., D).

    M c'' = 1/2 grad_x (v' M(x) v) - d/ds M(x + s v) v: Eq. 2, mended (erratum 1).

    Examples
    --------
    In the hyperbolic half plane, a geodesic that starts level turns down:

    >>> half_plane = lambda x: jnp.eye(2) / x[1] ** 2
    >>> acceleration(half_plane, [0.0, 1.0], [1.0, 0.0]).tolist()
    [0.0, -1.0]
    """
    return _at_points(as_metric(metric).acceleration, x, v)


def printed_acceleration(metric: Any, x: Any, v: Any) -> Float[Array, "*batch d"]:
    """What Eq. 2 prints, -1/2 M^-1 grad_x (v' M(x) v): right for D = 1 only. For comparison.

    Examples
    --------
    In the half plane it turns the wrong way:

    >>> half_plane = lambda x: jnp.eye(2) / x[1] ** 2
    >>> float(printed_acceleration(half_plane, [0.0, 1.0], [1.0, 0.0])[1])
    1.0
    """
    made = as_metric(metric)
    return _at_points(lambda y, u: made.solve(y, -0.5 * jax.grad(made.energy)(y, u)), x, v)


def christoffel(metric: Any, x: Any) -> Float[Array, "d d d"]:
    """Christoffel symbols Gamma[k, i, j] at x (D,), with c''_k = -Gamma[k, i, j] c'_i c'_j.

    D^3 numbers: for tests and teaching. The solvers use `acceleration`.

    Examples
    --------
    >>> half_plane = lambda x: jnp.eye(2) / x[1] ** 2
    >>> christoffel(half_plane, [0.0, 2.0])[1].tolist()
    [[0.5, 0.0], [0.0, -0.5]]
    """
    made = as_metric(metric)
    x = jnp.asarray(x, dtype=jnp.float64)
    slopes = jax.jacfwd(made)(x)  # slopes[i, j, k] = d M_ij / d x_k
    lowered = 0.5 * (jnp.moveaxis(slopes, 2, 1) + slopes - jnp.moveaxis(slopes, 2, 0))
    return jnp.einsum("kl,lij->kij", jnp.linalg.inv(made(x)), lowered)


def _at_points(function: Callable, x: Any, v: Any) -> Array:
    x, v = jnp.asarray(x, dtype=jnp.float64), jnp.asarray(v, dtype=jnp.float64)
    if x.ndim == 0 or v.ndim == 0 or x.shape[-1] != v.shape[-1]:
        raise ValueError(
            f"x and v must have shape (..., D) of one size D, got {x.shape}, {v.shape}"
        )
    return jnp.vectorize(function, signature="(d),(d)->(d)")(x, v)
