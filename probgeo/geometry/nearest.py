"""Nearest neighbours without all pairs: points surely farther away than those already known are left out.

Candidates come in the order of lower bounds of their distances. When the bound of the next one is
above the k-th of the distances that are known, none of the remaining points can be among the nearest.

Bounds. Where L <= M(x) everywhere, every curve from a to b, geodesic or not, is at least as long as
the norm of b - a by L. Metrics that know no such L are bounded by the triangle inequality with some
pivots: d(a, b) >= |d(p, a) - d(p, b)|.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from probgeo.gaussian import ScalarGaussian
from probgeo.geometry.arguments import where_definite
from probgeo.geometry.ensembles import spread
from probgeo.metrics.arguments import far_apart
from probgeo.ragged import in_chunks, members_at_a_time

if TYPE_CHECKING:
    from probgeo.geometry.manifold import Manifold


@dataclass(frozen=True)
class Neighbors:
    """The nearest points, nearest first.

    Attributes
    ----------
    distance : ScalarGaussian (n, k)
    index : array (n, k)
        Their rows.
    converged : bool array (n, k)
    solved : float
        Share of all pairs whose geodesics were solved for.
    lost : int
        How many of these geodesics did not converge, and at how many points there is no metric:
        there may be nearer ones among them.
    """

    distance: ScalarGaussian
    index: np.ndarray
    converged: np.ndarray
    solved: float
    lost: int


class NeighborSearch:
    """Distances from points X (n, D) to points Y (m, D), or among X itself without Y, as needed.

    Attributes
    ----------
    solved, lost : int
        How many pairs were solved for, and how many of these are unknown nevertheless.
    """

    def __init__(self, manifold: "Manifold", X: np.ndarray, Y: np.ndarray | None, progress: bool | None) -> None:
        self.manifold, self.progress = manifold, progress
        self.X, self.Y, self.itself = X, X if Y is None else Y, Y is None
        self.usable = where_definite(manifold.metric, {"X": X})
        self.usable_too = where_definite(manifold.metric, {"Y": self.Y})
        self.solved, self.lost = 0, int(np.sum(~self.usable_too))
        self.lost += 0 if self.itself else int(np.sum(~self.usable))
        self.pairs = np.empty(0, dtype=np.int64)  # numbers of those that are known, sorted
        self.known = np.empty((3, 0))  # mean, standard deviation, whether converged
        floors = manifold.metric.floors(X.shape[1])
        self.roots = np.linalg.cholesky(floors) if len(floors) else None
        self.by_pivots = None if self.roots is not None else self.from_pivots()

    def from_pivots(self) -> tuple[np.ndarray, np.ndarray]:
        """Distances of pivots, some of Y far apart, from X (2, P, n) and Y (2, P, m): mean and std.

        So few that they cost at most an eighth of all pairs.
        """
        n, m = len(self.X), len(self.Y)
        count = int(min(0.5 * np.sqrt(m), n * m / (8 * (n + m))))
        if not count:
            return np.empty((2, 0, n)), np.empty((2, 0, m))
        usable = self.Y[self.usable_too]
        pivots = usable[far_apart(usable, count)]

        def to(points: np.ndarray, usable: np.ndarray) -> np.ndarray:
            found = np.full((2, len(pivots), len(points)), np.nan)
            a = np.repeat(pivots, usable.sum(), axis=0)
            mean, std, good = self.lengths(a, np.tile(points[usable], (len(pivots), 1)))
            mean[good == 0.0] = np.nan
            found[:, :, usable] = np.reshape([mean, std], (2, len(pivots), -1))
            return found

        to_y = to(self.Y, self.usable_too)
        return to_y if self.itself else to(self.X, self.usable), to_y

    def lengths(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        """Distances from a to b (n, D): mean, standard deviation, whether converged (3, n)."""
        self.solved += len(a)

        def work(k: np.ndarray) -> np.ndarray:
            mean, error, each, converged = self.manifold.lengths_between(a[k], b[k])
            return np.stack([mean, np.sqrt(error**2 + spread(each)), converged])

        bar = self.progress
        parts = in_chunks(work, len(a), most=512, travels=True, progress=bar, unit="distances")
        found = np.concatenate(parts, axis=1)
        self.lost += int(np.sum(found[2] == 0.0))
        return found

    def bounds(self, rows: np.ndarray) -> np.ndarray:
        """Lower bounds (r, m) of the distances of some of X, infinite where there are none."""
        lowest = np.zeros((len(rows), len(self.Y)))
        if self.roots is not None:
            for root in self.roots:
                x, y = self.X[rows] @ root, self.Y @ root
                for k in range(len(rows)):
                    np.maximum(lowest[k], np.linalg.norm(y - x[k], axis=1), out=lowest[k])
        elif self.by_pivots is not None:
            (to_x, std_x), (to_y, std_y) = self.by_pivots
            for p in range(len(to_y)):
                apart = np.abs(to_x[p, rows, None] - to_y[p])
                apart -= 2.0 * (std_x[p, rows, None] + std_y[p])
                np.fmax(lowest, apart, out=lowest)
        lowest *= 1.0 - self.manifold.accuracy.rtol  # lengths are no better known than that
        lowest[~np.logical_and.outer(self.usable[rows], self.usable_too)] = np.inf
        if self.itself:
            lowest[np.arange(len(rows)), rows] = np.inf
        return lowest

    def distances(self, i: np.ndarray, j: np.ndarray) -> np.ndarray:
        """Distances (3, p) of pairs, solved if they are not known. Among X each is solved once."""
        if self.itself:
            i, j = np.minimum(i, j), np.maximum(i, j)
        number = i * len(self.Y) + j
        new = np.setdiff1d(number, self.pairs)
        if len(new):
            found = self.lengths(self.X[new // len(self.Y)], self.Y[new % len(self.Y)])
            pairs = np.concatenate([self.pairs, new])
            order = np.argsort(pairs)
            self.pairs = pairs[order]
            self.known = np.concatenate([self.known, found], axis=1)[:, order]
        return self.known[:, np.searchsorted(self.pairs, number)]

    def nearest(self, rows: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
        """Distances (3, r, k) of the nearest of some of X, and who they are."""
        lowest = self.bounds(rows)
        order, found = np.argsort(lowest, axis=1), np.full((3, *lowest.shape), np.nan)
        reach, done = np.full(len(rows), np.inf), 0
        while True:
            who = order[:, done : done + k]
            bound = np.take_along_axis(lowest, who, axis=1)
            row, step = np.nonzero((bound <= reach[:, None]) & (bound < np.inf))
            if not len(row):
                break
            found[:, row, who[row, step]] = self.distances(rows[row], who[row, step])
            reach = np.partition(_last(found[0]), k - 1, axis=1)[:, k - 1]
            done += k
        index = np.argsort(_last(found[0]), axis=1, kind="stable")
        if self.itself:  # no point is its own neighbour
            index = index[index != rows[:, None]].reshape(len(rows), -1)
        index = index[:, :k]
        return np.take_along_axis(found, index[None], axis=2), index


def nearest(manifold: "Manifold", X: np.ndarray, k: int, Y: np.ndarray | None, progress: bool | None) -> Neighbors:
    """The k nearest of Y (m, D) for each of X (n, D); without Y of the others in X."""
    search = NeighborSearch(manifold, X, Y, progress)
    n, m = len(X), len(search.Y)
    at_a_time = members_at_a_time(8 * 8 * m)
    parts = [search.nearest(np.arange(first, min(first + at_a_time, n)), k) for first in range(0, n, at_a_time)]
    mean, std, converged = np.concatenate([found for found, _ in parts], axis=1)
    return Neighbors(
        ScalarGaussian.unchecked(mean, std**2),
        np.concatenate([index for _, index in parts]),
        converged == 1.0,
        search.solved / (n * (n - 1) / 2 if search.itself else n * m),
        search.lost,
    )


def _last(distances: np.ndarray) -> np.ndarray:
    """Those that are unknown, or of which there are none, behind all others."""
    return np.where(np.isnan(distances), np.inf, distances)
