"""A constant metric: geodesics are straight lines."""

from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from probgeo._old._checks import as_float_array, is_concrete
from probgeo._old.geometry.equation import Metric
from probgeo._old.geometry.inputs import check_tensor
from probgeo._old.geometry.linalg import solve_spd


class Flat(Metric):
    """M(x) = A everywhere, by default the identity in any dimension.

    Exponential map, logarithm and so on are in closed form for points (..., D) that broadcast.

    Parameters
    ----------
    A : array (D, D), optional
        Symmetric positive definite.

    Examples
    --------
    >>> float(Flat([[4.0, 0.0], [0.0, 1.0]]).distance([0.0, 0.0], [3.0, 0.0]))
    6.0
    """

    A: Float[Array, "d d"] | None

    def __init__(self, A: Any = None) -> None:
        if A is None:
            self.A = None
            return
        matrix = as_float_array("A", A)
        if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or matrix.size == 0:
            raise ValueError(f"A must have shape (D, D), got {matrix.shape}")
        if is_concrete(matrix):
            check_tensor("A", np.asarray(matrix))
        self.A = 0.5 * (matrix + matrix.T)

    def __call__(self, x: Float[Array, " d"]) -> Float[Array, "d d"]:
        return jnp.eye(x.shape[-1]) if self.A is None else self.A

    def apply(self, x: Float[Array, " d"], v: Float[Array, " d"]) -> Float[Array, " d"]:
        return v if self.A is None else self.A @ v

    def solve(self, x: Float[Array, " d"], p: Float[Array, " d"]) -> Float[Array, " d"]:
        return p if self.A is None else solve_spd(lambda u: self.apply(x, u), self.A, p)

    def acceleration(self, x: Float[Array, " d"], v: Float[Array, " d"]) -> Float[Array, " d"]:
        return jnp.zeros_like(v)

    def exp(self, a: Any, v: Any) -> Float[Array, "*batch d"]:
        """Where the geodesic from a with velocity v is after unit time."""
        return as_float_array("a", a) + as_float_array("v", v)

    def log(self, a: Any, b: Any) -> Float[Array, "*batch d"]:
        """The velocity at a of the geodesic that is at b after unit time."""
        return as_float_array("b", b) - as_float_array("a", a)

    def distance(self, a: Any, b: Any) -> Float[Array, "*batch"]:
        """Length of the shortest curve from a to b."""
        step = self.log(a, b)
        lowered = step if self.A is None else step @ self.A
        return jnp.sqrt(jnp.sum(step * lowered, axis=-1))

    def transport(self, a: Any, b: Any, v: Any) -> Float[Array, "*batch d"]:
        """v at a, carried parallel to itself along the geodesic to b."""
        return self.log(a, b) * 0.0 + as_float_array("v", v)
