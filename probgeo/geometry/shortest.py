"""Shortest curves between rows of points: search, then refine."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from probgeo.geometry.chains import Chains, gauss_points
from probgeo.geometry.elements import extents, from_fine_polygons, from_polygons, on_equal_steps
from probgeo.geometry.refine import Accuracy, Refined, refine
from probgeo.geometry.search import GUESS, LINE, Candidates, Effort, search
from probgeo.geometry.starts import SEGMENTS, Landmarks, lines
from probgeo.metrics import Metric
from probgeo.ode.curve import OK, SINGULAR
from probgeo.ragged import members_of


@dataclass(frozen=True)
class Shortest(Refined):
    """Curves from a to b, and how they were found, (members,) each.

    longer : whether a curve is longer than the straight line
    start : kinds of starts, see `search.STARTS`
    minima : how many distinct curves were met
    """

    longer: np.ndarray
    start: np.ndarray
    minima: np.ndarray

    def take(self, members: np.ndarray) -> "Shortest":
        values = {name: value[members] for name, value in vars(self).items() if name != "chains"}
        return Shortest(chains=self.chains.take(members), **values)

    @classmethod
    def joined(cls, parts: "Sequence[Shortest]") -> "Shortest":
        """Members one after the other."""
        if len(parts) == 1:
            return parts[0]
        names = [name for name in vars(parts[0]) if name != "chains"]
        values = {name: np.concatenate([vars(part)[name] for part in parts]) for name in names}
        return cls(chains=Chains.joined([part.chains for part in parts]), **values)


def shortest(
    metric: Metric,
    landmarks: Landmarks,
    a: np.ndarray,
    b: np.ndarray,
    effort: Effort,
    accuracy: Accuracy,
    guess: Chains | None = None,
    patience: int | None = None,
) -> Shortest:
    """The shortest curves known from a to b (n, D). With a guess, those near it.

    Where these are longer than the straight line or not solved, with `patience` in so many steps on
    a mesh, the search starts anew. Without any patience it does so everywhere, also from the guess.
    """
    everyone = np.arange(len(a))

    def competed(k: np.ndarray, chains: Chains, owner: np.ndarray, start: np.ndarray) -> Shortest:
        """The shortest of the rivals `owner` (runs,) for every member of k, refined."""
        if accuracy.fixed is not None:
            chains = on_equal_steps(chains, accuracy.fixed)
        made = refine(metric, chains, owner, len(k), accuracy, patience or None)
        longer = np.zeros(len(k), dtype=bool)
        if effort.check:
            longer = longer_than_lines(metric, a[k], b[k], made.length)
        ones = np.ones(len(k), dtype=np.int64)
        return Shortest(**vars(made), longer=longer, start=start[made.run], minima=ones)

    if guess is not None and patience != 0:
        still = np.all(a == b, axis=1)
        first = competed(everyone, staying(guess, still), everyone, np.full(len(a), GUESS))
        lost = first.longer | (first.status != OK)
        return retried(first, lost, lambda k: shortest(metric, landmarks, a[k], b[k], effort, accuracy))
    known = None
    if guess is not None:
        nodes = on_equal_steps(guess, SEGMENTS + 1).nodes[:, 0]
        known = nodes.reshape(len(a), SEGMENTS + 1, -1)
    found, minima = search(metric, landmarks, a, b, effort, known)
    first = competed(everyone, *rivals(found, accuracy))
    first.minima[:] = np.maximum(minima - first.again, 1)
    for part in found:
        np.add.at(first.evaluations, part.owner, SEGMENTS * part.steps)

    def from_lines(k: np.ndarray) -> Shortest:
        chains = from_polygons(lines(a[k], b[k], 4 * SEGMENTS))
        return competed(k, chains, np.arange(len(k)), np.full(len(k), LINE))

    def from_beside(k: np.ndarray) -> Shortest:
        chains = pushed(first.chains.take(k))
        return competed(k, chains, np.arange(len(k)), first.start[k])

    # a saddle, by symmetry for instance, has lower curves beside it
    first = retried(first, first.status == SINGULAR, from_beside)
    # polygons may be too coarse to see that the line is shorter, or may have jumped over something
    return retried(first, first.longer | (first.status != OK), from_lines)


def staying(chains: Chains, still: np.ndarray) -> Chains:
    """The same curves, but for the members `still` (members,), which stay where they begin."""
    if not still.any():
        return chains
    member = members_of(chains.offsets)
    rest, begin = still[member][:, None], chains.nodes[chains.offsets[:-1], 0][member]
    nodes = np.stack([np.where(rest, begin, chains.nodes[:, 0]), np.where(rest, 0.0, chains.nodes[:, 1])], axis=1)
    return Chains(nodes, chains.t, chains.offsets)


def retried(curves: Shortest, which: np.ndarray, solve: Callable[[np.ndarray], Shortest]) -> Shortest:
    """The same with other curves for the members `which` (members,), where these are shorter, or solved at last."""
    members = np.flatnonzero(which)
    if not len(members):
        return curves
    others = solve(members)
    solved, before = others.status == OK, curves.status[members] == OK
    better = np.where(solved == before, others.length < curves.length[members], solved)
    index = np.arange(len(curves.start))
    index[members[better]] = len(index) + np.flatnonzero(better)
    result = Shortest.joined([curves, others]).take(index)
    result.minima[members] = np.maximum(curves.minima[members], others.minima)
    return result


def pushed(chains: Chains, share: float = 0.02) -> Chains:
    """Curves bent by a share of their extent to one side, across the way from end to end.

    There is no such side if D = 1.
    """
    D, member = chains.nodes.shape[2], members_of(chains.offsets)
    first, last = chains.offsets[:-1], chains.offsets[1:] - 1
    along = chains.nodes[last, 0] - chains.nodes[first, 0]
    size = np.linalg.norm(along, axis=1, keepdims=True)
    along /= np.where(size > 0, size, 1.0)
    axis = np.eye(D)[np.argmin(np.abs(along), axis=1)]
    aside = axis - np.sum(axis * along, axis=1, keepdims=True) * along
    aside *= share * extents(chains)[:, None]
    t, nodes = chains.t[:, None], chains.nodes.copy()
    nodes[:, 0] += np.sin(np.pi * t) * aside[member]
    nodes[:, 1] += np.pi * np.cos(np.pi * t) * aside[member]
    nodes[first, 0], nodes[last, 0] = chains.nodes[first, 0], chains.nodes[last, 0]
    return Chains(nodes, chains.t, chains.offsets)


def rivals(found: list[Candidates], accuracy: Accuracy) -> tuple[Chains, np.ndarray, np.ndarray]:
    """Candidates as cubic elements, ordered by their owners, with these and their starts."""
    parts = [as_elements(part.polygons, accuracy) for part in found]
    owner = np.concatenate([part.owner for part in found])
    start = np.concatenate([part.start for part in found])
    order = np.argsort(owner, kind="stable")
    return Chains.joined(parts).take(order), owner[order], start[order]


def as_elements(polygons: np.ndarray, accuracy: Accuracy) -> Chains:
    """Cubic elements through polygons: all points of coarse ones, those needed of finer ones.

    The first mesh aims at a quarter of the tolerance. Rough curves, which statistics begin with,
    get by with as few as two elements: in fifty dimensions that halves the time of a mean.
    """
    rough = accuracy.rtol >= 1e-2
    if polygons.shape[1] == SEGMENTS + 1 and not rough:
        return from_polygons(polygons)
    extent = np.max(np.ptp(polygons, axis=1), axis=1)
    wanted = np.maximum(accuracy.rtol * extent + accuracy.atol, 1e-9 * extent + 1e-300)
    return from_fine_polygons(polygons, 0.25 * wanted, 2 if rough else SEGMENTS)


def longer_than_lines(
    metric: Metric, a: np.ndarray, b: np.ndarray, length: np.ndarray, slack: float = 1e-4
) -> np.ndarray:
    """Whether curves are longer than straight lines by more than the share `slack`.

    Lengths of lines are by Gauss' rule with 16 points; where that is close with 32, and with 512
    where these differ, as on metrics that are not smooth, by a tenth of what decides it.
    """
    line = line_lengths(metric, a, b, 1)
    unsure = np.flatnonzero(length > 0.98 * line)
    for panels in (2, 32):
        if len(unsure):
            finer = line_lengths(metric, a[unsure], b[unsure], panels)
            decides = np.abs(length[unsure] - (1.0 + slack) * finer)
            limit = 0.1 * np.maximum(slack * finer, decides)
            changed = ~(np.abs(finer - line[unsure]) <= limit)
            line[unsure] = finer
            unsure = unsure[changed]
    return length > (1.0 + slack) * line


def line_lengths(metric: Metric, a: np.ndarray, b: np.ndarray, panels: int) -> np.ndarray:
    """Lengths of straight lines, by Gauss' rule with 16 points on each of some equal panels."""
    points, weights = gauss_points(16)
    s = ((np.arange(panels)[:, None] + points) / panels).reshape(-1, 1)
    v = np.repeat((b - a)[:, None], len(s), axis=1)
    x = (a[:, None] + s * v).reshape(-1, a.shape[1])
    energies = metric.energies(x, v.reshape(x.shape)).reshape(len(a), -1)
    return np.sqrt(np.maximum(2.0 * energies, 0.0)) @ np.tile(weights, panels) / panels
