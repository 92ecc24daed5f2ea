"""Parameters of functions: arrays in tuples, lists and dicts, each with one row a member."""

import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np


def leaves_of(tree: Any) -> list:
    """The arrays of a tree, those of dicts by key."""
    if "jax" in sys.modules:  # knows of other kinds of trees, if there are any
        return sys.modules["jax"].tree.leaves(tree)
    if tree is None:
        return []
    if isinstance(tree, dict):
        return [leaf for key in sorted(tree) for leaf in leaves_of(tree[key])]
    if isinstance(tree, list | tuple):
        return [leaf for part in tree for leaf in leaves_of(part)]
    return [tree]


def rebuilt(tree: Any, leaves: list) -> Any:
    """A tree of the same form with these arrays."""
    if "jax" in sys.modules:
        jax = sys.modules["jax"]
        return jax.tree.unflatten(jax.tree.structure(tree), leaves)
    return _rebuilt(tree, iter(leaves))


def _rebuilt(tree: Any, leaves: Iterator) -> Any:
    if tree is None:
        return None
    if isinstance(tree, dict):
        made = {key: _rebuilt(tree[key], leaves) for key in sorted(tree)}
        return {key: made[key] for key in tree}
    if isinstance(tree, list | tuple):
        parts = [_rebuilt(part, leaves) for part in tree]
        return type(tree)(*parts) if hasattr(tree, "_fields") else type(tree)(parts)
    return next(leaves)


def row_by_row(f: Callable) -> Callable:
    """A function of one point as one of rows."""

    def of_rows(*arguments: Any) -> np.ndarray:
        leaves = leaves_of(arguments)
        points = (rebuilt(arguments, [leaf[i] for leaf in leaves]) for i in range(len(leaves[0])))
        return np.stack([np.asarray(f(*point), dtype=float) for point in points])

    return of_rows


def as_parameter(leaf: Any, batch_shape: tuple[int, ...]) -> np.ndarray:
    """One array of `args` with one row a member: (B, ...), real numbers in float64."""
    array = np.asarray(leaf)
    if array.dtype.kind not in "biuf":
        raise TypeError(f"args must hold arrays of real numbers, got {leaf!r}")
    if array.shape[: len(batch_shape)] != batch_shape:
        raise ValueError(
            f"the arrays in args must have the batch axes {batch_shape} of the values in front, got shape {array.shape}"
        )
    members = int(np.prod(batch_shape))
    rows = array.reshape(members, *array.shape[len(batch_shape) :])
    return np.array(rows, dtype=np.float64 if array.dtype.kind == "f" else array.dtype, order="C")


def is_real(leaf: np.ndarray) -> bool:
    """Whether there are derivatives by it: it holds neither integers nor booleans."""
    return leaf.dtype.kind == "f"
