"""The value every layer passes on: a Gaussian distribution."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from probgeo._old._checks import as_covariance, as_float_array, is_concrete

SHOWN = 4  # numbers that `repr` spells out
MOST_PLACES = 12


def covariance_factor(cov: Float[Array, "*batch d d"]) -> Float[Array, "*batch d d"]:
    """A with A A' = cov. Works for singular covariances, where Cholesky does not."""
    eigenvalues, vectors = jnp.linalg.eigh(cov)
    return vectors * jnp.sqrt(jnp.maximum(eigenvalues, 0.0))[..., None, :]


def with_error(mean: Any, std: Any) -> str:
    """mean ± std, as many digits as that allows: `0.9624 ± 0.0012`, `[1.00 2.00] ± [0.2 0.1]`."""
    error = np.asarray(std, dtype=float)
    known = error[error > 0]
    places = int(np.clip(1 - np.floor(np.log10(known.min())), 0, MOST_PLACES)) if known.size else 4

    def show(x: Any, form: str) -> str:
        styles: Any = {"float_kind": lambda value: f"{value:{form}}"}
        return np.array2string(np.asarray(x, dtype=float), formatter=styles)

    return f"{show(mean, f'.{places}f')} ± {show(error, '.2g')}"


class Gaussian(eqx.Module):
    """N(mean, cov) over vectors; leading axes are a batch.

    Parameters
    ----------
    mean : array (..., D)
    cov : array (..., D, D), optional
        Symmetric positive semi-definite; it may be singular. Without it the value is certain.

    Examples
    --------
    >>> import numpy as np
    >>> x = Gaussian([1.0, 2.0], np.diag([0.04, 0.0]))
    >>> np.asarray(x.std)
    array([0.2, 0. ])
    >>> x.sample(seed=0, n=3).shape
    (3, 2)
    """

    mean: Float[Array, "*batch d"]
    cov: Float[Array, "*batch d d"]

    def __init__(self, mean: Any, cov: Any = None) -> None:
        self.mean = as_float_array("mean", mean)
        if self.mean.ndim == 0:
            raise ValueError("mean must have shape (..., D), got a scalar")
        shape = (*self.mean.shape, self.mean.shape[-1])
        certain = cov is None
        self.cov = jnp.asarray(np.zeros(shape)) if certain else as_covariance("cov", cov, shape)

    @classmethod
    def unchecked(cls, mean: Array, cov: Array) -> "Gaussian":
        """A Gaussian from a computation, whose round-off no check should trip over."""
        gaussian = object.__new__(cls)
        object.__setattr__(gaussian, "mean", mean)
        object.__setattr__(gaussian, "cov", cov)
        return gaussian

    @property
    def std(self) -> Float[Array, "*batch d"]:
        """Marginal standard deviations."""
        return jnp.sqrt(jnp.maximum(jnp.diagonal(self.cov, axis1=-2, axis2=-1), 0.0))

    def sample(self, seed: int, n: int) -> Float[Array, "n *batch d"]:
        """`n` independent draws, the same for the same seed."""
        noise = jax.random.normal(jax.random.key(seed), (n, *self.mean.shape))
        return self.mean + jnp.einsum("...ij,n...j->n...i", covariance_factor(self.cov), noise)

    def __repr__(self) -> str:
        *batch, dimension = self.mean.shape
        if not batch and dimension <= SHOWN and is_concrete(self):
            return f"Gaussian({with_error(self.mean, self.std)})"
        return f"Gaussian(dimension={dimension}" + (f", batch={tuple(batch)})" if batch else ")")
