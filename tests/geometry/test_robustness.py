"""Geodesics do not get lost on learned metrics, and say so if they do.

All shapes are taken in three dimensions, so that one compilation serves them all; the sweep over
the plane and over more seeds is part of benchmarks/geodesics.py.
"""

import numpy as np
import pytest
from shortest import shortest_lengths

from probgeo import Manifold, metrics
from probgeo.paper.classical import NumpyMetric
from tests.geometry import shapes

COMPONENTS, PAIRS = 8, 40
TIMES = (np.arange(1000) + 0.5) / 1000


def draw(name, rng):
    if name == "Swiss roll":
        return shapes.swiss_roll(rng)
    return shapes.in_space(shapes.PLANE[name], rng)


def path_errors(metric, geodesic):
    """How far curves are off, relative to their extent, by a metric written in NumPy.

    The residual c'' - f(c, c') of each, integrated twice so that it vanishes at both ends.
    """
    plain, found = NumpyMetric(metric), []
    for c, dc, ddc in zip(*(np.asarray(geodesic.mean(TIMES, d)) for d in (0, 1, 2)), strict=True):
        residual = ddc - plain.acceleration(c.T, dc.T).T
        twice = np.cumsum(np.cumsum(residual, axis=0), axis=0) / len(TIMES) ** 2
        off = twice - TIMES[:, None] * twice[-1]
        found.append(np.abs(off).max() / max(np.abs(c - c[0]).max(), 1e-300))
    return np.array(found)


@pytest.fixture(scope="module")
def found():
    """Lengths over the best known, which are not flagged, lengths over lines, path errors."""
    parts = []
    for name in [*shapes.PLANE, "Swiss roll"]:
        rng = np.random.default_rng(0)
        data = draw(name, rng)
        metric = metrics.from_mixture(data, COMPONENTS)
        a, b = shapes.random_pairs(rng, data, PAIRS)
        manifold = Manifold(metric)
        geodesic = manifold.geodesic(a, b)
        length, best = np.asarray(geodesic.length.mean), shortest_lengths(metric, data, a, b)
        s = (np.arange(200) + 0.5)[:, None, None] / 200
        line = np.mean(manifold.norm(a + s * (b - a), b - a), axis=0)
        moving = line > 0
        length, best, line = (np.where(moving, x, 1.0) for x in (length, best, line))
        good = np.asarray(geodesic.converged)
        parts.append((length / best, good, length / line, path_errors(metric, geodesic)))
    return [np.concatenate(x) for x in zip(*parts, strict=True)]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::probgeo.ConvergenceWarning")
class TestLearnedMetrics:
    """Half circle, spiral of three turns, two moons, ring and Swiss roll, 40 pairs each."""

    def test_lengths_are_those_of_the_best_known_curves(self, found):
        ratio, *_ = found
        assert np.mean(ratio <= 1.01) >= 0.99

    def test_what_is_not_flagged_is_a_geodesic(self, found):
        """And not longer than the line; that no other one is shorter cannot be promised."""
        _, good, over_line, path_error = found
        assert np.all(over_line[good] <= 1.0 + 1e-4)
        assert path_error[good].max() < 1e-2
        assert np.mean(good) >= 0.97
