"""A user's function followed by a formula, written as the function is: in JAX, NumPy or torch."""

import dataclasses
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from probgeo.functions.wrappers import JaxFunction, NumpyFunction, TorchFunction


@dataclass(frozen=True)
class Composed:
    """x -> formula(function(x))."""

    function: Callable
    formula: Callable

    def __call__(self, x: Any) -> Any:
        return self.formula(self.function(x))


def followed_by(function: Any, formula: Callable) -> Any:
    """formula(function(x)), where the formula takes arrays of any framework.

    What says how a function is written, and modules of PyTorch, stay what they are: these are
    evaluated in double precision, on their device. A formula that treats every number by itself
    may say so by an attribute `elementwise`, which makes derivatives of modules cheaper.

    Examples
    --------
    >>> squared = followed_by(np.sin, lambda y: library_of(y).square(y))
    >>> float(squared(np.pi / 2))
    1.0
    """
    if isinstance(function, JaxFunction | NumpyFunction | TorchFunction):
        return dataclasses.replace(function, f=followed_by(function.f, formula))
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(function, torch.nn.Module):
        from probgeo.functions.torch_layers import ComposedModule

        return ComposedModule(function, formula)
    return Composed(function, formula)


class NotInNumpyError(TypeError):
    """Of what differences cannot do well enough."""


@dataclass(frozen=True)
class Stacked:
    """x -> the values of several functions, broadcast to one shape and stacked.

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


def stacked(*functions: Any) -> Any:
    """One function of several, all in JAX or all in PyTorch.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> stacked(jnp.sin, jnp.cos)(jnp.zeros(3)).shape
    (2, 3)
    """
    wrappers = {type(f) for f in functions if isinstance(f, JaxFunction | TorchFunction)}
    if wrappers:
        plain = [f.f if type(f) in wrappers else f for f in functions]
        return wrappers.pop()(stacked(*plain))
    torch = sys.modules.get("torch")
    if torch is not None and any(isinstance(f, torch.nn.Module) for f in functions):
        from probgeo.functions.torch_layers import StackedModule

        return StackedModule(functions)
    return Stacked(functions)


def library_of(x: Any) -> Any:
    """torch, jax.numpy or NumPy, whichever x is an array of."""
    torch, jax = sys.modules.get("torch"), sys.modules.get("jax")
    if torch is not None and isinstance(x, torch.Tensor):
        return torch
    return jax.numpy if jax is not None and isinstance(x, jax.Array) else np
