"""The ODEs of geometry: geodesics, and vectors carried along a curve without turning."""

from typing import Any

import equinox as eqx
import jax
from jaxtyping import Array, Float

from probgeo._old.geometry.equation import Metric
from probgeo._old.ode.curve import Posterior


def turn(metric: Metric, x: Array, u: Array, v: Array) -> Float[Array, " d"]:
    """-Gamma(u, v), symmetric in u and v.

    The acceleration of geodesics is -Gamma(u, u): half its derivative by u, along v, is what is
    wanted, without the D^3 Christoffel symbols.
    """
    return 0.5 * jax.jvp(lambda w: metric.acceleration(x, w), (u,), (v,))[1]


class TransportField(eqx.Module):
    """v' = -Gamma(c', v) along the mean of a curve on [0, 1]."""

    metric: Metric

    def __call__(self, t: Array, v: Array, posterior: Posterior) -> Float[Array, " d"]:
        return turn(self.metric, posterior.mean(t, 0), posterior.mean(t, 1), v)


class GeodesicField(eqx.Module):
    """c'' of geodesics, for curves relative to an origin.

    A module, not a closure, so that another metric of the same kind compiles nothing anew.
    """

    metric: Metric

    def __call__(self, t: Any, z: Array, v: Array, origin: Array) -> Float[Array, " d"]:
        return self.metric.acceleration(origin + z, v)

    def jacobian(self, t: Any, z: Array, v: Array, origin: Array) -> Float[Array, "d 2 d"]:
        return self.metric.acceleration_jacobian(origin + z, v)
