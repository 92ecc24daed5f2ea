"""Geodesic k-means."""

import numpy as np
import pytest
from sklearn.cluster import KMeans

from probgeo import ConvergenceWarning, metrics
from probgeo.stats import GeodesicKMeans

RNG = np.random.default_rng(0)
HALF = metrics.HalfPlane()


def test_in_flat_space_it_is_k_means():
    X = RNG.normal(size=(60, 2)) + np.repeat([[0, 0], [6, 0], [0, 6]], 20, axis=0)
    ours = GeodesicKMeans(n_clusters=3, n_init=3).fit(X)
    other = KMeans(3, n_init=10, random_state=0).fit(X)
    assert float(ours.inertia_.mean) == pytest.approx(other.inertia_)
    assert not ours.doubtful_.any()
    order = np.argsort(np.asarray(ours.cluster_centers_.mean) @ [1.0, 2.0])
    expected = other.cluster_centers_[np.argsort(other.cluster_centers_ @ [1.0, 2.0])]
    np.testing.assert_allclose(ours.cluster_centers_.mean[order], expected)


def test_points_belong_to_the_centre_that_is_nearest_on_the_manifold():
    low = np.stack([0.1 * RNG.normal(size=6), 0.1 * np.exp(0.2 * RNG.normal(size=6))], axis=1)
    high = low * 20.0
    X = np.concatenate([low, high])
    found = GeodesicKMeans(HALF, n_clusters=2).fit(X)
    assert found.converged_
    assert len(set(found.labels_[:6])) == len(set(found.labels_[6:])) == 1
    distances = HALF.distance(X[:, None], found.cluster_centers_.mean)
    np.testing.assert_allclose(found.transform(X), distances, rtol=2e-2, atol=1e-2)
    np.testing.assert_array_equal(found.predict(X), found.labels_)


def test_geodesics_that_are_lost_are_said_to_be():
    disc = metrics.Conformal(lambda x: 1.5 - x @ x)
    X = np.concatenate([0.2 * RNG.normal(size=(4, 2)), [[3.0, 0.0]]])
    with pytest.warns(ConvergenceWarning, match="geodesics are flagged"):
        found = GeodesicKMeans(disc, n_clusters=1).fit(X, sample_weight=[1, 1, 1, 1, 0])
    assert np.isfinite(found.cluster_centers_.mean).all()


def test_more_clusters_than_different_points():
    found = GeodesicKMeans(n_clusters=3).fit([[0.0, 0.0]] * 3 + [[1.0, 1.0]])
    assert float(found.inertia_.mean) == 0.0


def test_bad_settings_are_named():
    with pytest.raises(ValueError, match="should be >= n_clusters=9"):
        GeodesicKMeans(n_clusters=9).fit([[0.0], [1.0]])
    X = RNG.normal(size=(40, 2))
    with pytest.warns(ConvergenceWarning, match="labels still changed"):
        GeodesicKMeans(n_clusters=5, max_iter=1).fit(X)
