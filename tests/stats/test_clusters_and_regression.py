"""Geodesic k-means and regression."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from sklearn.cluster import KMeans
from sklearn.linear_model import LinearRegression

from probgeo import ConvergenceWarning, metrics
from probgeo.stats import GeodesicKMeans, GeodesicRegression
from probgeo.stats.regression import _along

RNG = np.random.default_rng(0)
HALF = metrics.HalfPlane()


class TestKMeans:
    def test_in_flat_space_it_is_k_means(self):
        X = RNG.normal(size=(60, 2)) + np.repeat([[0, 0], [6, 0], [0, 6]], 20, axis=0)
        ours = GeodesicKMeans(n_clusters=3, n_init=3).fit(X)
        other = KMeans(3, n_init=10, random_state=0).fit(X)
        assert float(ours.inertia_.mean) == pytest.approx(other.inertia_)
        assert not ours.doubtful_.any()
        order = np.argsort(np.asarray(ours.cluster_centers_.mean) @ [1.0, 2.0])
        expected = other.cluster_centers_[np.argsort(other.cluster_centers_ @ [1.0, 2.0])]
        np.testing.assert_allclose(ours.cluster_centers_.mean[order], expected)

    def test_points_belong_to_the_centre_that_is_nearest_on_the_manifold(self):
        low = np.stack([0.1 * RNG.normal(size=6), 0.1 * np.exp(0.2 * RNG.normal(size=6))], axis=1)
        high = low * 20.0
        X = np.concatenate([low, high])
        found = GeodesicKMeans(HALF, n_clusters=2).fit(X)
        assert found.converged_
        assert len(set(found.labels_[:6])) == len(set(found.labels_[6:])) == 1
        distances = HALF.distance(X[:, None], found.cluster_centers_.mean)
        np.testing.assert_allclose(found.transform(X), distances, rtol=2e-2, atol=1e-2)
        np.testing.assert_array_equal(found.predict(X), found.labels_)

    def test_geodesics_that_are_lost_are_said_to_be(self):
        disc = metrics.Conformal(lambda x: 1.5 - x @ x)
        X = np.concatenate([0.2 * RNG.normal(size=(4, 2)), [[3.0, 0.0]]])
        with pytest.warns(ConvergenceWarning, match="geodesics are flagged"):
            found = GeodesicKMeans(disc, n_clusters=1).fit(X, sample_weight=[1, 1, 1, 1, 0])
        assert np.isfinite(found.cluster_centers_.mean).all()

    def test_more_clusters_than_different_points(self):
        found = GeodesicKMeans(n_clusters=3).fit([[0.0, 0.0]] * 3 + [[1.0, 1.0]])
        assert float(found.inertia_.mean) == 0.0

    def test_bad_settings_are_named(self):
        with pytest.raises(ValueError, match="should be >= n_clusters=9"):
            GeodesicKMeans(n_clusters=9).fit([[0.0], [1.0]])
        X = RNG.normal(size=(40, 2))
        with pytest.warns(ConvergenceWarning, match="labels still changed"):
            GeodesicKMeans(n_clusters=5, max_iter=1).fit(X)


class TestRegression:
    def test_in_flat_space_it_is_linear_regression(self):
        t, x = RNG.normal(size=20), RNG.normal(size=(20, 3))
        weights = RNG.uniform(size=20)
        ours = GeodesicRegression().fit(t, x, sample_weight=weights)
        other = LinearRegression().fit(t[:, None], x, sample_weight=weights)
        np.testing.assert_allclose(ours.predict(t), other.predict(t[:, None]), atol=1e-6)
        np.testing.assert_allclose(ours.coef_.mean, other.coef_[:, 0], atol=1e-6)

    def test_statistical_uncertainty_in_flat_space(self):
        """sigma^2 / sum (t - mean)^2, with sigma^2 averaged over the coordinates."""
        t, x = RNG.normal(size=40), RNG.normal(size=(40, 2))
        ours = GeodesicRegression().fit(t, x)
        residual = x - ours.predict(t)
        sigma2 = np.sum(residual**2) / 2 / 38
        expected = sigma2 / np.sum((t - t.mean()) ** 2)
        np.testing.assert_allclose(np.diagonal(ours.statistical_cov_)[2:], expected, rtol=1e-6)

    def test_a_geodesic_is_found_again(self):
        p, v = np.array([0.2, 1.0]), np.array([0.5, 0.4])
        t = np.linspace(-1.0, 1.5, 8)
        x = np.asarray(HALF.exp(p, t[:, None] * v))
        found = GeodesicRegression(HALF).fit(t, x)
        assert found.converged_
        assert found.r2_ > 0.999
        np.testing.assert_allclose(found.predict(t), x, atol=1e-3)
        np.testing.assert_allclose(found.predict([t.mean()])[0], found.intercept_.mean)
        curve = found.geodesic(1.5)
        np.testing.assert_allclose(curve.mean(1.0), x[-1], atol=2e-3)

    def test_derivatives_along_the_curve(self):
        p, v, t = jnp.array([0.2, 1.0]), jnp.array([0.5, 0.4]), np.array([-0.7, 0.3, 1.1])
        points, turns = _along(HALF, np.asarray(p), np.asarray(v), t)
        np.testing.assert_allclose(points, HALF.exp(p, t[:, None] * v), atol=1e-7)
        exact = jax.jacfwd(lambda p, v: HALF.exp(p, t[:, None] * v), argnums=(0, 1))(p, v)
        np.testing.assert_allclose(turns, np.concatenate(exact, axis=2), atol=1e-6)

    def test_bad_input_is_named(self):
        with pytest.raises(ValueError, match="at least two different values"):
            GeodesicRegression().fit([1.0, 1.0], [[0.0, 0.0], [1.0, 1.0]])
        with pytest.raises(ValueError, match="one number for each point"):
            GeodesicRegression().fit([[1.0, 2.0], [1.0, 3.0]], [[0.0, 0.0], [1.0, 1.0]])
