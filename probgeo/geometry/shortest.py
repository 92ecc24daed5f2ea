"""Shortest curves between rows of points: search, then refine."""

from dataclasses import dataclass, fields

import numpy as np

from probgeo import ragged
from probgeo.geometry.chains import Chains
from probgeo.geometry.elements import from_polygons
from probgeo.geometry.refine import Accuracy, Refined, refine
from probgeo.geometry.search import GUESS, LINE, Effort, search
from probgeo.geometry.starts import SEGMENTS, Landmarks, lines
from probgeo.metrics import Metric
from probgeo.ode.curve import OK

LINE_POINTS, MORE_POINTS = 16, 512  # at which the speed along straight lines is taken
SLACK = 1e-4  # relative, of lengths that are compared with lines


@dataclass(frozen=True)
class Shortest:
    """Curves from a to b, and how they were found, (members,) each.

    longer : whether a curve is longer than the straight line
    start : kinds of starts, see `search.NAMES`
    minima : how many distinct curves were met
    """

    refined: Refined
    longer: np.ndarray
    start: np.ndarray
    minima: np.ndarray

    def __len__(self) -> int:
        return len(self.start)


def shortest(
    metric: Metric,
    landmarks: Landmarks,
    a: np.ndarray,
    b: np.ndarray,
    effort: Effort,
    accuracy: Accuracy,
    guess: Chains | None = None,
) -> Shortest:
    """The shortest curves known from a to b (n, D). With a guess, those near it.

    Where these are longer than the straight line or not solved, the search starts anew.
    """
    count = len(a)
    if guess is None:
        found, minima = search(metric, landmarks, a, b, effort)
        chains, owner, start = from_polygons(found.polygons), found.owner, found.start
        spent = np.bincount(owner, SEGMENTS * found.steps, minlength=count).astype(np.int64)
    else:
        chains, owner, start = guess, np.arange(count), np.full(count, GUESS)
        minima, spent = np.ones(count, dtype=np.int64), np.zeros(count, dtype=np.int64)
    made = refine(metric, chains, owner, count, accuracy)
    made.evaluations[:] += spent
    longer = longer_than_lines(metric, a, b, made.length)
    first = Shortest(made, longer, start[made.run], minima)
    again = np.flatnonzero(longer if guess is None else longer | (made.status != OK))
    if not len(again):
        return first
    if guess is not None:
        other = shortest(metric, landmarks, a[again], b[again], effort, accuracy)
    else:  # polygons were too coarse to see that
        line = from_polygons(lines(a[again], b[again], 4 * SEGMENTS))
        made = refine(metric, line, np.arange(len(again)), len(again), accuracy)
        longer = longer_than_lines(metric, a[again], b[again], made.length)
        other = Shortest(made, longer, np.full(len(again), LINE), first.minima[again])
    return replaced(first, again, other)


def longer_than_lines(
    metric: Metric, a: np.ndarray, b: np.ndarray, length: np.ndarray
) -> np.ndarray:
    """Whether curves are longer than straight lines, looked at closely where it is close."""
    longer = length > 0.98 * line_lengths(metric, a, b, LINE_POINTS)
    close = np.flatnonzero(longer)
    if len(close):
        exact = line_lengths(metric, a[close], b[close], MORE_POINTS)
        longer[close] = length[close] > (1.0 + SLACK) * exact
    return longer


def line_lengths(metric: Metric, a: np.ndarray, b: np.ndarray, points: int) -> np.ndarray:
    """Lengths of straight lines, by the midpoint rule."""
    s = (np.arange(points) + 0.5)[:, None] / points
    v = np.repeat((b - a)[:, None], points, axis=1)
    x = (a[:, None] + s * v).reshape(-1, a.shape[1])
    energies = metric.energies(x, v.reshape(x.shape)).reshape(len(a), -1)
    return np.mean(np.sqrt(np.maximum(2.0 * energies, 0.0)), axis=1)


def joined(parts: list[Shortest]) -> Shortest:
    """Members one after the other."""
    if len(parts) == 1:
        return parts[0]
    made = [part.refined for part in parts]
    offsets, nodes, t = ragged.joined(
        [(r.chains.offsets, r.chains.nodes, r.chains.t) for r in made]
    )
    rest = {
        field.name: np.concatenate([getattr(r, field.name) for r in made])
        for field in fields(Refined)
        if field.name != "chains"
    }
    return Shortest(
        Refined(chains=Chains(nodes, t, offsets), **rest),
        *(
            np.concatenate([getattr(part, name) for part in parts])
            for name in ("longer", "start", "minima")
        ),
    )


def taken(curves: Shortest, members: np.ndarray) -> Shortest:
    """Some members."""
    made = curves.refined
    rest = {
        field.name: getattr(made, field.name)[members]
        for field in fields(Refined)
        if field.name != "chains"
    }
    return Shortest(
        Refined(chains=made.chains.take(members), **rest),
        curves.longer[members],
        curves.start[members],
        curves.minima[members],
    )


def replaced(curves: Shortest, members: np.ndarray, others: Shortest) -> Shortest:
    """The same with other curves for some members, where these are shorter."""
    shorter = others.refined.length < curves.refined.length[members]
    index = np.arange(len(curves))
    index[members[shorter]] = len(curves) + np.flatnonzero(shorter)
    return taken(joined([curves, others]), index)
