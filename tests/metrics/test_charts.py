"""Closed forms of spaces of constant curvature, against each other and against the ODEs."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.integrate import solve_ivp

from probgeo import metrics
from tests.geometry.reference import Plain, assert_same_metric

SEEDS = st.integers(0, 10**6)
# near the pole stereographic coordinates lose eps |x|^2: this leaves room up to |x| = 3e4, which
# one point in 1e9 exceeds
ROUND_OFF = 1e-7
A = np.array([[2.0, 0.3], [0.3, 0.5]])

CHARTS = [
    pytest.param(metrics.Sphere, id="sphere"),
    pytest.param(metrics.PoincareBall, id="ball"),
    pytest.param(metrics.HalfPlane, id="half-plane"),
]
every_chart = pytest.mark.parametrize("kind", CHARTS)


def random_points(kind, rng, dimension, count=1):
    """Points and tangent vectors (count, D), away from the edge of the chart."""
    x = rng.normal(size=(count, dimension))
    if kind is metrics.PoincareBall:
        x = 0.8 * x / (1.0 + np.linalg.norm(x, axis=1, keepdims=True))
    if kind is metrics.HalfPlane:
        x[:, -1] = np.exp(0.5 * x[:, -1])
    v = rng.normal(size=(count, dimension))
    # lengths up to 2: on the sphere within the radius pi where geodesics are shortest
    unit = v / np.linalg.norm(v, axis=1, keepdims=True)
    speed = rng.uniform(0.1, 2.0, size=(count, 1)) / np.sqrt(kind(dimension).scale(x))[:, None]
    return x, speed * unit


# compiled once a chart: called plainly, the many examples would take their time
exp, log, distance, transport = (
    eqx.filter_jit(lambda chart, *args, name=name: getattr(chart, name)(*args))
    for name in ("exp", "log", "distance", "transport")
)


@eqx.filter_jit
def geodesic_field(metric, state):
    x, v = state
    return jnp.stack([v, metric.acceleration(x, v)])


@eqx.filter_jit
def transport_field(metric, state):
    x, v, w = state
    turn = jnp.einsum("kij,i,j->k", metrics.christoffel(metric, x), v, w)
    return jnp.stack([v, metric.acceleration(x, v), -turn])


def integrate(field, metric, *start):
    """The state at time one, by a method that knows nothing of closed forms."""
    shape = np.shape(start)

    def flat_field(t, y):
        return np.ravel(field(metric, jnp.asarray(y.reshape(shape))))

    end = solve_ivp(flat_field, (0, 1), np.ravel(start), method="DOP853", rtol=1e-11, atol=1e-11)
    return end.y[:, -1].reshape(shape)


@pytest.mark.parametrize("dimension", [2, 3, 5])
@every_chart
def test_exponential_map_solves_the_geodesic_equation(kind, dimension):
    chart = kind(dimension)
    (a,), (v,) = random_points(kind, np.random.default_rng(dimension), dimension)
    end, _ = integrate(geodesic_field, chart, a, v)
    np.testing.assert_allclose(chart.exp(a, v), end, rtol=1e-8, atol=1e-8)


@every_chart
def test_transport_solves_its_equation(kind):
    chart = kind(3)
    (a, _), (v, w) = random_points(kind, np.random.default_rng(7), 3, count=2)
    b, _, carried = integrate(transport_field, chart, a, v, w)
    np.testing.assert_allclose(chart.transport(a, b, w), carried, rtol=1e-7, atol=1e-7)


@every_chart
@given(seed=SEEDS)
def test_logarithm_inverts_the_exponential_map_and_measures_the_distance(kind, seed):
    chart = kind(2)
    (a,), (v,) = random_points(kind, np.random.default_rng(seed), 2)
    b = exp(chart, a, v)
    size = np.abs(v).max() * (1.0 + np.abs(b).max())
    np.testing.assert_allclose(log(chart, a, b), v, atol=ROUND_OFF * size)
    np.testing.assert_allclose(exp(chart, a, log(chart, a, b)), b, rtol=ROUND_OFF, atol=ROUND_OFF)
    np.testing.assert_allclose(distance(chart, a, b), np.sqrt(chart.energy(a, v)), rtol=ROUND_OFF)


@every_chart
@given(seed=SEEDS)
def test_transport_keeps_inner_products_and_turns_the_geodesic_into_itself(kind, seed):
    chart = kind(2)
    x, vectors = random_points(kind, np.random.default_rng(seed), 2, count=3)
    a, b = jnp.asarray(x[:2])
    there = transport(chart, a, b, vectors)
    before = chart.scale(a) * vectors @ vectors.T
    after = chart.scale(b) * there @ there.T
    np.testing.assert_allclose(after, before, rtol=ROUND_OFF, atol=ROUND_OFF)
    if (
        distance(chart, a, b) < 3.0 or kind is not metrics.Sphere
    ):  # near the antipode the direction is not defined
        onward = transport(chart, a, b, log(chart, a, b))
        np.testing.assert_allclose(onward, -log(chart, b, a), rtol=ROUND_OFF, atol=ROUND_OFF)


@every_chart
@given(seed=SEEDS)
def test_distance_is_one(kind, seed):
    chart = kind(2)
    a, b, c = jnp.asarray(random_points(kind, np.random.default_rng(seed), 2, count=3)[0])
    np.testing.assert_allclose(distance(chart, a, b), distance(chart, b, a), rtol=1e-12)
    assert distance(chart, a, c) <= distance(chart, a, b) + distance(chart, b, c) + 1e-12
    assert distance(chart, a, a) == 0.0
    # rounding of the embedded point, carried back to coordinates
    y = chart.embed(a)
    slope = jnp.linalg.norm(jax.jacobian(chart.project)(y))
    rounding = 8.0 * jnp.finfo(float).eps * jnp.linalg.norm(y) * slope
    np.testing.assert_allclose(log(chart, a, a), 0.0, atol=rounding)
    np.testing.assert_allclose(exp(chart, a, 0.0 * b), a, rtol=1e-12)


@every_chart
def test_the_embedding_is_an_isometry_onto_the_quadric(kind):
    chart = kind(3)
    (a, b), _ = random_points(kind, np.random.default_rng(0), 3, count=2)
    signs = np.array([1.0, 1.0, 1.0, chart.curvature])
    y, z = chart.embed(jnp.stack([a, b]))
    np.testing.assert_allclose(y @ (signs * y), chart.curvature, rtol=1e-12)
    np.testing.assert_allclose(chart.project(y), a, rtol=1e-12)
    J = jax.jacfwd(chart.embed)(jnp.asarray(a))
    np.testing.assert_allclose((J.T * signs) @ J, chart(jnp.asarray(a)), atol=1e-10)
    inverse = np.arccos if chart.curvature > 0 else np.arccosh
    product = chart.curvature * y @ (signs * z)
    np.testing.assert_allclose(chart.distance(a, b), inverse(product), rtol=1e-8)


@every_chart
def test_fast_paths_agree_with_automatic_differentiation(kind):
    chart = kind(3)
    (a,), (v,) = random_points(kind, np.random.default_rng(0), 3)
    assert_same_metric(chart, Plain(chart), jnp.asarray(a), jnp.asarray(v))


def test_ball_and_half_plane_are_the_same_space():
    """The Cayley transform z = i (1 + w) / (1 - w) takes one to the other."""
    w = np.array([0.3 + 0.2j, -0.5 + 0.1j])
    z = 1j * (1 + w) / (1 - w)
    ball, half = (np.stack([p.real, p.imag], axis=1) for p in (w, z))
    np.testing.assert_allclose(
        metrics.PoincareBall().distance(*ball), metrics.HalfPlane().distance(*half), rtol=1e-12
    )


def test_close_points_lose_no_digits():
    for kind in (metrics.Sphere, metrics.PoincareBall, metrics.HalfPlane):
        chart, a, step = kind(2), np.array([0.25, 0.5]), np.array([2.0**-30, 0.0])
        # the next order of the distance is 1e-9 times smaller
        expected = float(jnp.sqrt(chart.scale(jnp.asarray(a)))) * 2.0**-30
        np.testing.assert_allclose(chart.distance(a, a + step), expected, rtol=1e-8)


@pytest.mark.parametrize(
    ("chart", "outside"),
    [(metrics.PoincareBall(), [0.8, 0.7]), (metrics.HalfPlane(), [0.0, -1.0])],
)
def test_outside_of_the_chart_there_is_no_metric(chart, outside):
    x = jnp.array(outside)
    assert np.isnan(chart.energy(x, jnp.ones(2)))
    assert np.isnan(chart.acceleration(x, jnp.ones(2))).any()


def test_flat_space():
    flat, a, b = metrics.Flat(A), np.array([1.0, 2.0]), np.array([[0.0, 1.0], [3.0, -1.0]])
    np.testing.assert_allclose(flat.exp(a, flat.log(a, b)), b)
    expected = [np.sqrt((x - a) @ A @ (x - a)) for x in b]
    np.testing.assert_allclose(flat.distance(a, b), expected, rtol=1e-12)
    np.testing.assert_array_equal(flat.transport(a, b, a), [a, a])
    assert_same_metric(flat, Plain(flat), jnp.asarray(a), jnp.asarray(b[0]))
    np.testing.assert_allclose(metrics.Flat()(jnp.zeros(4)), np.eye(4))
