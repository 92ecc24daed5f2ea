"""Initial value problems of order three and four."""

import jax
import numpy as np
import pytest
from scipy.linalg import expm

from probgeo import Gaussian, solve_ivp, solvers
from probgeo.ode.error_shape import ErrorShape

T = np.linspace(0.0, 10.0, 201)[1:]


def beam(t, y, dy, d2y, d3y):
    return y


def test_beam():
    """y'''' = y with the data of cos t."""
    solver = solvers.Markov(rtol=1e-9)
    curve = solve_ivp(beam, (0.0, 3.0), [1.0], [0.0], [-1.0], [0.0], solver=solver)
    t = np.linspace(0.0, 3.0, 31)
    for d, accuracy in enumerate((1e-9, 1e-8, 1e-7, 1e-6, 1e-5)):
        np.testing.assert_allclose(curve.mean(t, d)[:, 0], np.cos(t + d * np.pi / 2), atol=accuracy)
        assert np.isfinite(curve.std(t, d)).all()


def modes(order, count, seed=0):
    """Coefficients of random linear ODEs with roots r: y = Re sum_k a_k exp(r_k t)."""
    rng = np.random.default_rng(seed)
    pairs = rng.uniform(-0.3, 0.05, (count, order // 2)) + 1j * rng.uniform(0.5, 3.0, (count, order // 2))
    single = rng.uniform(-0.5, 0.05, (count, order % 2))
    roots = np.concatenate([pairs, pairs.conj(), single], axis=1)
    amplitude = rng.standard_normal((count, order // 2)) + 1j * rng.standard_normal((count, order // 2))
    amplitude = np.concatenate([amplitude, rng.standard_normal(single.shape)], axis=1)
    rates = np.concatenate([pairs, single], axis=1)

    def solution(t, d):
        return np.real(np.einsum("bk,bkt->bt", amplitude * rates**d, np.exp(rates[..., None] * t)))

    return np.stack([np.poly(r).real for r in roots]), solution


@pytest.mark.parametrize("stiff", [False, True])
@pytest.mark.parametrize("order", [3, 4])
def test_error_bars_cover(order, stiff):
    """Of 40 random linear ODEs; the first twentieth of the interval, where bars rise from zero."""
    coefficients, solution = modes(order, 40)

    def f(t, *arguments):
        *state, c = arguments
        return -sum(c[order - m] * state[m] for m in range(order))

    data = [solution(np.zeros(1), d) for d in range(order)]
    solver = solvers.Markov(rtol=1e-5, stiff=stiff)
    curve = solve_ivp(f, (0.0, 10.0), *data, solver=solver, args=coefficients)
    assert curve.converged.all()
    error, std = curve.mean(T)[..., 0] - solution(T, 0), curve.std(T)[..., 0]
    assert 0.9 <= np.mean(np.abs(error) <= 2.0 * std) <= 0.995
    later = T > 0.5
    squares = np.mean((error / std)[:, later] ** 2, axis=1)
    assert 0.2 < np.median(squares) < 4.0
    assert np.all(np.abs(error).max(axis=1) < 1e-5 * np.abs(solution(T, 0)).max(axis=1))


def test_uncertain_values_move_as_the_equation_is_linear():
    """y''' = 0: y = y0 + t dy0 + t^2/2 d2y0."""
    spread = Gaussian([0.0], [[0.04]])
    curve = solve_ivp(lambda t, y, dy, d2y: 0.0 * y, (0.0, 2.0), spread, [1.0], Gaussian([1.0], [[0.09]]))
    t = np.array([0.0, 1.0, 2.0])
    np.testing.assert_allclose(curve.mean(t)[:, 0], t + t**2 / 2, atol=1e-12)
    expected = np.sqrt(0.04 + 0.09 * t**4 / 4)
    np.testing.assert_allclose(curve.std(t, source="boundary")[:, 0], expected, rtol=1e-9)


@pytest.mark.parametrize("stiff", [False, True])
@pytest.mark.parametrize("order", [3, 4])
def test_every_initial_value_may_be_uncertain(order, stiff):
    """Cov = sum_m (exp(A t))_m cov_m (exp(A t))_m' of linear ODEs, also of derivatives."""
    coefficients, solution = modes(order, 3)
    companion = np.eye(order, k=1)[None].repeat(3, axis=0)
    companion[:, -1] = -coefficients[:, :0:-1]
    variances = 0.01 * np.arange(1.0, order + 1.0)

    def f(t, *arguments):
        *state, c = arguments
        return -sum(c[order - m] * state[m] for m in range(order))

    data = [Gaussian(solution(np.zeros(1), d), np.full((3, 1, 1), variances[d])) for d in range(order)]
    solver = solvers.Markov(rtol=1e-8, stiff=stiff)
    curve = solve_ivp(f, (0.0, 5.0), *data, solver=solver, args=coefficients)
    t = np.array([0.0, 1.3, 5.0])
    flow = expm(companion[:, None] * t[:, None, None])
    for d in range(order):
        expected = np.sqrt(np.sum(flow[:, :, d] ** 2 * variances, axis=-1))
        found = curve.std(t, d, source="boundary")[..., 0]
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-8)


def test_gradient_in_jax():
    """y''' = -k y': y = sin(w t) / w with w^2 = k."""
    with jax.enable_x64(True):

        def end(k):
            curve = solve_ivp(lambda t, y, dy, d2y, k: -k * dy, (0.0, 2.0), [0.0], [1.0], [0.0], args=k)
            return curve.mean(2.0)[0]

        found = jax.grad(end)(4.0)
    by_w = 2.0 * np.cos(4.0) / 2.0 - np.sin(4.0) / 4.0
    assert abs(found - by_w / 4.0) < 1e-5


@pytest.mark.parametrize("order", [1, 2])
def test_implicit_steps_from_zero(order):
    """y' = 1 - y and y'' = -y from y = 0, where no size of y is known."""
    f = (lambda t, y: 1.0 - y) if order == 1 else (lambda t, y, dy: -y)
    data = [[0.0], [1.0]][:order]
    curve = solve_ivp(f, (0.0, 3.0), *data, solver=solvers.Markov(stiff=True))
    assert curve.converged
    expected = 1.0 - np.exp(-3.0) if order == 1 else np.sin(3.0)
    assert abs(curve.mean(3.0)[0] - expected) < 1e-5


def test_shape_is_the_covariance_of_integrated_bridges():
    """Order three, on a fine grid: bridges from Brownian motion, integrated by sums."""
    n, step = 750, 0.002
    bridges = np.zeros((n + 1, n))  # values at the grid, by increments of Brownian motion
    for start, stop in ((0, 350), (350, 750)):
        motion = np.tril(np.ones((stop - start, stop - start)))
        line = np.arange(1, stop - start + 1)[:, None] / (stop - start)
        bridges[start + 1 : stop + 1, start:stop] = np.sqrt(step) * (motion - line)
    columns = [bridges]
    for _ in range(3):
        middle = 0.5 * (columns[-1][1:] + columns[-1][:-1])
        columns.append(np.concatenate([np.zeros((1, n)), step * np.cumsum(middle, axis=0)]))
    shape = ErrorShape.on(step * np.array([0.0, 350.0, 750.0]), np.array([0, 3]), 3, False)
    for i, j in ((150, 300), (250, 600), (550, 700), (750, 750)):
        found = shape.cov(np.array([0]), np.array([i * step]), np.array([j * step]))[0]
        expected = [[columns[3 - p][i] @ columns[3 - q][j] for q in range(4)] for p in range(4)]
        np.testing.assert_allclose(found, expected, rtol=0.01, atol=1e-6)


def test_bad_inputs():
    with pytest.raises(TypeError, match="dy0 is missing"):
        solve_ivp(beam, (0.0, 1.0), [1.0], d2y0=[0.0])
    with pytest.raises(ValueError, match="order 1 and 2"):
        solve_ivp(beam, (0.0, 1.0), [1.0], [0.0], [0.0], [0.0], solver=solvers.Dense())
    with pytest.raises(ValueError, match="one size D"):
        solve_ivp(beam, (0.0, 1.0), [1.0], [0.0], [0.0, 1.0], [0.0])
    with pytest.raises(ValueError, match="up to 4"):
        solve_ivp(beam, (0.0, 1.0), [1.0], [0.0], [0.0], [0.0]).std(0.5, derivative=5)
