"""Curves given by points at equal steps of time: their energy, their length, finer versions."""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from probgeo._old._compile import compiled
from probgeo._old.geometry.equation import Metric

GAUSS = 6  # points a segment at which a smooth curve is measured


def straight(a: np.ndarray, b: np.ndarray, segments: int) -> np.ndarray:
    """Points (B, T + 1, D) of straight lines from a to b, both (B, D)."""
    t = np.linspace(0.0, 1.0, segments + 1)[:, None]
    return a[:, None] * (1 - t) + b[:, None] * t


def doubled(points: np.ndarray) -> np.ndarray:
    """Twice as many segments: points half-way on cubics through four neighbours.

    Beyond the ends the polygon is continued by reflection, which keeps straight lines straight.
    """
    before = 2.0 * points[:, :1] - points[:, 1:2]
    after = 2.0 * points[:, -1:] - points[:, -2:-1]
    wide = np.concatenate([before, points, after], axis=1)
    middle = (9.0 * (wide[:, 1:-2] + wide[:, 2:-1]) - wide[:, :-3] - wide[:, 3:]) / 16.0
    count, size, dimension = points.shape
    out = np.empty((count, 2 * size - 1, dimension))
    out[:, ::2], out[:, 1::2] = points, middle
    return out


def refined(points: np.ndarray, size: int) -> np.ndarray:
    """Doubled until there are `size` points."""
    while points.shape[1] < size:
        points = doubled(points)
    if points.shape[1] > size:
        raise ValueError("the numbers of segments of the starts must differ by powers of two")
    return points


def resized(points: np.ndarray, size: int) -> np.ndarray:
    """The same curves with another number of points, those on a straight line between."""
    if points.shape[1] == size:
        return points
    at = np.linspace(0.0, points.shape[1] - 1.0, size)
    left = np.minimum(at.astype(int), points.shape[1] - 2)
    share = (at - left)[:, None]
    return points[:, left] * (1 - share) + points[:, left + 1] * share


def resampled(path: np.ndarray, lengths: np.ndarray, segments: int) -> np.ndarray:
    """A polygon (P, D) with known lengths of its edges, as points at equal steps of length."""
    at = np.concatenate([[0.0], np.cumsum(lengths)])
    if at[-1] <= 0.0:
        return np.repeat(path[:1], segments + 1, axis=0)
    wanted = np.linspace(0.0, at[-1], segments + 1)
    columns = [np.interp(wanted, at, column) for column in path.T]
    return np.stack(columns, axis=1)


def discrete_energy(metric: Metric, x: Float[Array, "t+1 d"]) -> Float[Array, ""]:
    """Energy of a polygon, the metric taken at the middle of each segment."""
    u, middle = jnp.diff(x, axis=0), 0.5 * (x[1:] + x[:-1])
    return len(u) * jnp.sum(jax.vmap(metric.energy)(middle, u))


def smooth_measures(metric: Metric, x: Float[Array, "t+1 d"]) -> tuple[Array, Array]:
    """Energy and length of the smooth curve through the points: cubic pieces, Gauss's rule.

    No curve is shorter than the geodesic, so that this length is an upper bound of the distance.
    """
    slopes = jnp.concatenate([x[1:2] - x[:1], 0.5 * (x[2:] - x[:-2]), x[-1:] - x[-2:-1]])
    nodes, weights = np.polynomial.legendre.leggauss(GAUSS)
    s = jnp.asarray(0.5 * (nodes + 1.0))[:, None, None]
    c, dc = hermite(x[:-1], x[1:], slopes[:-1], slopes[1:], s)
    squares = jax.vmap(jax.vmap(metric.energy))(c, dc)
    w = jnp.asarray(0.5 * weights)[:, None]
    return (len(x) - 1.0) * jnp.sum(w * squares), jnp.sum(w * jnp.sqrt(squares))


def hermite(
    x0: Float[Array, "t d"],
    x1: Float[Array, "t d"],
    m0: Float[Array, "t d"],
    m1: Float[Array, "t d"],
    s: Float[Array, "..."],
) -> tuple[Float[Array, "... t d"], Float[Array, "... t d"]]:
    """Cubics from x0 to x1 with slopes m0 and m1 there, at s in [0, 1], and d/ds of them."""
    step = x1 - x0
    c = x0 + s**2 * (3 - 2 * s) * step + s * (1 - s) ** 2 * m0 + s**2 * (s - 1) * m1
    dc = 6 * s * (1 - s) * step + (1 - s) * (1 - 3 * s) * m0 + s * (3 * s - 2) * m1
    return c, dc


@compiled
def measure(metric: Metric, points: Float[Array, "b t+1 d"]) -> tuple[Array, Array]:
    """Energies and lengths of the smooth curves through a batch of points."""
    return jax.vmap(lambda x: smooth_measures(metric, x))(points)


@compiled
def coarseness(metric: Metric, points: Float[Array, "b t+1 d"]) -> Float[Array, " b"]:
    """Relative difference between the energies of polygons and of the curves through them."""
    coarse = jax.vmap(lambda x: discrete_energy(metric, x))(points)
    fine, _ = measure(metric, points)
    return jnp.abs(coarse - fine) / jnp.maximum(fine, jnp.finfo(float).tiny)
