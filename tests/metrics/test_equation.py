"""The geodesic equation: the right one, and the one that Eq. 2 prints."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.integrate import solve_bvp

from probgeo import metrics
from tests.geometry.reference import Wavy, largest_intermediate, random_state

SEEDS = st.integers(0, 10**6)
ROUND_OFF = 1e-10  # eps times the largest condition number of a Wavy metric, and some room

dimensions = pytest.mark.parametrize("dimension", [2, 3])


@eqx.filter_jit
def both_forms(metric, x, v):
    return metrics.acceleration(metric, x, v), metrics.printed_acceleration(metric, x, v)


@eqx.filter_jit
def by_christoffel(metric, x, v):
    return -jnp.einsum("kij,i,j->k", metrics.christoffel(metric, x), v, v)


@eqx.filter_jit
def power(metric, x, v, acceleration):
    """d/dt of c' M(c) c'."""
    return jax.jvp(metric.energy, (x, v), (v, acceleration))[1]


@dimensions
@given(seed=SEEDS)
def test_acceleration_agrees_with_christoffel_symbols(dimension, seed):
    metric, x, v = random_state(seed, dimension)
    expected = by_christoffel(metric, x, v)
    scale = 1.0 + np.abs(expected).max()
    np.testing.assert_allclose(both_forms(metric, x, v)[0], expected, atol=ROUND_OFF * scale)


@dimensions
@given(seed=SEEDS)
def test_erratum_1_both_forms_conserve_speed(dimension, seed):
    """So this test, however natural, does not find the mistake."""
    metric, x, v = random_state(seed, dimension)
    for acceleration in both_forms(metric, x, v):
        scale = 1.0 + metric.energy(x, v) * np.abs(acceleration).max()
        assert abs(power(metric, x, v, acceleration)) <= ROUND_OFF * scale


def test_erratum_1_the_printed_form_is_off_by_order_one():
    right, printed = zip(*(both_forms(*random_state(seed, 3)) for seed in range(50)), strict=True)
    off = np.linalg.norm(np.subtract(right, printed), axis=1) / np.linalg.norm(right, axis=1)
    assert np.median(off) > 0.5


@given(seed=SEEDS)
def test_erratum_1_both_forms_agree_in_one_dimension(seed):
    right, printed = both_forms(*random_state(seed, 1))
    np.testing.assert_allclose(right, printed, rtol=ROUND_OFF, atol=ROUND_OFF)


def test_erratum_1_the_printed_form_gives_curves_longer_than_the_straight_line():
    """In the half plane, where the shortest curves are arcs of circles around the axis."""
    half_plane = metrics.HalfPlane()
    a, b = np.array([-0.5, 1.0]), np.array([0.5, 1.0])

    def acceleration(form, v, y):
        bend = np.stack([np.zeros_like(y), (v**2).sum(axis=0) / y])
        return bend if form == "printed" else 2.0 * v[1] / y * v - bend

    x, v = np.array([0.3, 0.8]), np.array([1.0, -0.7])
    forms = both_forms(half_plane, jnp.asarray(x), jnp.asarray(v))
    for form, value in zip(
        ("right", "printed"), forms, strict=True
    ):  # the formulas above are the two forms
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
    metric, x, v = random_state(0, 2)
    several = metrics.acceleration(metric, x, jnp.stack([v, 2.0 * v, 0.0 * v]))
    one = both_forms(metric, x, v)[0]
    np.testing.assert_allclose(several[0], one, rtol=1e-10)
    np.testing.assert_allclose(several[1], 4.0 * one, rtol=1e-10)
    np.testing.assert_array_equal(several[2], 0.0)


def test_no_tensor_of_all_metric_derivatives_is_formed():
    D, K = 30, 5
    rng = np.random.default_rng(0)
    x, v = jnp.asarray(rng.normal(size=(2, D)))
    root = jnp.asarray(rng.normal(size=(D, D)))

    def generic(y):
        return jnp.eye(D) + jnp.outer(jnp.sin(root @ y), jnp.sin(root @ y))

    diagonals = np.exp(rng.normal(size=(K, D)))
    full = metrics.LocalMetrics(rng.normal(size=(K, D)), np.stack([np.diag(d) for d in diagonals]))
    diagonal = metrics.LocalMetrics(full.centers, diagonals)
    assert largest_intermediate(lambda y: metrics.christoffel(generic, y), x) >= D**3
    for metric, most in [(generic, D**2), (full, K * D**2), (diagonal, K * D)]:
        size = largest_intermediate(lambda y, u, m=metric: metrics.acceleration(m, y, u), x, v)
        assert size <= most, metric


def test_as_metric_keeps_metrics_and_wraps_functions():
    metric = metrics.Sphere(2)
    assert metrics.as_metric(metric, 2) is metric
    wrapped = metrics.as_metric(lambda x: jnp.diag(jnp.exp(x)), dimension=3)
    np.testing.assert_allclose(wrapped(jnp.zeros(3)), np.eye(3))


def test_one_compilation_serves_all_metrics_of_a_kind():
    traces = []

    @eqx.filter_jit
    def run(metric, x, v):
        traces.append(1)
        return metric.acceleration(x, v)

    rng = np.random.default_rng(0)
    for _ in range(3):
        run(Wavy.random(rng, 2), jnp.ones(2), jnp.ones(2))
    local = metrics.LocalMetrics(np.eye(2), np.ones((2, 2)))
    for rho in (0.0, 0.5, 2.0):
        run(local.with_rho(rho), jnp.ones(2), jnp.ones(2))
    assert len(traces) == 2
