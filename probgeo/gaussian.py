"""The value every layer passes on: a Gaussian distribution."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from probgeo._checks import as_covariance, as_float_array, as_generator, as_numbers, as_whole_number, is_traced

if TYPE_CHECKING:
    import pandas


def covariance_factor(cov: np.ndarray) -> np.ndarray:
    """A (..., D, D) with A A' = cov. Works for singular covariances, where Cholesky does not."""
    if np.isinf(cov).any():
        raise ValueError("a variance is infinite, and nothing here determines it: give data=")
    eigenvalues, vectors = np.linalg.eigh(cov)
    return vectors * np.sqrt(np.maximum(eigenvalues, 0.0))[..., None, :]


def root_and_flat(cov: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The symmetric A with A A = cov, and which components have infinite variances: unit columns.

    cov (..., D, D) -> A (..., D, D), flat (..., D).
    """
    flat = np.isinf(np.diagonal(cov, axis1=-2, axis2=-1))
    known = ~flat[..., :, None] & ~flat[..., None, :]
    eigenvalues, vectors = np.linalg.eigh(np.where(known, cov, 0.0))
    scaled = vectors * np.sqrt(np.maximum(eigenvalues, 0.0))[..., None, :]
    root = np.where(known, scaled @ np.swapaxes(vectors, -1, -2), 0.0)
    return root + flat[..., None] * np.eye(cov.shape[-1]), flat


def _as_prior(cov: Any, shape: tuple[int, ...]) -> Any:
    """A covariance, of which some components may have an infinite variance and no covariances."""
    if is_traced(cov) or not np.isinf(given := as_numbers("cov", cov)).any():
        return as_covariance("cov", cov, shape)
    flat = np.isposinf(given) & np.eye(shape[-1], dtype=bool)
    apart = ~flat.any(axis=-1, keepdims=True) & ~flat.any(axis=-2, keepdims=True)
    if (given[~apart & ~flat] != 0).any():
        raise ValueError(f"cov must be zero beside an infinite variance, got {given}")
    known = as_covariance("cov", np.where(flat, 0.0, given), shape)
    return np.where(flat, np.inf, known)


def with_error(mean: Any, std: Any) -> str:
    """mean ± std, as many digits as that allows: `0.9624 ± 0.0012`, `[1.00 2.00] ± [0.2 0.1]`."""
    error = np.asarray(std, dtype=float)
    known = error[error > 0]
    # at most 12 of the 15 or so digits of a double
    places = int(np.clip(1 - np.floor(np.log10(known.min())), 0, 12)) if known.size else 4

    def show(x: Any, form: str) -> str:
        styles: Any = {"float_kind": lambda value: f"{value:{form}}"}
        return np.array2string(np.asarray(x, dtype=float), formatter=styles)

    return f"{show(mean, f'.{places}f')} ± {show(error, '.2g')}"


@dataclass(frozen=True, init=False, repr=False, eq=False)
class Gaussian:
    """N(mean, cov) over vectors; leading axes are a batch.

    Parameters
    ----------
    mean : array (..., D)
    cov : array (..., D, D), optional
        Symmetric positive semi-definite; it may be singular. Without it the value is certain. An
        infinite variance marks a number of which only a first guess is known, to be learned from data.

    Examples
    --------
    >>> import numpy as np
    >>> x = Gaussian([1.0, 2.0], np.diag([0.04, 0.0]))
    >>> x.std
    array([0.2, 0. ])
    >>> x.sample(seed=0, n=3).shape
    (3, 2)
    """

    mean: np.ndarray
    cov: np.ndarray
    spelled_out: ClassVar[int] = 4  # numbers, in `repr`

    def __init__(self, mean: Any, cov: Any = None) -> None:
        mean = as_float_array("mean", mean)
        if mean.ndim == 0:
            raise ValueError("mean must have shape (..., D), got a scalar")
        shape = (*mean.shape, mean.shape[-1])
        cov = np.zeros(shape) if cov is None else _as_prior(cov, shape)
        object.__setattr__(self, "mean", mean)
        object.__setattr__(self, "cov", cov)

    @classmethod
    def unchecked(cls, mean: Any, cov: Any) -> Self:
        """A Gaussian from a computation, whose round-off no check should trip over."""
        gaussian = object.__new__(cls)
        object.__setattr__(gaussian, "mean", mean)
        object.__setattr__(gaussian, "cov", cov)
        return gaussian

    @property
    def std(self) -> np.ndarray:
        """Marginal standard deviations (..., D)."""
        return np.sqrt(np.maximum(np.diagonal(self.cov, axis1=-2, axis2=-1), 0.0))

    def sample(self, seed: int, n: int) -> np.ndarray:
        """`n` independent draws (n, ..., D), the same for the same seed."""
        shape = (as_whole_number("n", n, 0), *self.mean.shape)
        noise = as_generator("seed", seed).standard_normal(shape)
        return self.mean + np.einsum("...ij,n...j->n...i", covariance_factor(self.cov), noise)

    def __repr__(self) -> str:
        *batch, dimension = self.mean.shape
        if not batch and dimension <= self.spelled_out and not is_traced(self.mean, self.cov):
            return f"Gaussian({with_error(self.mean, self.std)})"
        return f"Gaussian(dimension={dimension}" + (f", batch={tuple(batch)})" if batch else ")")


class ScalarGaussian(Gaussian):
    """N(mean, variance) over numbers, mean and variance (...): no axis of dimensions.

    Examples
    --------
    >>> length = ScalarGaussian(2.0, 0.04)
    >>> float(length.mean), float(length.std)
    (2.0, 0.2)
    """

    def __init__(self, mean: Any, cov: Any = 0.0) -> None:
        mean = as_float_array("mean", mean)
        variance = as_numbers("cov", cov)
        if variance.shape not in ((), mean.shape):
            raise ValueError(f"cov must have shape {mean.shape}, got {variance.shape}")
        variance = np.broadcast_to(variance, mean.shape)
        if not np.all(variance >= 0):
            raise ValueError(f"cov must not be negative or NaN, got {variance}")
        object.__setattr__(self, "mean", mean)
        object.__setattr__(self, "cov", np.array(variance))

    @property
    def std(self) -> np.ndarray:
        """Standard deviation (...)."""
        return np.sqrt(np.maximum(self.cov, 0.0))

    def sample(self, seed: int, n: int) -> np.ndarray:
        """`n` independent draws (n, ...), the same for the same seed."""
        shape = (as_whole_number("n", n, 0), *np.shape(self.mean))
        return self.mean + self.std * as_generator("seed", seed).standard_normal(shape)

    def __repr__(self) -> str:
        if is_traced(self.mean) or np.size(self.mean) > self.spelled_out:
            return f"ScalarGaussian(batch={np.shape(self.mean)})"
        return f"ScalarGaussian({with_error(self.mean, self.std)})"

    def summary(self) -> "pandas.DataFrame":
        """A table of pandas: mean and standard deviation of every member of the batch."""
        from probgeo.export import table

        return table({"mean": self.mean, "std": self.std}, np.shape(self.mean))
