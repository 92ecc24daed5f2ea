"""Shortest paths in a graph over the data, or over the centres of a mixture."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from scipy.sparse import csr_matrix
from scipy.sparse.csgraph import dijkstra
from scipy.spatial import cKDTree

from probgeo._old._checks import as_whole_number
from probgeo._old._compile import compiled
from probgeo._old.geometry.equation import Metric
from probgeo._old.geometry.initial.base import Start, Starts
from probgeo._old.geometry.initial.descent import EnergyDescent
from probgeo._old.geometry.inputs import as_points
from probgeo._old.geometry.polyline import resampled
from probgeo._old.geometry.rows import padded

POINTS_AN_EDGE = 8
EDGES_AT_ONCE = 1024


@compiled
def _lengths(metric: Metric, ends: tuple[Array, Array]) -> Float[Array, " e"]:
    """Lengths of straight edges."""
    t = (jnp.arange(POINTS_AN_EDGE) + 0.5) / POINTS_AN_EDGE

    def one(x: Array, y: Array) -> Array:
        squares = jax.vmap(lambda s: metric.energy(x + s * (y - x), y - x))(t)
        return jnp.mean(jnp.sqrt(squares))

    return jax.vmap(one)(*ends)


def edge_lengths(metric: Metric, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Lengths of the straight edges from x to y, both (E, D); infinite where not finite."""
    if not len(x):
        return np.zeros(0)
    lengths = padded(_lengths, metric, (x, y), most=EDGES_AT_ONCE)
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
        ends, which = np.unique(np.concatenate([a, b]), axis=0, return_inverse=True)
        vertices = np.concatenate([np.asarray(self.points), ends])
        first, last = len(self.points) + which.reshape(2, -1)
        sources, row = np.unique(first, return_inverse=True)
        distance, before = dijkstra(
            self._graph(metric, vertices), directed=False, indices=sources, return_predecessors=True
        )
        paths = []
        for source, end, k in zip(first, last, row, strict=True):
            way = _walk(before[k], source, end)
            steps = np.diff(distance[k, way])
            if not np.all(np.isfinite(steps)):  # there is no way
                steps = np.linalg.norm(np.diff(vertices[way], axis=0), axis=1)
            paths.append(resampled(vertices[way], steps, self.descent.segments))
        return np.stack(paths)

    def _graph(self, metric: Metric, vertices: np.ndarray) -> csr_matrix:
        """Edges from all vertices, ends of geodesics among them, to points nearby."""
        total, count = len(vertices), len(self.points)
        _, near = cKDTree(np.asarray(self.points)).query(vertices, min(self.neighbours + 1, count))
        i, j = np.repeat(np.arange(total), near.size // total), near.reshape(-1)
        pairs = np.unique(np.maximum(i, j) * total + np.minimum(i, j))  # each edge once
        i, j = np.divmod(pairs, total)
        i, j = i[i != j], j[i != j]
        lengths = edge_lengths(metric, vertices[i], vertices[j])
        keep = np.isfinite(lengths)
        # an edge of no length would not be one
        lengths = np.maximum(lengths[keep], np.finfo(float).tiny)
        return csr_matrix((lengths, (i[keep], j[keep])), shape=(total, total))


def _walk(before: np.ndarray, source: int, last: int) -> np.ndarray:
    """Vertices from the source to the last; only these two if there is no way."""
    way = [last]
    while way[-1] != source:
        previous = before[way[-1]]
        if previous < 0:
            return np.array([source, last])
        way.append(previous)
    return np.array(way[::-1])
