"""Which first curve leads to the shortest geodesic: several starts, and more where they disagree.

One rule: a few starts for every pair of ends, on coarse polygons. Where all of them come to one
curve, that is it. Elsewhere many more are tried, and the distinct curves that are not much longer
than the shortest are rivals, which go on to finer curves until it is clear which one is shortest.
"""

from dataclasses import dataclass

import numpy as np

from probgeo._loops import loop
from probgeo.geometry.chains import Chains, minimise
from probgeo.geometry.starts import SEGMENTS, Landmarks, detours, lines
from probgeo.metrics import Metric
from probgeo.ragged import offsets_of

NAMES = ("line", "graph", "detour", "continuation", "guess")
LINE, GRAPH, DETOUR, CONTINUATION, GUESS = range(5)
SHARES = (1 / 16, 1 / 4)  # of the sharpness of a metric, on the way to itself


@dataclass(frozen=True)
class Effort:
    """How hard the search for the shortest curve is.

    Attributes
    ----------
    near : int
        Detours tried for every pair of ends, over the landmarks that are least out of the way.
    always : bool
        Whether to try all starts even where the first ones agree.
    rivals : int
        Most curves that are refined.
    factor : float
        How much longer than the shortest a coarse polygon may be to be refined: polygons of eight
        segments are up to a sixth too short where curves bend a lot.
    """

    near: int = 3
    always: bool = False
    rivals: int = 4
    factor: float = 1.3
    tolerance: float = 1e-3  # expected relative decrease of the energy at which polygons are done
    same: float = 0.03  # how far apart one and the same curve may be, relative to its extent


EFFORTS = {
    "quick": Effort(near=1, rivals=2),
    "normal": Effort(),
    "thorough": Effort(always=True, rivals=8, factor=1.5),
}


@dataclass(frozen=True)
class Candidates:
    """Polygons (runs, S + 1, D) between the ends of members `owner` (runs,), in their order.

    energy (runs,); start (runs,): the kind of start that each came from; steps (runs,).
    """

    polygons: np.ndarray
    owner: np.ndarray
    energy: np.ndarray
    start: np.ndarray
    steps: np.ndarray

    def take(self, runs: np.ndarray) -> "Candidates":
        return Candidates(
            self.polygons[runs],
            self.owner[runs],
            self.energy[runs],
            self.start[runs],
            self.steps[runs],
        )

    def joined(self, other: "Candidates") -> "Candidates":
        """Both, ordered by owner."""
        both = (
            np.concatenate(pair)
            for pair in zip(vars(self).values(), vars(other).values(), strict=True)
        )
        everyone = Candidates(*both)
        return everyone.take(np.argsort(everyone.owner, kind="stable"))


def search(
    metric: Metric, landmarks: Landmarks, a: np.ndarray, b: np.ndarray, effort: Effort
) -> tuple[Candidates, np.ndarray]:
    """Rivals for the shortest curves from a to b (n, D), and how many distinct curves were met."""
    count = len(a)
    everyone = np.arange(count)
    if not len(landmarks) or metric.is_flat:
        found = descend(metric, lines(a, b), everyone, np.full(count, LINE), effort)
        if metric.is_flat or metric.smoother(1.0) is None:
            return found, np.ones(count, dtype=np.int64)
        return distinct(found.joined(continued(metric, a, b, everyone, effort)), count, effort)
    to_a, to_b = landmarks.edges(a), landmarks.edges(b)
    near = np.argsort(to_a + to_b, axis=1, kind="stable")
    first = near[:, : effort.near]
    W = first.shape[1]
    polygons = np.stack(
        [lines(a, b), landmarks.shortest(a, b, to_a, to_b)]
        + [detours(a, b, landmarks.points[first[:, k]]) for k in range(W)],
        axis=1,
    )
    kinds = np.tile([LINE, GRAPH] + [DETOUR] * W, count)
    owner = np.repeat(everyone, W + 2)
    found = descend(metric, polygons.reshape(-1, *polygons.shape[2:]), owner, kinds, effort)
    open_ = everyone if effort.always else np.flatnonzero(disagree(found, count, effort))
    if len(open_):
        rest = np.concatenate(
            [
                landmarks.points[near[open_, W:]],
                np.broadcast_to(
                    landmarks.sides, (len(open_), *landmarks.sides.shape)
                ),
            ],
            axis=1,
        )
        R = rest.shape[1]
        owner = np.repeat(open_, R)
        polygons = detours(a[owner], b[owner], rest.reshape(-1, rest.shape[2]))
        more = descend(metric, polygons, owner, np.full(len(owner), DETOUR), effort)
        found = found.joined(more)
        if metric.smoother(1.0) is not None:
            found = found.joined(continued(metric, a, b, open_, effort))
    return distinct(found, count, effort)


def descend(
    metric: Metric, polygons: np.ndarray, owner: np.ndarray, start: np.ndarray, effort: Effort
) -> Candidates:
    """Polygons of least energy near the given ones."""
    done = minimise(metric, as_chains(polygons), effort.tolerance)
    return Candidates(
        done.chains.nodes.reshape(polygons.shape), owner, done.energy, start, done.steps
    )


def continued(
    metric: Metric, a: np.ndarray, b: np.ndarray, members: np.ndarray, effort: Effort
) -> Candidates:
    """From the line by way of smoother metrics."""
    polygons = lines(a[members], b[members])
    for share in SHARES:
        smoother = metric.smoother(share)
        if smoother is not None:
            done = minimise(smoother, as_chains(polygons), 0.1)
            polygons = done.chains.nodes.reshape(polygons.shape)
    return descend(metric, polygons, members, np.full(len(members), CONTINUATION), effort)


def as_chains(polygons: np.ndarray) -> Chains:
    """Polygons (runs, S + 1, D) at equal steps of time."""
    runs, size, D = polygons.shape
    t = np.tile(np.linspace(0.0, 1.0, size), runs)
    return Chains(polygons.reshape(-1, 1, D), t, np.arange(runs + 1) * size)


def disagree(found: Candidates, count: int, effort: Effort) -> np.ndarray:
    """The members (count,) whose runs, equally many each, have not come to one curve."""
    polygons = found.polygons.reshape(count, -1, *found.polygons.shape[1:])
    best = np.argmin(found.energy.reshape(count, -1), axis=1)
    shortest = polygons[np.arange(count), best]
    extent = np.max(np.ptp(shortest, axis=1), axis=1)
    apart = np.abs(polygons - shortest[:, None]).max(axis=(1, 2, 3))
    return ~(apart <= effort.same * extent)


@loop
def pick_distinct(
    polygons: np.ndarray,
    energy: np.ndarray,
    offsets: np.ndarray,
    same: float,
    highest: float,
    most: int,
    keep: np.ndarray,
    minima: np.ndarray,
) -> None:
    """For every member the runs that are distinct and among the `most` of lowest energy.

    A run within `same` of its extent from one of lower energy is that one again. Runs of more than
    `highest` times the lowest energy are counted among the minima, not kept.
    """
    S1, D = polygons.shape[1], polygons.shape[2]
    for m in range(len(offsets) - 1):
        first, last = offsets[m], offsets[m + 1]
        order = first + np.argsort(energy[first:last], kind="mergesort")
        met = np.empty(last - first, dtype=np.int64)
        count = 0
        for n in order:
            if not energy[n] < np.inf:
                break
            extent = 0.0
            for d in range(D):
                extent = max(extent, polygons[n, :, d].max() - polygons[n, :, d].min())
            new = True
            for j in range(count):
                apart = 0.0
                for s in range(S1):
                    for d in range(D):
                        apart = max(apart, abs(polygons[n, s, d] - polygons[met[j], s, d]))
                if apart <= same * extent:
                    new = False
                    break
            if new:
                met[count] = n
                count += 1
                if count <= most and energy[n] <= highest * energy[order[0]]:
                    keep[n] = True
        if count == 0 and last > first:  # nothing finite: the line is kept, and will be flagged
            keep[first] = True
        minima[m] = count


def distinct(found: Candidates, count: int, effort: Effort) -> tuple[Candidates, np.ndarray]:
    """The rivals, and how many distinct curves every member has met."""
    offsets = offsets_of(np.bincount(found.owner, minlength=count))
    keep = np.zeros(len(found.owner), dtype=bool)
    minima = np.zeros(count, dtype=np.int64)
    pick_distinct(
        found.polygons,
        found.energy,
        offsets,
        effort.same,
        effort.factor**2,
        effort.rivals,
        keep,
        minima,
    )
    return found.take(np.flatnonzero(keep)), minima


__all__ = ["EFFORTS", "SEGMENTS", "Candidates", "Effort", "search"]
