"""Local tensors, blended smoothly (Eq. 8 and 9)."""

import jax
import jax.numpy as jnp
import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from probgeo import metrics
from tests.geometry.reference import Plain, assert_same_metric, methods, random_tensors

SEEDS = st.integers(0, 10**6)
K, D = 4, 3


def random_local(seed, diagonal=False):
    rng = np.random.default_rng(seed)
    tensors = np.exp(rng.normal(size=(K, D))) if diagonal else random_tensors(rng, K, D)
    metric = metrics.LocalMetrics(rng.normal(size=(K, D)), tensors, rho=rng.uniform(0.1, 3.0))
    return metric, *jnp.asarray(rng.normal(size=(2, D)))


def test_equations_8_and_9():
    metric, x, _ = random_local(0)
    weights = [
        np.exp(-0.5 * metric.rho * (x - m) @ T @ (x - m))
        for m, T in zip(metric.centers, metric.tensors, strict=True)
    ]
    expected = np.tensordot(weights, metric.tensors, axes=1) / np.sum(weights)
    np.testing.assert_allclose(metric(x), expected, rtol=1e-12)


@given(seed=SEEDS)
def test_closed_forms_agree_with_automatic_differentiation(seed):
    for diagonal in (False, True):
        metric, x, v = random_local(seed, diagonal)
        assert_same_metric(metric, Plain(metric), x, v)


@given(seed=SEEDS)
def test_diagonal_tensors_agree_with_the_same_in_full(seed):
    metric, x, v = random_local(seed, diagonal=True)
    full = metrics.LocalMetrics(metric.centers, jax.vmap(jnp.diag)(metric.tensors), metric.rho)
    assert_same_metric(metric, full, x, v)


@given(seed=SEEDS)
def test_far_from_the_data_the_nearest_tensor_is_left(seed):
    metric, _, v = random_local(seed)
    direction = v / jnp.linalg.norm(v)
    for distance in (1e6, 1e12):
        x = distance * direction
        offsets = np.asarray(x - metric.centers)
        far = np.einsum("ki,kij,kj->k", offsets, metric.tensors, offsets)
        nearest, second = np.sort(far)[:2]
        if metric.rho * (second - nearest) < 100.0:  # no single nearest one
            continue
        found = methods(metric, x, v)
        np.testing.assert_array_equal(found["tensor"], metric.tensors[np.argmin(far)])
        np.testing.assert_array_equal(found["acceleration"], 0.0)


@given(seed=SEEDS)
def test_the_metric_lies_between_its_tensors_everywhere(seed):
    metric, x, v = random_local(seed)
    lowest = np.linalg.eigvalsh(metric.tensors).min()
    highest = np.linalg.eigvalsh(metric.tensors).max()
    for size in (1.0, 1e3, 1e6):
        eigenvalues = np.linalg.eigvalsh(methods(metric, size * x, v)["tensor"])
        assert lowest * (1 - 1e-9) <= eigenvalues[0]
        assert eigenvalues[-1] <= highest * (1 + 1e-9)


@given(seed=SEEDS)
def test_a_linear_change_of_coordinates_changes_nothing(seed):
    """x = A z has the metric A' M A, and geodesics map to geodesics."""
    metric, x, v = random_local(seed)
    A = np.linalg.cholesky(random_tensors(np.random.default_rng(seed), 1, D)[0])
    moved = metrics.LocalMetrics(
        np.linalg.solve(A, metric.centers.T).T, A.T @ metric.tensors @ A, metric.rho
    )
    z, u = jnp.linalg.solve(A, x), jnp.linalg.solve(A, v)
    expected, found = methods(metric, x, v), methods(moved, z, u)
    np.testing.assert_allclose(found["energy"], expected["energy"], rtol=1e-9)
    scale = 1.0 + np.abs(expected["acceleration"]).max()
    np.testing.assert_allclose(
        A @ found["acceleration"], expected["acceleration"], atol=1e-9 * scale
    )


def test_rho_blends_from_the_mean_tensor_to_the_nearest():
    metric, x, _ = random_local(1)
    np.testing.assert_allclose(metric.with_rho(0.0)(x), metric.tensors.mean(axis=0), rtol=1e-12)
    nearest = metric.tensors[np.argmax(metric.weights(x))]
    np.testing.assert_allclose(metric.with_rho(1e6)(x), nearest, rtol=1e-12)


def test_one_tensor_is_a_flat_metric():
    metric, x, v = random_local(2)
    flat = metrics.LocalMetrics(metric.centers[:1], metric.tensors[:1])
    assert_same_metric(flat, metrics.Flat(metric.tensors[0]), x, v)
