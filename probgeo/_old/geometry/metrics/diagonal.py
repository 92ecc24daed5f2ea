"""Metrics whose tensor is diagonal everywhere: nothing of size (D, D) is ever needed."""

import jax.numpy as jnp
from jaxtyping import Array, Float

from probgeo._old.geometry.equation import Metric


class Diagonal(Metric):
    """M(x) = diag(m(x)), given by one method, `diagonal`.

    Examples
    --------
    >>> class Slope(Diagonal):
    ...     def diagonal(self, x):
    ...         return jnp.exp(x)
    >>> Slope().apply(jnp.zeros(3), jnp.arange(3.0)).tolist()
    [0.0, 1.0, 2.0]
    """

    def diagonal(self, x: Float[Array, " d"]) -> Float[Array, " d"]:
        """m(x), all positive."""
        raise NotImplementedError(f"{type(self).__name__} must define diagonal(x)")

    def __call__(self, x: Float[Array, " d"]) -> Float[Array, "d d"]:
        return jnp.diag(self.diagonal(x))

    def apply(self, x: Float[Array, " d"], v: Float[Array, " d"]) -> Float[Array, " d"]:
        return self.diagonal(x) * v

    def solve(self, x: Float[Array, " d"], p: Float[Array, " d"]) -> Float[Array, " d"]:
        return p / self.diagonal(x)
