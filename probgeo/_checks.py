"""Checks on what users pass in. Each error names the argument, what was given and what is right.

Numbers inside a JAX transformation are not known yet: such values are passed on as they are, with
only their shapes looked at.
"""

import sys
from collections.abc import Callable
from typing import Any

import numpy as np


def is_traced(*values: Any) -> bool:
    """Whether any of some arrays is a stand-in of JAX (under `jit`, `vmap` or `grad`)."""
    jax = sys.modules.get("jax")
    return jax is not None and any(isinstance(value, jax.core.Tracer) for value in values)


def page(name: str) -> str:
    """The address of a page of the documentation."""
    return f"the page {name!r} of the documentation"


def as_float_array(name: str, value: Any) -> Any:
    """`value` as a float64 array of its own without NaN or infinity."""
    if is_traced(value):
        return value
    array = as_numbers(name, value)
    if not np.all(np.isfinite(array)):
        raise ValueError(f"{name} must be finite, got {array}")
    return array


def as_numbers(name: str, value: Any) -> np.ndarray:
    """`value` as a float64 array of its own, NaN and infinity included."""
    try:
        numbers = np.asarray(value)
    except (TypeError, ValueError) as error:
        raise TypeError(f"{name} must be an array of numbers, got {value!r}") from error
    if numbers.dtype.kind not in "biuf":
        raise TypeError(f"{name} must be an array of numbers, got {value!r}")
    return np.array(numbers, dtype=np.float64, order="C")


def as_covariance(name: str, value: Any, shape: tuple[int, ...]) -> Any:
    """`value` as an array of symmetric positive semi-definite matrices, broadcast to `shape`."""
    if is_traced(value):
        return value
    given = as_float_array(name, value)
    try:
        cov = np.array(np.broadcast_to(given, shape))
    except ValueError as error:
        raise ValueError(f"{name} must have shape {shape}, got {given.shape}") from error
    if given.shape[-2:] != shape[-2:]:  # a number would fill the whole matrix
        raise ValueError(f"{name} must have shape {shape}, got {given.shape}")
    size = np.abs(cov).max(initial=0.0)
    if not np.allclose(cov, cov.swapaxes(-1, -2), rtol=1e-9, atol=1e-12 * size):
        raise ValueError(f"{name} must be symmetric")
    smallest = np.linalg.eigvalsh(cov).min(initial=0.0)
    if smallest < -1e-9 * size:
        raise ValueError(f"{name} must be positive semi-definite, got an eigenvalue {smallest:.3g}")
    return cov


def as_positive_definite(name: str, value: Any, dimension: int) -> np.ndarray:
    """`value` as one symmetric positive definite (D, D) matrix."""
    matrix = as_covariance(name, value, (dimension, dimension))
    eigenvalues = np.linalg.eigvalsh(matrix)
    if eigenvalues[0] <= 1e-14 * eigenvalues[-1]:
        raise ValueError(
            f"{name} must be positive definite, got eigenvalues from {eigenvalues[0]:.3g} to {eigenvalues[-1]:.3g}"
        )
    return matrix


def as_whole_number(name: str, value: Any, least: int) -> int:
    """`value` as an int that is not below `least`."""
    if not isinstance(value, (int, np.integer)) or isinstance(value, bool) or value < least:
        raise ValueError(f"{name} must be a whole number >= {least}, got {value!r}")
    return int(value)


def as_positive(name: str, value: Any, or_zero: bool = False) -> float:
    """`value` as a positive number (or zero, where that makes sense)."""
    number = as_float_array(name, value)
    if number.ndim:
        raise ValueError(f"{name} must be one number, got shape {number.shape}")
    if number < 0 or (number == 0 and not or_zero):
        raise ValueError(f"{name} must be positive, got {value}")
    return float(number)


def as_t_span(value: Any) -> tuple[float, float]:
    """The two ends of an interval, in increasing order."""
    span = as_float_array("t_span", value)
    if span.shape != (2,):
        raise ValueError(f"t_span must be two numbers (t0, t1), got shape {span.shape}")
    t0, t1 = float(span[0]), float(span[1])
    if not t0 < t1:
        raise ValueError(f"t_span must be increasing, got ({t0}, {t1})")
    return t0, t1


def one_of(name: str, value: Any, choices: tuple[str, ...]) -> str:
    """`value`, if it is one of the choices."""
    if not isinstance(value, str) or value not in choices:
        raise ValueError(f"{name} must be one of {choices}, got {value!r}")
    return value


def as_seeds(name: str, seed: Any) -> np.random.SeedSequence:
    """Seeds of many generators, the same for the same seed."""
    return _seeded(np.random.SeedSequence, name, seed)


def as_generator(name: str, seed: Any) -> np.random.Generator:
    """Random numbers that are the same for the same seed."""
    return _seeded(np.random.default_rng, name, seed)


def _seeded(make: Callable, name: str, seed: Any) -> Any:
    try:
        return make(seed)
    except (TypeError, ValueError) as error:
        raise type(error)(f"{name} must be a whole number >= 0, got {seed!r}") from error
