"""Local metrics from Gaussian mixtures."""

import subprocess
import sys

import numpy as np
import pytest
from sklearn.mixture import GaussianMixture

from probgeo import metrics
from probgeo.metrics.learners import preferred_components

RNG = np.random.default_rng(0)
ROOT = np.array([[1.0, 0.0], [0.8, 0.3]])
X = RNG.normal(size=(600, 2))
X[:300] = X[:300] @ ROOT.T
X[300:, 0] += 9.0


def in_order(metric):
    order = np.argsort(metric.centers[:, 0])
    return np.asarray(metric.centers)[order], np.asarray(metric.tensors)[order]


def test_two_groups_give_their_means_and_inverse_covariances():
    """The groups lie nine deviations apart, so EM assigns every point to its own."""
    centers, tensors = in_order(metrics.from_mixture(X, 2, regularisation=1e-9))
    for k, group in enumerate((X[:300], X[300:])):
        np.testing.assert_allclose(centers[k], group.mean(axis=0), rtol=1e-3, atol=1e-3)
        np.testing.assert_allclose(np.linalg.inv(tensors[k]), np.cov(group.T, bias=True), atol=0.02)


def test_diagonal_is_the_diagonal_fit_of_scikit_learn():
    scale = np.sqrt(X.var(axis=0).mean())
    fit = GaussianMixture(2, covariance_type="diag", reg_covar=1e-3 * scale**2, random_state=0, max_iter=500).fit(X)
    centers, tensors = in_order(metrics.from_mixture(X, 2, covariance_type="diag"))
    order = np.argsort(fit.means_[:, 0])
    np.testing.assert_allclose(centers, fit.means_[order], rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(tensors, fit.precisions_[order], rtol=1e-6)


@pytest.mark.parametrize("covariance_type", ["full", "diag"])
def test_the_units_of_the_data_do_not_matter(covariance_type):
    options = {"covariance_type": covariance_type}
    metric = metrics.from_mixture(X, 3, **options)
    scaled = metrics.from_mixture(1024.0 * X + 512.0, 3, **options)
    np.testing.assert_allclose(scaled.centers, 1024.0 * metric.centers + 512.0, rtol=1e-6)
    np.testing.assert_allclose(1024.0**2 * scaled.tensors, metric.tensors, rtol=1e-6)


def test_regularisation_bounds_the_condition_number():
    """Data on a line have a covariance without inverse."""
    line = np.outer(RNG.normal(size=50), [1.0, 1.0, 1.0])
    metric = metrics.from_mixture(line, 2, regularisation=1e-2)
    # no component is wider than all data, whose largest variance is D times the mean one
    assert metrics.check_metric(metric, line).condition.max() <= 3.0 / 1e-2 + 1.0


def test_the_same_seed_gives_the_same_metric():
    first, second = (metrics.from_mixture(X, 4, seed=3) for _ in range(2))
    np.testing.assert_array_equal(first.tensors, second.tensors)


def test_importing_probgeo_does_not_import_scikit_learn():
    """It takes long, and only the constructors that learn from data need it."""
    check = "import sys, probgeo; sys.exit('sklearn' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", check], check=False).returncode == 0


def test_as_many_gaussians_as_there_are():
    """Far from each other, so that BIC leaves no doubt."""
    rng = np.random.default_rng(0)
    for count in (1, 3, 5):
        centres = 20.0 * np.arange(count)[:, None] * [1.0, 0.5]
        points = (centres[:, None] + rng.normal(size=(count, 60, 2))).reshape(-1, 2)
        assert preferred_components(points, 0) == count
