"""Kernel-weighted local variances."""

import jax.numpy as jnp
import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from probgeo import metrics
from tests.geometry.reference import Plain, assert_same_metric


@given(seed=st.integers(0, 10**6))
def test_it_is_the_formula_and_its_fast_paths_agree(seed):
    rng = np.random.default_rng(seed)
    X, (x, v) = rng.normal(size=(20, 3)), jnp.asarray(rng.normal(size=(2, 3)))
    metric = metrics.LocalCovariance(X, sigma=0.7, rho=0.05)
    variances = np.zeros(3)
    for point in X:
        weight = np.exp(-np.sum((point - x) ** 2) / (2 * 0.7**2))
        variances += weight * np.asarray(point - x) ** 2
    np.testing.assert_allclose(metric(x), np.diag(1.0 / (variances + 0.05)), rtol=1e-12)
    assert_same_metric(metric, Plain(metric), x, v)


def test_far_from_the_data_it_is_large_and_flat():
    metric = metrics.LocalCovariance(np.zeros((5, 2)), sigma=1.0, rho=0.1)
    x = jnp.array([1e6, 0.0])
    np.testing.assert_allclose(metric(x), 10.0 * np.eye(2), rtol=1e-12)
    np.testing.assert_array_equal(metric.acceleration(x, jnp.ones(2)), 0.0)
