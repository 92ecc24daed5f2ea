"""Metrics that are a positive multiple of a simpler one."""

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from probgeo.functions import RowFunction, as_row_function
from probgeo.functions.in_numpy import times
from probgeo.metrics import loops
from probgeo.metrics.base import ClosedForm, Metric, array_module, as_metric, jax_methods
from probgeo.metrics.flat import Flat
from probgeo.metrics.inputs import as_function, unwrapped
from probgeo.metrics.loops import EnergyTerms


class ScaleTerms(NamedTuple):
    """A factor s(x) at n rows, with gradient and Hessian in terms of one direction b:

    ds/dx = s gamma b,   d^2 s / dx^2 = s (alpha I + beta b b').
    """

    scale: np.ndarray  # (n,)
    direction: np.ndarray  # (n, D)
    alpha: np.ndarray  # (n,)
    beta: np.ndarray  # (n,)
    gamma: np.ndarray  # (n,)


class ConformallyFlat(ClosedForm):
    """M(x) = scale(x) I: angles are those one sees."""

    @abstractmethod
    def scale(self, x: Any) -> Any:
        """The positive factor (...,) at x (..., D)."""

    @abstractmethod
    def _scale_terms(self, x: np.ndarray) -> ScaleTerms:
        """The factor and its derivatives at rows (n, D)."""

    def _formula(self, x: Any, xp: Any) -> Any:
        return self.scale(x)[..., None, None] * np.eye(x.shape[-1])

    def energies(self, x: np.ndarray, v: np.ndarray) -> np.ndarray:
        return 0.5 * self.scale(x) * np.sum(v**2, axis=-1)

    def energy_terms(self, x: np.ndarray, v: np.ndarray, second: bool = True) -> EnergyTerms:
        level = loops.SECOND if second else loops.FIRST
        return loops.filled(loops.conformal_terms, (v, *self._scale_terms(x)), level)

    def accelerations(self, x: np.ndarray, v: np.ndarray) -> np.ndarray:
        g = self._log_slope(self._scale_terms(x))
        return 0.5 * _dot(v, v) * g - _dot(g, v) * v

    def acceleration_jacobians(self, x: np.ndarray, v: np.ndarray) -> np.ndarray:
        terms = self._scale_terms(x)
        g, b = self._log_slope(terms), terms.direction
        identity = np.eye(x.shape[1])
        # the Hessian of log scale
        bend = terms.alpha[:, None, None] * identity
        bend = bend + (terms.beta - terms.gamma**2)[:, None, None] * _outer(b, b)
        turned = times(bend, v)
        by_x = 0.5 * _dot(v, v)[:, :, None] * bend - _outer(v, turned)
        by_v = _outer(g, v) - _outer(v, g) - _dot(g, v)[:, :, None] * identity
        return np.stack([by_x, by_v], axis=1)

    def _log_slope(self, terms: ScaleTerms) -> np.ndarray:
        slope = terms.gamma[:, None] * terms.direction
        return np.where(np.isfinite(terms.scale)[:, None], slope, np.nan)


@dataclass(frozen=True, init=False, repr=False, eq=False)
class Conformal(Metric):
    """M(x) = scale(x) B(x): the metric B with its unit of length changed from place to place.

    Parameters
    ----------
    scale : function x (D,) -> positive number
        In JAX; or of rows (n, D) -> (n,) in NumPy or torch.
    base : metric, optional
        B, by default the identity.

    With g the gradient of log scale, the geodesic equation is that of B with
    1/2 (c' B c') B^-1 g - (g . c') c' added.

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
            return jax_methods().at_points(unwrapped(self.factor), x, result="")
        points = np.asarray(x, dtype=np.float64)
        rows = points.reshape(-1, points.shape[-1])
        return self._factor(rows).values(rows).reshape(points.shape[:-1])

    def __call__(self, x: Any) -> Any:
        """M (..., D, D) at x (..., D): JAX arrays for those of JAX, else NumPy."""
        return self.scale(x)[..., None, None] * self.base(x)

    def landmarks(self) -> np.ndarray:
        return self.base.landmarks()

    def tensors_at(self, x: np.ndarray) -> np.ndarray:
        return self._factor(x).values(x)[:, None, None] * self.base.tensors_at(x)

    def energies(self, x: np.ndarray, v: np.ndarray) -> np.ndarray:
        return self._factor(x).values(x) * self.base.energies(x, v)

    def energy_terms(self, x: np.ndarray, v: np.ndarray, second: bool = True) -> EnergyTerms:
        s, ds, Hs = self._factor(x).scalar_terms(x)
        base = self.base.energy_terms(x, v, second)
        L, s1 = base.energy[:, None], s[:, None]
        by_x, by_v = ds * L + s1 * base.by_x, s1 * base.by_v
        if not second:
            return EnergyTerms(s * base.energy, by_x, by_v, base.xx, base.xv, base.vv)
        L, s1 = L[:, :, None], s1[:, :, None]
        mixed = _outer(ds, base.by_x)
        xx = Hs * L + mixed + mixed.swapaxes(1, 2) + s1 * base.xx
        xv = _outer(ds, base.by_v) + s1 * base.xv
        return EnergyTerms(s * base.energy, by_x, by_v, xx, xv, s1 * base.vv)

    def accelerations(self, x: np.ndarray, v: np.ndarray) -> np.ndarray:
        s, ds, _ = self._factor(x).scalar_terms(x)
        g = ds / s[:, None]
        turn = self.base.energies(x, v)[:, None] * self.base.solve(x, g)
        return self.base.accelerations(x, v) + turn - _dot(g, v) * v

    def acceleration_jacobians(self, x: np.ndarray, v: np.ndarray) -> np.ndarray:
        s, ds, Hs = self._factor(x).scalar_terms(x)
        g = ds / s[:, None]
        bend = Hs / s[:, None, None] - _outer(g, g)  # the Hessian of log scale
        B = self.base.tensors_at(x)
        h = loops.solve_vectors(B, g)
        terms = self.base.energy_terms(x, v, second=False)
        # B h = g, so that B dh = dg - (dB) h
        change = np.ascontiguousarray(bend - self.base.energy_terms(x, h).xv.swapaxes(1, 2))
        by_x = _outer(h, terms.by_x) + terms.energy[:, None, None] * loops.solve_rows(B, change)
        by_x = by_x - _outer(v, times(bend, v))
        by_v = _outer(h, terms.by_v) - _outer(v, g) - _dot(g, v)[:, :, None] * np.eye(x.shape[1])
        return self.base.acceleration_jacobians(x, v) + np.stack([by_x, by_v], axis=1)

    def _factor(self, x: np.ndarray) -> RowFunction:
        return self._kept(x.shape[1], lambda D: as_row_function(self.factor, D, "scale", ()))


def _dot(u: np.ndarray, v: np.ndarray) -> np.ndarray:
    return np.sum(u * v, axis=-1, keepdims=True)


def _outer(u: np.ndarray, v: np.ndarray) -> np.ndarray:
    return u[:, :, None] * v[:, None, :]
