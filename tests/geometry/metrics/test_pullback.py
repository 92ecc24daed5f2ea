"""Metrics pulled back by decoders."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from probgeo import metrics
from tests.geometry.reference import Plain, assert_same_metric, largest_intermediate, methods


class Network(eqx.Module):
    """A small random decoder with an image of shape (2, 4); a module, to compile once."""

    inner: jax.Array
    outer: jax.Array

    def __call__(self, x):
        return jnp.tensordot(self.outer, jnp.tanh(self.inner @ x), axes=1)

    @classmethod
    def random(cls, rng):
        return cls(jnp.asarray(rng.normal(size=(6, 3))), jnp.asarray(rng.normal(size=(2, 4, 6))))


@eqx.filter_jit
def jacobian(decoder, x):
    return jax.jacrev(decoder)(x)


@pytest.mark.parametrize("random", [False, True])
@given(seed=st.integers(0, 10**6))
def test_it_is_made_of_jacobians_and_its_fast_paths_agree(random, seed):
    rng = np.random.default_rng(seed)
    mean, std = Network.random(rng), Network.random(rng) if random else None
    x, v = jnp.asarray(rng.normal(size=(2, 3)))
    metric = metrics.Pullback(mean, std, regularisation=0.1)
    expected = 0.1 * np.eye(3)
    for decoder in (mean, std) if random else (mean,):
        J = np.asarray(jacobian(decoder, x)).reshape(8, 3)
        expected = expected + J.T @ J
    np.testing.assert_allclose(methods(metric, x, v)["tensor"], expected, rtol=1e-9, atol=1e-12)
    assert_same_metric(metric, Plain(metric), x, v)


def test_a_linear_decoder_gives_a_flat_metric():
    A = jnp.asarray(np.random.default_rng(0).normal(size=(5, 3)))
    metric = metrics.Pullback(lambda x: A @ x)
    assert_same_metric(metric, metrics.Flat(A.T @ A), jnp.ones(3), jnp.arange(3.0))


def test_the_embedding_of_the_sphere_pulls_back_its_chart():
    sphere = metrics.Sphere(3)
    x, v = jnp.asarray(np.random.default_rng(0).normal(size=(2, 3)))
    assert_same_metric(metrics.Pullback(sphere.embed), sphere, x, v)


def test_products_do_not_form_the_jacobian():
    A = jnp.asarray(np.random.default_rng(0).normal(size=(100, 5)))
    metric = metrics.Pullback(lambda x: jnp.sin(A @ x))
    assert largest_intermediate(metric.apply, jnp.ones(5), jnp.ones(5)) <= 100
    assert largest_intermediate(metric.energy, jnp.ones(5), jnp.ones(5)) <= 100
