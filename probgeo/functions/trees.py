"""Parameters of functions: arrays in tuples, lists and dicts, each with one row a member."""

from typing import Any

import numpy as np


def leaves_of(tree: Any) -> list:
    """The arrays of a tree, those of dicts by key."""
    if tree is None:
        return []
    if isinstance(tree, dict):
        return [leaf for key in sorted(tree) for leaf in leaves_of(tree[key])]
    if isinstance(tree, (list, tuple)):
        return [leaf for part in tree for leaf in leaves_of(part)]
    return [tree]


def rebuilt(tree: Any, leaves: list) -> Any:
    """A tree of the same form with these arrays."""
    return _rebuilt(tree, iter(leaves))


def _rebuilt(tree: Any, leaves: Any) -> Any:
    if tree is None:
        return None
    if isinstance(tree, dict):
        made = {key: _rebuilt(tree[key], leaves) for key in sorted(tree)}
        return {key: made[key] for key in tree}
    if isinstance(tree, (list, tuple)):
        parts = [_rebuilt(part, leaves) for part in tree]
        if hasattr(tree, "_fields"):
            return type(tree)(*parts)
        return type(tree)(parts)
    return next(leaves)


def as_parameter(leaf: Any, batch_shape: tuple[int, ...]) -> np.ndarray:
    """One array of `args` with one row a member: (B, ...), real numbers in float64."""
    array = np.asarray(leaf)
    if array.dtype.kind not in "biuf":
        raise TypeError(f"args must hold arrays of real numbers, got {leaf!r}")
    if array.shape[: len(batch_shape)] != batch_shape:
        raise ValueError(
            f"the arrays in args must have the batch axes {batch_shape} of the values in "
            f"front, got shape {array.shape}"
        )
    members = int(np.prod(batch_shape))
    rows = array.reshape(members, *array.shape[len(batch_shape) :])
    return np.array(rows, dtype=np.float64 if array.dtype.kind == "f" else array.dtype, order="C")


def is_real(leaf: np.ndarray) -> bool:
    """Whether there are derivatives by it: not so by whole numbers and truth values."""
    return leaf.dtype.kind == "f"


def n_real(leaves: list[np.ndarray]) -> int:
    """How many real parameters a member has."""
    return sum(int(np.prod(leaf.shape[1:])) for leaf in leaves if is_real(leaf))
