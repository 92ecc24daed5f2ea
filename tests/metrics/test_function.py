"""Metrics given by functions and classes of the user, in JAX, NumPy and torch."""

import pickle

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from probgeo import metrics
from probgeo.functions import JaxFunction, NumpyFunction
from tests.metrics.reference import Wavy, assert_consistent, assert_near, assert_same, random_rows, random_tensors

ROWS = random_rows(np.random.default_rng(0), 2, count=10)


def bowl(x):
    return (1.0 + x @ x) * jnp.eye(2) + jnp.outer(x, x)


def bowl_factor(x):
    return 1.0 + x @ x


def embedding(x):
    return jnp.stack([x[0], x[1], x[0] * x[1]])


def bowl_of_rows(x):
    square = np.sum(x**2, axis=1)[:, None, None]
    return (1.0 + square) * np.eye(2) + np.einsum("ni,nj->nij", x, x)


def bowl_of_a_point(x):
    return (1.0 + np.sum(np.float64(x) ** 2)) * np.eye(2) + np.outer(x, x)


def test_functions_of_jax():
    metric = metrics.as_metric(bowl)
    assert_consistent(metric, *ROWS)
    assert_same(metrics.as_metric(JaxFunction(bowl)), metric, *ROWS)


@pytest.mark.parametrize("function", [bowl_of_rows, NumpyFunction(bowl_of_rows), bowl_of_a_point])
def test_functions_of_numpy(function):
    metric, exact = metrics.as_metric(function), metrics.as_metric(bowl)
    assert_near(metric(ROWS[0][0]), exact(ROWS[0][0]), 1e-14)
    assert_near(metric.energies(*ROWS), exact.energies(*ROWS), 1e-14)
    assert_near(metric.accelerations(*ROWS), exact.accelerations(*ROWS), 1e-8)
    # second differences lose half of the digits
    for found, expected in zip(metric.energy_terms(*ROWS), exact.energy_terms(*ROWS), strict=True):
        assert_near(found, expected, 1e-6)


@pytest.mark.parametrize("rows", [True, False])
def test_functions_of_torch(rows):
    torch = pytest.importorskip("torch")

    def function(x):
        if rows:
            square = (x**2).sum(1)[:, None, None]
            return (1.0 + square) * torch.eye(2, dtype=x.dtype) + torch.einsum("ni,nj->nij", x, x)
        return (1.0 + (x**2).sum()) * torch.eye(2, dtype=x.dtype) + torch.outer(x, x)

    assert_same(metrics.as_metric(function), metrics.as_metric(bowl), *ROWS)


def test_a_class_with_one_method():
    metric = Wavy(np.random.default_rng(0), 2)
    assert_consistent(metric, *ROWS)
    assert_same(metric, metrics.as_metric(lambda x: metric(x)), *ROWS)
    assert metric.dimension is None
    assert metric.landmarks().shape[0] == 0


def test_a_diagonal_metric_is_given_by_its_diagonal():
    class Slope(metrics.Diagonal):
        def diagonal(self, x):
            return jnp.exp(x)

    class InNumpy(metrics.Diagonal):
        def diagonal(self, x):
            return np.exp(np.asarray(x, dtype=float))

    assert_consistent(Slope(), *ROWS)
    np.testing.assert_allclose(Slope()(jnp.zeros(2)), np.eye(2))
    assert_near(InNumpy().accelerations(*ROWS), Slope().accelerations(*ROWS), 1e-8)


class Lopsided(metrics.Metric):
    def __call__(self, x):
        return jnp.array([[1.0, 0.0 * x[0]], [0.5, 2.0]])


def lopsided(x):
    return Lopsided()(x)


@pytest.mark.parametrize(
    "use",
    [
        lambda metric: metric.energies(*ROWS),
        lambda metric: metric.energy_terms(*ROWS),
        lambda metric: metric.energy_terms(*ROWS, second=False),
        lambda metric: metric.accelerations(*ROWS),
        lambda metric: metric.tensors_at(ROWS[0]),
        lambda metric: metric.energy([1.0, 2.0], [3.0, 4.0]),
        lambda metric: metrics.as_metric(metric, 2),
    ],
)
def test_a_metric_that_is_not_symmetric_is_refused_by_name_at_first_use(use):
    for given, name in ((Lopsided(), "Lopsided"), (lopsided, "lopsided")):
        with pytest.raises(ValueError, match=f"metric {name} must be symmetric, but at x = .* 0.5"):
            use(metrics.as_metric(given))


def test_composing_a_metric_in_jax():
    rng = np.random.default_rng(0)
    local = metrics.LocalMetrics(rng.normal(size=(3, 2)), random_tensors(rng, 3, 2))
    composed = metrics.as_metric(lambda x: 2.0 * local(x) + metrics.Sphere()(x))
    x, v = ROWS
    expected = 2.0 * local.energies(x, v) + metrics.Sphere().energies(x, v)
    np.testing.assert_allclose(composed.energies(x, v), expected, rtol=1e-12)
    assert isinstance(local(jnp.ones(2)), jax.Array)
    assert isinstance(local(np.ones(2)), np.ndarray)


@pytest.mark.parametrize(
    "metric",
    [
        metrics.LocalMetrics(np.eye(2), np.ones((2, 2))),
        metrics.LocalCovariance(np.eye(2), sigma=1.0),
        metrics.HalfPlane(),
        metrics.Flat([[2.0, 0.0], [0.0, 1.0]]),
        metrics.Conformal(lambda x: 1.0 + x @ x, metrics.Sphere()),
        metrics.Pullback(embedding),
        metrics.as_metric(bowl),
    ],
    ids=lambda metric: type(metric).__name__,
)
def test_methods_for_users_agree_inside_and_outside_of_jax(metric):
    """Outside with loops in double precision, inside by automatic differentiation."""
    x, v = np.array([0.3, 0.5]), np.array([1.0, -0.5])
    for name in ("apply", "solve", "energy", "acceleration"):
        method = getattr(metric, name)
        inside = jax.jit(method)(x, v)
        assert_near(inside, method(x, v), 1e-5, name)  # JAX may be in single precision
        many = method(np.stack([x, x + 0.1]), v)
        np.testing.assert_allclose(many[0], method(x, v), rtol=1e-10, err_msg=name)
    batch = np.stack([x, x + 0.1])
    assert metric(batch).shape == jax.jit(metric)(batch[0])[None].repeat(2, 0).shape


@pytest.mark.parametrize(
    "metric",
    [
        metrics.LocalMetrics(np.eye(2), np.ones((2, 2))),
        metrics.Conformal(bowl_factor, metrics.LocalCovariance(np.eye(2), sigma=1.0)),
        metrics.Pullback(embedding),
        metrics.as_metric(bowl),
    ],
    ids=lambda metric: type(metric).__name__,
)
def test_metrics_that_were_used_can_be_pickled(metric):
    expected = metric.energies(*ROWS)
    metric.landmarks()
    again = pickle.loads(pickle.dumps(metric))
    np.testing.assert_array_equal(again.energies(*ROWS), expected)
    assert repr(again) == repr(metric)
