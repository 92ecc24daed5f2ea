"""Metrics that are not smooth: error bars are right, or the geodesic is flagged."""

import warnings

import jax.numpy as jnp
import numpy as np
import pytest
import torch
from scipy.optimize import minimize_scalar

from probgeo import Manifold, metrics
from probgeo.functions import NumpyFunction, TorchFunction
from probgeo.geometry.chains import Chains, minimise

TIMES = np.linspace(0.0, 1.0, 33)
NOT_SMOOTH = "the metric is not smooth here"
W, C, V = (np.random.default_rng(7).normal(size=shape) for shape in ((2, 16), 16, (16, 8)))


def solved(metric, count, seed=1):
    a, b = 1.5 * np.random.default_rng(seed).normal(size=(2, count, 2))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return a, b, Manifold(metric).geodesic(a, b)


def with_edge(sign):
    """An expensive (-1) or cheap (+1) edge along x_1 = 0, and smooth metrics on the way to it."""
    factor = lambda size: 2.0 + sign * (size - 1.0)  # noqa: E731
    exact = metrics.Conformal(lambda x: factor(jnp.tanh(jnp.abs(x[0]))))
    rounded = [
        metrics.Conformal(lambda x, e=e: factor(jnp.tanh(jnp.sqrt(x[0] ** 2 + e**2)))) for e in (1e-2, 1e-3, 1e-4, 1e-5)
    ]
    return exact, rounded


def polygon(rounded, curve):
    """A fine polygon of least energy near a curve, with the edge rounded less and less."""
    t = np.linspace(0.0, 1.0, 1025)
    chains = Chains(curve.mean(t)[:, None].copy(), t, np.array([0, len(t)]))
    for metric in rounded:
        done = minimise(metric, chains, 1e-14, 200)
        chains = done.chains
    assert done.settled.all()
    return chains.nodes[::32, 0], np.sqrt(2.0 * done.energy[0])


@pytest.mark.parametrize("sign", [-1.0, 1.0])
def test_error_bars_hold_across_edges(sign):
    """A Lipschitz metric: meshes converge, slowly, and what has converged is as good as it says."""
    metric, rounded = with_edge(sign)
    curves = solved(metric, 40)[2]
    positions, lengths = [], []
    for n in np.flatnonzero(curves.converged):
        x, length = polygon(rounded, curves[n])
        floor = 2e-6 * np.ptp(x, axis=0).max()  # what the polygon does not know
        off = (curves[n].mean(TIMES) - x) / np.maximum(curves[n].std(TIMES), floor)
        positions.append(np.mean(np.abs(off[1:-1]) < 2.0))
        measured = curves[n].length
        lengths.append(abs(measured.mean - length) < 2.0 * max(measured.std, 2e-6 * length))
    assert len(positions) >= 20
    assert np.mean(positions) > 0.9
    assert np.mean(lengths) > 0.9


def refracted(a, b, high):
    """The shortest way across a jump at x_1 = 0, by Snell's law."""
    n = np.sqrt(np.where(np.array([a[0], b[0]]) > 0, high, 1.0))

    def length(y):
        return n[0] * np.hypot(a[0], y - a[1]) + n[1] * np.hypot(b[0], b[1] - y)

    return minimize_scalar(length, bounds=sorted([a[1], b[1]]), method="bounded").fun


def test_jumps_are_flagged():
    """The derivative of a jump is zero wherever it is looked at: no mesh can see the refraction."""
    metric = metrics.Conformal(lambda x: jnp.where(x[0] > 0, 4.0, 1.0))
    a, b, curves = solved(metric, 60)
    across = a[:, 0] * b[:, 0] < 0
    clear = np.minimum(np.abs(a[:, 0]), np.abs(b[:, 0])) > 0.1  # of what no point of a mesh meets
    assert np.sum(across & clear) > 20
    assert not curves.converged[across & clear].any()
    assert all(NOT_SMOOTH in text for text in curves.message[across & clear])
    assert curves.converged[~across].all()
    worse = [curves.length.mean[n] > refracted(a[n], b[n], 4.0) for n in np.flatnonzero(across)]
    assert np.mean(worse) > 0.5  # they deserve it


def relu_metric(kind):
    if kind == "NumPy":
        return metrics.Pullback(NumpyFunction(lambda x: np.maximum(x @ W + C, 0.0) @ V))
    if kind == "JAX":
        return metrics.Pullback(lambda x: jnp.maximum(x @ W + C, 0.0) @ V)
    w, c, v = map(torch.tensor, (W, C, V))
    return metrics.Pullback(TorchFunction(lambda x: torch.relu(x @ w + c) @ v))


@pytest.mark.parametrize("kind", ["NumPy", "JAX", "torch"])
def test_relu_decoders_are_flagged_unless_nothing_switches(kind):
    """Without a unit that switches on the way a geodesic is the line."""
    a, b, curves = solved(relu_metric(kind), 8)
    near = a + 1e-4 * (b - a)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        short = Manifold(relu_metric(kind)).geodesic(a, near)
    assert not curves.converged.any()
    same = np.all((a @ W + C > 0) == (near @ W + C > 0), axis=1)
    assert same.any()
    assert short.converged[same].all()
    line = np.linalg.norm(np.maximum(near @ W + C, 0) @ V - np.maximum(a @ W + C, 0) @ V, axis=1)
    np.testing.assert_allclose(short.length.mean[same], line[same], rtol=1e-6)


@pytest.mark.parametrize("shift", [0.0, 1e5])
def test_noise_widens_error_bars_and_flags_nothing(shift):
    """Single precision, or data far from the origin: smooth but for the last digits."""

    def factor(x):
        return 2.0 + jnp.tanh(x[0] - shift).astype(jnp.float32 if not shift else jnp.float64)

    a, b = np.random.default_rng(0).normal(size=(2, 20, 2)) + shift
    assert Manifold(metrics.Conformal(factor)).geodesic(a, b).converged.all()
