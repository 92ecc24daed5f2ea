"""Curves on [0, 1] from different solves, put together as one batch."""

from collections.abc import Sequence
from typing import Any

import equinox as eqx
import jax
import numpy as np

from probgeo.geometry.batches import replace_rows
from probgeo.ode.curve import Curve

Rows = Any  # a Curve with one batch axis, NumPy arrays, and no t_span


def as_rows(curve: Curve) -> Rows:
    rows = eqx.tree_at(lambda c: c.t_span, curve, replace=None)
    return jax.tree.map(np.asarray, rows)


def take(rows: Rows, index: np.ndarray) -> Rows:
    return jax.tree.map(lambda x: x[index], rows)


def replaced(old: Rows, index: np.ndarray, new: Rows) -> Rows:
    """Some rows replaced; meshes may differ in size."""
    old, new = _equalised([old, new])
    return replace_rows(old, index, new)


def concatenated(parts: Sequence[Rows]) -> Rows:
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
