"""The metric that a decoder pulls back from the space it maps to."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from probgeo._checks import as_positive
from probgeo.functions import RowFunction, as_row_function
from probgeo.metrics.base import Metric, array_module, jax_methods
from probgeo.metrics.inputs import as_function, unwrapped
from probgeo.metrics.loops import EnergyTerms, solve_jacobians, solve_vectors


@dataclass(frozen=True, init=False, repr=False, eq=False)
class Pullback(Metric):
    """M(x) = J(x)' J(x) of a decoder f: R^D -> R^M, so that lengths are those of the decoded curve.

    With the standard deviation of a random decoder mean(x) + std(x) * noise, as of a variational
    autoencoder, it is the expected metric J_mean' J_mean + J_std' J_std.

    Parameters
    ----------
    decoder : function x (D,) -> array of any shape
        The decoder, or its mean: a function of one point in JAX, or of rows in NumPy or torch, for
        instance a `torch.nn.Module`.
    std : function x (D,) -> array of any shape, optional
        Standard deviation of the decoder.
    regularisation : float
        This multiple of the identity is added; needed if the decoder does not see all directions.

    The geodesic equation is M c'' = -J' f''(c', c'), with one second directional derivative of the
    decoder: two terms of the general equation cancel.

    References
    ----------
    Tosi, Hauberg, Vellido & Lawrence (2014), Metrics for probabilistic geometries.
    Arvanitidis, Hansen & Hauberg (2018), Latent space oddity.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> torus = lambda x: jnp.array([jnp.cos(x[0]), jnp.sin(x[0]), jnp.cos(x[1]), jnp.sin(x[1])])
    >>> (Pullback(torus)(np.array([0.3, 0.7])) + 0.0).round(12).tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    """

    decoder: Callable
    std: Callable | None
    regularisation: float

    def __init__(
        self, decoder: Callable, std: Callable | None = None, regularisation: Any = 0.0
    ) -> None:
        added = as_positive("regularisation", regularisation, or_zero=True)
        object.__setattr__(self, "decoder", as_function("decoder", decoder))
        object.__setattr__(self, "std", None if std is None else as_function("std", std))
        object.__setattr__(self, "regularisation", added)

    def decode(self, x: Any) -> Any:
        """All outputs (..., M) at x (..., D): those of the mean, then those of the deviation."""
        xp = array_module(x)
        functions = [self.decoder] if self.std is None else [self.decoder, self.std]
        if xp is not np and x.ndim == 1:
            parts = [xp.ravel(unwrapped(f)(x)) for f in functions]
            return parts[0] if len(parts) == 1 else xp.concatenate(parts)
        points = np.asarray(x, dtype=np.float64)
        rows = points.reshape(-1, points.shape[-1])
        parts = [f.values(rows).reshape(len(rows), -1) for f in self._functions(rows)]
        return np.concatenate(parts, axis=1).reshape(*points.shape[:-1], -1)

    def __call__(self, x: Any) -> Any:
        """M (..., D, D) at x (..., D): JAX arrays for those of JAX, else NumPy."""
        if array_module(x) is not np:
            M, outputs = jax_methods().pulled_back(self.decode, x)
            self._check_rank(outputs, x.shape[-1])
            return M + self.regularisation * np.eye(x.shape[-1])
        points = np.asarray(x, dtype=np.float64)
        D = points.shape[-1]
        return self.tensors_at(points.reshape(-1, D)).reshape(*points.shape, D)

    def tensors_at(self, x: np.ndarray) -> np.ndarray:
        tensors = [f.tensors(x, "decoder") for f in self._functions(x)]
        return np.sum(tensors, axis=0) + self.regularisation * np.eye(x.shape[1])

    def energies(self, x: np.ndarray, v: np.ndarray) -> np.ndarray:
        energies = [f.energies(x, v, "decoder") for f in self._functions(x)]
        return np.sum(energies, axis=0) + 0.5 * self.regularisation * np.sum(v**2, axis=1)

    def energy_terms(self, x: np.ndarray, v: np.ndarray, second: bool = True) -> EnergyTerms:
        parts = [f.energy_terms(x, v, second, "decoder") for f in self._functions(x)]
        terms = EnergyTerms(*(np.sum(arrays, axis=0) for arrays in zip(*parts, strict=True)))
        added = self.regularisation
        return terms._replace(
            energy=terms.energy + 0.5 * added * np.sum(v**2, axis=1),
            by_v=terms.by_v + added * v,
            vv=terms.vv + added * np.eye(x.shape[1]),
        )

    def accelerations(self, x: np.ndarray, v: np.ndarray) -> np.ndarray:
        return self._accelerations(x, v)[0]

    def acceleration_jacobians(self, x: np.ndarray, v: np.ndarray) -> np.ndarray:
        a, M = self._accelerations(x, v)
        jacobians = [f.force_jacobians(x, v, a, "decoder") for f in self._functions(x)]
        return solve_jacobians(M, np.sum(jacobians, axis=0).swapaxes(1, 2))

    def _accelerations(self, x: np.ndarray, v: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        parts = [f.forces(x, v, "decoder") for f in self._functions(x)]
        force, M = (np.sum(arrays, axis=0) for arrays in zip(*parts, strict=True))
        M = M + self.regularisation * np.eye(x.shape[1])
        return solve_vectors(M, force), M

    def _functions(self, x: np.ndarray) -> list[RowFunction]:
        D = x.shape[1]
        found = vars(self).setdefault("_decoders", {})
        if D not in found:
            made = [as_row_function(self.decoder, D, "decoder")]
            if self.std is not None:
                made.append(as_row_function(self.std, D, "std"))
            self._check_rank(sum(int(np.prod(f.out_shape)) for f in made), D)
            found[D] = made
        return found[D]

    def _check_rank(self, outputs: int, dimension: int) -> None:
        if outputs < dimension and self.regularisation == 0.0:
            raise ValueError(
                f"decoder must return at least as many numbers as the {dimension} coordinates it "
                f"takes, got {outputs}; or give a positive regularisation"
            )
