"""Checks on what users pass in. Each error names the argument, what was given and what is right.

Values inside a JAX transformation are not known yet; there only shapes are checked.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array


def is_concrete(*values: Any) -> bool:
    """Whether the numbers are there to look at (not so under `jit`, `vmap` or `grad`)."""
    leaves = jax.tree.leaves(values)
    return not any(isinstance(leaf, jax.core.Tracer) for leaf in leaves)


def array_module(*values: Any) -> Any:
    """NumPy if the numbers are there, else jax.numpy.

    Outside of compiled programs every operation of JAX is a program of its own, compiled for every
    shape: for a few sums NumPy is a thousand times quicker the first time, and ten times later.
    """
    return np if is_concrete(*values) else jnp


def page(name: str) -> str:
    """Where the documentation says more."""
    return f"docs/{name}.md"


def as_float_array(name: str, value: Any) -> Array:
    """`value` as a float64 array without NaN or infinity."""
    return jnp.asarray(as_numbers(name, value))


def as_numbers(name: str, value: Any) -> Any:
    """The same as an array of NumPy, if the numbers are there."""
    try:
        numbers = np.asarray(value) if is_concrete(value) else jnp.asarray(value)
    except (TypeError, ValueError) as error:
        raise TypeError(f"{name} must be an array of numbers, got {value!r}") from error
    if numbers.dtype.kind not in "biuf":
        raise TypeError(f"{name} must be an array of numbers, got {value!r}")
    array = numbers.astype(np.float64)
    if is_concrete(array) and not np.all(np.isfinite(array)):
        raise ValueError(f"{name} must be finite, got {array}")
    return array


def as_covariance(name: str, value: Any, shape: tuple[int, ...]) -> Array:
    """`value` as an array of symmetric positive semi-definite matrices, broadcast to `shape`."""
    cov = as_float_array(name, value)
    try:
        cov = jnp.broadcast_to(cov, shape)
    except ValueError as error:
        raise ValueError(f"{name} must have shape {shape}, got {cov.shape}") from error
    if not is_concrete(cov):
        return cov
    matrices = np.asarray(cov)
    size = np.abs(matrices).max(initial=0.0)
    if not np.allclose(matrices, matrices.swapaxes(-1, -2), rtol=1e-9, atol=1e-12 * size):
        raise ValueError(f"{name} must be symmetric")
    smallest = np.linalg.eigvalsh(matrices).min(initial=0.0)
    if smallest < -1e-9 * size:
        raise ValueError(f"{name} must be positive semi-definite, got an eigenvalue {smallest:.3g}")
    return cov


def as_positive_definite(name: str, value: Any, dimension: int) -> Array:
    """`value` as one symmetric positive definite (D, D) matrix."""
    matrix = as_covariance(name, value, (dimension, dimension))
    if is_concrete(matrix):
        eigenvalues = np.linalg.eigvalsh(np.asarray(matrix))
        if eigenvalues[0] <= 1e-14 * eigenvalues[-1]:
            raise ValueError(
                f"{name} must be positive definite, got eigenvalues from "
                f"{eigenvalues[0]:.3g} to {eigenvalues[-1]:.3g}"
            )
    return matrix


def as_whole_number(name: str, value: Any, least: int) -> int:
    """`value` as an int that is not below `least`."""
    if not isinstance(value, (int, np.integer)) or isinstance(value, bool) or value < least:
        raise ValueError(f"{name} must be a whole number >= {least}, got {value!r}")
    return int(value)


def as_positive(name: str, value: Any, or_zero: bool = False) -> Array:
    """`value` as a positive number (or zero, where that makes sense)."""
    number = as_numbers(name, value)
    if is_concrete(number) and (number < 0 or (number == 0 and not or_zero)):
        raise ValueError(f"{name} must be positive, got {value}")
    return number


def as_t_span(value: Any) -> tuple[Array, Array]:
    """The two ends of an interval, in increasing order."""
    span = as_float_array("t_span", value)
    if span.shape != (2,):
        raise ValueError(f"t_span must be two numbers (t0, t1), got shape {span.shape}")
    t0, t1 = array_module(span).asarray(span)
    if is_concrete(span) and not t0 < t1:
        raise ValueError(f"t_span must be increasing, got ({float(t0)}, {float(t1)})")
    return t0, t1


def check_vector_field(f: Callable, *arguments: Array, args: Any = None) -> None:
    """That JAX can trace `f` at one point and gets back an array like the state."""
    if not callable(f):
        raise TypeError(f"f must be a function, got {type(f).__name__}")
    expected = arguments[-1].shape
    names = ["t", "y", "dy"][: len(arguments)] + ([] if args is None else ["args"])
    signature = f"f({', '.join(names)})"
    try:
        out = jax.eval_shape(f, *arguments, *(() if args is None else (args,)))
    except (
        jax.errors.ConcretizationTypeError,
        jax.errors.TracerArrayConversionError,
        jax.errors.TracerIntegerConversionError,
        jax.errors.NonConcreteBooleanIndexError,
    ) as error:
        raise TypeError(
            f"f must be traceable by JAX: write {signature} with jax.numpy, and jnp.where instead "
            f"of `if` on values. JAX says: {str(error).splitlines()[0]}"
        ) from error
    except TypeError as error:
        raise TypeError(
            f"{signature} could not be called for one point of shape {expected}: {error}"
        ) from error
    if getattr(out, "shape", None) != expected:
        got = getattr(out, "shape", type(out).__name__)
        raise ValueError(f"{signature} must return shape {expected} for one point, got {got}")
