"""Metrics that are a multiple of another."""

import jax.numpy as jnp
import numpy as np
import pytest

from probgeo import metrics
from tests.metrics.reference import (
    Wavy,
    assert_consistent,
    assert_near,
    assert_same,
    in_jax,
    random_rows,
    random_tensors,
)

ROWS = random_rows(np.random.default_rng(0), 3)


def scale(x):
    return 1.0 + jnp.sin(x[0]) ** 2 + x[1] ** 2


def local():
    rng = np.random.default_rng(1)
    return metrics.LocalMetrics(rng.normal(size=(4, 3)), random_tensors(rng, 4, 3), 0.5)


@pytest.mark.parametrize("base", [None, local(), Wavy(np.random.default_rng(2), 3)])
def test_everything_agrees_with_the_formula_and_automatic_differentiation(base):
    metric = metrics.Conformal(scale, base)
    assert_consistent(metric, *ROWS)
    assert_same(metric, in_jax(metric), *ROWS)


def test_a_factor_in_numpy_is_differentiated_by_differences():
    metric = metrics.Conformal(lambda x: 1.0 + np.sin(x[:, 0]) ** 2 + x[:, 1] ** 2, local())
    exact = metrics.Conformal(scale, local())
    assert_near(metric.energies(*ROWS), exact.energies(*ROWS), 1e-12)
    # second differences lose half of the digits
    for found, expected in zip(metric.energy_terms(*ROWS), exact.energy_terms(*ROWS), strict=True):
        assert_near(found, expected, 1e-6)


def test_a_constant_factor_does_not_bend_geodesics():
    metric = metrics.Conformal(lambda y: 7.0 + 0.0 * y[0], local())
    assert_near(metric.accelerations(*ROWS), local().accelerations(*ROWS), 1e-12)


def test_it_is_a_multiple_of_its_base():
    x = np.array([0.3, 0.4, 0.1])
    factor = 1.0 + np.sin(0.3) ** 2 + 0.4**2
    np.testing.assert_allclose(metrics.Conformal(scale, local())(x), factor * local()(x))
    np.testing.assert_allclose(metrics.Conformal(scale)(x), factor * np.eye(3))


def test_it_has_the_landmarks_of_its_base():
    metric = metrics.Conformal(scale, local())
    np.testing.assert_array_equal(metric.landmarks(), local().landmarks())
    assert len(metrics.Conformal(scale).landmarks()) == 0


def test_the_sphere_is_conformal():
    sphere = metrics.Sphere(3)
    assert_same(metrics.Conformal(lambda x: sphere.scale(x)), sphere, *ROWS)
