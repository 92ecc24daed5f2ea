"""Kernel-weighted local variances."""

import numpy as np
import pytest

from probgeo import metrics
from tests.metrics.reference import assert_consistent, assert_same, in_jax, random_rows

RNG = np.random.default_rng(0)
X = RNG.normal(size=(20, 3))
METRIC = metrics.LocalCovariance(X, sigma=0.7, rho=0.05)


def test_it_is_the_formula():
    x, variances = np.array([0.1, 0.5, -0.3]), np.zeros(3)
    for point in X:
        weight = np.exp(-np.sum((point - x) ** 2) / (2 * 0.7**2))
        variances += weight * (point - x) ** 2
    np.testing.assert_allclose(METRIC(x), np.diag(1.0 / (variances + 0.05)), rtol=1e-12)
    np.testing.assert_allclose(METRIC.diagonal(x), 1.0 / (variances + 0.05), rtol=1e-12)


@pytest.mark.loops
def test_everything_agrees_with_the_formula():
    assert_consistent(METRIC, *random_rows(RNG, 3, count=8))


def test_closed_forms_agree_with_automatic_differentiation():
    assert_same(METRIC, in_jax(METRIC), *random_rows(RNG, 3), rtol=1e-8)


def test_far_from_the_data_it_is_large_and_flat():
    metric = metrics.LocalCovariance(np.zeros((5, 2)), sigma=1.0, rho=0.1)
    x = np.array([1e6, 0.0])
    np.testing.assert_allclose(metric(x), 10.0 * np.eye(2), rtol=1e-12)
    np.testing.assert_array_equal(metric.acceleration(x, np.ones(2)), 0.0)


def test_landmarks_lie_among_the_data():
    t = np.linspace(0.0, 2 * np.pi, 500)
    circle = metrics.LocalCovariance(np.stack([np.cos(t), np.sin(t)], axis=1), sigma=0.1)
    radius = np.linalg.norm(circle.landmarks(), axis=1)
    assert 10 <= len(radius) <= 60
    assert radius.min() > 0.95
    few = metrics.LocalCovariance([[0.0, 0.0], [1.0, 0.0], [1.0, 0.0]], sigma=1.0).landmarks()
    assert sorted(few.tolist()) == [[0.0, 0.0], [1.0, 0.0]]
