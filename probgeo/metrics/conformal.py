"""Metrics that are a positive multiple of a simpler one."""

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from probgeo.functions import RowFunction, as_row_function
from probgeo.functions.in_numpy import matvec
from probgeo.metrics.arguments import as_function, unwrapped
from probgeo.metrics.flat import Flat
from probgeo.metrics.loops import EnergyTerms, rescale_terms
from probgeo.metrics.metric import Metric, OfPoints, array_module, as_metric, jax_methods


class Rescaled(OfPoints):
    """M(x) = s(x) B(x), of a positive factor s and a simpler metric B."""

    base: Metric

    @abstractmethod
    def scale(self, x: Any) -> Any:
        """The positive factor (...,) at x (..., D)."""

    @abstractmethod
    def _scale_terms(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The factor (n,), its gradient (n, D) and Hessian (n, D, D) at rows (n, D)."""

    def _in_jax(self, x: Any) -> Any:
        return self.scale(x)[..., None, None] * self.base(x)

    def tensors_at(self, x: np.ndarray) -> np.ndarray:
        return self.scale(x)[:, None, None] * self.base.tensors_at(x)

    def energies(self, x: np.ndarray, v: np.ndarray) -> np.ndarray:
        return self.scale(x) * self.base.energies(x, v)

    def energy_terms(self, x: np.ndarray, v: np.ndarray, second: bool = True) -> EnergyTerms:
        terms = self.base.energy_terms(x, v, second)
        rescale_terms(*self._scale_terms(x), *terms)
        return terms

    def forces(self, x: np.ndarray, v: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        # s F_B + L ds - (ds . v) B v
        s, ds, _ = self._scale_terms(x)
        force, B = self.base.forces(x, v)
        p = matvec(B, v)
        turn = 0.5 * _dot(p, v) * ds - _dot(ds, v) * p
        return s[:, None] * force + turn, s[:, None, None] * B

    def force_jacobians(self, x: np.ndarray, v: np.ndarray, a: np.ndarray) -> np.ndarray:
        s, ds, Hs = self._scale_terms(x)
        force, B = self.base.forces(x, v)
        terms, s1, rate = self.base.energy_terms(x, v), s[:, None, None], _dot(ds, v)[:, :, None]
        p, by_base = terms.by_v, self.base.force_jacobians(x, v, a)
        by_x = s1 * by_base[:, 0] + _outer(force - matvec(B, a), ds) + _outer(ds, terms.by_x)
        by_x += terms.energy[:, None, None] * Hs - _outer(p, matvec(Hs, v)) - rate * terms.xv.swapaxes(1, 2)
        by_v = s1 * by_base[:, 1] + _outer(ds, p) - _outer(p, ds) - rate * B
        J = np.empty((len(x), 2, *B.shape[1:]))
        J[:, 0], J[:, 1] = by_x, by_v
        return J


@dataclass(frozen=True, init=False, repr=False, eq=False)
class Conformal(Rescaled):
    """M(x) = scale(x) B(x): the metric B with its unit of length changed from place to place.

    Parameters
    ----------
    scale : function x (D,) -> positive number
        In JAX; or of rows (n, D) -> (n,) in NumPy or torch.
    base : metric, optional
        B, by default the identity.

    With g the gradient of log scale, the geodesic equation is that of B with 1/2 (c' B c') B^-1 g - (g . c') c' added.

    Examples
    --------
    >>> metric = Conformal(lambda x: 1.0 + x @ x)
    >>> metric.acceleration([1.0, 0.0], [0.0, 2.0]).tolist()
    [2.0, 0.0]
    """

    factor: Callable
    base: Metric

    def __init__(self, scale: Callable, base: Any = None) -> None:
        vars(self).update(factor=as_function("scale", scale), base=Flat() if base is None else as_metric(base))

    @property
    def dimension(self) -> int | None:
        return self.base.dimension

    def scale(self, x: Any) -> Any:
        """The positive factor (...,) at x (..., D)."""
        if array_module(x) is not np:
            return jax_methods().at_points(unwrapped(self.factor), x)
        points = np.asarray(x, dtype=np.float64)
        rows = points.reshape(-1, points.shape[-1])
        return self._factor(rows).values(rows).reshape(points.shape[:-1])

    def landmarks(self) -> np.ndarray:
        return self.base.landmarks()

    def _scale_terms(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        return self._factor(x).scalar_terms(x)

    def _factor(self, x: np.ndarray) -> RowFunction:
        return self._kept(x.shape[1], lambda D: as_row_function(self.factor, D, "scale", ()))


def _dot(u: np.ndarray, v: np.ndarray) -> np.ndarray:
    return np.sum(u * v, axis=-1, keepdims=True)


def _outer(u: np.ndarray, v: np.ndarray) -> np.ndarray:
    return u[:, :, None] * v[:, None, :]
