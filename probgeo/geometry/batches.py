"""Batches of a few sizes, so that little is compiled, and their rows put together again."""

from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

SIZES = (4, 16, 64, 256, 1024)


def filled(index: np.ndarray) -> np.ndarray:
    """Row numbers, with the first repeated up to the next size that is compiled anyway."""
    size = next((s for s in SIZES if s >= len(index)), len(index))
    return np.concatenate([index, np.full(size - len(index), index[0])])


def padded(function: Callable, shared: Any, rows: Any, *extra: Any) -> Any:
    """function(shared, rows, *extra) on rows filled up to one of a few sizes, as NumPy arrays."""
    count = len(jax.tree.leaves(rows)[0])
    fill = filled(np.arange(count))
    if len(fill) > count:
        rows = jax.tree.map(lambda x: x[fill], rows)
    out = function(shared, jax.tree.map(jnp.asarray, rows), *extra)
    return jax.tree.map(lambda x: np.asarray(x)[:count], out)


def chunks(count: int, size: int) -> Iterator[np.ndarray]:
    """Row numbers of parts of at most `size` rows."""
    for first in range(0, count, size):
        yield np.arange(first, min(first + size, count))


def replace_rows(old: Any, index: np.ndarray, new: Any) -> Any:
    """A tree of NumPy arrays with some of its rows replaced."""

    def replace(old: np.ndarray, new: np.ndarray) -> np.ndarray:
        out = np.array(old)
        out[index] = new
        return out

    return jax.tree.map(replace, old, new)
