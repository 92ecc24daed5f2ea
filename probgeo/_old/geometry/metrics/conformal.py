"""Metrics that are a positive multiple of a simpler one."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from probgeo._old.geometry.equation import Metric, as_metric
from probgeo._old.geometry.inputs import as_function
from probgeo._old.geometry.metrics.flat import Flat


class ConformallyFlat(Metric):
    """M(x) = scale(x) I, given by one method, `scale`: angles are those one sees."""

    def scale(self, x: Float[Array, "*batch d"]) -> Float[Array, "*batch"]:
        """The positive factor."""
        raise NotImplementedError(f"{type(self).__name__} must define scale(x)")

    def __call__(self, x: Float[Array, " d"]) -> Float[Array, "d d"]:
        return self.scale(x) * jnp.eye(x.shape[-1])

    def apply(self, x: Float[Array, " d"], v: Float[Array, " d"]) -> Float[Array, " d"]:
        return self.scale(x) * v

    def solve(self, x: Float[Array, " d"], p: Float[Array, " d"]) -> Float[Array, " d"]:
        return p / self.scale(x)

    def acceleration(self, x: Float[Array, " d"], v: Float[Array, " d"]) -> Float[Array, " d"]:
        g = _log_gradient(self.scale, x)
        return 0.5 * (v @ v) * g - (g @ v) * v


class Conformal(Metric):
    """M(x) = scale(x) B(x): the metric B with its unit of length changed from place to place.

    Parameters
    ----------
    scale : function x (D,) -> positive number
    base : metric, optional
        B, by default the identity.

    With g the gradient of log scale, the geodesic equation is that of B with
    1/2 (c' B c') B^-1 g - (g . c') c' added.

    Examples
    --------
    >>> metric = Conformal(lambda x: 1.0 + x @ x)
    >>> metric.acceleration(jnp.array([1.0, 0.0]), jnp.array([0.0, 2.0])).tolist()
    [2.0, 0.0]
    """

    factor: Callable
    base: Metric

    def __init__(self, scale: Callable, base: Any = None) -> None:
        self.factor = as_function("scale", scale)
        self.base = Flat() if base is None else as_metric(base)

    def scale(self, x: Float[Array, " d"]) -> Float[Array, ""]:
        """The positive factor."""
        return self.factor(x)

    def __call__(self, x: Float[Array, " d"]) -> Float[Array, "d d"]:
        return self.scale(x) * self.base(x)

    def apply(self, x: Float[Array, " d"], v: Float[Array, " d"]) -> Float[Array, " d"]:
        return self.scale(x) * self.base.apply(x, v)

    def solve(self, x: Float[Array, " d"], p: Float[Array, " d"]) -> Float[Array, " d"]:
        return self.base.solve(x, p) / self.scale(x)

    def energy(self, x: Float[Array, " d"], v: Float[Array, " d"]) -> Float[Array, ""]:
        return self.scale(x) * self.base.energy(x, v)

    def acceleration(self, x: Float[Array, " d"], v: Float[Array, " d"]) -> Float[Array, " d"]:
        g = _log_gradient(self.scale, x)
        turn = 0.5 * self.base.energy(x, v) * self.base.solve(x, g)
        return self.base.acceleration(x, v) + turn - (g @ v) * v


def _log_gradient(scale: Callable, x: Float[Array, " d"]) -> Float[Array, " d"]:
    """Gradient of log scale(x)."""
    value, gradient = jax.value_and_grad(scale)(x)
    return gradient / value
