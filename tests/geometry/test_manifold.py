"""Manifolds: the laws of distance, both kinds of uncertainty, and bad input."""

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from probgeo import ConvergenceWarning, Gaussian, Geodesic, Manifold, metrics, solvers
from tests.geometry.reference import random_tensors

FIXED = solvers.Markov(n_points=48)  # one size of mesh, so that little is compiled


def random_metric(rng, dimension=2):
    """Four tensors around the origin, of conditions up to ten or so."""
    centers = rng.normal(size=(4, dimension))
    return metrics.LocalMetrics(centers, random_tensors(rng, 4, dimension, low=0.3), rho=0.5)


def changed(metric, A):
    """The same metric in the coordinates y = A x."""
    inverse = np.linalg.inv(A)
    tensors = inverse.T @ np.asarray(metric.tensors) @ inverse
    return metrics.LocalMetrics(metric.centers @ A.T, tensors, metric.rho)


@pytest.mark.slow
class TestLaws:
    """What is true of every manifold, here of random learned metrics."""

    @settings(max_examples=6)
    @given(seed=st.integers(0, 10**6))
    def test_laws(self, seed):
        rng = np.random.default_rng(seed)
        metric = random_metric(rng)
        manifold = Manifold(metric, FIXED)
        a, b, c = rng.normal(size=(3, 2))
        # one batch of four: there, back, and by way of a third point
        geodesic = manifold.geodesic(np.stack([a, b, a, c]), np.stack([b, a, c, b]))
        assert bool(np.all(geodesic.converged)), geodesic.message
        there, back, first, second = np.asarray(geodesic.length.mean)
        log = geodesic.log()
        ends = np.stack([b, a, c, b])
        starts = np.stack([a, b, a, c])
        # distance is symmetric; the error of a length is the square of that of the curve
        np.testing.assert_allclose(there, back, rtol=1e-6)
        assert there <= (first + second) * (1 + 1e-6)
        # the logarithm has the length of the geodesic
        np.testing.assert_allclose(manifold.norm(starts, log.mean), geodesic.length.mean, rtol=1e-9)
        # and leads to its end
        np.testing.assert_allclose(manifold.exp(starts, log.mean).mean, ends, atol=1e-4)
        # the speed is constant
        t = np.linspace(0.0, 1.0, 9)
        speeds = manifold.norm(geodesic.mean(t), geodesic.mean(t, 1))
        np.testing.assert_allclose(
            speeds, np.asarray(geodesic.length.mean)[:, None] + 0 * t, rtol=1e-4
        )
        # never longer than the straight line, measured by the plainest rule
        s = (np.arange(400) + 0.5)[:, None] / 400
        line = [
            np.mean(manifold.norm(x + s * (y - x), y - x))
            for x, y in zip(starts, ends, strict=True)
        ]
        assert np.all(np.asarray(geodesic.length.mean) <= np.array(line) * (1 + 1e-6))

    @settings(max_examples=3)
    @given(seed=st.integers(0, 10**6))
    def test_lengths_do_not_depend_on_coordinates(self, seed):
        rng = np.random.default_rng(seed)
        metric = random_metric(rng)
        a, b = rng.normal(size=(2, 4, 2))
        A = np.eye(2) + 0.4 * rng.uniform(-1, 1, size=(2, 2))
        offset = 100.0 * rng.normal(size=2)  # results must not depend on the origin either
        plain = Manifold(metric, FIXED).distance(a, b).mean
        moved = changed(metric, A)
        moved = eqx.tree_at(lambda m: m.centers, moved, moved.centers + offset)
        other = Manifold(moved, FIXED).distance(a @ A.T + offset, b @ A.T + offset).mean
        np.testing.assert_allclose(other, plain, rtol=1e-6)


RNG = np.random.default_rng(3)
METRIC = random_metric(RNG)
POINTS = RNG.normal(size=(2, 4, 2))


@pytest.fixture(scope="module")
def manifold():
    return Manifold(METRIC, FIXED)


@pytest.fixture(scope="module")
def geodesic(manifold):
    return manifold.geodesic(*POINTS)


class TestGeodesic:
    def test_is_a_curve_that_knows_how_it_was_found(self, geodesic):
        assert isinstance(geodesic, Geodesic)
        assert geodesic.batch_shape == (4,)
        known = {"energy descent", "continuation", "graph", "polished start"}
        assert set(geodesic.start) <= known
        np.testing.assert_allclose(geodesic.mean(0.0), POINTS[0], atol=1e-12)
        np.testing.assert_allclose(geodesic.mean(1.0), POINTS[1], atol=1e-12)
        np.testing.assert_allclose(
            geodesic.energy, np.asarray(geodesic.length.mean) ** 2, rtol=1e-6
        )
        assert "4 of 4 converged" in repr(geodesic)

    def test_members(self, geodesic):
        one = geodesic[2]
        assert one.batch_shape == ()
        assert one.message == "converged"
        assert float(one.length.mean) == float(geodesic.length.mean[2])
        np.testing.assert_allclose(one.log().mean, geodesic.log().mean[2], rtol=1e-12)

    def test_broadcasting(self, manifold):
        lengths = manifold.distance(POINTS[0, :2, None], POINTS[1, None, :2])
        assert lengths.mean.shape == (2, 2)
        single = manifold.distance(POINTS[0, 1], POINTS[1, 0])
        np.testing.assert_allclose(lengths.mean[1, 0], single.mean, rtol=1e-9)

    def test_chunks_change_nothing(self, manifold, geodesic):
        parts = manifold.geodesic(*POINTS, chunk=1, progress=False)
        np.testing.assert_allclose(parts.length.mean, geodesic.length.mean, rtol=1e-9)
        np.testing.assert_allclose(parts.mean(0.3), geodesic.mean(0.3), atol=1e-6)

    def test_warm_start(self, manifold, geodesic):
        again = manifold.geodesic(POINTS[0] + 0.01, POINTS[1], guess=geodesic)
        assert set(again.start) == {"guess"}
        fresh = manifold.geodesic(POINTS[0] + 0.01, POINTS[1])
        np.testing.assert_allclose(again.length.mean, fresh.length.mean, rtol=1e-6)


class TestUncertainty:
    def test_boundary_and_numerics_are_told_apart(self, manifold):
        cov = 0.01**2 * np.array([[1.0, 0.3], [0.3, 2.0]])
        a, b = POINTS[0], Gaussian(POINTS[1], np.broadcast_to(cov, (4, 2, 2)))
        geodesic = manifold.geodesic(a, b)
        parts = [geodesic.measure(source=s).cov for s in ("total", "numerical", "boundary")]
        np.testing.assert_allclose(parts[0], parts[1] + parts[2], rtol=1e-12)
        assert np.all(parts[2] > 1e4 * parts[1])
        # first variation, by differences of distances
        h = 1e-4
        moved = [manifold.distance(a, POINTS[1] + h * e).mean for e in np.eye(2)]
        slopes = np.stack([(m - geodesic.length.mean) / h for m in moved], axis=1)
        expected = np.einsum("bi,ij,bj->b", slopes, cov, slopes)
        np.testing.assert_allclose(parts[2], expected, rtol=1e-2)

    def test_sampled_and_linearised_agree_where_ends_are_uncertain(self, manifold):
        b = Gaussian(POINTS[1], np.broadcast_to(1e-4 * np.eye(2), (4, 2, 2)))
        geodesic = manifold.geodesic(POINTS[0], b)
        linear, drawn = (geodesic.measure(m, n=400) for m in ("linearised", "sampled"))
        # the standard deviation of 400 draws is known to 1/sqrt(800), here within 4 of these
        np.testing.assert_allclose(drawn.std, linear.std, rtol=0.15)
        linear, drawn = (geodesic.log(m, n=400) for m in ("linearised", "sampled"))
        np.testing.assert_allclose(drawn.std, linear.std, rtol=0.2)

    def test_the_paper_s_solver_agrees_up_to_what_it_states(self, manifold, geodesic):
        """Squared distances in standard deviations: chi-squared, here within four of its own."""
        paper = Manifold(METRIC, solvers.Dense(n_points=24, error_model="linearised"))
        other = paper.geodesic(*POINTS, guess=geodesic)
        assert bool(np.all(other.converged))
        here, there = geodesic(0.5), other(0.5)
        cov = here.cov + there.cov
        off = there.mean - here.mean
        squares = np.einsum("bi,bij,bj->b", off, np.linalg.inv(cov), off)
        assert np.sum(squares) <= off.size + 4.0 * np.sqrt(2.0 * off.size)
        np.testing.assert_allclose(other.length.mean, geodesic.length.mean, rtol=1e-3)

    def test_exponential_map_of_an_uncertain_velocity(self, manifold):
        a, v = POINTS[0], 0.5 * POINTS[1]
        cov = 1e-4 * np.eye(2)
        found = manifold.exp(a, Gaussian(v, np.broadcast_to(cov, (4, 2, 2))))
        h = 1e-4
        moved = [manifold.exp(a, v + h * e).mean for e in np.eye(2)]
        J = np.stack([(m - found.mean) / h for m in moved], axis=2)
        np.testing.assert_allclose(found.cov, J @ cov @ J.transpose(0, 2, 1), rtol=0.02, atol=1e-7)


class TestBadInput:
    @pytest.mark.parametrize("call", ["geodesic", "distance", "log", "exp"])
    def test_wrong_dimension(self, manifold, call):
        with pytest.raises(ValueError, match=r"must have shape \(..., 2\)"):
            getattr(manifold, call)(np.zeros(3), np.zeros(3))

    def test_not_finite(self, manifold):
        with pytest.raises(ValueError, match="b must be finite"):
            manifold.geodesic([0.0, 0.0], [np.nan, 0.0])

    def test_axes_that_do_not_broadcast(self, manifold):
        with pytest.raises(ValueError, match="must broadcast"):
            manifold.geodesic(np.zeros((2, 2)), np.zeros((3, 2)))

    def test_names(self, manifold, geodesic):
        with pytest.raises(ValueError, match="method must be"):
            manifold.distance([0.0, 0.0], [1.0, 0.0], method="exact")
        with pytest.raises(ValueError, match="source must be"):
            geodesic.measure(source="other")
        with pytest.raises(TypeError, match="start must be"):
            Manifold(METRIC, start="line")

    def test_no_distance(self, manifold):
        points = np.concatenate([POINTS[0, :3], POINTS[1, :1]])
        geodesic = manifold.geodesic(points, POINTS[0])  # three of four stay where they are
        assert bool(np.all(geodesic.converged))
        np.testing.assert_array_equal(geodesic.length.mean[:3], 0.0)
        np.testing.assert_array_equal(geodesic.log().mean[:3], 0.0)
        assert np.all(np.isfinite(geodesic.length.std))

    @pytest.mark.filterwarnings("ignore::probgeo.ConvergenceWarning")
    def test_far_outside_the_data(self, manifold):
        """The way to a point far away crosses the data in a moment: solved, or flagged."""
        b = np.concatenate([POINTS[1, :1] + [500.0, 0.0], POINTS[1, 1:]])
        far = manifold.geodesic(POINTS[0], b)
        good = np.asarray(far.converged)
        assert good[1:].all()
        line = manifold.norm(POINTS[0, 0] + np.linspace(0, 1, 20001)[:, None] * (b - POINTS[0])[0],
                             (b - POINTS[0])[0]).mean()  # fmt: skip
        assert not good[0] or far.length.mean[0] <= line * (1 + 1e-3)

    @pytest.mark.filterwarnings("ignore::probgeo.ConvergenceWarning")
    def test_no_metric_on_the_way(self):
        """Between the first two points lies a wall in which the metric is negative."""
        metric = metrics.Conformal(lambda x: 1.0 - 2.0 * jnp.exp(-20.0 * x[0] ** 2))
        a = np.array([[-1.0, 0.0], [0.6, 0.1], [0.7, 0.3], [0.9, 0.1]])
        b = np.array([[1.0, 0.0], [0.9, 0.3], [1.2, 0.1], [0.6, 0.2]])
        geodesic = Manifold(metric, FIXED).geodesic(a, b)
        assert np.asarray(geodesic.converged).tolist() == [False, True, True, True]
        assert geodesic.message[0] != "converged"

    @pytest.mark.slow
    def test_no_metric_at_an_end(self):
        metric = metrics.Conformal(lambda x: 1.0 - x @ x)  # negative beyond the unit circle
        manifold = Manifold(metric, FIXED)
        a = np.array([[0.1, 0.0], [0.2, 0.1], [0.1, 0.3], [0.0, 0.1]])
        b = np.array([[0.3, 0.2], [2.0, 0.0], [-0.2, 0.1], [0.2, 0.2]])
        with pytest.warns(ConvergenceWarning, match="1 of 4"):
            geodesic = manifold.geodesic(a, b)
        assert np.asarray(geodesic.converged).tolist() == [True, False, True, True]
        assert "not positive definite at one of the ends" in geodesic.message[1]
        assert np.isnan(geodesic.length.mean[1])
        with pytest.raises(ValueError, match="positive definite at b"):
            manifold.geodesic(a, b[1])
