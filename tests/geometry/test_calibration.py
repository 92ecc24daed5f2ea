"""Error bars at default settings, against geodesics a thousand times more precise."""

import numpy as np
import pytest

from probgeo import Manifold, metrics
from tests.geometry import shapes

T = np.linspace(0.0, 1.0, 33)[1:-1]
PAIRS = 80


@pytest.fixture(scope="module", params=["half circle", "spiral", "Swiss roll"])
def pair(request):
    """Geodesics of a learned metric at the default, and the same ones far more precisely."""
    rng = np.random.default_rng(1)
    points = shapes.draw(request.param, rng)
    metric = metrics.from_mixture(points, 10, seed=1)
    a, b = shapes.random_pairs(rng, points, PAIRS)
    found = Manifold(metric).geodesic(a, b)
    exact = Manifold(metric).with_precision(1e-6).geodesic(a, b, guess=found)
    good = found.converged & exact.converged & (found.length.mean > 0)
    good &= np.abs(found.length.mean / exact.length.mean - 1.0) < 1e-3  # the same local minimum
    assert np.mean(good) > 0.9
    return found[good], exact[good]


def test_positions(pair):
    found, exact = pair
    error, std = found.mean(T) - exact.mean(T), found.std(T)
    assert 0.90 <= np.mean(np.abs(error) <= 2.0 * std) <= 0.99
    assert 0.2 <= np.median(np.mean(error**2 / std**2, axis=(1, 2))) <= 4.0


def test_lengths(pair):
    found, exact = pair
    error, std = found.length.mean - exact.length.mean, found.length.std
    assert np.mean(np.abs(error) <= 2.0 * std) >= 0.90
    assert 0.1 <= np.median(error**2 / std**2) <= 4.0


def test_logarithms(pair):
    found, exact = pair
    error, std = found.log().mean - exact.log().mean, found.log().std
    assert np.mean(np.abs(error) <= 2.0 * std) >= 0.90
    assert 0.2 <= np.median(np.mean(error**2 / std**2, axis=1)) <= 4.0
