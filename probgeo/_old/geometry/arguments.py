"""Points and tangent vectors as users give them, checked and brought to rows (B, D)."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from probgeo._old._checks import as_float_array
from probgeo._old._compile import compiled
from probgeo._old.gaussian import Gaussian
from probgeo._old.geometry.equation import Metric, as_metric
from probgeo._old.geometry.polyline import resized
from probgeo._old.geometry.rows import padded
from probgeo._old.ode.curve import Curve

GUESS_POINTS = 33  # at which a curve that serves as a guess is looked at
POINTS_AT_ONCE = 1024


def as_vectors(name: str, value: Any) -> Float[Array, "*batch d"]:
    """`value` as finite vectors (..., D)."""
    array = as_float_array(name, value)
    if array.ndim == 0 or array.shape[-1] == 0:
        raise ValueError(f"{name} must have shape (..., D), got {array.shape}")
    return array


def as_gaussian(name: str, value: Any) -> Gaussian:
    if isinstance(value, Gaussian):
        return Gaussian.unchecked(as_vectors(name, value.mean), value.cov)
    mean = as_vectors(name, value)
    return Gaussian.unchecked(mean, jnp.asarray(np.zeros((*mean.shape, mean.shape[-1]))))


def check_dimensions(metric: Metric, shapes: dict[str, tuple[int, ...]]) -> None:
    """That all arguments are vectors of one size D, and of a size that the metric takes."""
    known = _dimension_of(metric)
    for name, shape in shapes.items():
        if known is not None and shape[-1] != known:
            raise ValueError(f"{name} must have shape (..., {known}), got {shape}")
    if len({shape[-1] for shape in shapes.values()}) > 1:
        raise ValueError(f"the last axes must be of one size D, got {_listed(shapes)}")
    if known is None:
        as_metric(metric, next(iter(shapes.values()))[-1])


def _dimension_of(metric: Any) -> int | None:
    """The number of coordinates, if the metric says so."""
    if isinstance(getattr(metric, "dimension", None), int):
        return metric.dimension
    array = getattr(metric, "centers", getattr(metric, "A", None))
    return None if array is None else array.shape[-1]


def as_rows_of_points(
    metric: Metric, given: dict[str, Gaussian]
) -> tuple[tuple[int, ...], list[np.ndarray]]:
    """The common shape (..., D), and the means as rows (B, D)."""
    shapes = {name: g.mean.shape for name, g in given.items()}
    check_dimensions(metric, shapes)
    try:
        shape = np.broadcast_shapes(*shapes.values())
    except ValueError as error:
        raise ValueError(f"the leading axes must broadcast, got {_listed(shapes)}") from error
    means = [np.broadcast_to(np.asarray(g.mean), shape) for g in given.values()]
    rows = [mean.reshape(-1, shape[-1]) for mean in means]
    if not len(rows[0]):
        raise ValueError(f"there must be at least one point, got {_listed(shapes)}")
    return shape, rows


def with_spread(
    mean: np.ndarray, given: Gaussian, shape: tuple[int, ...], index: np.ndarray
) -> Any:
    """Rows of means with the covariances of what was given; the means alone if it is certain."""
    if not np.any(np.asarray(given.cov)):
        return mean
    cov = np.broadcast_to(np.asarray(given.cov), (*shape, shape[-1]))
    return Gaussian.unchecked(
        jnp.asarray(mean), jnp.asarray(cov.reshape(-1, *cov.shape[-2:])[index])
    )


def where_positive(metric: Metric, points: dict[str, np.ndarray]) -> np.ndarray:
    """The members at whose points the metric is one; if there are none that is an error."""
    usable = np.ones(len(next(iter(points.values()))), dtype=bool)
    for name, x in points.items():
        here = padded(_positive, metric, x, most=POINTS_AT_ONCE)
        usable &= here
        if not usable.any():
            bad = x[np.flatnonzero(~here)[0]]
            raise ValueError(f"the metric must be positive definite at {name}, got {name} = {bad}")
    return usable


@compiled
def _positive(metric: Metric, x: Float[Array, "b d"]) -> Array:
    # Cholesky's factor is NaN if there is none
    factors = jnp.linalg.cholesky(jax.vmap(metric)(x))
    return jnp.all(jnp.isfinite(factors), axis=(1, 2))


def guess_points(
    guess: Any, shape: tuple[int, ...], a: np.ndarray, b: np.ndarray
) -> np.ndarray | None:
    """A guess as points (B, T, D), bent so that it begins in a and ends in b."""
    if guess is None:
        return None
    if isinstance(guess, Curve):
        t0, t1 = np.asarray(guess.t_span)
        points = np.asarray(guess.mean(np.linspace(t0, t1, GUESS_POINTS)))
    else:
        points = np.asarray(as_float_array("guess", guess))
    wanted = (*shape[:-1], *points.shape[-2:])
    if points.ndim < 2 or points.shape[-2] < 2 or points.shape[-1] != shape[-1]:
        raise ValueError(f"guess must be a Curve or have shape (..., T, D), got {points.shape}")
    try:
        points = np.broadcast_to(points, wanted)
    except ValueError as error:
        raise ValueError(f"guess must broadcast to {wanted}, got {points.shape}") from error
    points = resized(points.reshape(len(a), *points.shape[-2:]), GUESS_POINTS)
    t = np.linspace(0.0, 1.0, points.shape[1])[:, None]
    begin, end = (a - points[:, 0])[:, None], (b - points[:, -1])[:, None]
    return points + (1 - t) * begin + t * end


def _listed(shapes: dict[str, tuple[int, ...]]) -> str:
    return " and ".join(f"{name} {shape}" for name, shape in shapes.items())
