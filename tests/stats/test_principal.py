"""Principal geodesics against PCA, under changes that must not matter, and their error bars."""

import numpy as np
import pytest
from sklearn.decomposition import PCA

from probgeo import Manifold, metrics, solvers
from probgeo.stats import FrechetMean, PrincipalGeodesics, TangentSpace

RNG = np.random.default_rng(0)
X = RNG.normal(size=(30, 3)) @ np.diag([3.0, 1.0, 0.4]) @ np.linalg.qr(RNG.normal(size=(3, 3)))[0]
HALF = Manifold(metrics.HalfPlane())
ABOVE = np.stack([RNG.normal(size=12), np.exp(0.5 * RNG.normal(size=12))], axis=1)


def test_in_flat_space_it_is_pca():
    ours, pca = PrincipalGeodesics(n_components=2).fit(X), PCA(2).fit(X)
    np.testing.assert_allclose(ours.mean_.mean, pca.mean_, atol=1e-12)
    np.testing.assert_allclose(ours.explained_variance_, pca.explained_variance_)
    np.testing.assert_allclose(ours.explained_variance_ratio_, pca.explained_variance_ratio_)
    signs = np.sign(np.sum(np.asarray(ours.components_.mean) * pca.components_, axis=1))
    np.testing.assert_allclose(signs[:, None] * ours.components_.mean, pca.components_, atol=1e-10)
    np.testing.assert_allclose(signs * ours.transform(X), pca.transform(X), atol=1e-10)
    scores = ours.transform(X)
    np.testing.assert_allclose(ours.inverse_transform(scores), pca.inverse_transform(signs * scores), atol=1e-10)


def test_with_a_constant_metric_it_is_pca_after_a_linear_map():
    root = RNG.normal(size=(3, 3)) + 2 * np.eye(3)
    A = root @ root.T
    values, vectors = np.linalg.eigh(A)
    half = vectors * np.sqrt(values) @ vectors.T  # A^(1/2)
    ours, pca = PrincipalGeodesics(metrics.Flat(A)).fit(X), PCA(2).fit(X @ half)
    np.testing.assert_allclose(ours.explained_variance_, pca.explained_variance_)
    mapped = np.asarray(ours.components_.mean) @ half
    np.testing.assert_allclose(np.abs(mapped @ pca.components_.T), np.eye(2), atol=1e-9)


def test_weights_count_like_repetitions():
    weighted = PrincipalGeodesics().fit(X, sample_weight=np.r_[2.0, 0.0, np.ones(28)])
    repeated = PrincipalGeodesics().fit(np.concatenate([X[:1], X[:1], X[2:]]))
    np.testing.assert_allclose(weighted.explained_variance_, repeated.explained_variance_)
    np.testing.assert_allclose(weighted.components_.mean, repeated.components_.mean, atol=1e-10)


def test_changes_that_must_not_matter():
    """A linear change of coordinates of data and metric, and another order of the points."""
    rng = np.random.default_rng(3)
    roots = rng.normal(size=(3, 2, 2))
    tensors = roots @ roots.transpose(0, 2, 1) + 0.5 * np.eye(2)
    centers, points = rng.normal(size=(3, 2)), rng.normal(size=(12, 2)) * [2.0, 0.7]
    A = np.array([[2.0, 0.3], [-0.4, 0.5]])  # x = A z
    there = np.linalg.inv(A).T
    metric = metrics.LocalMetrics(centers, tensors, rho=0.5)
    moved = metrics.LocalMetrics(centers @ there, A.T @ tensors @ A, rho=0.5)
    one = PrincipalGeodesics(metric, 1, fraction=1e-3).fit(points)
    other = PrincipalGeodesics(moved, 1, fraction=1e-3).fit(points[::-1] @ there)
    np.testing.assert_allclose(one.explained_variance_, other.explained_variance_, rtol=1e-3)
    back = np.asarray(other.components_.mean[0]) @ A.T
    direction = np.asarray(one.components_.mean[0])
    np.testing.assert_allclose(back * np.sign(back @ direction), direction, atol=2e-3)


def test_equal_directions_are_flagged():
    square = np.array([[1.0, 0.0, 0.0], [-1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, -1.0, 0.0]])
    tied = PrincipalGeodesics(n_components=3).fit(square)
    assert tied.tied_.tolist() == [True, True, False]
    assert not PrincipalGeodesics(n_components=3).fit(X).tied_.any()


@pytest.fixture(scope="module")
def fitted():
    return PrincipalGeodesics(HALF, mean=FrechetMean(fraction=0.01)).fit(ABOVE)


class TestHalfPlane:
    def test_directions_are_orthonormal_in_the_metric_of_the_mean(self, fitted):
        v = np.asarray(fitted.components_.mean)
        gram = v @ np.asarray(HALF.metric(fitted.mean_.mean)) @ v.T
        np.testing.assert_allclose(gram, np.eye(2), atol=1e-10)

    def test_closed_form(self, fitted):
        """PCA of closed-form logarithms at the same mean."""
        chart, mean = HALF.metric, fitted.mean_.mean
        logs = np.asarray(chart.log(mean, ABOVE)) / float(mean[1])
        values, vectors = np.linalg.eigh(logs.T @ logs / 11)
        np.testing.assert_allclose(fitted.explained_variance_, values[::-1], rtol=1e-3)
        mapped = np.asarray(fitted.components_.mean) / float(mean[1])
        np.testing.assert_allclose(np.abs(mapped @ vectors[:, ::-1]), np.eye(2), atol=1e-2)

    def test_there_and_back(self, fitted):
        back = fitted.inverse_transform(fitted.transform(ABOVE))
        np.testing.assert_allclose(back, ABOVE, atol=2e-3)

    def test_principal_geodesic(self, fitted):
        reach = 2.0 * fitted.explained_variance_[0] ** 0.5
        curve = fitted.geodesic(0, reach)
        np.testing.assert_allclose(curve.mean(0.0), fitted.mean_.mean, atol=1e-9)
        end = HALF.metric.exp(fitted.mean_.mean, reach * fitted.components_.mean[0])
        np.testing.assert_allclose(curve.mean(1.0), end, atol=2e-3)
        # what is unknown of mean and direction is in it, and only that counts as given
        assert np.all(curve.std(1.0, source="boundary") > 0)
        np.testing.assert_allclose(curve.std(0.0, source="boundary"), fitted.mean_.std, rtol=1e-6)

    def test_scores_have_error_bars(self, fitted):
        scores = fitted.scores(ABOVE[:3])
        np.testing.assert_allclose(scores.mean, fitted.transform(ABOVE[:3]))
        assert scores.cov.shape == (3, 2, 2)
        assert np.all(np.asarray(scores.std) > 0)

    def test_tangent_space_has_the_same_lengths(self, fitted):
        space = TangentSpace(HALF).fit(ABOVE)
        features = space.features(ABOVE)
        lengths = np.linalg.norm(np.asarray(features.mean), axis=1)
        np.testing.assert_allclose(lengths, HALF.metric.distance(space.mean_.mean, ABOVE), rtol=1e-3)
        assert np.all(np.asarray(features.std) >= 0)
        np.testing.assert_allclose(space.inverse_transform(space.transform(ABOVE)), ABOVE, atol=2e-3)


def test_methods_agree_on_a_manifold():
    rough = Manifold(metrics.HalfPlane(), solvers.Markov(order=3, n_points=12))
    # near the mean the variance is stationary: linearisation is for means that are nearly there
    mean = FrechetMean(fraction=0.01)
    linearised, sampled = (
        PrincipalGeodesics(rough, mean=mean, method=method, n_draws=2000).fit(ABOVE)
        for method in ("linearised", "sampled")
    )
    np.testing.assert_allclose(sampled.components_.std, linearised.components_.std, rtol=0.15)
    np.testing.assert_allclose(sampled.explained_variance_std_, linearised.explained_variance_std_, rtol=0.15)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"method": "other"}, "method must be"),
        ({"n_components": 4}, "n_components must be at most 3"),
        ({"n_components": 0}, "n_components must be"),
    ],
)
def test_bad_settings_are_named(options, message):
    with pytest.raises(ValueError, match=message):
        PrincipalGeodesics(**options).fit(X)


def test_bad_arguments_are_named():
    fitted = PrincipalGeodesics().fit(X)
    with pytest.raises(ValueError, match="k must be from 0 to 1"):
        fitted.geodesic(2)
    with pytest.raises(ValueError, match=r"Z must have shape \(P, 2\)"):
        fitted.inverse_transform([[1.0]])
    with pytest.raises(TypeError, match="mean must be a FrechetMean"):
        PrincipalGeodesics(mean=3).fit(X)
