"""Local tensors, blended smoothly (Eq. 8 and 9)."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from probgeo import metrics
from tests.metrics.reference import assert_consistent, assert_near, assert_same, in_jax, random_rows, random_tensors

SEEDS = st.integers(0, 10**6)
K, D = 4, 3


def random_local(seed, diagonal=False, dimension=D, count=K):
    rng = np.random.default_rng(seed)
    shape = (count, dimension)
    tensors = np.exp(rng.normal(size=shape)) if diagonal else random_tensors(rng, *shape)
    # the same sharpness in all dimensions: several weights count
    rho = rng.uniform(0.1, 3.0) / dimension
    return metrics.LocalMetrics(rng.normal(size=shape), tensors, rho=rho)


def test_equations_8_and_9():
    metric, x = random_local(0), np.array([0.3, -0.2, 0.5])
    weights = [
        np.exp(-0.5 * metric.rho * (x - m) @ T @ (x - m)) for m, T in zip(metric.centers, metric.tensors, strict=True)
    ]
    expected = np.tensordot(weights, metric.tensors, axes=1) / np.sum(weights)
    np.testing.assert_allclose(metric(x), expected, rtol=1e-12)
    np.testing.assert_allclose(metric.weights(x), weights / np.sum(weights), rtol=1e-12)


@pytest.mark.loops
@pytest.mark.parametrize("diagonal", [False, True])
@pytest.mark.parametrize("dimension", [1, 2, 5, 6, 7, 11])
def test_everything_agrees_with_the_formula(dimension, diagonal):
    rng = np.random.default_rng(dimension)
    metric = random_local(dimension, diagonal, dimension)
    assert_consistent(metric, *random_rows(rng, dimension, count=9))


def test_closed_forms_agree_with_automatic_differentiation():
    metric = random_local(1)
    assert_same(metric, in_jax(metric), *random_rows(np.random.default_rng(0), D))


@pytest.mark.parametrize("dimension", [3, 9])
def test_diagonal_tensors_agree_with_the_same_in_full(dimension):
    metric = random_local(2, diagonal=True, dimension=dimension)
    tensors = metric.tensors[:, :, None] * np.eye(dimension)
    full = metrics.LocalMetrics(metric.centers, tensors, metric.rho)
    assert_same(metric, full, *random_rows(np.random.default_rng(0), dimension))


@pytest.mark.parametrize("dimension", [3, 9])
@given(seed=SEEDS)
def test_far_from_the_data_the_nearest_tensor_is_left(dimension, seed):
    metric = random_local(seed, dimension=dimension)
    v = np.random.default_rng(seed).normal(size=(1, dimension))
    for distance in (1e6, 1e12):
        x = distance * v / np.linalg.norm(v)
        offsets = x - metric.centers
        far = np.einsum("ki,kij,kj->k", offsets, metric.tensors, offsets)
        nearest, second = np.sort(far)[:2]
        if metric.rho * (second - nearest) < 100.0:  # no single nearest one
            continue
        terms = metric.energy_terms(x, v)
        np.testing.assert_array_equal(terms.vv[0], metric.tensors[np.argmin(far)])
        np.testing.assert_array_equal(terms.xx, 0.0)
        np.testing.assert_array_equal(metric.accelerations(x, v), 0.0)


@given(seed=SEEDS)
def test_the_metric_lies_between_its_tensors_everywhere(seed):
    metric = random_local(seed)
    x = np.random.default_rng(seed).normal(size=D)
    lowest = np.linalg.eigvalsh(metric.tensors).min()
    highest = np.linalg.eigvalsh(metric.tensors).max()
    rows = np.outer([1.0, 1e3, 1e6], x)
    eigenvalues = np.linalg.eigvalsh(metric.energy_terms(rows, rows).vv)
    assert np.all(lowest * (1 - 1e-9) <= eigenvalues)
    assert np.all(eigenvalues <= highest * (1 + 1e-9))


@pytest.mark.parametrize("dimension", [3, 9])
@given(seed=SEEDS)
def test_a_linear_change_of_coordinates_changes_nothing(dimension, seed):
    """x = A z has the metric A' M A, and geodesics map to geodesics."""
    metric = random_local(seed, dimension=dimension)
    rng = np.random.default_rng(seed)
    A = np.linalg.cholesky(random_tensors(rng, 1, dimension)[0])
    x, v = random_rows(rng, dimension, count=3)
    moved = metrics.LocalMetrics(np.linalg.solve(A, metric.centers.T).T, A.T @ metric.tensors @ A, metric.rho)
    z, u = (np.ascontiguousarray(np.linalg.solve(A, y.T).T) for y in (x, v))
    assert_near(moved.energies(z, u), metric.energies(x, v), 1e-9)
    assert_near(moved.accelerations(z, u) @ A.T, metric.accelerations(x, v), 1e-9)


@pytest.mark.parametrize("dimension", [3, 9])
def test_rows_do_not_depend_on_their_company(dimension):
    """Blocks of rows are multiplied together: only rounding may differ."""
    metric = random_local(3, dimension=dimension, count=7)
    x, v = random_rows(np.random.default_rng(0), dimension, count=1000)
    together = metric.energy_terms(x, v)
    alone = metric.energy_terms(x[700:701].copy(), v[700:701].copy())
    for one, many in zip(alone, together, strict=True):
        assert_near(many[700], one[0], 1e-13)


@pytest.mark.parametrize("dimension", [3, 9])
@pytest.mark.parametrize("diagonal", [False, True])
def test_rows_that_are_not_numbers_harm_no_others(dimension, diagonal):
    metric = random_local(4, diagonal, dimension)
    x, v = random_rows(np.random.default_rng(0), dimension, count=5)
    good = metric.energy_terms(x, v)
    x[2, 0] = np.nan
    bad = metric.energy_terms(x, v)
    for one, other in zip(good, bad, strict=True):
        np.testing.assert_allclose(np.delete(other, 2, 0), np.delete(one, 2, 0), rtol=1e-12)
        assert np.isnan(other[2]).all()


def test_rho_blends_from_the_mean_tensor_to_the_nearest():
    metric, x = random_local(1), np.array([0.1, 0.2, -0.4])
    np.testing.assert_allclose(metric.with_rho(0.0)(x), metric.tensors.mean(axis=0), rtol=1e-12)
    nearest = metric.tensors[np.argmax(metric.weights(x))]
    np.testing.assert_allclose(metric.with_rho(1e6)(x), nearest, rtol=1e-12)


def test_one_tensor_is_a_flat_metric():
    metric = random_local(2, count=1)
    assert metric.is_flat
    assert not random_local(2).is_flat
    rows = random_rows(np.random.default_rng(0), D)
    assert_same(metric, metrics.Flat(metric.tensors[0]), *rows)


@pytest.mark.parametrize("diagonal", [False, True])
def test_landmarks_are_where_cheap_axes_meet(diagonal):
    """Of two valleys at right angles, at the corner; those that are nearest to both centres first."""
    valleys = np.array([[0.01, 9.0], [9.0, 0.01], [0.01, 9.0]])
    tensors = valleys if diagonal else valleys[:, :, None] * np.eye(2)
    two = metrics.LocalMetrics([[0.0, 0.0], [5.0, 4.0]], tensors[:2])
    np.testing.assert_allclose(two.landmarks()[2:], [[5.0, 0.0]], atol=0.02)
    three = metrics.LocalMetrics([[0.0, 0.0], [5.0, 4.0], [0.0, 2.0]], tensors)
    np.testing.assert_allclose(three.landmarks()[3:], [[5.0, 2.0], [5.0, 0.0], [0.0, 1.0]], atol=0.02)
    many = metrics.LocalMetrics(np.random.default_rng(0).normal(size=(90, 2)), 100.0 * np.ones((90, 2)))
    assert len(many.landmarks()) <= 5 * 64


def test_what_the_engine_may_know_of_it():
    metric = random_local(0)
    assert metric.dimension == D
    np.testing.assert_array_equal(metric.landmarks()[:4], metric.centers)
    assert repr(metric.with_rho(2.0)) == "LocalMetrics(centers=(4, 3), tensors=(4, 3, 3), rho=2)"
