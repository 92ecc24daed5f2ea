"""Points and tangent vectors as users give them, checked and brought to rows (B, D)."""

from typing import Any

import numpy as np

from probgeo._checks import as_float_array, is_traced, page
from probgeo._loops import loop
from probgeo.gaussian import Gaussian
from probgeo.metrics import Metric, as_metric

WHICH_METRIC = page("concepts/which_metric")


def as_vectors(name: str, value: Any) -> np.ndarray:
    """`value` as finite vectors (..., D)."""
    array = as_float_array(name, value)
    if is_traced(array):
        raise TypeError(
            f"{name} must be known numbers: geodesics cannot be traced by JAX; "
            "use probgeo outside of jax.jit, jax.vmap and jax.grad"
        )
    if array.ndim == 0 or array.shape[-1] == 0:
        raise ValueError(f"{name} must have shape (..., D), got {array.shape}")
    return array


def as_gaussian(name: str, value: Any) -> Gaussian:
    """`value` as a Gaussian over vectors; certain unless it is one already."""
    if isinstance(value, Gaussian):
        return Gaussian.unchecked(as_vectors(name, value.mean), np.asarray(value.cov))
    mean = as_vectors(name, value)
    return Gaussian.unchecked(mean, np.zeros((*mean.shape, mean.shape[-1])))


def check_dimensions(metric: Metric, shapes: dict[str, tuple[int, ...]]) -> None:
    """That all arguments are vectors of one size D, and of a size that the metric takes."""
    known = metric.dimension
    for name, shape in shapes.items():
        if known is not None and shape[-1] != known:
            raise ValueError(f"{name} must have shape (..., {known}), got {shape}")
    if len({shape[-1] for shape in shapes.values()}) > 1:
        raise ValueError(f"the last axes must be of one size D, got {_listed(shapes)}")
    if known is None:
        as_metric(metric, next(iter(shapes.values()))[-1])


def as_rows(
    metric: Metric, given: dict[str, Gaussian]
) -> tuple[tuple[int, ...], list[np.ndarray], list[np.ndarray | None]]:
    """The common shape (..., D), means as rows (B, D), and covariances (B, D, D) or None."""
    shapes = {name: g.mean.shape for name, g in given.items()}
    check_dimensions(metric, shapes)
    try:
        shape = np.broadcast_shapes(*shapes.values())
    except ValueError as error:
        raise ValueError(f"the leading axes must broadcast, got {_listed(shapes)}") from error
    if not np.prod(shape):
        raise ValueError(f"there must be at least one point, got {_listed(shapes)}")
    D = shape[-1]
    means = [np.array(np.broadcast_to(g.mean, shape)).reshape(-1, D) for g in given.values()]
    covs = [
        np.array(np.broadcast_to(g.cov, (*shape, D))).reshape(-1, D, D) if np.any(g.cov) else None
        for g in given.values()
    ]
    return shape, means, covs


@loop
def find_definite(tensors: np.ndarray, good: np.ndarray) -> None:
    """Whether matrices (n, D, D) are positive definite, by Cholesky's method; they are spent."""
    D = tensors.shape[1]
    for n in range(len(tensors)):
        good[n] = True
        A = tensors[n]
        for k in range(D):
            if not (A[k, k] > 0.0 and A[k, k] < np.inf):
                good[n] = False
                break
            for r in range(k + 1, D):
                factor = A[k, r] / A[k, k]
                for c in range(r, D):
                    A[r, c] -= factor * A[k, c]


def where_definite(metric: Metric, points: dict[str, np.ndarray]) -> np.ndarray:
    """The members at whose points the metric is one; if there are none that is an error."""
    usable = np.ones(len(next(iter(points.values()))), dtype=bool)
    for name, x in points.items():
        here = np.empty(len(x), dtype=bool)
        find_definite(np.array(metric.tensors_at(x)), here)
        usable &= here
        if not usable.any():
            bad = x[np.flatnonzero(~here)[0]]
            raise ValueError(
                f"the metric must be positive definite at {name}, got {name} = {bad}; what may help: {WHICH_METRIC}"
            )
    return usable


def _listed(shapes: dict[str, tuple[int, ...]]) -> str:
    return " and ".join(f"{name} {shape}" for name, shape in shapes.items())
