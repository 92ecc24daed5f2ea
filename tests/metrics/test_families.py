"""Fisher-Rao metrics that decoders of distributions pull back, against closed forms."""

import jax.numpy as jnp
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from probgeo import Manifold, metrics
from tests.metrics.reference import assert_consistent, assert_near, assert_same, random_rows

RNG = np.random.default_rng(3)
ROWS = random_rows(RNG, 2, count=10)
W, C = RNG.normal(size=(4, 2)), RNG.normal(size=4)


def logits(x):
    return W @ jnp.tanh(x) + C


def probabilities(x):
    return 1.0 / (1.0 + jnp.exp(-logits(x)))


def test_bernoulli_is_fishers_information():
    """sum_k dp_k^2 / (p_k (1 - p_k)), by Jacobians of the logits: dp = p (1 - p) dl."""
    x = ROWS[0]
    slopes = W * (1.0 - np.tanh(x)[:, None, :] ** 2)  # (n, 4, 2)
    p = 1.0 / (1.0 + np.exp(-np.tanh(x) @ W.T - C))
    expected = np.einsum("nki,nk,nkj->nij", slopes, p * (1.0 - p), slopes)
    for decoder, family in ((probabilities, "bernoulli"), (logits, "bernoulli_logits")):
        metric = metrics.Pullback(decoder, family=family)
        assert_near(metric.tensors_at(x), expected, 1e-12)
        assert_near(metric(x), expected, 1e-12)
        assert_consistent(metric, *ROWS, rtol=1e-7)


@settings(max_examples=20, deadline=None)
@given(st.floats(0.01, 0.99), st.floats(0.01, 0.99))
def test_distance_of_bernoulli_distributions(p, q):
    """2 |arcsin sqrt p - arcsin sqrt q|, whatever the coordinate."""
    exact = 2.0 * abs(np.arcsin(np.sqrt(p)) - np.arcsin(np.sqrt(q)))
    ends = np.log([p / (1 - p)]), np.log([q / (1 - q)])
    distance = Manifold(METRIC_OF_LOGITS).distance(*ends)
    assert abs(distance.mean - exact) <= 4.0 * distance.std + 1e-9


METRIC_OF_LOGITS = metrics.Pullback(lambda x: x, family="bernoulli_logits")


def test_saturated_logits_keep_derivatives():
    metric = metrics.Pullback(lambda x: 2000.0 * x, family="bernoulli_logits", regularisation=1.0)
    tensors = metric.tensors_at(np.array([[1.0], [-1.0]]))
    np.testing.assert_allclose(tensors, 1.0)


def half_plane(m1, s1, m2, s2):
    """Distance of normal distributions (Rao; Atkinson & Mitchell 1981)."""
    change = (m1 - m2) ** 2 / 2.0 + (s1 - s2) ** 2
    return np.sqrt(2.0) * np.arccosh(1.0 + change / (2.0 * s1 * s2))


@pytest.mark.parametrize("library", ["jax", "torch"])
def test_distance_of_normal_distributions(library):
    if library == "jax":
        decoder, std = (lambda x: x[:1]), (lambda x: jnp.exp(x[1:]))
    else:
        decoder, std = (lambda x: x[:, :1]), (lambda x: torch.exp(x[:, 1:]))
    metric = metrics.Pullback(decoder, std, family="gaussian")
    assert_consistent(metric, *ROWS, rtol=1e-7)
    a, b = RNG.uniform(-1.0, 1.0, (2, 30, 2))
    geodesics = Manifold(metric).geodesic(a, b)
    exact = half_plane(a[:, 0], np.exp(a[:, 1]), b[:, 0], np.exp(b[:, 1]))
    assert geodesics.converged.all()
    np.testing.assert_array_less(np.abs(geodesics.mean_length - exact), 1e-4 * exact)
    assert np.mean(np.abs(geodesics.mean_length - exact) <= 2 * geodesics.length.std) >= 0.9


def test_one_standard_deviation_for_all_outputs():
    """dmu^2 / s^2 + 2 M ds^2 / s^2 for M outputs, and modules agree with functions."""
    torch.manual_seed(0)
    mean = torch.nn.Linear(2, 3)
    std = torch.nn.Sequential(torch.nn.Linear(2, 1), torch.nn.Softplus())
    metric = metrics.Pullback(mean, std, family="gaussian")
    x = ROWS[0]
    A = mean.weight.detach().double().numpy()
    b, c = (p.detach().double().numpy() for p in std[0].parameters())
    s = np.logaddexp(0.0, x @ b.T + c)  # (n, 1)
    ds = b / (1.0 + np.exp(-(x @ b.T + c)))  # (n, 2)
    by_std = 6.0 * ds[:, :, None] * ds[:, None, :] / s[..., None] ** 2
    assert_near(metric.tensors_at(x), A.T @ A / s[..., None] ** 2 + by_std, 1e-12)
    weights = A, mean.bias.detach().double().numpy()
    same = metrics.Pullback(
        lambda x: weights[0] @ x + weights[1], lambda x: jnp.logaddexp(0.0, b @ x + c), family="gaussian"
    )
    assert_same(metric, same, *ROWS)
    assert metric.decode(x).shape == (10, 4)


def test_bad_families():
    with pytest.raises(ValueError, match="family must be one of"):
        metrics.Pullback(logits, family="poisson")
    with pytest.raises(ValueError, match="needs std"):
        metrics.Pullback(logits, family="gaussian")
    with pytest.raises(ValueError, match="leave std out"):
        metrics.Pullback(logits, logits, family="bernoulli")
    with pytest.raises(ValueError, match="probabilities from 0 to 1"):
        metrics.Pullback(lambda x: x + 2.0, family="bernoulli").tensors_at(ROWS[0])
    rows = metrics.Pullback(lambda x: np.sin(x), lambda x: np.exp(x), family="gaussian")
    with pytest.raises(TypeError, match="JAX or PyTorch"):
        rows.tensors_at(ROWS[0])
