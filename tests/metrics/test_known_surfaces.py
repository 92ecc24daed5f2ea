"""Pull-backs of maps with known geometry, in JAX and PyTorch; decoders that cannot be used."""

import resource

import jax.numpy as jnp
import numpy as np
import pytest
import torch

from probgeo import Manifold, metrics
from probgeo.functions import TorchFunction

R, r = 2.0, 0.7  # of the torus
LIBRARIES = {"jax": jnp, "torch": torch}


def surface(library, formula):
    """A decoder of one point in JAX, of rows in torch, from a formula of two coordinates."""
    xp = LIBRARIES[library]
    if library == "jax":
        return lambda x: jnp.stack(formula(xp, x[0], x[1]))
    return lambda x: torch.stack(formula(xp, x[:, 0], x[:, 1]), dim=1)


def sphere(xp, u, v):
    return [xp.cos(u) * xp.cos(v), xp.sin(u) * xp.cos(v), xp.sin(v)]


def torus(xp, u, v):
    return [(R + r * xp.cos(v)) * xp.cos(u), (R + r * xp.cos(v)) * xp.sin(u), r * xp.sin(v)]


def graph(xp, u, v):
    return [u, v, 0.5 * u**2 - 0.3 * v * u]


def pairs(count, low, high):
    return np.random.default_rng(0).uniform(low, high, (2, count, 2))


@pytest.mark.parametrize("library", LIBRARIES)
def test_great_circles(library):
    manifold = Manifold(metrics.Pullback(surface(library, sphere)))
    a, b = pairs(40, -0.9, 0.9)
    found = manifold.geodesic(a, b)
    ends = [np.stack(sphere(np, *x.T), axis=1) for x in (a, b)]
    exact = np.arccos(np.sum(ends[0] * ends[1], axis=1))
    assert found.converged.all()
    np.testing.assert_allclose(found.mean_length, exact, rtol=1e-5)
    assert np.mean(np.abs(found.mean_length - exact) <= 2 * found.length.std) >= 0.9


@pytest.mark.parametrize("library", LIBRARIES)
def test_curvature_of_the_torus(library):
    manifold = Manifold(metrics.Pullback(surface(library, torus)))
    x = pairs(10, -3.0, 3.0)[0]
    v = x[:, 1]
    K = manifold.sectional_curvature(x, [1.0, 0.0], [0.0, 1.0])
    np.testing.assert_allclose(K, np.cos(v) / (r * (R + r * np.cos(v))), rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("library", LIBRARIES)
def test_clairaut_on_the_torus(library):
    """rho^2 u' is constant along geodesics, rho being the distance to the axis."""
    manifold = Manifold(metrics.Pullback(surface(library, torus))).with_precision(1e-6)
    geodesic = manifold.geodesic([0.0, -1.0], [1.2, 1.3])
    t = np.linspace(0.05, 0.95, 19)
    rho = R + r * np.cos(geodesic.mean(t)[:, 1])
    momentum = rho**2 * geodesic.mean(t, derivative=1)[:, 0]
    np.testing.assert_allclose(momentum, momentum.mean(), rtol=1e-3)


@pytest.mark.parametrize("library", LIBRARIES)
def test_the_metric_of_a_graph(library):
    x = pairs(10, -1.0, 1.0)[0]
    g = np.stack([x[:, 0] - 0.3 * x[:, 1], -0.3 * x[:, 0]], axis=1)
    expected = np.eye(2) + g[:, :, None] * g[:, None, :]
    metric = metrics.Pullback(surface(library, graph))
    np.testing.assert_allclose(metric.tensors_at(x), expected, rtol=1e-12, atol=1e-14)


def network(seed=0, outputs=6):
    torch.manual_seed(seed)
    return torch.nn.Sequential(torch.nn.Linear(2, 16), torch.nn.Tanh(), torch.nn.Linear(16, outputs))


def test_one_network_in_torch_and_jax():
    module = network()
    A, a, B, b = (p.detach().double().numpy() for p in module.parameters())
    in_jax = metrics.Pullback(lambda x: B @ jnp.tanh(A @ x + a) + b)
    ends = pairs(20, -2.0, 2.0)
    lengths = [
        Manifold(metric).geodesic(*ends).mean_length
        for metric in (in_jax, metrics.Pullback(module), metrics.Pullback(lambda z: module(z)))
    ]
    np.testing.assert_allclose(lengths[1], lengths[0], rtol=1e-8)  # modules in double precision
    np.testing.assert_allclose(lengths[2], lengths[0], rtol=1e-6)  # functions in their own


def test_single_precision_is_known_and_told():
    module = network()
    metric = metrics.Pullback(lambda z: module(z))
    assert metric.precision(2) == 2.0**-23
    assert metrics.Pullback(module).precision(2) == 2.0**-52
    a, b = pairs(20, -2.0, 2.0)
    with pytest.warns(UserWarning, match="7 digits"):
        found = Manifold(metric).with_precision(1e-6).geodesic(a, b)
    assert found.converged.all()
    exact = Manifold(metrics.Pullback(module)).with_precision(1e-6).geodesic(a, b).mean_length
    assert np.mean(np.abs(found.mean_length - exact) <= 2 * found.length.std) >= 0.9
    narrow = metrics.Pullback(lambda x: jnp.sin(x).astype(jnp.float32))
    assert narrow.precision(2) == 2.0**-23


def test_a_hundred_thousand_outputs_of_any_shape_in_bounded_memory():
    """A Jacobian of all nodes would take 100,000 x 2 x 8 bytes a node: 480 MB for 300."""
    rng = np.random.default_rng(0)
    A, B = rng.normal(size=(8, 2)), rng.normal(size=(100, 1000, 8)) / 1000.0

    def decoder(x):
        return jnp.tensordot(B, jnp.tanh(A @ x), axes=1)

    metric = metrics.Pullback(decoder)
    assert metric.decode(np.zeros(2)).shape == (100_000,)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    tensors = metric.tensors_at(rng.uniform(-0.5, 0.5, (300, 2)))
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert (after - before) * 1024 < 3e8  # in units of 1024 bytes, on Linux
    assert np.linalg.eigvalsh(tensors).min() > 0.0
    module = torch.nn.Sequential(
        torch.nn.Linear(2, 8, bias=False), torch.nn.Tanh(), torch.nn.Linear(8, 100_000, bias=False)
    ).double()
    for part, weight in ((module[0], A), (module[2], B.reshape(-1, 8))):
        part.weight.data = torch.tensor(weight)
    same, rows = metrics.Pullback(module), pairs(5, -0.5, 0.5)
    for one, other in zip(metric.newton_terms(*rows), same.newton_terms(*rows), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-12)
    assert Manifold(same).geodesic(*rows).converged.all()


def refused(decoder, match, error=ValueError):
    with pytest.raises(error, match=match):
        Manifold(metrics.Pullback(decoder)).geodesic([0.1, 0.2], [0.3, 0.5])


class TestDecodersThatCannotBeUsed:
    def test_nan(self):
        refused(lambda x: jnp.nan * x, "finite numbers")
        refused(TorchFunction(lambda x: torch.nan * x), "finite numbers")

    def test_wrong_shape(self):
        refused(lambda x: x[:1] ** 2, "at least as many")
        module = network()
        refused(TorchFunction(lambda x: module(x).sum()), "4 rows for 4 rows")

    def test_training_mode(self):
        dropping = torch.nn.Sequential(network(), torch.nn.Dropout(0.3))
        refused(dropping, r"eval\(\)")
        dropping.eval()
        assert Manifold(metrics.Pullback(dropping)).geodesic([0.1, 0.2], [0.3, 0.5]).converged
        normalised = torch.nn.Sequential(network(), torch.nn.BatchNorm1d(6))
        refused(normalised, r"eval\(\)")

    def test_random_functions(self):
        refused(TorchFunction(lambda x: x + torch.rand(len(x), 2)), "must not be random")

    def test_derivatives_that_are_lost(self):
        module = network()
        refused(TorchFunction(lambda x: module(x).detach()), "must have derivatives")
        refused(torch.inference_mode()(lambda x: module(x)), "must have derivatives")

    def test_parameters_may_want_gradients_or_not(self):
        module = network()
        wanting = Manifold(metrics.Pullback(module)).distance([0.1, 0.2], [0.3, 0.5])
        module.requires_grad_(False)
        with torch.no_grad():
            without = Manifold(metrics.Pullback(module)).distance([0.1, 0.2], [0.3, 0.5])
        assert wanting.mean == without.mean
        assert all(p.grad is None for p in module.parameters())

    def test_another_device(self):
        """Rows go where the module is; the one device there is everywhere knows no numbers."""
        elsewhere = network().to("meta")
        refused(elsewhere, "meta", error=(TypeError, ValueError, NotImplementedError))
