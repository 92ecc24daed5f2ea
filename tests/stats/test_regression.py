"""Geodesic regression."""

import numpy as np
import pytest
from sklearn.linear_model import LinearRegression

from probgeo import Manifold, metrics
from probgeo.stats import GeodesicRegression
from probgeo.stats.regression import _along

RNG = np.random.default_rng(0)
HALF = metrics.HalfPlane()


def test_in_flat_space_it_is_linear_regression():
    t, x = RNG.normal(size=20), RNG.normal(size=(20, 3))
    weights = RNG.uniform(size=20)
    ours = GeodesicRegression().fit(t, x, sample_weight=weights)
    other = LinearRegression().fit(t[:, None], x, sample_weight=weights)
    np.testing.assert_allclose(ours.predict(t), other.predict(t[:, None]), atol=1e-6)
    np.testing.assert_allclose(ours.coef_.mean, other.coef_[:, 0], atol=1e-6)


def test_statistical_uncertainty_in_flat_space():
    """sigma^2 / sum (t - mean)^2, with sigma^2 averaged over the coordinates."""
    t, x = RNG.normal(size=40), RNG.normal(size=(40, 2))
    ours = GeodesicRegression().fit(t, x)
    residual = x - ours.predict(t)
    sigma2 = np.sum(residual**2) / 2 / 38
    expected = sigma2 / np.sum((t - t.mean()) ** 2)
    np.testing.assert_allclose(np.diagonal(ours.statistical_cov_)[2:], expected, rtol=1e-6)


def test_a_geodesic_is_found_again():
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


def test_derivatives_along_the_curve():
    """By central differences of the closed form."""
    p, v, t, h = np.array([0.2, 1.0]), np.array([0.5, 0.4]), np.array([-0.7, 0.0, 0.3, 1.1]), 1e-5
    points, turns = _along(Manifold(HALF), p, v, t)

    def exact(p, v):
        return np.asarray(HALF.exp(p, t[:, None] * v))

    np.testing.assert_allclose(points, exact(p, v), atol=1e-7)
    by_p = [(exact(p + e, v) - exact(p - e, v)) / (2 * h) for e in h * np.eye(2)]
    by_v = [(exact(p, v + e) - exact(p, v - e)) / (2 * h) for e in h * np.eye(2)]
    np.testing.assert_allclose(turns, np.stack(by_p + by_v, axis=2), atol=1e-6)


def test_bad_input_is_named():
    with pytest.raises(ValueError, match="at least two different values"):
        GeodesicRegression().fit([1.0, 1.0], [[0.0, 0.0], [1.0, 1.0]])
    with pytest.raises(ValueError, match="one number for each point"):
        GeodesicRegression().fit([[1.0, 2.0], [1.0, 3.0]], [[0.0, 0.0], [1.0, 1.0]])
