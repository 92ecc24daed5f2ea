"""Lengths of uncertain curves.

The length of a geodesic is stationary: a curve that is off by delta is too long by a quadratic
form in delta, and never too short. So the mean curve is too long by about as much as a draw from
the posterior exceeds it, beta on average. Averaging over draws would double that error. The
Gaussian given here therefore has the length of the mean curve as its mean, and as its variance
the mean square by which lengths of draws differ from that. Uncertain ends a and b change the
length to first order, by <c'(1), db> - <c'(0), da> over the speed, the first variation.
"""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from probgeo.gaussian import Gaussian
from probgeo.geometry.equation import Metric
from probgeo.ode.curve import Posterior

GAUSS = 5  # points between two nodes at which the length and its uncertainty are integrated
POINTS = 65  # that are kept of every curve
DRAWS_AT_ONCE = 16


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


class Measured(NamedTuple):
    """What is known of one curve on [0, 1]."""

    length: Float[Array, "..."]  # of the mean curve
    energy: Float[Array, "..."]
    numerical: Float[Array, "..."]  # variances of the length, by their source
    boundary: Float[Array, "..."]
    error: Float[Array, "..."]  # twice the largest numerical standard deviation of the curve
    extent: Float[Array, "..."]  # how far the curve gets from its beginning
    points: Float[Array, "... t d"]  # of the mean curve, relative to that, at equal steps


class Reach(NamedTuple):
    """Of one curve on [0, 1]."""

    error: Float[Array, "..."]  # twice its largest numerical standard deviation
    extent: Float[Array, "..."]  # how far it gets from its beginning


def gauss_rule(nodes: Float[Array, " n"], count: int) -> tuple[Array, Array]:
    """Times and weights of Gauss's rule on every interval between the nodes, on [0, 1].

    Intervals of the mesh, because the posterior mean oscillates about the truth at their scale.
    """
    breaks = jnp.concatenate([jnp.zeros(1), jnp.clip(nodes, 0.0, 1.0), jnp.ones(1)])
    x, w = np.polynomial.legendre.leggauss(count)
    steps = jnp.diff(breaks)[:, None]
    times = breaks[:-1, None] + steps * (0.5 * (x + 1.0))
    return times.reshape(-1), (steps * (0.5 * w)).reshape(-1)


def speeds(metric: Metric, c: Float[Array, "t d"], dc: Float[Array, "t d"]) -> Float[Array, " t"]:
    return jnp.sqrt(jax.vmap(metric.energy)(c, dc))


def measure_curve(metric: Metric, posterior: Posterior, nodes: Float[Array, " n"]) -> Measured:
    """Length of one posterior over curves on [0, 1], by linearisation, and its largest error."""
    times, weights = gauss_rule(nodes, GAUSS)
    everywhere = jnp.concatenate([times, jnp.linspace(0.0, 1.0, POINTS)])
    c, dc = posterior.mean(everywhere, 0), posterior.mean(everywhere, 1)
    points = c[times.size :] - c[times.size]
    along = speeds(metric, c[: times.size], dc[: times.size])
    length, energy = jnp.sum(weights * along), jnp.sum(weights * along**2)
    round_off = (16.0 * jnp.finfo(float).eps * length) ** 2
    excess = expected_excess(metric, posterior, times, weights, c[: times.size], dc[: times.size])
    spread = posterior.marginal(times, 0, "numerical")
    ends = np.array([times.size, -1])
    return Measured(
        length=length,
        energy=energy,
        numerical=excess**2 + round_off,
        boundary=first_variation(metric, posterior, c[ends], dc[ends]),
        error=2.0 * jnp.sqrt(jnp.max(jnp.trace(spread, axis1=1, axis2=2))),
        extent=jnp.sqrt(jnp.max(jnp.sum(points**2, axis=-1))),
        points=points,
    )


def expected_excess(
    metric: Metric, posterior: Posterior, times: Array, weights: Array, c: Array, dc: Array
) -> Float[Array, ""]:
    """beta: by how much draws are longer than the mean curve, from the numerical error alone.

    1/2 of the integral of |delta'|^2 across the curve, over the speed. Curvature is left out: it
    matters for slow errors only, and errors are mostly fast.
    """
    cov = posterior.marginal(times, 1, "numerical")

    def one(x: Array, v: Array, cov: Array) -> Array:
        tensor, Mv = metric(x), metric.apply(x, v)
        square = v @ Mv
        safe = jnp.where(square > 0, square, 1.0)
        across = jnp.sum(tensor * cov) - Mv @ cov @ Mv / safe
        return jnp.where(square > 0, 0.5 * jnp.maximum(across, 0.0) / jnp.sqrt(safe), 0.0)

    return jnp.sum(weights * jax.vmap(one)(c, dc, cov))


def first_variation(
    metric: Metric, posterior: Posterior, c: Float[Array, "2 d"], dc: Float[Array, "2 d"]
) -> Float[Array, ""]:
    """Variance of the length from uncertain ends."""
    cov = posterior.marginal(jnp.array([0.0, 1.0]), 0, "boundary")
    lowered = jax.vmap(metric.apply)(c, dc)
    square = jnp.sum(lowered * dc, axis=-1)
    variances = jnp.einsum("ti,tij,tj->t", lowered, cov, lowered)
    safe = jnp.where(square > 0, square, 1.0)
    return jnp.sum(jnp.where(square > 0, variances / safe, 0.0))


def direction(metric: Metric, a: Float[Array, " d"], v: Float[Array, " d"]) -> tuple[Array, Array]:
    """v scaled to unit length at a (zero if v is), and the projection across it."""
    lowered = metric.apply(a, v)
    square = v @ lowered
    safe = jnp.where(square > 0, square, 1.0)
    unit = v / jnp.sqrt(safe)
    return unit, jnp.eye(v.size) - jnp.outer(v, lowered) / safe


def draw_measures(
    metric: Metric, posterior: Posterior, nodes: Array, key: Array, n: int
) -> tuple[Float[Array, " n"], Float[Array, "n d"]]:
    """Lengths, and initial velocities scaled to them, of `n` draws from one posterior.

    Draws are known at the nodes and half-way between them, values and slopes, and cubic in
    between. Only so are the slopes those of the curve that is measured: the noise along the curve,
    which changes no length, is 1/std times larger than what does, and has to cancel.
    """
    breaks = jnp.concatenate([jnp.zeros(1), jnp.clip(nodes, 0.0, 1.0), jnp.ones(1)])
    halves = 0.5 * (breaks[1:] + breaks[:-1])
    times = jnp.sort(jnp.concatenate([breaks, halves]))
    draws = posterior.sample(key, n, times, (0, 1))

    def one(x: Float[Array, "2 t d"]) -> tuple[Array, Array]:
        length = hermite_length(metric, times, x[0], x[1])
        return length, length * direction(metric, x[0, 0], x[1, 0])[0]

    return jax.lax.map(one, draws, batch_size=DRAWS_AT_ONCE)


def hermite_length(
    metric: Metric, times: Float[Array, " t"], x: Float[Array, "t d"], v: Float[Array, "t d"]
) -> Float[Array, ""]:
    """Length of the curve with given values and slopes that is cubic in between."""
    h = jnp.diff(times)[:, None]
    step, m0, m1 = jnp.diff(x, axis=0), h * v[:-1], h * v[1:]
    nodes, weights = np.polynomial.legendre.leggauss(GAUSS)
    total = jnp.array(0.0)
    for s, w in zip(0.5 * (nodes + 1.0), 0.5 * weights, strict=True):
        c = x[:-1] + s**2 * (3 - 2 * s) * step + s * (1 - s) ** 2 * m0 + s**2 * (s - 1) * m1
        dc = 6 * s * (1 - s) * step + (1 - s) * (1 - 3 * s) * m0 + s * (3 * s - 2) * m1
        total = total + w * jnp.sum(speeds(metric, c, dc))  # slopes by s, so no step sizes
    return total


@eqx.filter_jit
def reach_batch(metric: Any, rows: tuple[Posterior, Array]) -> Reach:
    """How far curves go, and how uncertain they are."""

    def one(posterior: Posterior, nodes: Array) -> Reach:
        times, _ = gauss_rule(nodes, GAUSS)
        away = posterior.mean(times, 0) - posterior.mean(jnp.zeros(1), 0)
        spread = posterior.marginal(times, 0, "numerical")
        return Reach(
            2.0 * jnp.sqrt(jnp.max(jnp.trace(spread, axis1=1, axis2=2))),
            jnp.sqrt(jnp.max(jnp.sum(away**2, axis=-1))),
        )

    return jax.vmap(one)(*rows)


@eqx.filter_jit
def measure_batch(metric: Metric, rows: tuple[Posterior, Array]) -> Measured:
    return jax.vmap(lambda p, t: measure_curve(metric, p, t))(*rows)
