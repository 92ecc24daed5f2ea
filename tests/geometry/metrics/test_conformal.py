"""Metrics that are a multiple of another."""

import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from probgeo import metrics
from tests.geometry.reference import Plain, Wavy, assert_same_metric


def scale(x):
    return 1.0 + jnp.sin(x[0]) ** 2 + x[1] ** 2


@pytest.mark.parametrize("has_base", [False, True])
@given(seed=st.integers(0, 10**6))
def test_fast_paths_agree_with_automatic_differentiation(has_base, seed):
    rng = np.random.default_rng(seed)
    metric = metrics.Conformal(scale, Wavy.random(rng, 3) if has_base else None)
    x, v = jnp.asarray(rng.normal(size=(2, 3)))
    assert_same_metric(metric, Plain(metric), x, v, rtol=1e-8)


def test_a_constant_factor_does_not_bend_geodesics():
    base = Wavy.random(np.random.default_rng(0), 3)
    x, v = jnp.asarray(np.random.default_rng(1).normal(size=(2, 3)))
    metric = metrics.Conformal(lambda y: 7.0 + 0.0 * y[0], base)
    np.testing.assert_allclose(metric.acceleration(x, v), base.acceleration(x, v), rtol=1e-10)


def test_it_is_a_multiple_of_its_base():
    base, x = Wavy.random(np.random.default_rng(0), 2), jnp.array([0.3, 0.4])
    np.testing.assert_allclose(metrics.Conformal(scale, base)(x), scale(x) * base(x), rtol=1e-12)
    np.testing.assert_allclose(metrics.Conformal(scale)(x), scale(x) * np.eye(2), rtol=1e-12)


def test_the_sphere_is_conformal():
    x, v = jnp.asarray(np.random.default_rng(0).normal(size=(2, 3)))
    sphere = metrics.Sphere(3)
    assert_same_metric(metrics.Conformal(sphere.scale), sphere, x, v)
