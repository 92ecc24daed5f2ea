"""Manifolds against closed forms, the laws of distance, references, and bad input."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from probgeo import ConvergenceWarning, Gaussian, Geodesic, Manifold, initial, metrics, solvers
from tests.geometry.metrics.test_charts import random_points
from tests.geometry.reference import random_tensors

KINDS = (metrics.Sphere, metrics.PoincareBall, metrics.HalfPlane)
FIXED = solvers.Markov(n_points=48)  # one size of mesh, so that little is compiled


class Product(metrics.Metric):
    """Two charts side by side, or one: which ones are numbers, so that all compile once.

    A geodesic of the product is one in each factor, and squared distances add up.
    """

    kinds: jax.Array  # (2,) numbers of charts
    masks: jax.Array  # (2, D) which coordinates are whose
    heights: jax.Array  # (2, D) the last of them

    def diagonal(self, x):
        return self.masks.T @ jax.vmap(lambda *factor: self.scale(x, *factor))(
            self.kinds, self.masks, self.heights
        )

    def scale(self, x, kind, mask, height):
        square = mask @ x**2
        # in the branches not taken nothing may divide by zero: its derivative would be NaN
        within = 4.0 / (1.0 - jnp.where(kind == 1, square, 0.0)) ** 2
        above = 1.0 / jnp.where(kind == 2, height @ x, 1.0) ** 2
        return jnp.where(kind == 1, within, jnp.where(kind == 2, above, 4.0 / (1.0 + square) ** 2))

    def __call__(self, x):
        return jnp.diag(self.diagonal(x))

    def apply(self, x, v):
        return self.diagonal(x) * v

    def solve(self, x, p):
        return p / self.diagonal(x)

    @classmethod
    def of(cls, kinds, sizes):
        ends = np.cumsum(sizes)
        at = np.arange(ends[-1])
        masks = [(at >= end - size) & (at < end) for end, size in zip(ends, sizes, strict=True)]
        heights = [at == end - 1 for end in ends]
        arrays = (kinds, np.array(masks, dtype=float), np.array(heights, dtype=float))
        return cls(*map(jnp.asarray, arrays))


# by number: all of five dimensions, or two and three side by side
FACTORS = [((k, 0), (5, 0)) for k in range(3)] + [((k, (k + 1) % 3), (2, 3)) for k in range(3)]


@pytest.fixture(scope="module", params=FACTORS, ids=str)
def case(request):
    """A manifold, and what is known of it: a, v, b = exp_a(v), distance, middle, u carried."""
    kinds, sizes = request.param
    known = []
    for number, size in zip(kinds, sizes, strict=True):
        if size:
            kind, rng = KINDS[number], np.random.default_rng(number)
            chart = kind(size)
            a, v = random_points(kind, rng, size, count=4)
            a, v = 0.7 * a, 0.5 * v  # lengths up to one
            a[:, -1] = np.abs(a[:, -1]) + 0.1
            b, u = chart.exp(a, v), v[::-1]
            known.append(
                (a, v, b, chart.distance(a, b)[:, None], chart.exp(a, 0.5 * v), u,
                 chart.transport(a, b, u))
            )  # fmt: skip
    a, v, b, distances, middle, u, carried = (
        np.concatenate(x, axis=1) for x in zip(*known, strict=True)
    )
    manifold = Manifold(Product.of(kinds, sizes), FIXED, initial.EnergyDescent())
    return manifold, a, v, b, np.linalg.norm(distances, axis=1), middle, u, carried


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

    @pytest.mark.slow
    def test_no_metric_at_an_end_or_on_the_way(self):
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
