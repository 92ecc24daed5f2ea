"""Which first curve leads to the shortest geodesic: several starts, and more where they disagree.

One rule. A few starts for every pair of ends, on coarse polygons; where all of them come to one
curve, that is it. Elsewhere many more are tried. Distinct curves that are not much longer than the
shortest are rivals: on finer and finer polygons fewer of them are left, and the last few go on to
elements, see `refine`.
"""

from dataclasses import dataclass, replace

import numpy as np

from probgeo._loops import loop
from probgeo.geometry.chains import Chains, Race, minimise
from probgeo.geometry.starts import Landmarks, detours, lines
from probgeo.metrics import Metric
from probgeo.ragged import offsets_of

NAMES = ("line", "graph", "detour", "continuation", "guess")
LINE, GRAPH, DETOUR, CONTINUATION, GUESS = range(5)
SHARES = (1 / 16, 1 / 4)  # of the sharpness of a metric, on the way to itself


@dataclass(frozen=True)
class Effort:
    """How hard the search for the shortest curve is.

    The comments say how many of 1492 curves (half circles, spirals, moons, rings and Swiss rolls,
    many of them with dozens of local minima) were more than 1 % too long with another value; 14 are
    with these, 3 in thorough searches.

    Attributes
    ----------
    near : int
        Detours tried for every pair of ends, over the landmarks that are least out of the way.
    many, pairs : int
        Distinct curves from which on there are likely to be others: detours over points beside the
        landmarks are tried as well, and over so many random pairs of all these.
    always : bool
        Whether to try all starts even where the first ones agree.
    tolerance : float
        Expected relative decrease of the energy at which polygons are done.
    hopeless, patience : float, int
        A start that is so many times longer than the shortest curve known, after so many rounds of
        Newton's method, is given up.
    same : float
        How far apart one and the same curve may be, relative to its extent.
    sieve : tuple of (float, int)
        Rivals that are left on polygons of 8, 16, 32, ... segments: how much longer than the
        shortest they may be (polygons of 8 segments are up to a sixth too short where curves bend a
        lot), and how many there may be.
    """

    near: int = 3
    many: int = 4  # 8: 18
    pairs: int = 0
    always: bool = False  # True: 11
    tolerance: float = 1e-3
    hopeless: float = 2.5  # 2.0: 18
    patience: int = 4
    same: float = 0.06  # 0.03: 15
    sieve: tuple[tuple[float, int], ...] = ((1.6, 20), (1.25, 8), (1.06, 2))


EFFORTS = {
    "quick": Effort(near=1, hopeless=1.5, sieve=((1.3, 4), (1.1, 2))),
    "normal": Effort(),
    "thorough": Effort(always=True, pairs=60, hopeless=9.0, sieve=((3.0, 99), (2.0, 40), (1.2, 6))),
}


@dataclass(frozen=True)
class Candidates:
    """Polygons (runs, S + 1, D) between the ends of members `owner` (runs,), sorted by these.

    energy, start, steps (runs,): the kinds of start they came from, and how many steps it took.
    """

    polygons: np.ndarray
    owner: np.ndarray
    energy: np.ndarray
    start: np.ndarray
    steps: np.ndarray

    def take(self, runs: np.ndarray) -> "Candidates":
        """Some of them."""
        return Candidates(*(values[runs] for values in vars(self).values()))

    def joined(self, other: "Candidates") -> "Candidates":
        """Both, sorted by owner."""
        pairs = zip(vars(self).values(), vars(other).values(), strict=True)
        both = Candidates(*(np.concatenate(pair) for pair in pairs))
        return both.take(np.argsort(both.owner, kind="stable"))

    def lowest(self, count: int) -> np.ndarray:
        """The least energy of every owner (count,)."""
        best = np.full(count, np.inf)
        np.minimum.at(best, self.owner, self.energy)
        return best


def search(
    metric: Metric, landmarks: Landmarks, a: np.ndarray, b: np.ndarray, effort: Effort
) -> tuple[list[Candidates], np.ndarray]:
    """Rivals for the shortest curves from a to b (n, D), and how many distinct curves were met.

    Rivals come in groups of one resolution each.
    """
    count = len(a)
    everyone = np.arange(count)
    if metric.is_flat:
        line = descend(metric, lines(a, b), everyone, LINE, effort)
        return [line], np.ones(count, dtype=np.int64)
    found, tried = first_wave(metric, landmarks, a, b, effort)
    more = everyone if effort.always else np.flatnonzero(disagree(found, count, effort))
    if len(more) and len(landmarks):
        untried = np.ones((len(more), len(landmarks)), dtype=bool)
        untried[np.arange(len(more))[:, None], tried[more]] = False
        points = landmarks.points[:, None]
        found = with_detours(metric, points, a, b, effort, found, more, untried)
        if metric.smoother(1.0) is not None:
            found = found.joined(continued(metric, a, b, more, effort))
        _, minima = distinct(found, count, effort.same, *effort.sieve[0])
        more = everyone if effort.always else np.flatnonzero(minima >= effort.many)
        for points in (landmarks.sides[:, None], landmarks.pairs(effort.pairs)):
            untried = np.ones((len(more), len(points)), dtype=bool)
            found = with_detours(metric, points, a, b, effort, found, more, untried)
    return sifted(metric, found, count, effort)


def first_wave(
    metric: Metric, landmarks: Landmarks, a: np.ndarray, b: np.ndarray, effort: Effort
) -> tuple[Candidates, np.ndarray]:
    """Line, path along the graph, detours over the nearest landmarks; which (n, near) these are.

    Without landmarks there is the line only, and what continuation makes of it.
    """
    count, everyone = len(a), np.arange(len(a))
    if not len(landmarks):
        found = descend(metric, lines(a, b), everyone, LINE, effort)
        if metric.smoother(1.0) is not None:
            found = found.joined(continued(metric, a, b, everyone, effort))
        return found, np.empty((count, 0), dtype=np.int64)
    to_a, to_b = landmarks.edges(a), landmarks.edges(b)
    near = np.argsort(to_a + to_b, axis=1, kind="stable")[:, : effort.near]
    over = [detours(a, b, landmarks.points[column][:, None]) for column in near.T]
    polygons = np.stack([lines(a, b), landmarks.stepping(a, b, to_a, to_b), *over], axis=1)
    starts = np.tile([LINE, GRAPH] + [DETOUR] * len(over), count)
    owner = np.repeat(everyone, polygons.shape[1])
    rows = polygons.reshape(-1, *polygons.shape[2:])
    return descend(metric, rows, owner, starts, effort), near


def with_detours(
    metric: Metric,
    points: np.ndarray,
    a: np.ndarray,
    b: np.ndarray,
    effort: Effort,
    found: Candidates,
    members: np.ndarray,
    wanted: np.ndarray,
) -> Candidates:
    """What was found, and detours of some members over points (P, V, D), `wanted` (members, P)."""
    row, point = np.nonzero(wanted)
    if not len(row):
        return found
    owner = members[row]
    race = Race(owner, found.lowest(len(a)), effort.hopeless**2, effort.patience)
    polygons = detours(a[owner], b[owner], points[point])
    return found.joined(descend(metric, polygons, owner, DETOUR, effort, race))


def continued(
    metric: Metric, a: np.ndarray, b: np.ndarray, members: np.ndarray, effort: Effort
) -> Candidates:
    """From the line by way of smoother metrics."""
    polygons = lines(a[members], b[members])
    for share in SHARES:
        smoother = metric.smoother(share)
        if smoother is not None:
            done = minimise(smoother, as_chains(polygons), 0.1)  # only on the way
            polygons = done.chains.nodes.reshape(polygons.shape)
    return descend(metric, polygons, members, CONTINUATION, effort)


def descend(
    metric: Metric,
    polygons: np.ndarray,
    owner: np.ndarray,
    start: int | np.ndarray,
    effort: Effort,
    race: Race | None = None,
) -> Candidates:
    """Polygons of least energy near the given ones; those that fall behind are given up."""
    done = minimise(metric, as_chains(polygons), effort.tolerance, race=race)
    nodes, starts = done.chains.nodes, np.broadcast_to(start, owner.shape)
    return Candidates(nodes.reshape(polygons.shape), owner, done.energy, starts, done.steps)


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


def sifted(
    metric: Metric, found: Candidates, count: int, effort: Effort
) -> tuple[list[Candidates], np.ndarray]:
    """Rivals that are left on finer polygons, and how many distinct curves there were before.

    Members with a single curve stay as coarse as they are.
    """
    factor, most = effort.sieve[0]
    found, minima = distinct(found, count, effort.same, factor, most)
    alone = np.bincount(found.owner, minlength=count)[found.owner] == 1
    single, several = found.take(np.flatnonzero(alone)), found.take(np.flatnonzero(~alone))
    if not len(several.owner):
        return [single], minima
    for factor, most in effort.sieve[1:]:
        fine = descend(metric, doubled(several.polygons), several.owner, several.start, effort)
        fine = replace(fine, steps=several.steps + fine.steps)
        several, _ = distinct(fine, count, effort.same, factor, most)
    return [part for part in (single, several) if len(part.owner)], minima


def doubled(polygons: np.ndarray) -> np.ndarray:
    """Polygons (runs, S + 1, D) with twice the segments, new points on cubics through four old."""
    runs, size, D = polygons.shape
    fine = np.empty((runs, 2 * size - 1, D))
    bend = polygons[:, 2:] - 2.0 * polygons[:, 1:-1] + polygons[:, :-2]
    bend = np.concatenate([bend[:, :1], bend, bend[:, -1:]], axis=1)
    fine[:, ::2] = polygons
    fine[:, 1::2] = 0.5 * (polygons[:, 1:] + polygons[:, :-1])
    fine[:, 1::2] -= 0.0625 * (bend[:, 1:] + bend[:, :-1])
    return fine


def distinct(
    found: Candidates, count: int, same: float, factor: float, most: int
) -> tuple[Candidates, np.ndarray]:
    """At most so many distinct curves for every member, and how many it has in all (count,).

    Those that are left are not more than `factor` times as long as the shortest.
    """
    offsets = offsets_of(np.bincount(found.owner, minlength=count))
    keep, minima = np.zeros(len(found.owner), dtype=bool), np.zeros(count, dtype=np.int64)
    pick_distinct(
        found.polygons, found.energy, offsets, same, float(factor) ** 2, most, keep, minima
    )
    return found.take(np.flatnonzero(keep)), minima


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
    `highest` times the lowest energy are counted among the minima, not kept. Where nothing is
    finite the first run is kept: the line, which will be flagged.
    """
    size, D = polygons.shape[1], polygons.shape[2]
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
                for s in range(size):
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
        if count == 0 and last > first:
            keep[first] = True
        minima[m] = count
