"""The geodesic equation: the right one, and the one that Eq. 2 prints."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.integrate import solve_bvp

from probgeo import metrics
from tests.metrics.reference import Wavy, assert_near, differences, random_rows

ROUND_OFF = 1e-10  # eps times the largest condition number of a Wavy metric, and some room

dimensions = pytest.mark.parametrize("dimension", [2, 3])


def random_state(seed, dimension, count=30):
    """A random metric, points and velocities (n, D)."""
    rng = np.random.default_rng(seed)
    return Wavy(rng, dimension), *random_rows(rng, dimension, count)


def both_forms(metric, x, v):
    return metrics.acceleration(metric, x, v), metrics.printed_acceleration(metric, x, v)


@dimensions
def test_acceleration_agrees_with_christoffel_symbols(dimension):
    metric, x, v = random_state(0, dimension)
    symbols = np.stack([metrics.christoffel(metric, point) for point in x])
    expected = -np.einsum("nkij,ni,nj->nk", symbols, v, v)
    assert_near(both_forms(metric, x, v)[0], expected, ROUND_OFF)


def test_christoffel_symbols_are_those_of_differences():
    metric, x, _ = random_state(1, 3, count=1)
    slopes = differences(metric.tensors_at, x)[0]  # [i, j, k] = d M_ij / d x_k
    lowered = 0.5 * (slopes.transpose(0, 2, 1) + slopes - slopes.transpose(2, 1, 0))
    expected = np.linalg.solve(metric.tensors_at(x)[0], lowered.reshape(3, 9)).reshape(3, 3, 3)
    # Gamma is symmetric in its last two indices: swap what the transposes left
    assert_near(metrics.christoffel(metric, x[0]), 0.5 * (expected + expected.swapaxes(1, 2)), 1e-6)


@dimensions
def test_erratum_1_both_forms_conserve_speed(dimension):
    """So this test, however natural, does not find the mistake."""
    metric, x, v = random_state(2, dimension)
    terms = metric.energy_terms(x, v)
    for acceleration in both_forms(metric, x, v):
        power = np.sum(terms.by_x * v + terms.by_v * acceleration, axis=1)  # d/dt of L
        scale = 1.0 + terms.energy * np.abs(acceleration).max(axis=1)
        assert np.all(np.abs(power) <= ROUND_OFF * scale)


def test_erratum_1_the_printed_form_is_off_by_order_one():
    right, printed = both_forms(*random_state(3, 3, count=50))
    off = np.linalg.norm(right - printed, axis=1) / np.linalg.norm(right, axis=1)
    assert np.median(off) > 0.5


def test_erratum_1_both_forms_agree_in_one_dimension():
    right, printed = both_forms(*random_state(4, 1))
    np.testing.assert_allclose(right, printed, rtol=ROUND_OFF, atol=ROUND_OFF)


def test_erratum_1_the_printed_form_gives_curves_longer_than_the_straight_line():
    """In the half plane, where the shortest curves are arcs of circles around the axis."""
    half_plane = metrics.HalfPlane()
    a, b = np.array([-0.5, 1.0]), np.array([0.5, 1.0])

    def acceleration(form, v, y):
        bend = np.stack([np.zeros_like(y), (v**2).sum(axis=0) / y])
        return bend if form == "printed" else 2.0 * v[1] / y * v - bend

    x, v = np.array([0.3, 0.8]), np.array([1.0, -0.7])
    forms = both_forms(half_plane, x, v)
    for form, value in zip(("right", "printed"), forms, strict=True):  # the formulas above are the two forms
        np.testing.assert_allclose(acceleration(form, v[:, None], x[1:])[:, 0], value, rtol=1e-12)

    def length(form):
        def field(t, state):
            return np.concatenate([state[2:], acceleration(form, state[2:], state[1])])

        def ends(start, end):
            return np.concatenate([start[:2] - a, end[:2] - b])

        t = np.linspace(0.0, 1.0, 50)
        line = np.stack([*(a + np.outer(t, b - a)).T, *np.outer(b - a, np.ones(50))])
        curve = solve_bvp(field, ends, t, line, tol=1e-8)
        assert curve.success
        s = np.linspace(0.0, 1.0, 2001)
        state = curve.sol(s)
        return np.trapezoid(np.linalg.norm(state[2:], axis=0) / state[1], s)

    shortest, straight = float(half_plane.distance(a, b)), 1.0
    np.testing.assert_allclose(length("right"), shortest, rtol=1e-6)
    assert length("printed") > straight > shortest


def test_acceleration_takes_batches_and_vanishes_at_rest():
    metric, x, v = random_state(0, 2, count=1)
    several = metrics.acceleration(metric, x[0], np.stack([v[0], 2.0 * v[0], 0.0 * v[0]]))
    one = both_forms(metric, x[0], v[0])[0]
    np.testing.assert_allclose(several[0], one, rtol=1e-10)
    np.testing.assert_allclose(several[1], 4.0 * one, rtol=1e-10)
    np.testing.assert_array_equal(several[2], 0.0)


def test_inside_of_jax_they_are_the_same():
    metric, x, v = random_state(0, 2, count=1)
    # arrays of its own: JAX mixes up those that it has seen in double and in single precision
    copy, _, _ = random_state(0, 2)
    for function in (metrics.acceleration, metrics.printed_acceleration):
        inside = jax.jit(lambda y, u, f=function: f(copy, y, u))(x[0], v[0])
        assert_near(inside, function(metric, x[0], v[0]), 1e-4)  # JAX may be in single precision
    inside = jax.jit(lambda y: metrics.christoffel(copy, y))(x[0])
    assert_near(inside, metrics.christoffel(metric, x[0]), 1e-4)


def test_as_metric_keeps_metrics_and_wraps_functions():
    metric = metrics.Sphere(2)
    assert metrics.as_metric(metric, 2) is metric
    wrapped = metrics.as_metric(lambda x: jnp.diag(jnp.exp(x)), dimension=3)
    np.testing.assert_allclose(wrapped(np.zeros(3)), np.eye(3))
