"""Conjugate times against closed forms, and against what they mean."""

import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from probgeo import ConvergenceWarning, Gaussian, Manifold, metrics, solvers
from tests.geometry.chains import random_metric
from tests.geometry.test_curvature import ellipsoid
from tests.metrics.test_charts import random_points

TIGHT = solvers.Markov(rtol=1e-8)


def torus(x):
    """Radii 2 and 1: M = diag((2 + cos x_2)^2, 1)."""
    return jnp.diag(jnp.array([(2.0 + jnp.cos(x[1])) ** 2, 1.0]))


def product(x):
    """Of spheres with radii 1 and 1/2."""
    scales = [r**2 * 4.0 / (1.0 + y @ y) ** 2 for r, y in ((1.0, x[:2]), (0.5, x[2:]))]
    return jnp.diag(jnp.repeat(jnp.stack(scales), 2))


def around(rng, dimension, count):
    """Unit velocities at points of the sphere, of circles that stay away from the other pole."""
    chart = metrics.Sphere(dimension)
    a, v = 0.4 * rng.normal(size=(2, count, dimension))
    v /= np.sqrt(chart.inner(a, v, v))[:, None]
    circle = np.stack([chart.exp(a, s * v) for s in np.linspace(0.0, 2.0 * np.pi, 401)])
    near = np.abs(circle).max(axis=(0, 2)) < 20.0
    return a[near], v[near]


def singular_values(manifold, a, v):
    """Of the derivative of the exponential map by v (D,), by differences."""
    h = 1e-4 * np.linalg.norm(v)
    ends = manifold.exp(a, v + h * np.concatenate([np.eye(len(v)), -np.eye(len(v))])).mean
    J = (ends[: len(v)] - ends[len(v) :]) / (2.0 * h)
    return np.linalg.svd(J, compute_uv=False)


class TestClosedForms:
    @pytest.mark.parametrize("dimension", [2, 3, 5])
    def test_spheres(self, dimension):
        """At length pi, where all D - 1 fields vanish at a time, and within error bars."""
        a, v = around(np.random.default_rng(dimension), dimension, 60)
        length = np.random.default_rng(0).uniform(2.0, 6.0, len(a))
        found = Manifold(metrics.Sphere(dimension)).conjugate_time(a, length[:, None] * v)
        beyond = length > np.pi
        assert beyond.sum() > 10
        assert np.isinf(found.mean[~beyond]).all()
        error = (found.mean - np.pi / length)[beyond]
        assert np.abs(error).max() < 1e-3
        assert np.mean(np.abs(error) <= 2.0 * found.std[beyond]) >= 0.9
        assert found.std[beyond].max() < 1e-3

    @pytest.mark.parametrize("rtol", [1e-3, 1e-6])
    def test_errors_are_those_of_their_bars(self, rtol):
        """From both sides, as the design has it: a median of squares of .3 to 3."""
        a, v = around(np.random.default_rng(7), 2, 100)
        found = Manifold(metrics.Sphere()).with_precision(rtol).conjugate_time(a, v, until=5.0)
        error = np.abs(found.mean - np.pi)
        assert np.mean(error <= 2.0 * found.std) >= 0.9
        assert 0.3 <= np.median((error / found.std) ** 2) <= 3.0

    @pytest.mark.parametrize("chart", [metrics.PoincareBall, metrics.HalfPlane])
    def test_none_in_hyperbolic_space(self, chart):
        a, v = random_points(chart, np.random.default_rng(0), 3, count=6)
        found = Manifold(chart(3)).conjugate_time(a, v, until=2.0)
        assert np.isinf(found.mean).all()
        assert (found.std == 0.0).all()

    def test_none_in_flat_space(self):
        A = np.array([[2.0, 0.5], [0.5, 1.0]])
        assert np.isinf(Manifold(metrics.Flat(A)).conjugate_time([0, 0], [1, 3], until=50.0).mean)
        cylinder = metrics.Pullback(lambda x: jnp.array([jnp.cos(x[0]), jnp.sin(x[0]), x[1]]))
        assert np.isinf(Manifold(cylinder).conjugate_time([0, 0], [20.0, 1.0]).mean)

    @pytest.mark.parametrize("rounds", [0.6, 3.0, 60.0])
    def test_outer_equator_of_a_torus(self, rounds):
        """Straight in coordinates, whatever its Jacobi fields do; K = 1/3 at radius 3."""
        found = Manifold(torus).conjugate_time([0.0, 0.0], [2.0 * np.pi * rounds, 0.0])
        error = 2.0 * rounds * found.mean - 1.0 / np.sqrt(3.0)
        assert np.abs(error) <= 3.0 * 2.0 * rounds * found.std < 1e-3

    def test_inner_equator_of_a_torus(self):
        """K = -1."""
        assert np.isinf(Manifold(torus).conjugate_time([0.0, np.pi], [4.0 * np.pi, 0.0]).mean)

    def test_product_of_spheres(self):
        """Whichever factor comes to pi first."""
        (a, u), (b, w) = (around(np.random.default_rng(k), 2, 20) for k in (1, 2))
        n = min(len(a), len(b))
        x = np.concatenate([a[:n], b[:n]], axis=1)
        angles = np.random.default_rng(3).uniform(0.5, 6.0, (n, 2))
        v = np.concatenate([angles[:, :1] * u[:n], angles[:, 1:] * w[:n]], axis=1)
        found = Manifold(product, TIGHT).conjugate_time(x, v).mean
        first = np.pi / angles.max(axis=1)
        assert 3 < np.sum(first < 1.0) < n
        np.testing.assert_allclose(found, np.where(first < 1.0, first, np.inf), rtol=1e-6)


class TestMeaning:
    def test_the_exponential_map_is_singular_and_curves_are_not_the_shortest(self):
        manifold = Manifold(metrics.Pullback(ellipsoid), TIGHT)
        a, v = np.array([0.2, -0.3]), np.array([4.0, 0.6])
        time = float(manifold.conjugate_time(a, v).mean)
        assert 0.2 < time < 0.9
        smallest, largest = np.sort(singular_values(manifold, a, time * v))
        assert smallest < 1e-5 * largest
        assert singular_values(manifold, a, 0.9 * time * v).min() > 0.01 * largest
        beyond = 1.1 * time * v
        end = manifold.exp(a, beyond).mean
        assert manifold.distance(a, end).mean < manifold.norm(a, beyond) * (1.0 - 1e-6)

    def test_local_metrics_in_three_dimensions(self):
        rng = np.random.default_rng(5)
        manifold = Manifold(random_metric(rng, 3, count=8, rho=2.0), TIGHT)
        a, v = 0.5 * rng.normal(size=(40, 3)), 3.0 * rng.normal(size=(40, 3))
        times = manifold.conjugate_time(a, v, until=1.5).mean
        found = np.flatnonzero(np.isfinite(times))
        assert 3 <= len(found) < 40
        for k in found:
            values = singular_values(manifold, a[k], times[k] * v[k])
            assert values[-1] < 1e-4 * values[0]

    @settings(max_examples=5)
    @given(seed=st.integers(0, 10**6))
    def test_none_before_the_end_of_a_geodesic(self, seed):
        """A local minimum of the energy has none inside."""
        rng = np.random.default_rng(seed)
        manifold = Manifold(random_metric(rng, 2, rho=2.0)).with_precision(1e-5)
        a, b = rng.normal(size=(2, 3, 2))
        geodesic = manifold.geodesic(a, b)
        assert geodesic.converged.all()
        time = manifold.conjugate_time(a, geodesic.velocity, until=2.0)
        assert np.all(time.mean > 1.0 - 1e-4)

    def test_units_of_time(self):
        manifold = Manifold(metrics.Pullback(ellipsoid), TIGHT)
        a, v = np.array([0.2, -0.3]), np.array([4.0, 0.6])
        one = manifold.conjugate_time(a, v)
        other = manifold.conjugate_time(a, 0.1 * v, until=12.0)
        assert other.mean == pytest.approx(10.0 * one.mean, rel=1e-6)
        assert np.isinf(manifold.conjugate_time(a, v, until=0.99 * float(one.mean)).mean)


class TestInput:
    def test_shapes_and_simple_cases(self):
        sphere = Manifold(metrics.Sphere(3))
        v = np.array([[0.0, 0.0, 0.0], [0.5, 0.1, 0.0]])  # one that does not move
        found = sphere.conjugate_time(np.full((4, 1, 3), 0.3), v)
        assert found.mean.shape == found.std.shape == (4, 2)
        assert np.isinf(found.mean).all()
        line = Manifold(lambda x: jnp.exp(x)[:, None])
        assert np.isinf(line.conjugate_time([0.0], [1.0]).mean)

    def test_bad_input(self):
        sphere = Manifold(metrics.Sphere(3))
        with pytest.raises(ValueError, match="until must be positive, got -1"):
            sphere.conjugate_time(np.zeros(3), np.ones(3), until=-1)
        with pytest.raises(ValueError, match=r"v must have shape \(..., 3\)"):
            sphere.conjugate_time(np.zeros(3), np.ones(2))
        with pytest.raises(TypeError, match="v must be an array of numbers"):
            sphere.conjugate_time(np.zeros(3), Gaussian(np.ones(3)))
        with pytest.raises(ValueError, match="positive definite at a"):
            Manifold(metrics.HalfPlane()).conjugate_time([0.0, -1.0], [1.0, 0.0])

    def test_geodesics_that_leave_the_chart_are_flagged(self):
        """From one pole to the other and on; the rest of the batch is unharmed."""
        sphere = Manifold(metrics.Sphere())
        a, v = np.array([[0.0, 0.0], [0.5, 0.0]]), np.array([[2.0, 0.0], [0.0, 3.0]])
        with pytest.warns(ConvergenceWarning, match="1 of 2 conjugate times"):
            found = sphere.conjugate_time(a, v)
        assert np.isnan(found.mean[0])
        assert np.isnan(found.std[0])
        assert found.mean[1] * sphere.norm(a[1], v[1]) == pytest.approx(np.pi, rel=1e-3)
