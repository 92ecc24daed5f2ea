"""Local metrics from local principal components."""

import numpy as np

from probgeo import metrics

T = np.linspace(0.0, np.pi, 400)
ARC = np.stack([np.cos(T), np.sin(T), 0.0 * T], axis=1)


def test_along_a_curve_the_tangent_is_the_cheap_direction():
    metric = metrics.from_local_pca(ARC, 8, n_neighbors=40)
    radial = metric.centers / np.linalg.norm(metric.centers, axis=1, keepdims=True)
    tangent = np.cross([0.0, 0.0, 1.0], radial)
    along = np.einsum("ki,kij,kj->k", tangent, metric.tensors, tangent)
    across = np.einsum("ki,kij,kj->k", radial, metric.tensors, radial)
    # 40 of 400 points span an angle of about 0.31: variance 0.31^2/12 along, plus the nugget
    nugget = 1e-3 * ARC.var(axis=0).mean()
    np.testing.assert_allclose(along, 1.0 / (0.31**2 / 12 + nugget), rtol=0.1)
    assert np.all(across > 10.0 * along)


def test_all_data_around_one_centre_give_the_inverse_covariance():
    X = np.random.default_rng(0).normal(size=(50, 2)) @ [[1.0, 0.5], [0.0, 0.2]]
    metric = metrics.from_local_pca(X, 1, regularisation=1e-12)
    np.testing.assert_allclose(metric.centers[0], X.mean(axis=0), atol=1e-12)
    np.testing.assert_allclose(metric.tensors[0], np.linalg.inv(np.cov(X.T, bias=True)), rtol=1e-8)


def test_components_left_out_share_their_mean_variance():
    X = np.random.default_rng(0).normal(size=(500, 3)) * [5.0, 1.0, 0.2]
    metric = metrics.from_local_pca(X, 1, n_components=1, regularisation=1e-12)
    variances = np.sort(np.linalg.eigvalsh(np.cov(X.T, bias=True)))
    kept = 1.0 / np.linalg.eigvalsh(metric.tensors[0])
    np.testing.assert_allclose(kept, [variances[2], *[variances[:2].mean()] * 2], rtol=1e-8)


def test_data_of_one_dimension_will_do():
    metric = metrics.from_local_pca(np.linspace(0.0, 1.0, 30)[:, None], 3)
    assert metric.tensors.shape == (3, 1, 1)
