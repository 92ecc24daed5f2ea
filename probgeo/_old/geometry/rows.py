"""Rows of batches: few sizes, so that little is compiled; taken apart, and put together again.

A batch is a tree of NumPy arrays with one leading axis. Members that need more work are taken out,
worked on, and put back: none waits for the others.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import equinox as eqx
import jax
import numpy as np

from probgeo._old._rows import replace_rows
from probgeo._old.ode.curve import Curve

SIZES = (4, 16, 64, 256, 1024)  # a program is compiled for each that is met
LARGEST = 64  # rows at a time, unless they are cheap: more of them are hardly faster


def filled(index: np.ndarray, least: int = 1) -> np.ndarray:
    """Row numbers, with the first repeated up to the next size that is compiled anyway."""
    wanted = max(len(index), least)
    size = next((s for s in SIZES if s >= wanted), wanted)
    return np.concatenate([index, np.full(size - len(index), index[0])])


def padded(
    function: Callable,
    shared: Any,
    rows: Any,
    *extra: Any,
    least: int = 1,
    most: int = LARGEST,
) -> Any:
    """function(shared, rows, *extra) on rows filled up to one of a few sizes, as NumPy arrays."""
    count = len(jax.tree.leaves(rows)[0])
    if count > most:
        parts = [take(rows, k) for k in chunks(count, most)]
        found = [padded(function, shared, part, *extra, least=least, most=most) for part in parts]
        return jax.tree.map(lambda *x: np.concatenate(x), *found)
    fill = filled(np.arange(count), least)
    if len(fill) > count:
        rows = jax.tree.map(lambda x: x[fill], rows)
    out = function(shared, rows, *extra)
    return jax.tree.map(lambda x: np.asarray(x)[:count], out)


def chunks(count: int, size: int) -> Iterator[np.ndarray]:
    """Row numbers of parts of at most `size` rows."""
    for first in range(0, count, size):
        yield np.arange(first, min(first + size, count))


# --- curves ----------------------------------------------------------------------------------

Rows = Any  # a Curve with one batch axis, NumPy arrays, and no t_span


def curve_rows(curve: Curve) -> Rows:
    rows = eqx.tree_at(lambda c: c.t_span, curve, replace=None)
    return jax.tree.map(np.asarray, rows)


def take(rows: Rows, index: np.ndarray) -> Rows:
    return jax.tree.map(lambda x: x[index], rows)


def replace_curves(old: Rows, index: np.ndarray, new: Rows) -> Rows:
    """Some rows replaced; meshes may differ in size."""
    old, new = _equalised([old, new])
    return replace_rows(old, index, new)


def join_curves(parts: Sequence[Rows]) -> Rows:
    if len(parts) == 1:
        return parts[0]
    return jax.tree.map(lambda *x: np.concatenate(x), *_equalised(parts))


def _equalised(parts: Sequence[Rows]) -> list[Rows]:
    """Shorter arrays filled up with zeros, meshes with nodes beyond the end, never visited."""
    shapes = zip(*([x.shape for x in jax.tree.leaves(part)] for part in parts), strict=True)
    largest = [tuple(map(max, *(shape[1:] for shape in same))) for same in shapes]
    return [_grown(part, largest) for part in parts]


def _grown(rows: Rows, shapes: Sequence[tuple[int, ...]]) -> Rows:
    leaves, tree = jax.tree.flatten(rows)
    if all(x.shape[1:] == shape for x, shape in zip(leaves, shapes, strict=True)):
        return rows

    def grow(x: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
        room = [(0, 0)] + [(0, most - size) for size, most in zip(x.shape[1:], shape, strict=True)]
        return np.pad(x, room)

    size = rows.nodes.shape[1]
    grown = jax.tree.unflatten(tree, list(map(grow, leaves, shapes)))
    more = grown.nodes.shape[1] - size
    grown.nodes[:, size:] = 1.0
    last = np.maximum(rows.posterior.nodes[:, -1:], 1.0)
    grown.posterior.nodes[:, size:] = last + 1.0 + np.arange(more)
    return grown
