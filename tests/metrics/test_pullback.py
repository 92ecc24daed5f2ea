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
    monkeypatch.setattr("probgeo.geometry.manifold.members_at_a_time", lambda *_: 10)
    a, b = RNG.normal(size=(2, 40, 2))
    lengths = []
    for threads in ("1", "2", "2"):
        monkeypatch.setenv("PROBGEO_THREADS", threads)
        lengths.append(manifold.geodesic(a, b).length.mean)
    np.testing.assert_allclose(lengths[1:], [lengths[0]] * 2, rtol=1e-9)


def test_newtons_terms_have_the_second_variation_of_energy_terms_along_geodesics():
    """Along a great circle, for fields that vanish at its ends: exact up to quadrature."""
    sphere = metrics.Sphere(2)
    metric = metrics.Pullback(lambda x: sphere.embed(x))
    s, weight = np.polynomial.legendre.leggauss(40)
    t, weight = 0.5 * (s + 1.0), 0.5 * weight
    curve = Manifold(metric).with_precision(1e-9).geodesic([0.2, -0.5], [0.9, 0.7])
    x, v = curve.mean(t), curve.mean(t, 1)
    found = []
    for terms in (metric.newton_terms(x, v), metric.energy_terms(x, v)):
        for w in np.random.default_rng(1).normal(size=(3, 2)):
            e = np.sin(np.pi * t)[:, None] * w + np.sin(2.0 * np.pi * t)[:, None] * w[::-1]
            de = np.pi * np.cos(np.pi * t)[:, None] * w
            de = de + 2.0 * np.pi * np.cos(2.0 * np.pi * t)[:, None] * w[::-1]
            density = (
                np.einsum("ni,nij,nj->n", e, terms.xx, e)
                + 2.0 * np.einsum("ni,nij,nj->n", e, terms.xv, de)
                + np.einsum("ni,nij,nj->n", de, terms.vv, de)
            )
            found.append(weight @ density)
    np.testing.assert_allclose(found[:3], found[3:], rtol=1e-7)
    for name in ("energy", "by_x", "by_v", "vv"):
        newton, exact = (getattr(f(x, v), name) for f in (metric.newton_terms, metric.energy_terms))
        np.testing.assert_allclose(newton, exact, rtol=1e-10, atol=1e-12)


def test_chains_of_torch_layers_are_differentiated_as_torch_does():
    torch = pytest.importorskip("torch")
    from probgeo.functions.torch_layers import layers_of

    nn = torch.nn
    torch.manual_seed(0)

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.one, self.two = nn.Linear(3, 8), nn.Linear(8, 6)

        def forward(self, z):
            return torch.sigmoid(self.two(nn.functional.softplus(self.one(z), beta=2.0)))

    convolutional = nn.Sequential(
        nn.Linear(3, 8),
        nn.GELU(),
        nn.Unflatten(1, (2, 2, 2)),
        nn.ConvTranspose2d(2, 3, 2, stride=2),
        nn.BatchNorm2d(3),
        nn.ReLU(inplace=True),
        nn.Flatten(),
        nn.Dropout(0.5),
    ).eval()
    for net, family in ((Net(), None), (convolutional, None), (Net(), "bernoulli")):
        assert layers_of(net) is not None
        doubled = net.double()
        chain, whole = (metrics.Pullback(f, family=family) for f in (doubled, lambda z, f=doubled: f(z)))
        assert len(chain._parts(ROWS[0])[0]._layers) == len(layers_of(net)) + (family is not None)
        assert whole._parts(ROWS[0])[0]._layers is None
        assert_near(chain.accelerations(*ROWS), whole.accelerations(*ROWS), 1e-9)
        for method in ("newton_terms", "energy_terms"):
            for one, other in zip(getattr(chain, method)(*ROWS), getattr(whole, method)(*ROWS), strict=True):
                np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(chain.tensors_at(ROWS[0]), whole.tensors_at(ROWS[0]), rtol=1e-9)


def test_modules_that_branch_or_are_unknown_are_no_chains():
    torch = pytest.importorskip("torch")
    from probgeo.functions.torch_layers import layers_of

    class Skips(torch.nn.Module):
        def forward(self, z):
            return z + torch.tanh(z)

    class Decides(torch.nn.Module):
        def forward(self, z):
            return z if z.sum() > 0 else -z

    training = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Dropout(0.5))
    for module in (Skips(), Decides(), torch.nn.Sequential(torch.nn.Softmax(1)), training):
        assert layers_of(module) is None


@pytest.mark.parametrize("kind", ["pair", "distribution", "JAX pair", "no array of JAX"])
def test_decoders_that_return_mean_and_std_at_once_are_told_what_to_do(kind):
    torch = pytest.importorskip("torch")

    class Decoder(torch.nn.Module):
        def forward(self, z):
            return (z, z.exp()) if kind == "pair" else torch.distributions.Normal(z, 1.0)

    functions = {"JAX pair": lambda z: (jnp.sin(z), z), "no array of JAX": lambda z: Plain(z)}
    decoder = functions.get(kind) or Decoder().eval()
    with pytest.raises(ValueError, match=r"give its mean and std as two .* Pullback\(mean, std="):
        metrics.Pullback(decoder)(np.zeros((3, 2)))


class Plain:
    """What distributions of JAX are that are no trees of arrays."""

    def __init__(self, mean):
        self.mean = jnp.sin(mean)
