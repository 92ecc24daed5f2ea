"""Manifolds: the laws of distance, both kinds of uncertainty, and bad input."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from probgeo import ConvergenceWarning, Gaussian, Geodesic, Manifold, metrics, solvers
from probgeo.geometry.search import STARTS
from tests.geometry.chains import random_metric


def changed(metric, A, offset=0.0):
    """The same metric in the coordinates y = A x + offset."""
    inverse = np.linalg.inv(A)
    tensors = inverse.T @ metric.tensors @ inverse
    return metrics.LocalMetrics(metric.centers @ A.T + offset, tensors, metric.rho)


class TestLaws:
    """What is true of every manifold, here of random learned metrics."""

    @settings(max_examples=10)
    @given(seed=st.integers(0, 10**6), dimension=st.integers(1, 4))
    def test_laws(self, seed, dimension):
        rng = np.random.default_rng(seed)
        manifold = Manifold(random_metric(rng, dimension)).with_precision(1e-6)
        a, b, c = rng.normal(size=(3, dimension))
        # one batch of four: there, back, and by way of a third point
        starts, ends = np.stack([a, b, a, c]), np.stack([b, a, c, b])
        geodesic = manifold.geodesic(starts, ends)
        assert geodesic.converged.all(), geodesic.message
        there, back, first, second = geodesic.length.mean
        log = geodesic.log()
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
        np.testing.assert_allclose(speeds, geodesic.length.mean[:, None] + 0 * t, rtol=1e-4)
        # never longer than the straight line, measured by the plainest rule
        s = (np.arange(400) + 0.5)[:, None, None] / 400
        line = np.mean(manifold.norm(starts + s * (ends - starts), ends - starts), axis=0)
        assert np.all(geodesic.length.mean <= line * (1 + 1e-6))

    @settings(max_examples=6)
    @given(seed=st.integers(0, 10**6))
    def test_lengths_do_not_depend_on_coordinates(self, seed):
        rng = np.random.default_rng(seed)
        metric = random_metric(rng)
        a, b = rng.normal(size=(2, 4, 2))
        A = np.eye(2) + 0.4 * rng.uniform(-1, 1, size=(2, 2))
        offset = 100.0 * rng.normal(size=2)  # results must not depend on the origin either
        plain = Manifold(metric).with_precision(1e-5).distance(a, b).mean
        moved = Manifold(changed(metric, A, offset)).with_precision(1e-5)
        other = moved.distance(a @ A.T + offset, b @ A.T + offset).mean
        np.testing.assert_allclose(other, plain, rtol=1e-6)


RNG = np.random.default_rng(3)
METRIC = random_metric(RNG)
POINTS = RNG.normal(size=(2, 4, 2))


@pytest.fixture(scope="module")
def manifold():
    return Manifold(METRIC)


@pytest.fixture(scope="module")
def geodesic(manifold):
    return manifold.geodesic(*POINTS)


class TestGeodesic:
    def test_is_a_curve_that_knows_how_it_was_found(self, geodesic):
        assert isinstance(geodesic, Geodesic)
        assert geodesic.batch_shape == (4,)
        assert set(geodesic.start) <= set(STARTS)
        np.testing.assert_array_equal(geodesic.mean(0.0), POINTS[0])
        np.testing.assert_allclose(geodesic.mean(1.0), POINTS[1], atol=1e-14)
        np.testing.assert_allclose(geodesic.energy, geodesic.length.mean**2, rtol=1e-4)
        assert "4 of 4 converged" in repr(geodesic)
        assert "length=" in repr(geodesic[0])
        assert {"length", "n_minima", "gap", "start"} <= set(geodesic.summary().columns)
        assert np.all(geodesic.gap >= 0)

    def test_members(self, geodesic):
        one = geodesic[2]
        assert one.batch_shape == ()
        assert one.message == "converged"
        assert float(one.length.mean) == float(geodesic.length.mean[2])
        np.testing.assert_array_equal(one.log().mean, geodesic.log().mean[2])
        np.testing.assert_array_equal(geodesic[1:3].log().mean, geodesic.log().mean[1:3])

    def test_broadcasting(self, manifold):
        lengths = manifold.distance(POINTS[0, :2, None], POINTS[1, None, :2])
        assert lengths.mean.shape == (2, 2)
        single = manifold.distance(POINTS[0, 1], POINTS[1, 0])
        assert lengths.mean[1, 0] == single.mean

    def test_neither_batch_nor_order_nor_threads_matter(self, manifold, geodesic, monkeypatch):
        many = [np.tile(x, (40, 1)) for x in POINTS]
        monkeypatch.setenv("PROBGEO_THREADS", "2")
        found = manifold.geodesic(*many, progress=False)
        for k in (0, 77, 159):
            assert found.length.mean[k] == geodesic.length.mean[k % 4]
            np.testing.assert_array_equal(found[k].mean(0.3), geodesic[k % 4].mean(0.3))
            np.testing.assert_array_equal(found[k].std(0.3), geodesic[k % 4].std(0.3))

    def test_warm_start(self, manifold, geodesic):
        again = manifold.geodesic(POINTS[0] + 0.01, POINTS[1], guess=geodesic)
        assert set(again.start) == {"guess"}
        fresh = manifold.geodesic(POINTS[0] + 0.01, POINTS[1])
        np.testing.assert_allclose(again.length.mean, fresh.length.mean, rtol=1e-4)
        assert np.all(again.n_evaluations < fresh.n_evaluations)
        for guess in (geodesic.mean(np.linspace(0, 1, 30)), geodesic.mean):
            known = manifold.geodesic(*POINTS, guess=guess)
            np.testing.assert_allclose(known.length.mean, geodesic.length.mean, rtol=1e-4)

    def test_a_bad_guess_is_no_harm(self, manifold, geodesic):
        wild = 30.0 * np.random.default_rng(0).normal(size=(4, 9, 2))
        found = manifold.geodesic(*POINTS, guess=wild)
        assert found.converged.all()
        s = (np.arange(400) + 0.5)[:, None, None] / 400
        line = manifold.norm(POINTS[0] + s * (POINTS[1] - POINTS[0]), POINTS[1] - POINTS[0])
        assert np.all(found.length.mean <= line.mean(axis=0) * (1 + 1e-3))

    def test_distance_matrix(self, manifold):
        X, Y = POINTS
        matrix = manifold.distance_matrix(X)
        np.testing.assert_array_equal(matrix.mean, matrix.mean.T)
        np.testing.assert_array_equal(np.diagonal(matrix.mean), 0.0)
        assert matrix.mean[0, 2] == manifold.distance(X[0], X[2]).mean
        other = manifold.distance_matrix(X, Y[:3])
        assert other.mean.shape == other.std.shape == (4, 3)
        assert other.mean[3, 1] == manifold.distance(X[3], Y[1]).mean
        assert manifold.distance_matrix(X[:1]).mean.tolist() == [[0.0]]

    def test_flat_space(self):
        A = np.array([[2.0, 0.5], [0.5, 1.0]])
        geodesic = Manifold(metrics.Flat(A)).geodesic(*POINTS)
        off = POINTS[1] - POINTS[0]
        np.testing.assert_allclose(geodesic.length.mean, np.sqrt(np.einsum("bi,ij,bj->b", off, A, off)), rtol=1e-12)
        np.testing.assert_allclose(geodesic.log().mean, off, rtol=1e-9)
        assert geodesic.std(0.5).max() < 1e-12

    def test_tolerances(self, geodesic):
        """Errors are what is asked for, or less; tighter ones cost nodes."""
        tight = Manifold(METRIC, solvers.Markov(rtol=1e-9)).geodesic(*POINTS)
        extent = np.ptp(tight.mean(np.linspace(0, 1, 101)), axis=1).max(axis=1)
        t = np.linspace(0, 1, 41)
        off = np.abs(geodesic.mean(t) - tight.mean(t)).max(axis=(1, 2))
        assert np.all(off <= 1e-3 * extent)
        assert tight.posterior.offsets[-1] > 2 * geodesic.posterior.offsets[-1]
        np.testing.assert_array_less(2 * tight.std(t).max(axis=(1, 2)), 1.01e-9 * extent)

    def test_so_many_nodes(self):
        fixed = Manifold(METRIC, solvers.Markov(n_points=25)).geodesic(*POINTS)
        for mesh in fixed.nodes:
            np.testing.assert_allclose(mesh, np.linspace(0.0, 1.0, 25), atol=1e-15)
        assert fixed.converged.all()


class TestUncertainty:
    def test_boundary_and_numerics_are_told_apart(self, manifold):
        cov = 0.01**2 * np.array([[1.0, 0.3], [0.3, 2.0]])
        a, b = POINTS[0], Gaussian(POINTS[1], np.broadcast_to(cov, (4, 2, 2)))
        geodesic = manifold.geodesic(a, b)
        parts = [geodesic.measure(source=s).cov for s in ("total", "numerical", "boundary")]
        np.testing.assert_allclose(parts[0], parts[1] + parts[2], rtol=1e-12)
        assert np.all(parts[2] > 1e4 * parts[1])
        # first variation, by differences of distances
        tight, h = manifold.with_precision(1e-7), 1e-4
        moved = [
            (tight.distance(a, POINTS[1] + e).mean - tight.distance(a, POINTS[1] - e).mean) / (2 * h)
            for e in h * np.eye(2)
        ]
        slopes = np.stack(moved, axis=1)
        np.testing.assert_allclose(parts[2], np.einsum("bi,ij,bj->b", slopes, cov, slopes), rtol=1e-2)

    def test_curves_move_with_both_ends(self, manifold):
        """Jacobi fields, by differences of geodesics."""
        tight, h = manifold.with_precision(1e-7), 1e-4
        covs = 1e-4 * np.eye(2), 1e-4 * np.array([[2.0, 0.5], [0.5, 1.0]])
        a, b = (Gaussian(x, np.tile(c, (4, 1, 1))) for x, c in zip(POINTS, covs, strict=True))
        found = tight.geodesic(a, b).cov(0.4, 0.4, source="boundary")
        expected = np.zeros_like(found)
        for side, cov in enumerate(covs):
            slopes = []
            for e in h * np.eye(2):
                step = np.zeros((2, 4, 2))
                step[side] = e
                up, down = tight.geodesic(*(POINTS + step)), tight.geodesic(*(POINTS - step))
                slopes.append((up.mean(0.4) - down.mean(0.4)) / (2 * h))
            J = np.stack(slopes, axis=2)
            expected += J @ cov @ J.transpose(0, 2, 1)
        np.testing.assert_allclose(found, expected, rtol=1e-2, atol=1e-8)

    def test_sampled_and_linearised_agree_where_ends_are_uncertain(self, manifold):
        b = Gaussian(POINTS[1], np.broadcast_to(1e-4 * np.eye(2), (4, 2, 2)))
        geodesic = manifold.geodesic(POINTS[0], b)
        linear, drawn = (geodesic.measure(m, n=400) for m in ("linearised", "sampled"))
        # the standard deviation of 400 draws is known to 1/sqrt(800), here within 4 of these
        np.testing.assert_allclose(drawn.std, linear.std, rtol=0.15)
        linear, drawn = (geodesic.log(m, n=400) for m in ("linearised", "sampled"))
        np.testing.assert_allclose(drawn.std, linear.std, rtol=0.2)

    def test_the_paper_s_solver_agrees_up_to_what_it_states(self, geodesic):
        """Squared distances in standard deviations: chi-squared, here within four of its own."""
        paper = Manifold(METRIC, solvers.Dense(n_points=24, error_model="linearised"))
        other = paper.geodesic(*POINTS)
        assert other.converged.all()
        here, there = geodesic(0.5), other(0.5)
        off = there.mean - here.mean
        squares = np.einsum("bi,bij,bj->b", off, np.linalg.inv(here.cov + there.cov), off)
        assert np.sum(squares) <= off.size + 4.0 * np.sqrt(2.0 * off.size)
        np.testing.assert_allclose(other.length.mean, geodesic.length.mean, rtol=1e-3)
        off = other.log().mean - geodesic.log().mean
        assert np.all(np.abs(off) <= 4.0 * (other.log().std + geodesic.log().std))

    def test_exponential_map_of_an_uncertain_velocity(self, manifold):
        a, v = POINTS[0], 0.5 * POINTS[1]
        cov = 1e-4 * np.eye(2)
        found = manifold.exp(a, Gaussian(v, np.broadcast_to(cov, (4, 2, 2))))
        h = 1e-4
        moved = [manifold.exp(a, v + h * e).mean for e in np.eye(2)]
        J = np.stack([(m - found.mean) / h for m in moved], axis=2)
        np.testing.assert_allclose(found.cov, J @ cov @ J.transpose(0, 2, 1), rtol=0.05, atol=1e-6)


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
        with pytest.raises(ValueError, match="draws know the total"):
            geodesic.measure("sampled", source="numerical")
        with pytest.raises(TypeError, match="solver must be"):
            Manifold(METRIC, "fast")
        with pytest.raises(ValueError, match="landmarks must have shape"):
            Manifold(METRIC, landmarks=np.zeros(3))

    def test_guesses_of_the_wrong_shape(self, manifold):
        with pytest.raises(ValueError, match="guess must give values of shape"):
            manifold.geodesic(*POINTS, guess=np.zeros((4, 9, 3)))
        with pytest.raises(ValueError, match="guess must give values of shape"):
            manifold.geodesic(*POINTS, guess=np.zeros((3, 9, 2)))

    def test_inside_jax(self, manifold):
        with pytest.raises(TypeError, match="cannot be traced by JAX"):
            jax.grad(lambda a: manifold.distance(a, POINTS[1, 0]).mean)(jnp.asarray(POINTS[0, 0]))

    def test_no_distance(self, manifold):
        points = np.concatenate([POINTS[0, :3], POINTS[1, :1]])
        geodesic = manifold.geodesic(points, POINTS[0])  # three of four stay where they are
        assert geodesic.converged.all()
        np.testing.assert_array_equal(geodesic.length.mean[:3], 0.0)
        np.testing.assert_array_equal(geodesic.log().mean[:3], 0.0)
        assert np.all(np.isfinite(geodesic.length.std))
        assert np.all(np.isfinite(geodesic.std(0.5)))

    @pytest.mark.filterwarnings("ignore::probgeo.ConvergenceWarning")
    def test_far_outside_the_data(self, manifold):
        """The way to a point far away crosses the data in a moment: solved, or flagged."""
        b = np.concatenate([POINTS[1, :1] + [500.0, 0.0], POINTS[1, 1:]])
        far = manifold.geodesic(POINTS[0], b)
        assert far.converged[1:].all()
        way, s = (b - POINTS[0])[0], np.linspace(0, 1, 20001)[:, None]
        line = manifold.norm(POINTS[0, 0] + s * way, way).mean()
        assert not far.converged[0] or far.length.mean[0] <= line * (1 + 1e-3)

    @pytest.mark.filterwarnings("ignore::probgeo.ConvergenceWarning")
    def test_no_metric_on_the_way(self):
        """Between the first two points lies a wall in which the metric is negative."""
        metric = metrics.Conformal(lambda x: 1.0 - 2.0 * jnp.exp(-20.0 * x[0] ** 2))
        a = np.array([[-1.0, 0.0], [0.6, 0.1], [0.7, 0.3], [0.9, 0.1]])
        b = np.array([[1.0, 0.0], [0.9, 0.3], [1.2, 0.1], [0.6, 0.2]])
        geodesic = Manifold(metric).geodesic(a, b)
        assert geodesic.converged.tolist() == [False, True, True, True]
        assert geodesic.message[0] != "converged"

    def test_no_metric_at_an_end(self):
        metric = metrics.Conformal(lambda x: 1.0 - x @ x)  # negative beyond the unit circle
        manifold = Manifold(metric)
        a = np.array([[0.1, 0.0], [0.2, 0.1], [0.1, 0.3], [0.0, 0.1]])
        b = np.array([[0.3, 0.2], [2.0, 0.0], [-0.2, 0.1], [0.2, 0.2]])
        with pytest.warns(ConvergenceWarning, match="1 of 4"):
            geodesic = manifold.geodesic(a, b)
        assert geodesic.converged.tolist() == [True, False, True, True]
        assert "not positive definite at one of the ends" in geodesic.message[1]
        assert np.isnan(geodesic.length.mean[1])
        assert np.isnan(geodesic.mean(0.5)[1]).all()
        with pytest.raises(ValueError, match="positive definite at b"):
            manifold.geodesic(a, b[1])
        with pytest.warns(ConvergenceWarning, match="distances did not converge"):
            matrix = manifold.distance_matrix(b)
        assert np.isnan(matrix.mean[1]).all()
        assert np.isfinite(np.delete(np.delete(matrix.mean, 1, 0), 1, 1)).all()
