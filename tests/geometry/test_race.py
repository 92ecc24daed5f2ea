"""Which polygons are given up in a race."""

import itertools

import numpy as np
import pytest

from probgeo import metrics
from probgeo.geometry.chains import minimise
from probgeo.geometry.race import BEHIND, DONE, MERGED, RUNNING, Race, give_up, runs_along
from probgeo.geometry.search import as_chains
from probgeo.geometry.starts import lines

RNG = np.random.default_rng(4)
HALF = metrics.HalfPlane()
A, B = np.array([[-1.0, 0.5], [0.0, 1.0]]), np.array([[1.0, 1.0], [2.0, 1.0]])


def plainly_along(p, q, same):
    return np.abs(p - q).max() <= same * np.ptp(p, axis=0).max()


@pytest.mark.loops
def test_along_is_the_largest_distance_over_the_extent():
    for _ in range(50):
        p = RNG.normal(size=(9, 3))
        q = p + 0.1 * RNG.normal(size=p.shape)
        same = RNG.uniform(0.01, 0.2)
        assert runs_along(p, q, same) == plainly_along(p, q, same)
    assert not runs_along(p, np.full_like(p, np.nan), 1.0)


@pytest.mark.loops
def test_giving_up_against_plain_python():
    counts = np.array([1, 7, 12, 4])
    offsets = np.append(0, np.cumsum(counts))
    kinds = RNG.normal(size=(3, 5, 2))
    polygons = kinds[RNG.integers(3, size=offsets[-1])] + 1e-3 * RNG.normal(size=(24, 5, 2))
    energy, promise = RNG.uniform(1.0, 3.0, 24), RNG.uniform(0.0, 0.5, 24)
    before = RNG.choice([MERGED, RUNNING, DONE], 24)
    state = before.copy()
    give_up(offsets, polygons, energy, promise, 1.5, 0.05, state)
    expected = before.copy()
    for first, last in itertools.pairwise(offsets):
        mine = range(first, last)
        lowest = energy[first:last].min()
        for n in mine:
            if before[n] != RUNNING:
                continue
            if energy[n] - promise[n] > 1.5 * lowest:
                expected[n] = BEHIND
                continue
            ahead = [
                j
                for j in mine
                if j != n and (expected[j] == DONE or (expected[j] == RUNNING and energy[j] < energy[n]))
            ]
            if any(plainly_along(polygons[n], polygons[j], 0.05) for j in ahead):
                expected[n] = MERGED
    np.testing.assert_array_equal(state, expected)
    assert {BEHIND, MERGED, RUNNING} <= set(state[before == RUNNING])


def raced(polygons, offsets, patience):
    """All polygons are new, and none may be more than twice as long as the shortest."""
    new = np.ones(len(polygons), dtype=bool)
    return Race(polygons.copy(), np.full(len(polygons), np.inf), offsets, new, 2.0, 0.05, patience)


def test_polygons_that_fall_behind_are_given_up():
    """The second is between the same ends as the first, and by far the longer way."""
    polygons = np.concatenate([lines(A[:1], B[:1]), lines(A[:1], B[:1]), lines(A[1:], B[1:])])
    polygons[1, 1:-1, 1] += 50.0
    race = raced(polygons, np.array([0, 2, 3]), 0)
    done = minimise(HALF, as_chains(polygons), 1e-12, race=race)
    assert race.state.tolist() == [DONE, BEHIND, DONE]
    assert done.settled.tolist() == [True, False, True]
    assert done.steps[1] == 1


def test_polygons_that_lead_to_one_curve_merge():
    """Between two points of the half plane there is one geodesic: one polygon is left."""
    bends = np.sin(np.pi * np.linspace(0.0, 1.0, 9))[:, None] * [0.0, 1.0]
    polygons = np.concatenate([lines(A[:1], B[:1]) + share * bends for share in (0.0, 0.3, 0.6)])
    race = raced(polygons, np.array([0, 3]), 99)
    done = minimise(HALF, as_chains(polygons), 1e-12, race=race)
    assert sorted(race.state) == [MERGED, MERGED, DONE]
    alone = minimise(HALF, as_chains(lines(A[:1], B[:1])), 1e-12)
    np.testing.assert_allclose(done.energy[race.state == DONE], alone.energy, rtol=1e-12)
