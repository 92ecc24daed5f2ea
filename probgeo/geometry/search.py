"""Which first curve leads to the shortest geodesic: several starts, on coarse polygons.

One rule. Besides the straight line, for every landmark the shortest way along straight edges that
passes it, unless it is too long to lead to the shortest curve. Starts compete: one that runs along
a lower curve, or falls far behind the lowest, is given up. Distinct curves that are not much longer
than the shortest are rivals: on finer and finer polygons fewer of them are left, and the last few
go on to elements, see `refine`.
"""

from dataclasses import dataclass

import numpy as np

from probgeo._loops import loop
from probgeo.geometry.chains import Chains, minimise
from probgeo.geometry.race import RUNNING, Race, runs_along
from probgeo.geometry.starts import Landmarks, beside, detours, lines, polygon_lengths
from probgeo.metrics import Metric
from probgeo.ragged import offsets_of

STARTS = ("line", "graph", "detour", "continuation", "guess")  # the fourth in older files only
LINE, GRAPH, DETOUR, _, GUESS = range(5)


@dataclass(frozen=True)
class Effort:
    """How hard the search for the shortest curve is.

    The comments say how many of 3453 curves (moons, rings, spirals, rolls, helices, trefoils, and
    digits in 2 to 50 dimensions, see `benchmarks/search.py`) were silently more than 1 % too long
    with another value, and the time it took; 7 are with these.

    Attributes
    ----------
    detours : float
        Routes over landmarks are followed if they are at most this many times as long, along straight edges, as the
        shortest curve known. They may be longer than the curves that they lead to.
    bow : float
        Without landmarks, bows are followed if they are at most this many times as long as the curve known; in a
        featureless plane they are 1.4 times as long. Of 200 pairs among 12 bumps 19 were missed
        without bows, 7 with 1.1, 3 with 1.3 (at 1.4 times the price, and the same price on gentle
        metrics), 2 with 1.6.
    check : bool
        Whether curves are compared with straight lines.
    tolerance : float
        Expected relative decrease of the energy at which polygons are done.
    hopeless, patience : float, int
        A start that is `hopeless` times as long as the shortest curve known after `patience` rounds of Newton's method
        is given up.
    same : float
        How far apart one and the same curve may be, relative to its extent.
    sieve : tuple of (float, int)
        Rivals that are left on polygons of 8, 16, 32, ... segments: how much longer than the
        shortest they may be, and how many there may be.
    """

    detours: float = 1.4  # 1.2: 39 in 0.7 of the time, 1.3: 10, 1.6: 3 in 1.25 times, 2: 2
    bow: float = 1.3
    check: bool = True
    tolerance: float = 1e-3  # 1e-2: 8
    hopeless: float = 2.5  # 1.5: 7
    patience: int = 6  # 3: 7
    same: float = 0.1  # 0.2: 37 in 0.7 of the time, 0.05: 4 in 1.1 times
    sieve: tuple[tuple[float, int], ...] = ((1.3, 12), (1.1, 4), (1.03, 2))  # (1.3, 12), (1.05, 2), (1.02, 1): 8


EFFORTS = {
    "rough": Effort(detours=0.0, check=False, hopeless=1.5, sieve=((1.0, 1),)),
    "quick": Effort(detours=1.2, hopeless=1.5, sieve=((1.3, 4), (1.1, 2))),
    "normal": Effort(),
    "thorough": Effort(detours=4.0, tolerance=1e-4, hopeless=9.0, same=0.06, sieve=((3.0, 99), (2.0, 40), (1.2, 6))),
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
        return Candidates(*(values[runs] for values in vars(self).values()))

    def joined(self, other: "Candidates") -> "Candidates":
        """Both, sorted by owner."""
        pairs = zip(vars(self).values(), vars(other).values(), strict=True)
        both = Candidates(*(np.concatenate(pair) for pair in pairs))
        return both.take(np.argsort(both.owner, kind="stable"))


def no_candidates(polygons: np.ndarray) -> Candidates:
    """No candidates of that many segments."""
    none = np.empty(0, dtype=np.int64)
    return Candidates(polygons[:0], none, np.empty(0), none, none)


def search(
    metric: Metric, landmarks: Landmarks, a: np.ndarray, b: np.ndarray, effort: Effort, known: np.ndarray | None = None
) -> tuple[list[Candidates], np.ndarray]:
    """Rivals for the shortest curves from a to b (n, D), and how many distinct curves were met.

    Rivals come in groups of one resolution each. `known` are polygons (n, S + 1, D) to begin with.
    Between equal ends there is the line alone.
    """
    met, everyone, apart = Met(metric, a, b, effort), np.arange(len(a)), np.any(a != b, axis=1)
    firsts = {LINE: lines(a, b)} if known is None else {LINE: lines(a, b), GUESS: known}
    if metric.is_flat or not len(landmarks):
        met.begin(firsts)
        if not metric.is_flat:
            met.bowed()
    else:
        routes = landmarks.routes(a, b)
        shortest = np.argmin(routes.length, axis=1)
        graph = np.where(apart[:, None, None], routes.polygons(everyone, shortest), firsts[LINE])
        met.begin(firsts | {GRAPH: graph})
        worth = apart[:, None] & (routes.length < effort.detours * met.shortest()[:, None])
        worth[everyone, shortest] = False
        member, over = np.nonzero(worth)
        order = np.lexsort((routes.length[member, over], member))  # of two alike the shorter one is followed
        met.follow(routes.polygons(member[order], over[order]), member[order], DETOUR)
    return sifted(metric, met.found, len(a), effort)


class Met:
    """Curves that were `found` so far between the ends a, b (n, D)."""

    def __init__(self, metric: Metric, a: np.ndarray, b: np.ndarray, effort: Effort) -> None:
        self.metric, self.a, self.b, self.effort = metric, a, b, effort
        self.found = no_candidates(lines(a[:0], b[:0]))

    def begin(self, firsts: dict[int, np.ndarray]) -> None:
        """Follow the polygons (n, S + 1, D) of some kinds of starts."""
        stacked = np.stack(list(firsts.values()), axis=1)
        owner = np.repeat(np.arange(len(self.a)), len(firsts))
        start = np.tile(list(firsts), len(self.a))
        self.follow(stacked.reshape(-1, *stacked.shape[2:]), owner, start)

    def follow(self, polygons: np.ndarray, owner: np.ndarray, start: int | np.ndarray) -> None:
        """Polygons (runs, S + 1, D) to where they lead, unless that is known or far too long."""
        if not len(owner):
            return
        known = self.found.take(np.flatnonzero(np.isin(self.found.owner, owner)))
        race = race_of(polygons, owner, known, self.effort, self.effort.hopeless)
        runs, starts = race.begin(), np.broadcast_to(start, owner.shape)
        done = descend(self.metric, polygons[runs], owner[runs], starts[runs], self.effort, race)
        self.found = self.found.joined(done)

    def bowed(self) -> None:
        """Follow bows on both sides of the line that are hardly longer than what is known."""
        for over in beside(self.metric, self.a, self.b):
            polygons = detours(self.a, self.b, over)
            worth = np.flatnonzero(polygon_lengths(self.metric, polygons) < self.effort.bow * self.shortest())
            self.follow(polygons[worth], worth, DETOUR)

    def shortest(self) -> np.ndarray:
        """The least lengths (n,)."""
        lowest = np.full(len(self.a), np.inf)
        np.minimum.at(lowest, self.found.owner, self.found.energy)
        return np.sqrt(2.0 * lowest)


def race_of(polygons: np.ndarray, owner: np.ndarray, known: Candidates, effort: Effort, factor: float) -> Race:
    """New polygons (runs, S + 1, D), sorted by owner, against each other and known ones."""
    everybody = np.concatenate([owner, known.owner])
    order = np.argsort(everybody, kind="stable")
    return Race(
        np.concatenate([polygons, known.polygons])[order],
        np.concatenate([np.full(len(owner), np.inf), known.energy])[order],
        offsets_of(np.bincount(everybody)),
        order < len(owner),
        factor,
        effort.same,
        effort.patience,
    )


def descend(
    metric: Metric, polygons: np.ndarray, owner: np.ndarray, start: np.ndarray, effort: Effort, race: Race
) -> Candidates:
    """Polygons of least energy near the given ones, but for those that lose the race."""
    done = minimise(metric, as_chains(polygons), effort.tolerance, race=race)
    made = Candidates(done.chains.nodes.reshape(polygons.shape), owner, done.energy, start, done.steps)
    return made.take(np.flatnonzero(race.state >= RUNNING))


def as_chains(polygons: np.ndarray) -> Chains:
    """Polygons (runs, S + 1, D) at equal steps of time."""
    runs, size, D = polygons.shape
    t = np.tile(np.linspace(0.0, 1.0, size), runs)
    return Chains(polygons.reshape(-1, 1, D), t, np.arange(runs + 1) * size)


def sifted(metric: Metric, found: Candidates, count: int, effort: Effort) -> tuple[list[Candidates], np.ndarray]:
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
        fine, owner = doubled(several.polygons), several.owner
        race = race_of(fine, owner, no_candidates(fine), effort, effort.hopeless)
        several = descend(metric, fine, owner, several.start, effort, race)
        several, _ = distinct(several, count, effort.same, factor, most)
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


def distinct(found: Candidates, count: int, same: float, factor: float, most: int) -> tuple[Candidates, np.ndarray]:
    """At most so many distinct curves for every member, and how many it has in all (count,).

    Those that are left are not more than `factor` times as long as the shortest.
    """
    offsets = offsets_of(np.bincount(found.owner, minlength=count))
    keep, minima = np.zeros(len(found.owner), dtype=bool), np.zeros(count, dtype=np.int64)
    pick_distinct(found.polygons, found.energy, offsets, same, float(factor) ** 2, most, keep, minima)
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
    for m in range(len(offsets) - 1):
        first, last = offsets[m], offsets[m + 1]
        order = first + np.argsort(energy[first:last], kind="mergesort")
        met = np.empty(last - first, dtype=np.int64)
        count = 0
        for n in order:
            if not energy[n] < np.inf:
                break
            new = True
            for j in range(count):
                if runs_along(polygons[n], polygons[met[j]], same):
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
