"""First curves: the line, paths over landmarks, detours. All are polygons of a few segments.

Landmarks are points that short curves are likely to pass by: the centres of a local metric, or
points of the data. What depends on them alone is made once and shared by all pairs of ends.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.sparse.csgraph import dijkstra

from probgeo._loops import loop
from probgeo.metrics import Metric
from probgeo.metrics.arguments import far_apart

SEGMENTS = 8  # of first polygons; with 16 hardly a curve more is found, at twice the price


@loop
def edge_points(a: np.ndarray, landmarks: np.ndarray, points: int, x: np.ndarray, v: np.ndarray) -> None:
    """Points along the straight edges from every a (n, D) to every landmark (L, D), in order."""
    k = 0
    for n in range(len(a)):
        for m in range(len(landmarks)):
            for p in range(points):
                s = (p + 0.5) / points
                for d in range(a.shape[1]):
                    v[k, d] = landmarks[m, d] - a[n, d]
                    x[k, d] = a[n, d] + s * v[k, d]
                k += 1


@loop
def shortest_ways(edges: np.ndarray, ways: np.ndarray, length: np.ndarray, first: np.ndarray) -> None:
    """Lengths of the shortest ways to all landmarks: min over u of edges (n, L) + ways (L, L).

    length (n, L), and first (n, L), the landmark u that comes first.
    """
    for n in range(len(edges)):
        for p in range(len(ways)):
            best = 0
            for u in range(1, len(ways)):
                if edges[n, u] + ways[u, p] < edges[n, best] + ways[best, p]:
                    best = u
            first[n, p] = best
            length[n, p] = edges[n, best] + ways[best, p]


@loop
def routes_over(
    a: np.ndarray,
    b: np.ndarray,
    landmarks: np.ndarray,
    before: np.ndarray,
    over: np.ndarray,
    first: np.ndarray,
    last: np.ndarray,
    out: np.ndarray,
) -> None:
    """Polygons out (n, S + 1, D) from a to b along edges: by way of the landmark over (n,).

    first, last (n,): the landmarks next to a and b on the way; before[i, j]: the one before j on
    the shortest way from i. All edges get equal shares of the segments.
    """
    S, D = out.shape[1] - 1, out.shape[2]
    stops = np.empty(2 * len(landmarks), dtype=np.int64)
    for n in range(len(a)):
        here, count = first[n], 1
        stops[0] = here
        for goal in (over[n], last[n]):
            while here != goal:
                here = before[goal, here]
                stops[count] = here
                count += 1
        for s in range(S + 1):
            at = (count + 1) * s / S
            k = min(int(at), count)
            for d in range(D):
                p = landmarks[stops[k - 1], d] if k > 0 else a[n, d]
                q = landmarks[stops[k], d] if k < count else b[n, d]
                out[n, s, d] = (1.0 - (at - k)) * p + (at - k) * q


@dataclass(frozen=True, eq=False)
class Landmarks:
    """Points worth a detour, with all paths between them.

    Attributes
    ----------
    metric : Metric
    points : array (L, D)
    samples : int
        Points at which the speed along an edge is taken.
    """

    metric: Metric
    points: np.ndarray
    samples: int = 4

    @classmethod
    def chosen(cls, metric: Metric, more: np.ndarray | None) -> "Landmarks":
        """Those that a metric knows, and at most 64 of some more, far apart."""
        points = metric.landmarks()
        if more is not None:
            points = np.concatenate([points.reshape(-1, more.shape[1]), more[far_apart(more, 64)]])
        return cls(metric, np.array(points))

    def __len__(self) -> int:
        return len(self.points)

    def edges(self, a: np.ndarray) -> np.ndarray:
        """Lengths (n, L) of the straight lines from a (n, D) to all landmarks, or infinite.

        Ends that many curves share, as in a matrix of distances, are looked at once.
        """
        index = np.zeros(1, dtype=int)
        if len(a) > 1:
            a, index = np.unique(a, axis=0, return_inverse=True)
        count = len(a) * len(self) * self.samples
        x, v = np.empty((count, a.shape[1])), np.empty((count, a.shape[1]))
        edge_points(a, self.points, self.samples, x, v)
        speeds = np.sqrt(2.0 * self.metric.energies(x, v))
        lengths = speeds.reshape(len(a), len(self), self.samples).mean(axis=2)
        return np.where(np.isfinite(lengths), lengths, np.inf)[index.ravel()]

    @cached_property
    def apart(self) -> np.ndarray:
        """Lengths (L, L) of the edges between landmarks, zero where there is none."""
        apart = self.edges(self.points)
        return np.where(np.isfinite(apart), 0.5 * (apart + apart.T), 0.0)

    @cached_property
    def ways(self) -> tuple[np.ndarray, np.ndarray]:
        """Lengths of the shortest ways between landmarks along edges, and predecessors: (L, L)."""
        lengths, before = dijkstra(self.apart, return_predecessors=True)
        return lengths, before.astype(np.int64)

    def routes(self, a: np.ndarray, b: np.ndarray) -> "Routes":
        """The shortest ways along edges from a to b (n, D) by way of each landmark."""
        length, nearest = np.empty((2, len(a), len(self))), np.empty((2, len(a), len(self)), dtype=np.int64)
        for k, end in enumerate((a, b)):
            shortest_ways(self.edges(end), self.ways[0], length[k], nearest[k])
        return Routes(self, a, b, length.sum(axis=0), *nearest)


@dataclass(frozen=True)
class Routes:
    """Ways from a to b (n, D) along edges, the shortest by way of each landmark.

    length (n, L); first, last (n, L): the landmarks next to a and b.
    """

    landmarks: Landmarks
    a: np.ndarray
    b: np.ndarray
    length: np.ndarray
    first: np.ndarray
    last: np.ndarray

    def polygons(self, member: np.ndarray, over: np.ndarray) -> np.ndarray:
        """Polygons (r, S + 1, D) of members by way of landmarks (r,)."""
        points, (_, before) = self.landmarks.points, self.landmarks.ways
        out = np.empty((len(member), SEGMENTS + 1, points.shape[1]))
        nearest = self.first[member, over], self.last[member, over]
        routes_over(self.a[member], self.b[member], points, before, over, *nearest, out)
        return out


def lines(a: np.ndarray, b: np.ndarray, segments: int = SEGMENTS) -> np.ndarray:
    """Straight polygons (n, S + 1, D)."""
    s = np.linspace(0.0, 1.0, segments + 1)[:, None]
    polygons = a[:, None] + s * (b - a)[:, None]  # exactly constant where a is b
    polygons[:, -1] = b
    return polygons


def detours(a: np.ndarray, b: np.ndarray, over: np.ndarray) -> np.ndarray:
    """Polygons (n, S + 1, D) from a over points half-way to b, all (n, D)."""
    return np.concatenate([lines(a, over, SEGMENTS // 2)[:, :-1], lines(over, b, SEGMENTS // 2)], axis=1)


def beside(metric: Metric, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Points (2, n, D) half as far from the middle between a and b as these are apart.

    They lie across, either way along the cheapest of the directions there.
    """
    along, middle = b - a, 0.5 * (a + b)
    apart = np.linalg.norm(along, axis=1)[:, None]
    along = along / np.where(apart > 0, apart, 1.0)
    across = np.eye(a.shape[1]) - along[:, :, None] * along[:, None, :]
    tensors = metric.tensors_at(middle)
    tensors[~np.isfinite(tensors).all(axis=(1, 2))] = np.eye(a.shape[1])
    size = np.trace(tensors, axis1=1, axis2=2)[:, None, None]
    held = across @ tensors @ across + size * along[:, :, None] * along[:, None, :]
    aside = 0.5 * apart * np.linalg.eigh(held)[1][:, :, 0]
    return np.stack([middle + aside, middle - aside])


def polygon_lengths(metric: Metric, polygons: np.ndarray) -> np.ndarray:
    """Lengths (n,) of polygons (n, S + 1, D), by the midpoint rule."""
    v, x = np.diff(polygons, axis=1), 0.5 * (polygons[:, 1:] + polygons[:, :-1])
    D = polygons.shape[2]
    energies = metric.energies(x.reshape(-1, D), v.reshape(-1, D)).reshape(len(polygons), -1)
    return np.sum(np.sqrt(np.maximum(2.0 * energies, 0.0)), axis=1)
