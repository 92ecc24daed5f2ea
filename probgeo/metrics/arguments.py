"""Checks on data and tensors. Each error names the argument, what was given and what is right."""

from typing import Any

import numpy as np

from probgeo._checks import as_float_array
from probgeo.functions import JaxFunction, NumpyFunction, TorchFunction
from probgeo.functions.row_function import asymmetry


def as_points(name: str, value: Any, least: int = 1) -> np.ndarray:
    """`value` as at least `least` finite points (N, D)."""
    points = as_float_array(name, value)
    if points.ndim != 2 or points.shape[1] == 0:
        raise ValueError(f"{name} must have shape (N, D), one point a row, got {points.shape}")
    if len(points) < least:
        raise ValueError(f"{name} must hold at least {least} points, got {len(points)}")
    return points


def as_distinct_points(name: str, value: Any, least: int = 1) -> np.ndarray:
    """`value` as data (N, D) that do not all coincide."""
    data = as_points(name, value, least)
    if np.all(data == data[0]):
        raise ValueError(f"{name} must hold distinct points, got {len(data)} copies of {data[0]}")
    return data


def as_tensors(name: str, value: Any, count: int, dimension: int) -> np.ndarray:
    """`value` as `count` metric tensors: positive definite (K, D, D), or positive (K, D)."""
    tensors = as_float_array(name, value)
    shapes = (count, dimension), (count, dimension, dimension)
    if tensors.shape not in shapes:
        raise ValueError(
            f"{name} must have shape {shapes[1]}, or {shapes[0]} if diagonal, to go with "
            f"{count} centers in {dimension} dimensions, got {tensors.shape}"
        )
    if tensors.ndim == 2:
        if not np.all(tensors > 0):
            k, d = np.argwhere(tensors <= 0)[0]
            raise ValueError(f"diagonal {name} must be positive, got {name}[{k}, {d}] = {tensors[k, d]:.3g}")
        return tensors
    for k, tensor in enumerate(tensors):
        check_tensor(f"{name}[{k}]", tensor)
    # round-off aside they are symmetric; now they are exactly
    return 0.5 * (tensors + tensors.swapaxes(1, 2))


def check_tensor(name: str, tensor: np.ndarray) -> None:
    """That a finite (D, D) matrix is symmetric and positive definite."""
    gap, symmetric = asymmetry(tensor)
    if not symmetric:
        raise ValueError(f"{name} must be symmetric, got entries that differ by {gap:.3g}")
    eigenvalues = np.linalg.eigvalsh(tensor)
    if not is_positive_definite(eigenvalues):
        raise ValueError(
            f"{name} must be positive definite, got eigenvalues from {eigenvalues[0]:.3g} to {eigenvalues[-1]:.3g}"
        )


def is_positive_definite(eigenvalues: np.ndarray) -> np.ndarray:
    """Whether ascending eigenvalues (..., D) are positive beyond the round-off in them."""
    noise = eigenvalues.shape[-1] * np.finfo(float).eps
    return eigenvalues[..., 0] > noise * np.abs(eigenvalues[..., -1])


def as_function(name: str, value: Any) -> Any:
    """`value`, if it is a function, or one wrapped to say how it is written."""
    if not callable(unwrapped(value)):
        raise TypeError(f"{name} must be a function, got {type(value).__name__}")
    return value


def unwrapped(function: Any) -> Any:
    """The function itself, if it was wrapped to say how it is written."""
    wrappers = (JaxFunction, NumpyFunction, TorchFunction)
    return function.f if isinstance(function, wrappers) else function


def far_apart(points: np.ndarray, most: int) -> np.ndarray:
    """Numbers of at most so many of the points (N, D): the first, then always the farthest from all."""
    if len(points) <= most:
        return np.arange(len(points))
    chosen = [0]
    nearest = np.sum((points - points[0]) ** 2, axis=1)
    while len(chosen) < most:
        chosen.append(int(np.argmax(nearest)))
        nearest = np.minimum(nearest, np.sum((points - points[chosen[-1]]) ** 2, axis=1))
    return np.array(chosen)
