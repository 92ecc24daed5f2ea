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
def paths(
    a: np.ndarray,
    b: np.ndarray,
    landmarks: np.ndarray,
    before: np.ndarray,
    apart: np.ndarray,
    to_a: np.ndarray,
    to_b: np.ndarray,
    ends: np.ndarray,
    out: np.ndarray,
) -> None:
    """Polygons out (n, S + 1, D) at equal metric lengths along paths a, landmarks, b.

    ends (n, 2): the first and the last landmark of each path; before[i, j]: the landmark before j
    on the shortest path from i; apart (L, L), to_a, to_b (n, L): lengths of edges.
    """
    L = len(landmarks)
    S, D = out.shape[1] - 1, out.shape[2]
    stops, reached = np.empty(L + 2, dtype=np.int64), np.empty(L + 2)
    for n in range(len(a)):
        first, last = ends[n]
        count, here = 1, last
        while here != first:
            here = before[first, here]
            count += 1
        here = last
        for k in range(count - 1, -1, -1):
            stops[k] = here
            if k > 0:
                here = before[first, here]
        reached[0] = to_a[n, first]
        for k in range(1, count):
            reached[k] = reached[k - 1] + apart[stops[k - 1], stops[k]]
        total = reached[count - 1] + to_b[n, last]
        k = 0  # the next stop
        for s in range(S + 1):
            at = total * s / S
            while k < count and reached[k] < at:
                k += 1
            left = reached[k - 1] if k > 0 else 0.0
            right = reached[k] if k < count else total
            share = (at - left) / (right - left) if right > left else 0.0
            for d in range(D):
                p = landmarks[stops[k - 1], d] if k > 0 else a[n, d]
                q = landmarks[stops[k], d] if k < count else b[n, d]
                out[n, s, d] = p + share * (q - p)


@dataclass(frozen=True, eq=False)
class Landmarks:
    """Points worth a detour, with all paths between them.

    Attributes
    ----------
    metric : Metric
    points : array (L, D)
    power : float
        Paths minimise the sum of this power of the lengths of their edges. With 1 they cut across
        the turns of a helix.
    samples : int
        Points at which the speed along an edge is taken.
    """

    metric: Metric
    points: np.ndarray
    power: float = 3.0
    samples: int = 4

    @classmethod
    def chosen(cls, metric: Metric, more: np.ndarray | None, most: int = 64) -> "Landmarks":
        """Those that a metric knows and some more; at most so many, far apart."""
        points = metric.landmarks()
        if more is not None:
            points = np.concatenate([points.reshape(-1, more.shape[1]), more])
        return cls(metric, np.array(far_apart(points, most)))

    def __len__(self) -> int:
        return len(self.points)

    def edges(self, a: np.ndarray) -> np.ndarray:
        """Lengths (n, L) of the straight lines from a (n, D) to all landmarks.

        Ends that many curves share, as in a matrix of distances, are looked at once.
        """
        index = np.zeros(1, dtype=int)
        if len(a) > 1:
            a, index = np.unique(a, axis=0, return_inverse=True)
        count = len(a) * len(self) * self.samples
        x, v = np.empty((count, a.shape[1])), np.empty((count, a.shape[1]))
        edge_points(a, self.points, self.samples, x, v)
        speeds = np.sqrt(2.0 * self.metric.energies(x, v))
        return speeds.reshape(len(a), len(self), self.samples).mean(axis=2)[index.ravel()]

    @cached_property
    def apart(self) -> np.ndarray:
        """Lengths (L, L) of the edges between landmarks, zero where there is none."""
        apart = self.edges(self.points)
        return np.where(np.isfinite(apart), 0.5 * (apart + apart.T), 0.0)

    @cached_property
    def ways(self) -> np.ndarray:
        """Lengths (L, L) of the shortest ways between landmarks along edges."""
        return dijkstra(self.apart)

    @cached_property
    def graph(self) -> tuple[np.ndarray, np.ndarray]:
        """Least sums of the `power` of edges along paths, and predecessors on these: (L, L)."""
        sums, before = dijkstra(self.apart**self.power, return_predecessors=True)
        return sums, before.astype(np.int64)

    def through(self, to_a: np.ndarray, to_b: np.ndarray) -> np.ndarray:
        """Lengths (n, L) of the shortest ways along edges from a over each landmark to b."""
        first, last = (np.min(to[:, :, None] + self.ways, axis=1) for to in (to_a, to_b))
        return first + last

    @cached_property
    def sides(self) -> np.ndarray:
        """Points (2 L, D) at unit length from the landmarks, either way along the cheapest axis."""
        values, axes = np.linalg.eigh(self.metric.tensors_at(self.points))
        offset = axes[:, :, 0] / np.sqrt(values[:, :1])
        return np.concatenate([self.points + offset, self.points - offset])

    def pairs(self, count: int) -> np.ndarray:
        """Random pairs (count, 2, D) of different landmarks and sides; always the same ones."""
        points, rng = np.concatenate([self.points, self.sides]), np.random.default_rng(0)
        first, apart = rng.integers([len(points)], size=count), rng.integers(1, len(points), count)
        return np.stack([points[first], points[(first + apart) % len(points)]], axis=1)

    def stepping(self, a: np.ndarray, b: np.ndarray, to_a: np.ndarray, to_b: np.ndarray) -> np.ndarray:
        """Polygons (n, S + 1, D) from a to b over landmarks, in steps that are as small as can be.

        to_a, to_b (n, L): lengths of the edges to the ends.
        """
        (sums, before), power = self.graph, self.power
        through = to_a[:, :, None] ** power + sums + to_b[:, None, :] ** power
        best = np.argmin(np.where(np.isnan(through), np.inf, through).reshape(len(a), -1), axis=1)
        ends = np.stack(np.divmod(best, len(self)), axis=1)
        out = np.empty((len(a), SEGMENTS + 1, a.shape[1]))
        paths(a, b, self.points, before, self.apart, to_a, to_b, ends, out)
        return out


def lines(a: np.ndarray, b: np.ndarray, segments: int = SEGMENTS) -> np.ndarray:
    """Straight polygons (n, S + 1, D)."""
    s = np.linspace(0.0, 1.0, segments + 1)[:, None]
    polygons = a[:, None] + s * (b - a)[:, None]  # exactly constant where a is b
    polygons[:, -1] = b
    return polygons


def detours(a: np.ndarray, b: np.ndarray, over: np.ndarray) -> np.ndarray:
    """Polygons (n, S + 1, D) from a (n, D) over points (n, V, D), equally far apart, to b."""
    stops = np.concatenate([a[:, None], over, b[:, None]], axis=1)
    at = np.linspace(0.0, stops.shape[1] - 1.0, SEGMENTS + 1)
    left = np.minimum(at.astype(int), stops.shape[1] - 2)
    share = (at - left)[:, None]
    return stops[:, left] * (1.0 - share) + stops[:, left + 1] * share


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


def lengths(metric: Metric, polygons: np.ndarray) -> np.ndarray:
    """Lengths (n,) of polygons (n, S + 1, D), by the midpoint rule."""
    v, x = np.diff(polygons, axis=1), 0.5 * (polygons[:, 1:] + polygons[:, :-1])
    D = polygons.shape[2]
    energies = metric.energies(x.reshape(-1, D), v.reshape(-1, D)).reshape(len(polygons), -1)
    return np.sum(np.sqrt(np.maximum(2.0 * energies, 0.0)), axis=1)


def far_apart(points: np.ndarray, most: int) -> np.ndarray:
    """At most so many of the points (N, D): from the first on, always the farthest from all."""
    if len(points) <= most:
        return points
    chosen = [0]
    nearest = np.sum((points - points[0]) ** 2, axis=1)
    while len(chosen) < most:
        chosen.append(int(np.argmax(nearest)))
        nearest = np.minimum(nearest, np.sum((points - points[chosen[-1]]) ** 2, axis=1))
    return points[chosen]
