"""Geodesics, distances, logarithms, exponentials and transports against closed forms."""

import numpy as np
import pytest

from probgeo import Manifold, metrics, solvers
from tests.metrics.test_charts import random_points

KINDS = (metrics.Sphere, metrics.PoincareBall, metrics.HalfPlane)
TIGHT = solvers.Markov(rtol=1e-8)
CASES = [(kind, size) for size in (2, 3, 5) for kind in KINDS]


@pytest.fixture(scope="module", params=CASES, ids=lambda c: f"{c[0].__name__}-{c[1]}")
def case(request):
    """A manifold, and what is known of it: a, v, b = exp_a(v), distance, middle, u carried."""
    kind, size = request.param
    rng, chart = np.random.default_rng(size), kind(size)
    a, v = random_points(kind, rng, size, count=6)
    a, v = 0.7 * a, 0.5 * v  # lengths up to one
    a[:, -1] = np.abs(a[:, -1]) + 0.1
    b, u = chart.exp(a, v), v[::-1].copy()
    known = (chart.distance(a, b), chart.exp(a, 0.5 * v), u, chart.transport(a, b, u))
    return Manifold(chart, TIGHT), a, v, b, *known


class TestClosedForms:
    """Sphere, ball and half space in 2, 3 and 5 dimensions."""

    def test_geodesic_distance_logarithm_and_transport(self, case):
        manifold, a, v, b, distance, middle, u, carried = case
        geodesic = manifold.geodesic(a, b)
        assert geodesic.converged.all()
        np.testing.assert_allclose(geodesic.length.mean, distance, rtol=1e-6)
        np.testing.assert_allclose(geodesic.mean(0.5), middle, atol=1e-6)
        # erratum 8: the norm is the Riemannian one, so that log is c'(0)
        log = geodesic.log().mean
        np.testing.assert_allclose(log, v, atol=1e-6 * np.abs(v).max())
        np.testing.assert_allclose(manifold.norm(a, log), distance, rtol=1e-6)
        found = manifold.transport(geodesic, u).mean
        np.testing.assert_allclose(found, carried, atol=1e-6 * np.abs(v).max())

    def test_exponential_map(self, case):
        manifold, a, v, b, *_ = case
        np.testing.assert_allclose(manifold.exp(a, v).mean, b, atol=1e-6)


@pytest.mark.parametrize("kind", KINDS)
def test_errors_at_default_tolerances_are_within_their_bars(kind):
    """Positions, lengths and logarithms, of geodesics up to one long."""
    rng, chart = np.random.default_rng(0), kind(2)
    a, v = random_points(kind, rng, 2, count=60)
    a, v = 0.7 * a, 0.5 * v
    a[:, -1] = np.abs(a[:, -1]) + 0.1
    path = np.stack([chart.exp(a, s * v) for s in np.linspace(0.0, 1.0, 51)])
    near = np.abs(path).max(axis=(0, 2)) < 5.0  # the sphere's chart ends at a pole
    a, v = a[near], v[near]
    assert len(a) > 40
    b = chart.exp(a, v)
    geodesic = Manifold(chart).geodesic(a, b)
    assert geodesic.converged.all()
    t = np.array([0.2, 0.45, 0.7])
    exact = np.stack([chart.exp(a, s * v) for s in t], axis=1)
    for error, std in (
        (geodesic.mean(t) - exact, geodesic.std(t)),
        (geodesic.length.mean - chart.distance(a, b), geodesic.length.std),
        (geodesic.log().mean - v, geodesic.log().std),
    ):
        floor = 1e-13  # round-off
        assert np.mean(np.abs(error) <= 2.0 * std + floor) >= 0.9
        assert 0.05 <= np.median(error**2 / (std**2 + floor**2)) <= 4.0
