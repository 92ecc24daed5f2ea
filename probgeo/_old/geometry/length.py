"""Lengths of uncertain curves.

The length of a geodesic is stationary: a curve that is off by delta is too long by a quadratic
form in delta, and never too short. So the mean curve is too long by about as much as a draw from
the posterior exceeds it, beta on average. Averaging over draws would double that error. The
Gaussian given here therefore has the length of the mean curve as its mean, and as its variance
the mean square by which lengths of draws differ from that. Uncertain ends a and b change the
length to first order, by <c'(1), db> - <c'(0), da> over the speed, the first variation.
"""

from typing import TYPE_CHECKING, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from probgeo._old._checks import is_concrete
from probgeo._old._compile import compiled
from probgeo._old.gaussian import SHOWN, Gaussian, with_error
from probgeo._old.geometry.equation import Metric
from probgeo._old.geometry.polyline import hermite
from probgeo._old.ode.curve import Posterior, map_on_one_mesh
from probgeo._old.ode.export import table

if TYPE_CHECKING:
    import pandas

GAUSS = 5  # points between two nodes at which lengths are integrated,
GAUSS_OF_SPREAD = 2  # and their uncertainty
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
        if not is_concrete(self) or self.mean.size > SHOWN:
            return f"ScalarGaussian(batch={self.mean.shape})"
        return f"ScalarGaussian({with_error(self.mean, self.std)})"

    def summary(self) -> "pandas.DataFrame":
        """A table of pandas: mean and standard deviation of every member of the batch."""
        columns = {"mean": self.mean, "std": self.std}
        return table(columns, self.mean.shape)


class Measured(NamedTuple):
    """What is known of one curve on [0, 1]."""

    length: Float[Array, "..."]  # of the mean curve
    energy: Float[Array, "..."]
    numerical: Float[Array, "..."]  # variances of the length, by their source
    boundary: Float[Array, "..."]


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
    """Length of one posterior over curves on [0, 1], by linearisation."""
    times, weights = gauss_rule(nodes, GAUSS)
    fewer, their_weights = gauss_rule(nodes, GAUSS_OF_SPREAD)
    everywhere = jnp.concatenate([times, fewer, jnp.array([0.0, 1.0])])
    # interpolated all at once, because that is long to compile
    parts = [times.size, times.size + fewer.size]
    c, dc = (jnp.split(posterior.mean(everywhere, d), parts) for d in (0, 1))
    along = speeds(metric, c[0], dc[0])
    length, energy = jnp.sum(weights * along), jnp.sum(weights * along**2)
    round_off = (16.0 * jnp.finfo(float).eps * length) ** 2
    return Measured(
        length=length,
        energy=energy,
        numerical=(their_weights @ excess(metric, posterior, fewer, c[1], dc[1])) ** 2 + round_off,
        boundary=first_variation(metric, posterior, c[2], dc[2]),
    )


def excess(
    metric: Metric,
    posterior: Posterior,
    times: Float[Array, " t"],
    c: Float[Array, "t d"],
    dc: Float[Array, "t d"],
) -> Float[Array, " t"]:
    """Of which beta is the integral: what draws are longer than the mean curve, by the numerics.

    1/2 of |delta'|^2 across the curve, over the speed. Curvature is left out: it matters for slow
    errors only, and errors are mostly fast.
    """
    cov = posterior.marginal(times, 1, "numerical")

    def across(x: Array, v: Array) -> Float[Array, "d d"]:
        """M without what it measures along v, over twice the speed."""
        Mv = metric.apply(x, v)
        square = v @ Mv
        safe = jnp.where(square > 0, square, 1.0)
        form = 0.5 * (metric(x) - jnp.outer(Mv, Mv) / safe) / jnp.sqrt(safe)
        return jnp.where(square > 0, form, 0.0)

    return jnp.maximum(jnp.sum(jax.vmap(across)(c, dc) * cov, axis=(1, 2)), 0.0)


def first_variation(
    metric: Metric, posterior: Posterior, c: Float[Array, "2 d"], dc: Float[Array, "2 d"]
) -> Float[Array, ""]:
    """Variance of the length from uncertain ends c, with the velocities there."""
    cov = posterior.marginal(jnp.array([0.0, 1.0]), 0, "boundary")
    lowered = jax.vmap(metric.apply)(c, dc)
    square = jnp.sum(lowered * dc, axis=-1)
    variances = jnp.einsum("ti,tij,tj->t", lowered, cov, lowered)
    safe = jnp.where(square > 0, square, 1.0)
    return jnp.sum(jnp.where(square > 0, variances / safe, 0.0))


def direction(metric: Metric, a: Float[Array, " d"], v: Float[Array, " d"]) -> Float[Array, " d"]:
    """v scaled to unit length at a; zero if v is."""
    square = metric.energy(a, v)
    return v / jnp.sqrt(jnp.where(square > 0, square, 1.0))


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
        return length, length * direction(metric, x[0, 0], x[1, 0])

    return jax.lax.map(one, draws, batch_size=DRAWS_AT_ONCE)


def hermite_length(
    metric: Metric, times: Float[Array, " t"], x: Float[Array, "t d"], v: Float[Array, "t d"]
) -> Float[Array, ""]:
    """Length of the curve with given values and slopes that is cubic in between."""
    # slopes by a unit of every piece, of which each has its own step size
    h = jnp.diff(times)[:, None]
    nodes, weights = np.polynomial.legendre.leggauss(GAUSS)
    total = jnp.array(0.0)
    for s, w in zip(0.5 * (nodes + 1.0), 0.5 * weights, strict=True):
        c, dc = hermite(x[:-1], x[1:], h * v[:-1], h * v[1:], jnp.asarray(s))
        total = total + w * jnp.sum(speeds(metric, c, dc))
    return total


@compiled
def measure_batch(metric: Metric, rows: tuple[Posterior, Array]) -> Measured:
    """Lengths of curves that share their nodes."""
    posterior, nodes = rows
    return map_on_one_mesh(lambda p: measure_curve(metric, p, nodes[0]), posterior)
