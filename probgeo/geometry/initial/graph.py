"""Shortest paths in a graph over the data, or over the centres of a mixture."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from scipy.sparse import coo_matrix
from scipy.sparse.csgraph import dijkstra
from scipy.spatial import cKDTree

from probgeo._checks import as_whole_number
from probgeo.geometry.equation import Metric
from probgeo.geometry.initial.base import Start, Starts
from probgeo.geometry.initial.descent import EnergyDescent
from probgeo.geometry.inputs import as_points
from probgeo.geometry.polyline import resampled
from probgeo.geometry.rows import chunks, padded

POINTS_AN_EDGE = 8
EDGES_AT_ONCE = 1024


@eqx.filter_jit
def _lengths(metric: Metric, ends: tuple[Array, Array]) -> Float[Array, " e"]:
    """Lengths of straight edges."""
    t = (jnp.arange(POINTS_AN_EDGE) + 0.5) / POINTS_AN_EDGE

    def one(x: Array, y: Array) -> Array:
        squares = jax.vmap(lambda s: metric.energy(x + s * (y - x), y - x))(t)
        return jnp.mean(jnp.sqrt(squares))

    return jax.vmap(one)(*ends)


def edge_lengths(metric: Metric, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Lengths of the straight edges from x to y, both (E, D); infinite where not finite."""
    parts = [padded(_lengths, metric, (x[k], y[k])) for k in chunks(len(x), EDGES_AT_ONCE)]
    lengths = np.concatenate(parts) if parts else np.zeros(0)
    return np.where(np.isfinite(lengths), lengths, np.inf)


class DataGraph(Start):
    """The shortest path over given points, measured in the metric, then energy descent.

    Parameters
    ----------
    points : array (N, D)
        The data, or centres of a mixture.
    neighbours : int
        Each point is joined to this many nearest ones, in the coordinates.
    descent : EnergyDescent
        What is done to the path.
    """

    points: Float[Array, "n d"]
    neighbours: int = eqx.field(static=True)
    descent: EnergyDescent

    def __init__(
        self, points: Any, neighbours: int = 8, descent: EnergyDescent | None = None
    ) -> None:
        self.points = as_points("points", points)
        self.neighbours = as_whole_number("neighbours", neighbours, 1)
        self.descent = EnergyDescent() if descent is None else descent

    def start(self, metric: Metric, a: np.ndarray, b: np.ndarray) -> Starts:
        return self.descent.improve(metric, self.paths(metric, a, b), "graph")

    def paths(self, metric: Metric, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        """Shortest paths through the graph at equal steps of length, (B, T + 1, D)."""
        a, b = np.asarray(a), np.asarray(b)
        vertices = np.asarray(self.points)
        tree = cKDTree(vertices)
        near_a, to_a = self._gates(metric, tree, vertices, a)
        near_b, to_b = self._gates(metric, tree, vertices, b)
        sources, row = np.unique(near_a, return_inverse=True)
        row = row.reshape(near_a.shape)
        distance, before = dijkstra(
            self._graph(metric, tree, vertices), directed=False, indices=sources,
            return_predecessors=True,
        )  # fmt: skip
        # through which gate out of a, and which into b
        total = to_a[:, :, None] + distance[row[:, :, None], near_b[:, None, :]] + to_b[:, None, :]
        best = np.argmin(np.where(np.isfinite(total), total, np.inf).reshape(len(a), -1), axis=1)
        out, into = np.unravel_index(best, total.shape[1:])
        paths = []
        for k in range(len(a)):
            first, last = row[k, out[k]], near_b[k, into[k]]
            middle = _walk(before[first], sources[first], last)
            steps = np.diff(distance[first, middle])
            steps = np.concatenate([to_a[k, out[k]][None], steps, to_b[k, into[k]][None]])
            path = np.concatenate([a[k][None], vertices[middle], b[k][None]])
            finite = np.all(np.isfinite(steps))
            steps = steps if finite else np.linalg.norm(np.diff(path, axis=0), axis=1)
            paths.append(resampled(path, steps, self.descent.segments))
        return np.stack(paths)

    def _graph(self, metric: Metric, tree: cKDTree, vertices: np.ndarray) -> coo_matrix:
        count = len(vertices)
        _, near = tree.query(vertices, k=min(self.neighbours + 1, count))
        near = near.reshape(count, -1)
        i, j = np.repeat(np.arange(count), near.shape[1]), near.reshape(-1)
        pairs = np.unique(np.sort(np.stack([i, j], axis=1)[i != j], axis=1), axis=0)
        lengths = edge_lengths(metric, vertices[pairs[:, 0]], vertices[pairs[:, 1]])
        keep = np.isfinite(lengths)
        return coo_matrix((lengths[keep], pairs[keep].T), shape=(count, count)).tocsr()

    def _gates(
        self, metric: Metric, tree: cKDTree, vertices: np.ndarray, x: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """The vertices next to each point, and how far they are."""
        _, near = tree.query(x, k=min(self.neighbours, len(vertices)))
        near = near.reshape(len(x), -1)
        from_x = np.repeat(x, near.shape[1], axis=0)
        return near, edge_lengths(metric, from_x, vertices[near.reshape(-1)]).reshape(near.shape)


def _walk(before: np.ndarray, source: int, last: int) -> np.ndarray:
    """Vertices from the source to the last; only these two if there is no way."""
    way = [last]
    while way[-1] != source:
        previous = before[way[-1]]
        if previous < 0:
            return np.array([source, last])
        way.append(previous)
    return np.array(way[::-1])
