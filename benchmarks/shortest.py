"""The shortest curves that can be found with patience, to hold geodesics against.

None of this uses an ODE or the library's search: polygons of many segments are brought to their
least energy one after the other, from the straight line, from paths over all of the data, and from
the minima of smoother metrics. The lengths are those of curves from a to b, so each of them is an
upper bound of the distance.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg import LinAlgError, solveh_banded
from scipy.sparse import csr_matrix
from scipy.sparse.csgraph import dijkstra
from scipy.spatial import cKDTree

from probgeo.metrics import LocalMetrics, Metric

SEGMENTS = 64
NEIGHBOURS = 10  # of a point of the data
SHARES = (0.01, 0.1, 0.4)  # of the sharpness of a metric that has one
STEPS = 40  # of Newton's method, and
TOLERANCE = 1e-7  # the relative gain of energy at which it stops
CURVATURES = (1.0, 0.3, 0.0)  # shares of the metric's derivatives in the Hessian; 0: no worse
PIECES = 8  # of a segment, for its length


def shortest_lengths(metric: Metric, data: np.ndarray, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The lengths (B,) of the shortest known curves between points (B, D)."""
    paths = graph_paths(metric, data, a, b)
    smoother = [metric.with_rho(share * metric.rho) for share in SHARES] if isinstance(metric, LocalMetrics) else []
    found = np.zeros(len(a))
    for i in np.flatnonzero(np.any(a != b, axis=1)):
        line = np.linspace(a[i], b[i], SEGMENTS + 1)
        smooth = line
        for easier in smoother:
            smooth = lowered(easier, smooth, 10)
        found[i] = min(length(metric, lowered(metric, x)) for x in (line, smooth, paths[i]))
    return found


def lowered(metric: Metric, points: np.ndarray, steps: int = STEPS) -> np.ndarray:
    """Newton's method on E = S/2 sum d' M(m) d: the polygon (S + 1, D) at its least energy."""
    energy = energy_of(metric, points)
    for _ in range(steps):
        step = direction(metric, points)
        for share in 0.5 ** np.arange(12):
            tried = points.copy()
            tried[1:-1] += share * step
            lower = energy_of(metric, tried)
            if lower < energy:
                break
        else:
            return points
        gained, points, energy = 1 - lower / energy, tried, lower
        if gained < TOLERANCE:
            break
    return points


def energy_of(metric: Metric, points: np.ndarray) -> float:
    middles, steps = (points[1:] + points[:-1]) / 2, np.diff(points, axis=0)
    with np.errstate(all="ignore"):
        energy = metric.energies(middles, steps).sum()
    return float(energy) if np.isfinite(energy) else np.inf


def direction(metric: Metric, points: np.ndarray) -> np.ndarray:
    """A Newton step (S - 1, D) of the inner points, with as much curvature as is positive."""
    terms = metric.energy_terms((points[1:] + points[:-1]) / 2, np.diff(points, axis=0))
    gradient = (terms.by_x / 2 + terms.by_v)[:-1] + (terms.by_x / 2 - terms.by_v)[1:]
    for share in CURVATURES:
        xx, xv = share * terms.xx / 4, share * terms.xv / 2
        vx = np.swapaxes(xv, 1, 2)
        left, right = xx - xv - vx + terms.vv, xx + xv + vx + terms.vv
        try:
            return solved(right[:-1] + left[1:], (xx - xv + vx - terms.vv)[1:-1], -gradient)
        except LinAlgError:
            continue
    return -gradient


def solved(diagonal: np.ndarray, below: np.ndarray, right: np.ndarray) -> np.ndarray:
    """H x = right (T, D) for a block tridiagonal H: blocks (T, D, D), and (T - 1, D, D) below."""
    T, D = right.shape
    banded = np.zeros((2 * D, T, D))
    i, j = np.indices((D, D))
    lower = i >= j
    banded[(i - j)[lower], :, j[lower]] = diagonal[:, lower].T
    banded[D + i - j, :-1, j] = np.moveaxis(below, 0, -1)
    return solveh_banded(banded.reshape(2 * D, T * D), right.reshape(-1), lower=True).reshape(T, D)


def graph_paths(metric: Metric, data: np.ndarray, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Shortest paths (B, S + 1, D) over a graph of neighbours among the data and the ends."""
    nodes = np.concatenate([data, a, b])
    _, near = cKDTree(nodes).query(nodes, NEIGHBOURS + 1)
    start = np.repeat(np.arange(len(nodes)), NEIGHBOURS)
    end = near[:, 1:].reshape(-1)
    middles, steps = (nodes[start] + nodes[end]) / 2, nodes[end] - nodes[start]
    weights = np.sqrt(2 * metric.energies(middles, steps)) + 1e-12
    graph = csr_matrix((weights, (start, end)), shape=(len(nodes),) * 2)
    first = len(data) + np.arange(len(a))
    _, before = dijkstra(graph, directed=False, indices=first, return_predecessors=True)
    paths = []
    for i, previous in enumerate(before):
        path = [len(data) + len(a) + i]
        while previous[path[-1]] >= 0:
            path.append(previous[path[-1]])
        corners = nodes[path[::-1]] if path[-1] == first[i] else np.stack([a[i], b[i]])
        paths.append(resampled(corners))
    return np.array(paths)


def resampled(corners: np.ndarray, segments: int = SEGMENTS) -> np.ndarray:
    """Points (S + 1, D) at equal distances along a polygon."""
    along = np.append(0.0, np.cumsum(np.linalg.norm(np.diff(corners, axis=0), axis=1)))
    t = np.linspace(0.0, along[-1], segments + 1)
    return np.stack([np.interp(t, along, column) for column in corners.T], axis=1)


def length(metric: Metric, points: np.ndarray) -> float:
    """Of the polygon, each segment in so many pieces."""
    s = (np.arange(PIECES) + 0.5)[:, None] / PIECES
    steps = np.diff(points, axis=0)
    middles = (points[:-1, None] + s * steps[:, None]).reshape(-1, points.shape[1])
    rates = np.sqrt(2 * metric.energies(middles, np.repeat(steps, PIECES, axis=0)))
    return float(rates.sum() / PIECES)
