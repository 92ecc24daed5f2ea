"""Where the ODE is evaluated: points on the unit interval (Sec. 3.4 of the paper)."""

from typing import Literal

import jax.numpy as jnp
from jax.scipy.special import erf
from jaxtyping import Array, Float

GridName = Literal["sigmoid", "linear", "chebyshev"]


def sigmoid(n: int) -> Float[Array, " n"]:
    """Points that crowd towards both ends, symmetric and strictly inside (erratum 7)."""
    if n == 1:
        return jnp.array([0.5])
    return 0.5 * (1.0 + erf(-1.5 + 3.0 * jnp.arange(n) / (n - 1)))


def linear(n: int) -> Float[Array, " n"]:
    """Equal steps from 0 to 1, ends included."""
    return jnp.linspace(0.0, 1.0, n)


def chebyshev(n: int) -> Float[Array, " n"]:
    """Chebyshev points of the first kind, strictly inside."""
    return 0.5 * (1.0 - jnp.cos(jnp.pi * (2 * jnp.arange(n) + 1) / (2 * n)))


GRIDS = {"sigmoid": sigmoid, "linear": linear, "chebyshev": chebyshev}
