"""Geodesics, distances, logarithms, exponentials and transports against closed forms."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from probgeo import Manifold, initial, metrics, solvers
from tests.geometry.metrics.test_charts import random_points

KINDS = (metrics.Sphere, metrics.PoincareBall, metrics.HalfPlane)
TIGHT = solvers.Markov(n_points=40, rtol=1e-8, linearisation="zeroth")


class Chart(metrics.Metric):
    """Sphere, ball or half space: which one is a number, so that all compile once."""

    kind: jax.Array

    def scale(self, x):
        square = x @ x
        # in the branches not taken nothing may divide by zero: its derivative would be NaN
        within = 4.0 / (1.0 - jnp.where(self.kind == 1, square, 0.0)) ** 2
        above = 1.0 / jnp.where(self.kind == 2, x[-1], 1.0) ** 2
        other = jnp.where(self.kind == 2, above, 4.0 / (1.0 + square) ** 2)
        return jnp.where(self.kind == 1, within, other)

    def __call__(self, x):
        return jnp.eye(x.size) * self.scale(x)

    def apply(self, x, v):
        return self.scale(x) * v

    def solve(self, x, p):
        return p / self.scale(x)


CASES = [(number, size) for size in (2, 3, 5) for number in range(3)]


@pytest.fixture(scope="module", params=CASES, ids=lambda c: f"{KINDS[c[0]].__name__}-{c[1]}")
def case(request):
    """A manifold, and what is known of it: a, v, b = exp_a(v), distance, middle, u carried."""
    number, size = request.param
    kind, rng = KINDS[number], np.random.default_rng(number)
    chart = kind(size)
    a, v = random_points(kind, rng, size, count=4)
    a, v = 0.7 * a, 0.5 * v  # lengths up to one
    a[:, -1] = np.abs(a[:, -1]) + 0.1
    b, u = chart.exp(a, v), v[::-1]
    manifold = Manifold(Chart(jnp.array(number)), TIGHT, initial.EnergyDescent())
    known = (chart.distance(a, b), chart.exp(a, 0.5 * v), u, chart.transport(a, b, u))
    return manifold, a, v, b, *known


@pytest.mark.slow
class TestClosedForms:
    """Sphere, ball and half space in 2, 3 and 5 dimensions."""

    def test_geodesic_distance_logarithm_and_transport(self, case):
        manifold, a, v, b, distance, middle, u, carried = case
        geodesic = manifold.geodesic(a, b)
        assert bool(np.all(geodesic.converged))
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
