"""Closed forms of spaces of constant curvature, against each other and against the ODEs."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.integrate import solve_ivp

from probgeo import metrics
from tests.metrics.reference import assert_consistent, assert_near, assert_same, differences, in_jax

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


def geodesic_field(metric, state):
    x, v = state
    return np.stack([v, metric.acceleration(x, v)])


def transport_field(metric, state):
    x, v, w = state
    turn = np.einsum("kij,i,j->k", metrics.christoffel(metric, x), v, w)
    return np.stack([v, metric.acceleration(x, v), -turn])


def integrate(field, metric, *start):
    """The state at time one, by a method that knows nothing of closed forms."""
    shape = np.shape(start)

    def flat_field(t, y):
        return np.ravel(field(metric, y.reshape(shape)))

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
    b = chart.exp(a, v)
    size = np.abs(v).max() * (1.0 + np.abs(b).max())
    np.testing.assert_allclose(chart.log(a, b), v, atol=ROUND_OFF * size)
    np.testing.assert_allclose(chart.exp(a, chart.log(a, b)), b, rtol=ROUND_OFF, atol=ROUND_OFF)
    np.testing.assert_allclose(chart.distance(a, b), np.sqrt(chart.energy(a, v)), rtol=ROUND_OFF)


@every_chart
@given(seed=SEEDS)
def test_transport_keeps_inner_products_and_turns_the_geodesic_into_itself(kind, seed):
    chart = kind(2)
    x, vectors = random_points(kind, np.random.default_rng(seed), 2, count=3)
    a, b = x[:2]
    there = chart.transport(a, b, vectors)
    before = chart.scale(a) * vectors @ vectors.T
    after = chart.scale(b) * there @ there.T
    np.testing.assert_allclose(after, before, rtol=ROUND_OFF, atol=ROUND_OFF)
    if chart.distance(a, b) < 3.0 or kind is not metrics.Sphere:  # near the antipode the direction is not defined
        onward = chart.transport(a, b, chart.log(a, b))
        np.testing.assert_allclose(onward, -chart.log(b, a), rtol=ROUND_OFF, atol=ROUND_OFF)


@every_chart
@given(seed=SEEDS)
def test_distance_is_one(kind, seed):
    chart = kind(2)
    a, b, c = random_points(kind, np.random.default_rng(seed), 2, count=3)[0]
    np.testing.assert_allclose(chart.distance(a, b), chart.distance(b, a), rtol=1e-12)
    assert chart.distance(a, c) <= chart.distance(a, b) + chart.distance(b, c) + 1e-12
    assert chart.distance(a, a) == 0.0
    # rounding of the embedded point, carried back to coordinates
    y = chart.embed(a)
    slope = np.linalg.norm(chart._project_vector(y, np.eye(3)))
    rounding = 8.0 * np.finfo(float).eps * np.linalg.norm(y) * slope
    np.testing.assert_allclose(chart.log(a, a), 0.0, atol=rounding)
    np.testing.assert_allclose(chart.exp(a, 0.0 * b), a, rtol=1e-12)


@every_chart
def test_the_embedding_is_an_isometry_onto_the_quadric(kind):
    chart = kind(3)
    (a, b), _ = random_points(kind, np.random.default_rng(0), 3, count=2)
    signs = np.array([1.0, 1.0, 1.0, chart.curvature])
    y, z = chart.embed(np.stack([a, b]))
    np.testing.assert_allclose(y @ (signs * y), chart.curvature, rtol=1e-12)
    np.testing.assert_allclose(chart.project(y), a, rtol=1e-12)
    J = chart._embed_vector(a, np.eye(3)).T
    np.testing.assert_allclose((J.T * signs) @ J, chart(a), atol=1e-10)
    inverse = np.arccos if chart.curvature > 0 else np.arccosh
    product = chart.curvature * y @ (signs * z)
    np.testing.assert_allclose(chart.distance(a, b), inverse(product), rtol=1e-8)


@every_chart
def test_vectors_are_embedded_and_projected_by_derivatives(kind):
    chart = kind(3)
    x, v = random_points(kind, np.random.default_rng(1), 3, count=4)
    y, w = chart.embed(x), chart._embed_vector(x, v)
    along = np.einsum("nij,nj->ni", differences(chart.embed, x), v)
    assert_near(w, along, 1e-8)
    assert_near(chart._project_vector(y, w), v, 1e-12)


@pytest.mark.parametrize("dimension", [1, 3])
@every_chart
def test_everything_agrees_with_the_formula(kind, dimension):
    # differences need some room to the edge
    x, v = random_points(kind, np.random.default_rng(0), dimension, count=10)
    assert_consistent(kind(dimension), x, v, rtol=1e-7)


@every_chart
def test_closed_forms_agree_with_automatic_differentiation(kind):
    chart = kind(3)
    assert_same(chart, in_jax(chart), *random_points(kind, np.random.default_rng(0), 3, count=10))


@every_chart
def test_maps_work_inside_of_jax(kind):
    chart = kind(2)
    (a, b), (v, _) = random_points(kind, np.random.default_rng(2), 2, count=2)
    for name, points in {"exp": (a, v), "log": (a, b), "distance": (a, b)}.items():
        method = getattr(chart, name)
        assert_near(jax.jit(method)(*points), method(*points), 1e-4, name)  # single precision
    slope = jax.grad(lambda y: chart.distance(jnp.asarray(a, y.dtype), y))(jnp.asarray(b))
    unit = -chart.log(b, a) / chart.distance(a, b) * chart.scale(b)
    assert_near(slope, unit, 1e-4)


def test_ball_and_half_plane_are_the_same_space():
    """The Cayley transform z = i (1 + w) / (1 - w) takes one to the other."""
    w = np.array([0.3 + 0.2j, -0.5 + 0.1j])
    z = 1j * (1 + w) / (1 - w)
    ball, half = (np.stack([p.real, p.imag], axis=1) for p in (w, z))
    np.testing.assert_allclose(metrics.PoincareBall().distance(*ball), metrics.HalfPlane().distance(*half), rtol=1e-12)


def test_close_points_lose_no_digits():
    for kind in (metrics.Sphere, metrics.PoincareBall, metrics.HalfPlane):
        chart, a, step = kind(2), np.array([0.25, 0.5]), np.array([2.0**-30, 0.0])
        # the next order of the distance is 1e-9 times smaller
        expected = float(np.sqrt(chart.scale(a))) * 2.0**-30
        np.testing.assert_allclose(chart.distance(a, a + step), expected, rtol=1e-8)


@pytest.mark.parametrize(
    ("chart", "outside"), [(metrics.PoincareBall(), [0.8, 0.7]), (metrics.HalfPlane(), [0.0, -1.0])]
)
def test_outside_of_the_chart_there_is_no_metric(chart, outside):
    x, v = np.array([outside, [0.1, 0.5]]), np.ones((2, 2))
    for terms in (chart.energy_terms(x, v), chart.energy_terms(x, v, second=False)):
        assert np.isnan(terms.energy).tolist() == [True, False]
        assert np.isnan(terms.by_x[0]).all()
        assert np.isfinite(terms.by_x[1]).all()
    assert np.isnan(chart.energies(x, v)).tolist() == [True, False]
    assert np.isnan(chart.accelerations(x, v)[0]).any()
    assert np.isnan(chart.energy(x[0], v[0]))


def test_flat_space():
    flat, a, b = metrics.Flat(A), np.array([1.0, 2.0]), np.array([[0.0, 1.0], [3.0, -1.0]])
    np.testing.assert_allclose(flat.exp(a, flat.log(a, b)), b)
    expected = [np.sqrt((x - a) @ A @ (x - a)) for x in b]
    np.testing.assert_allclose(flat.distance(a, b), expected, rtol=1e-12)
    np.testing.assert_array_equal(flat.transport(a, b, a), [a, a])
    assert_consistent(flat, b, b[::-1].copy())
    assert flat.is_flat
    np.testing.assert_allclose(metrics.Flat()(np.zeros(4)), np.eye(4))
    assert_consistent(metrics.Flat(), b, b[::-1].copy())
