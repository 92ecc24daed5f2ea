"""Spaces of constant curvature in coordinates: everything about them is known in closed form.

The sphere of curvature +1 and hyperbolic space of curvature -1 are both a quadric
<y, y> = kappa in R^(D+1), in the inner product <y, z> = y_1 z_1 + ... + y_D z_D + kappa y_0 z_0
whose last coordinate counts negatively if kappa = -1. A chart says how its coordinates map to this
quadric; exponential map, logarithm, distance and parallel transport are then the same formulas for
all, with sin and cos or sinh and cosh. They do not know the geodesic equation, so that they can
serve as a reference for it.
"""

from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from probgeo._old._checks import as_float_array, as_whole_number, is_concrete
from probgeo._old.geometry.metrics.conformal import ConformallyFlat
from probgeo._old.geometry.metrics.flat import Flat

__all__ = ["Flat", "HalfPlane", "PoincareBall", "Sphere"]


class Chart(ConformallyFlat):
    """Coordinates x (..., D) of a space of constant curvature; leading axes are a batch.

    Outside of the chart the metric is NaN.

    Parameters
    ----------
    dimension : int
    """

    dimension: int = eqx.field(static=True)
    curvature: ClassVar[int]

    def __init__(self, dimension: int = 2) -> None:
        self.dimension = as_whole_number("dimension", dimension, 1)

    def embed(self, x: Float[Array, "*batch d"]) -> Float[Array, "*batch d+1"]:
        """The point of the quadric with coordinates x."""
        raise NotImplementedError(f"{type(self).__name__} must define embed(x)")

    def project(self, y: Float[Array, "*batch d+1"]) -> Float[Array, "*batch d"]:
        """The coordinates of a point of the quadric."""
        raise NotImplementedError(f"{type(self).__name__} must define project(y)")

    def contains(self, x: Float[Array, "*batch d"]) -> Array:
        """Whether x lies in the chart."""
        raise NotImplementedError(f"{type(self).__name__} must define contains(x)")

    def exp(self, a: Any, v: Any) -> Float[Array, "*batch d"]:
        """Where the geodesic from a with velocity v is after unit time."""
        a, v = jnp.broadcast_arrays(self._point("a", a), self._vector("v", v))
        y, w = jax.jvp(self.embed, (a,), (v,))
        angle = jnp.sqrt(self.scale(a) * jnp.sum(v**2, axis=-1))[..., None]
        cosine = jnp.cos(angle) if self.curvature > 0 else jnp.cosh(angle)
        return self.project(cosine * y + self._sine_ratio(angle) * w)

    def log(self, a: Any, b: Any) -> Float[Array, "*batch d"]:
        """The velocity at a of the shortest geodesic that is at b after unit time."""
        a, b = jnp.broadcast_arrays(self._point("a", a), self._point("b", b))
        y, z = self.embed(a), self.embed(b)
        # z less its part along y, written so that close points do not cancel
        w = (z - y) + 0.5 * self.curvature * self._chord_squared(a, b)[..., None] * y
        w = w / self._sine_ratio(self.distance(a, b)[..., None])
        return jax.jvp(self.project, (y,), (w,))[1]

    def distance(self, a: Any, b: Any) -> Float[Array, "*batch"]:
        """Length of the shortest curve from a to b."""
        half = 0.5 * jnp.sqrt(self._chord_squared(self._point("a", a), self._point("b", b)))
        if self.curvature < 0:
            return 2.0 * jnp.arcsinh(half)
        return 2.0 * jnp.arcsin(jnp.minimum(half, 1.0))

    def transport(self, a: Any, b: Any, v: Any) -> Float[Array, "*batch d"]:
        """v at a, carried parallel to itself along the shortest geodesic to b."""
        a, b, v = jnp.broadcast_arrays(
            self._point("a", a), self._point("b", b), self._vector("v", v)
        )
        y, w = jax.jvp(self.embed, (a,), (v,))
        z = self.embed(b)
        along = self.curvature * jnp.sum(self._lower(z) * w, axis=-1)
        reach = 2.0 - 0.5 * self.curvature * self._chord_squared(a, b)  # 1 + kappa <y, z>
        moved = w - (along / reach)[..., None] * (y + z)
        return jax.jvp(self.project, (z,), (moved,))[1]

    def _chord_squared(self, a: Array, b: Array) -> Array:
        """<z - y, z - y> of the embedded points; the same formula in all charts."""
        return jnp.sqrt(self.scale(a) * self.scale(b)) * jnp.sum((b - a) ** 2, axis=-1)

    def _lower(self, y: Array) -> Array:
        return y.at[..., -1].multiply(self.curvature)

    def _sine_ratio(self, angle: Array) -> Array:
        """sin(angle) / angle, or the same with sinh."""
        if self.curvature > 0:
            return jnp.sinc(angle / jnp.pi)
        small = angle < 1e-3  # the next term of the series, angle^4 / 120, is below round-off
        safe = jnp.where(small, 1.0, angle)
        return jnp.where(small, 1.0 + angle**2 / 6.0, jnp.sinh(safe) / safe)

    def _point(self, name: str, value: Any) -> Array:
        x = self._vector(name, value)
        if is_concrete(x) and not np.all(self.contains(x)):
            raise ValueError(f"{name} must lie in the {type(self).__name__} chart, got {x}")
        return x

    def _vector(self, name: str, value: Any) -> Array:
        x = as_float_array(name, value)
        if x.ndim == 0 or x.shape[-1] != self.dimension:
            raise ValueError(f"{name} must have shape (..., {self.dimension}), got {x.shape}")
        return x


class Sphere(Chart):
    """The unit sphere in R^(D+1) without its north pole, in stereographic coordinates.

    M(x) = 4 / (1 + |x|^2)^2 I. The origin is the south pole, the unit circle the equator.

    Examples
    --------
    >>> float((Sphere().distance([1.0, 0.0], [0.0, 0.0]) / jnp.pi).round(12))  # equator to pole
    0.5
    """

    curvature: ClassVar[int] = 1

    def scale(self, x: Float[Array, "*batch d"]) -> Float[Array, "*batch"]:
        return 4.0 / (1.0 + jnp.sum(x**2, axis=-1)) ** 2

    def contains(self, x: Float[Array, "*batch d"]) -> Array:
        return jnp.isfinite(x).all(axis=-1)

    def embed(self, x: Float[Array, "*batch d"]) -> Float[Array, "*batch d+1"]:
        square = jnp.sum(x**2, axis=-1, keepdims=True)
        return jnp.concatenate([2.0 * x, square - 1.0], axis=-1) / (1.0 + square)

    def project(self, y: Float[Array, "*batch d+1"]) -> Float[Array, "*batch d"]:
        return y[..., :-1] / (1.0 - y[..., -1:])


class PoincareBall(Chart):
    """Hyperbolic space in the unit ball: M(x) = 4 / (1 - |x|^2)^2 I.

    Examples
    --------
    >>> float(PoincareBall().distance([0.0, 0.0], [jnp.tanh(0.5), 0.0]).round(12))
    1.0
    """

    curvature: ClassVar[int] = -1

    def scale(self, x: Float[Array, "*batch d"]) -> Float[Array, "*batch"]:
        return jnp.where(self.contains(x), 4.0 / (1.0 - jnp.sum(x**2, axis=-1)) ** 2, jnp.nan)

    def contains(self, x: Float[Array, "*batch d"]) -> Array:
        return jnp.sum(x**2, axis=-1) < 1.0

    def embed(self, x: Float[Array, "*batch d"]) -> Float[Array, "*batch d+1"]:
        square = jnp.sum(x**2, axis=-1, keepdims=True)
        return jnp.concatenate([2.0 * x, 1.0 + square], axis=-1) / (1.0 - square)

    def project(self, y: Float[Array, "*batch d+1"]) -> Float[Array, "*batch d"]:
        return y[..., :-1] / (1.0 + y[..., -1:])


class HalfPlane(Chart):
    """Hyperbolic space in the half plane (half space) x_D > 0: M(x) = I / x_D^2.

    Examples
    --------
    >>> float(HalfPlane().distance([0.3, 1.0], [0.3, jnp.e]).round(12))
    1.0
    """

    curvature: ClassVar[int] = -1

    def scale(self, x: Float[Array, "*batch d"]) -> Float[Array, "*batch"]:
        return jnp.where(self.contains(x), 1.0 / x[..., -1] ** 2, jnp.nan)

    def contains(self, x: Float[Array, "*batch d"]) -> Array:
        return x[..., -1] > 0.0

    def embed(self, x: Float[Array, "*batch d"]) -> Float[Array, "*batch d+1"]:
        height = x[..., -1:]
        square = jnp.sum(x**2, axis=-1, keepdims=True)
        ends = [0.5 * (square - 1.0), 0.5 * (square + 1.0)]
        return jnp.concatenate([x[..., :-1], *ends], axis=-1) / height

    def project(self, y: Float[Array, "*batch d+1"]) -> Float[Array, "*batch d"]:
        height = 1.0 / (y[..., -1:] - y[..., -2:-1])
        return jnp.concatenate([y[..., :-2] * height, height], axis=-1)
