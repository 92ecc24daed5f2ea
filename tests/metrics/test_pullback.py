"""Metrics pulled back by decoders."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from probgeo import Manifold, metrics
from probgeo.functions.in_jax import double_precision
from tests.metrics.reference import assert_consistent, assert_near, assert_same, in_jax, random_rows

RNG = np.random.default_rng(0)
ROWS = random_rows(RNG, 3, count=12)
INNER, OUTER = RNG.normal(size=(6, 3)), RNG.normal(size=(2, 4, 6))


def network(x):
    """A small decoder with an image of shape (2, 4)."""
    return jnp.tensordot(OUTER, jnp.tanh(INNER @ x), axes=1)


def deviation(x):
    return jnp.exp(0.3 * INNER @ x)


@pytest.mark.parametrize("std", [None, deviation])
def test_it_is_made_of_jacobians(std):
    metric = metrics.Pullback(network, std, regularisation=0.1)
    x = ROWS[0]
    expected = 0.1 * np.eye(3)
    for decoder in (network,) if std is None else (network, std):
        with double_precision():
            J = np.stack([np.asarray(jax.jacrev(decoder)(y)).reshape(-1, 3) for y in x])
        expected = expected + J.swapaxes(1, 2) @ J
    assert_near(metric.tensors_at(x), expected, 1e-12)
    assert_near(metric(x), metric.tensors_at(x), 1e-14)


@pytest.mark.parametrize("std", [None, deviation])
def test_everything_agrees_with_the_formula_and_automatic_differentiation(std):
    metric = metrics.Pullback(network, std, regularisation=0.1)
    assert_consistent(metric, *ROWS, rtol=1e-7)
    assert_same(metric, in_jax(metric), *ROWS)


def test_decoders_in_numpy_and_torch():
    torch = pytest.importorskip("torch")
    exact = metrics.Pullback(network)

    def in_numpy(x):
        return np.einsum("abk,nk->nab", OUTER, np.tanh(x @ INNER.T))

    class InTorch(torch.nn.Module):
        def forward(self, x):
            hidden = torch.tanh(x @ torch.tensor(INNER).T)
            return torch.einsum("abk,nk->nab", torch.tensor(OUTER), hidden)

    assert_same(metrics.Pullback(InTorch()), exact, *ROWS)
    by_differences = metrics.Pullback(in_numpy)
    assert_near(by_differences.energies(*ROWS), exact.energies(*ROWS), 1e-8)
    assert_near(by_differences.accelerations(*ROWS), exact.accelerations(*ROWS), 1e-4)


def test_a_linear_decoder_gives_a_flat_metric():
    A = RNG.normal(size=(5, 3))
    assert_same(metrics.Pullback(lambda x: A @ x), metrics.Flat(A.T @ A), *ROWS)


def test_the_embedding_of_the_sphere_pulls_back_its_chart():
    sphere = metrics.Sphere(3)
    assert_same(metrics.Pullback(lambda x: sphere.embed(x)), sphere, *ROWS)


def test_decoding():
    metric = metrics.Pullback(network, deviation)
    x = ROWS[0]
    assert metric.decode(x).shape == (12, 14)
    np.testing.assert_allclose(metric.decode(x[0]), metric.decode(x)[0], rtol=1e-12)
    np.testing.assert_allclose(metric.decode(x[0])[8:], np.exp(0.3 * INNER @ x[0]), rtol=1e-12)


def test_torch_decoders_on_two_threads(monkeypatch):
    """The same geodesics as on one: modules and forward derivatives are shared by threads."""
    torch = pytest.importorskip("torch")
    torch.manual_seed(0)
    layers = torch.nn.Linear(2, 16), torch.nn.Tanh(), torch.nn.Linear(16, 5)
    manifold = Manifold(metrics.Pullback(torch.nn.Sequential(*layers), regularisation=0.01))
    monkeypatch.setattr("probgeo.geometry.manifold.MOST", 10)  # members at a time
    a, b = RNG.normal(size=(2, 40, 2))
    lengths = []
    for threads in ("1", "2", "2"):
        monkeypatch.setenv("PROBGEO_THREADS", threads)
        lengths.append(manifold.geodesic(a, b).length.mean)
    np.testing.assert_allclose(lengths[1:], [lengths[0]] * 2, rtol=1e-9)
