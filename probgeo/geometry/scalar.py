"""A Gaussian over one number, such as a length."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from probgeo.gaussian import Gaussian


class ScalarGaussian(Gaussian):
    """N(mean, variance) over numbers, mean and variance (...): no axis of dimensions.

    Examples
    --------
    >>> length = ScalarGaussian.unchecked(jnp.array(2.0), jnp.array(0.04))
    >>> float(length.mean), float(length.std)
    (2.0, 0.2)
    """

    @classmethod
    def unchecked(cls, mean: Array, cov: Array) -> "ScalarGaussian":
        gaussian = object.__new__(cls)
        object.__setattr__(gaussian, "mean", mean)
        object.__setattr__(gaussian, "cov", cov)
        return gaussian

    @property
    def std(self) -> Float[Array, "*batch"]:
        """Standard deviation."""
        return jnp.sqrt(jnp.maximum(self.cov, 0.0))

    def sample(self, seed: int, n: int) -> Float[Array, "n *batch"]:
        """`n` independent draws, the same for the same seed."""
        noise = jax.random.normal(jax.random.key(seed), (n, *self.mean.shape))
        return self.mean + self.std * noise

    def __repr__(self) -> str:
        batch = f"batch={self.mean.shape}" if self.mean.ndim else ""
        return f"ScalarGaussian({batch})"
