"""Geodesics do not get lost on learned metrics, and say so if they do.

All shapes are taken in three dimensions, so that one compilation serves them all; the sweep over
the plane and over more seeds is part of benchmarks/geodesics.py.
"""

import numpy as np
import pytest
from shortest import shortest_lengths

from probgeo import Manifold, metrics
from tests.geometry import shapes

COMPONENTS, PAIRS = 16, 40


def draw(name, rng):
    if name == "Swiss roll":
        return shapes.swiss_roll(rng)
    return shapes.in_space(shapes.PLANE[name], rng)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::probgeo.ConvergenceWarning")
@pytest.mark.parametrize("name", [*shapes.PLANE, "Swiss roll"])
def test_geodesics_are_shortest_or_flagged(name):
    rng = np.random.default_rng(0)
    data = draw(name, rng)
    metric = metrics.from_mixture(data, COMPONENTS)
    a, b = shapes.random_pairs(rng, data, PAIRS)
    geodesic = Manifold(metric).geodesic(a, b)
    lengths, good = np.asarray(geodesic.length.mean), np.asarray(geodesic.converged)
    best = shortest_lengths(metric, data, a, b)
    close = lengths <= 1.01 * best
    assert np.all(close | ~good), "silently wrong"
    assert np.mean(close) >= 0.99  # of 40: all
    # nothing is flagged for nothing much
    assert np.mean(good) >= 0.95
