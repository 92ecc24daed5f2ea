"""Spaces of constant curvature in coordinates: everything about them is known in closed form.

The sphere of curvature +1 and hyperbolic space of curvature -1 are both a quadric <y, y> = kappa in R^(D+1), in the
inner product <y, z> = y_1 z_1 + ... + y_D z_D + kappa y_0 z_0 whose last coordinate counts negatively if kappa = -1. A
chart says how its coordinates map to this quadric; exponential map, logarithm, distance and parallel transport are then
the same formulas for all, with sin and cos or sinh and cosh. They do not know the geodesic equation, so that they can
serve as a reference for it.
"""

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from probgeo._checks import as_float_array, as_whole_number, is_traced
from probgeo.metrics.conformal import Rescaled
from probgeo.metrics.flat import Flat
from probgeo.metrics.metric import array_module


@dataclass(frozen=True, init=False, repr=False, eq=False)
class Chart(Rescaled):
    """Coordinates x (..., D) of a space of constant curvature; leading axes are a batch.

    Outside of the chart the metric is NaN.

    Parameters
    ----------
    dimension : int
    """

    dimension: int = 2

    base = Flat()  # the identity
    curvature: ClassVar[int]

    def __init__(self, dimension: int = 2) -> None:
        vars(self).update(dimension=as_whole_number("dimension", dimension, 1))

    @abstractmethod
    def embed(self, x: Any) -> Any:
        """The point (..., D + 1) of the quadric with coordinates x (..., D)."""

    @abstractmethod
    def project(self, y: Any) -> Any:
        """The coordinates (..., D) of a point (..., D + 1) of the quadric."""

    @abstractmethod
    def _embed_vector(self, x: Any, v: Any) -> Any:
        """The derivative of `embed` at x in the direction v."""

    @abstractmethod
    def _project_vector(self, y: Any, w: Any) -> Any:
        """The derivative of `project` at y in the direction w."""

    def accelerations(self, x: np.ndarray, v: np.ndarray) -> np.ndarray:
        # (v . v) g / 2 - (g . v) v, with g the slope of log scale; the general way takes up to four times as long
        s, ds, _ = self._scale_terms(x)
        g = ds / s[:, None]
        return 0.5 * np.sum(v * v, axis=1, keepdims=True) * g - np.sum(g * v, axis=1, keepdims=True) * v

    def acceleration_jacobians(self, x: np.ndarray, v: np.ndarray) -> np.ndarray:
        s, ds, Hs = self._scale_terms(x)
        g = ds / s[:, None]
        bend = Hs / s[:, None, None] - g[:, :, None] * g[:, None, :]
        half, turned = 0.5 * np.sum(v * v, axis=1), np.sum(bend * v[:, None, :], axis=2)
        turn = g[:, :, None] * v[:, None, :]
        J = np.empty((len(x), 2, *Hs.shape[1:]))
        J[:, 0] = half[:, None, None] * bend - v[:, :, None] * turned[:, None, :]
        J[:, 1] = turn - turn.swapaxes(1, 2) - np.sum(g * v, axis=1)[:, None, None] * np.eye(x.shape[1])
        return J

    def contains(self, x: Any) -> Any:
        """Whether x lies in the chart."""
        return self.scale(x) > 0.0  # NaN outside

    def exp(self, a: Any, v: Any) -> Any:
        """Where the geodesic from a with velocity v is after unit time."""
        a, v = self._point("a", a), self._vector("v", v)
        xp = array_module(a + v)
        a, v = xp.broadcast_arrays(a, v)
        angle = xp.sqrt(self.scale(a) * xp.sum(v**2, axis=-1))[..., None]
        cosine = xp.cos(angle) if self.curvature > 0 else xp.cosh(angle)
        y, w = self.embed(a), self._embed_vector(a, v)
        return self.project(cosine * y + self._sine_ratio(angle) * w)

    def log(self, a: Any, b: Any) -> Any:
        """The velocity at a of the shortest geodesic that is at b after unit time."""
        a, b = self._point("a", a), self._point("b", b)
        a, b = array_module(a + b).broadcast_arrays(a, b)
        y, z = self.embed(a), self.embed(b)
        # z less its part along y, written so that close points do not cancel
        w = (z - y) + 0.5 * self.curvature * self._chord_squared(a, b)[..., None] * y
        return self._project_vector(y, w / self._sine_ratio(self.distance(a, b)[..., None]))

    def distance(self, a: Any, b: Any) -> Any:
        """Length of the shortest curve from a to b."""
        a, b = self._point("a", a), self._point("b", b)
        xp = array_module(a + b)
        half = 0.5 * xp.sqrt(self._chord_squared(a, b))
        if self.curvature < 0:
            return 2.0 * xp.arcsinh(half)
        return 2.0 * xp.arcsin(xp.minimum(half, 1.0))

    def transport(self, a: Any, b: Any, v: Any) -> Any:
        """v at a, carried parallel to itself along the shortest geodesic to b."""
        a, b, v = self._point("a", a), self._point("b", b), self._vector("v", v)
        xp = array_module(a + b + v)
        a, b, v = xp.broadcast_arrays(a, b, v)
        y, w, z = self.embed(a), self._embed_vector(a, v), self.embed(b)
        along = self.curvature * xp.sum(self._signs() * z * w, axis=-1)
        reach = 2.0 - 0.5 * self.curvature * self._chord_squared(a, b)  # 1 + kappa <y, z>
        return self._project_vector(z, w - (along / reach)[..., None] * (y + z))

    def _chord_squared(self, a: Any, b: Any) -> Any:
        """<z - y, z - y> of the embedded points; the same formula in all charts."""
        xp = array_module(a + b)
        return xp.sqrt(self.scale(a) * self.scale(b)) * xp.sum((b - a) ** 2, axis=-1)

    def _signs(self) -> np.ndarray:
        return np.append(np.ones(self.dimension), self.curvature)

    def _sine_ratio(self, angle: Any) -> Any:
        """sin(angle) / angle, or the same with sinh."""
        xp = array_module(angle)
        if self.curvature > 0:
            return xp.sinc(angle / np.pi)
        small = angle < 1e-3  # the next term of the series, angle^4 / 120, is below round-off
        safe = xp.where(small, 1.0, angle)
        return xp.where(small, 1.0 + angle**2 / 6.0, xp.sinh(safe) / safe)

    def _point(self, name: str, value: Any) -> Any:
        x = self._vector(name, value)
        if not is_traced(x) and not np.all(self.contains(x)):
            raise ValueError(f"{name} must lie in the {type(self).__name__} chart, got {x}")
        return x

    def _vector(self, name: str, value: Any) -> Any:
        x = as_float_array(name, value)
        if x.ndim == 0 or x.shape[-1] != self.dimension:
            raise ValueError(f"{name} must have shape (..., {self.dimension}), got {x.shape}")
        return x


class _Ball(Chart):
    """Stereographic coordinates: M(x) = 4 / (1 + kappa |x|^2)^2 I."""

    def scale(self, x: Any) -> Any:
        xp = array_module(x)
        inside = 1.0 + self.curvature * xp.sum(xp.asarray(x) ** 2, axis=-1)
        return xp.where(inside > 0.0, 4.0 / xp.where(inside > 0.0, inside, 1.0) ** 2, np.nan)

    def _scale_terms(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        s = self.scale(x)
        slope = (-2.0 * self.curvature * s * np.sqrt(s))[:, None]
        Hs = (6.0 * s * s)[:, None, None] * (x[:, :, None] * x[:, None, :])
        diagonal = np.arange(x.shape[1])
        Hs[:, diagonal, diagonal] += slope
        return s, slope * x, Hs

    def embed(self, x: Any) -> Any:
        xp = array_module(x)
        square = xp.sum(xp.asarray(x) ** 2, axis=-1, keepdims=True)
        parts = [2.0 * xp.asarray(x), square - self.curvature]
        return xp.concatenate(parts, axis=-1) / (1.0 + self.curvature * square)

    def _embed_vector(self, x: Any, v: Any) -> Any:
        xp = array_module(x)
        along = 2.0 * xp.sum(x * v, axis=-1, keepdims=True)
        square = xp.sum(x**2, axis=-1, keepdims=True)
        change = xp.concatenate([2.0 * v, along], axis=-1) - self.curvature * along * self.embed(x)
        return change / (1.0 + self.curvature * square)

    def project(self, y: Any) -> Any:
        return y[..., :-1] / (1.0 - self.curvature * y[..., -1:])

    def _project_vector(self, y: Any, w: Any) -> Any:
        change = w[..., :-1] + self.curvature * self.project(y) * w[..., -1:]
        return change / (1.0 - self.curvature * y[..., -1:])


class Sphere(_Ball):
    """The unit sphere in R^(D+1) without its north pole, in stereographic coordinates.

    M(x) = 4 / (1 + |x|^2)^2 I. The origin is the south pole, the unit circle the equator.

    Examples
    --------
    >>> float((Sphere().distance([1.0, 0.0], [0.0, 0.0]) / np.pi).round(12))  # equator to pole
    0.5
    """

    curvature: ClassVar[int] = 1


class PoincareBall(_Ball):
    """Hyperbolic space in the unit ball: M(x) = 4 / (1 - |x|^2)^2 I.

    Examples
    --------
    >>> float(PoincareBall().distance([0.0, 0.0], [np.tanh(0.5), 0.0]).round(12))
    1.0
    """

    curvature: ClassVar[int] = -1


class HalfPlane(Chart):
    """Hyperbolic space in the half plane (half space) x_D > 0: M(x) = I / x_D^2.

    Examples
    --------
    >>> float(HalfPlane().distance([0.3, 1.0], [0.3, np.e]).round(12))
    1.0
    """

    curvature: ClassVar[int] = -1

    def scale(self, x: Any) -> Any:
        xp = array_module(x)
        height = xp.asarray(x)[..., -1]
        return xp.where(height > 0.0, 1.0 / xp.where(height > 0.0, height, 1.0) ** 2, np.nan)

    def _scale_terms(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        s, up = self.scale(x)[:, None], np.eye(x.shape[1])[-1]
        slope = -2.0 * s * np.sqrt(s) * up
        return s[:, 0], slope, (6.0 * s * s)[:, :, None] * np.outer(up, up)

    def embed(self, x: Any) -> Any:
        xp = array_module(x)
        x = xp.asarray(x)
        square = xp.sum(x**2, axis=-1, keepdims=True)
        parts = [x[..., :-1], 0.5 * (square - 1.0), 0.5 * (square + 1.0)]
        return xp.concatenate(parts, axis=-1) / x[..., -1:]

    def _embed_vector(self, x: Any, v: Any) -> Any:
        xp = array_module(x)
        along = xp.sum(x * v, axis=-1, keepdims=True)
        change = xp.concatenate([v[..., :-1], along, along], axis=-1)
        return (change - self.embed(x) * v[..., -1:]) / x[..., -1:]

    def project(self, y: Any) -> Any:
        height = 1.0 / (y[..., -1:] - y[..., -2:-1])
        return array_module(y).concatenate([y[..., :-2] * height, height], axis=-1)

    def _project_vector(self, y: Any, w: Any) -> Any:
        height = 1.0 / (y[..., -1:] - y[..., -2:-1])
        rise = -(height**2) * (w[..., -1:] - w[..., -2:-1])
        return array_module(y).concatenate([w[..., :-2] * height + y[..., :-2] * rise, rise], -1)
