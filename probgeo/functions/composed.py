"""Functions made of others, in JAX, NumPy or torch alike."""

import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Composed:
    """x -> formula(function(x))."""

    function: Callable
    formula: Callable

    def __call__(self, x: Any) -> Any:
        return self.formula(self.function(x))


class NotInNumpyError(TypeError):
    """What was asked for is beyond the accuracy of finite differences."""


@dataclass(frozen=True)
class Stacked:
    """x -> the values of several functions, in JAX or torch, broadcast to one shape and stacked.

    The new axis is the first one of a point's value: of rows, in torch, the second of all.
    """

    functions: tuple[Callable, ...]

    def __call__(self, x: Any) -> Any:
        parts = [function(x) for function in self.functions]
        xp = library_of(parts[0])
        if xp is np:
            raise NotInNumpyError("functions for this must be written in JAX or PyTorch, not NumPy")
        if hasattr(xp, "broadcast_tensors"):
            return xp.stack(xp.broadcast_tensors(*parts), 1)
        return xp.stack(xp.broadcast_arrays(*parts))


def library_of(x: Any) -> Any:
    """torch, jax.numpy or NumPy, whichever x is an array of."""
    torch, jax = sys.modules.get("torch"), sys.modules.get("jax")
    if torch is not None and isinstance(x, torch.Tensor):
        return torch
    return jax.numpy if jax is not None and isinstance(x, jax.Array) else np


def constant(array: np.ndarray, x: Any) -> Any:
    """Numbers as an array of the library of x, in its precision and where it is.

    For JAX a new array each time: it remembers arrays of NumPy by their identity, and mistakes one
    that it has seen in double precision for that where it computes in single precision.
    """
    xp = library_of(x)
    if xp is np:
        return array
    return array.astype(x.dtype) if hasattr(xp, "ndarray") else xp.as_tensor(array).to(x)
