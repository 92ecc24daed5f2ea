"""Noisy data along curves: against linear regression, Kalman's formulas, and from both sides."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.optimize import approx_fprime
from scipy.stats import multivariate_normal

from probgeo import Gaussian, ScalarGaussian, at, load, observed, save, solve_bvp, solve_ivp, solvers

TIGHT = solvers.Markov(rtol=1e-9)
T = np.linspace(0.2, 1.8, 6)
SPAN = (0.0, 2.0)


def spring(t, y, dy):
    return -4.0 * y


def spring_columns(t):
    """y(t) = S (y0, dy0) and its slope, (T, 2) each."""
    y = np.stack([np.cos(2 * t), 0.5 * np.sin(2 * t)], axis=1)
    return y, np.stack([-2 * np.sin(2 * t), np.cos(2 * t)], axis=1)


def regression(H, x, noise, mean, cov):
    """Posterior of theta ~ N(mean, cov) given x = H theta + noise, and the density of x."""
    total = H @ cov @ H.T + noise
    gain = cov @ H.T @ np.linalg.inv(total)
    density = multivariate_normal(H @ mean, total).logpdf(x)
    return mean + gain @ (x - H @ mean), cov - gain @ H @ cov, density


def test_linear_initial_value_problems():
    x = np.array([0.9, 0.3, -0.5, -0.9, -0.6, 0.1])
    y0, dy0 = Gaussian([1.1], [[0.09]]), Gaussian([0.5], [[0.25]])
    H, slopes = spring_columns(T)
    slopes_seen = observed(T[:3], [[-0.5], [-2.0], [-1.9]], noise=0.5, y=0.0, dy=1.0)
    data = [observed(T, x[:, None], noise=0.01), slopes_seen]
    curve = solve_ivp(spring, SPAN, y0, dy0, data=data, solver=TIGHT)
    mean, cov, density = regression(
        np.concatenate([H, slopes[:3]]), np.concatenate([x, slopes_seen.x[:, 0]]),
        np.diag([0.01] * 6 + [0.5] * 3), np.array([1.1, 0.5]), np.diag([0.09, 0.25]),
    )  # fmt: skip
    t = np.linspace(0, 2, 9)
    S = spring_columns(t)[0]
    np.testing.assert_allclose(curve.mean(t)[:, 0], S @ mean, atol=1e-7)
    np.testing.assert_allclose(
        curve.std(t, source="boundary")[:, 0] ** 2, np.einsum("ti,ij,tj->t", S, cov, S), rtol=1e-6
    )
    np.testing.assert_allclose(curve.log_likelihood, density, rtol=1e-7)


@pytest.mark.parametrize("conditions", [False, True])
def test_linear_boundary_value_problems(conditions):
    x = np.array([0.2, -0.3, -0.9, -0.8, -0.2, 0.4])
    a, b = Gaussian([1.0], [[0.04]]), Gaussian([0.5], [[0.25]])
    seen = observed(T, x[:, None], noise=0.01)
    if conditions:
        ends = [at(0.0, y=a), at(2.0, y=b)]
        curve = solve_bvp(spring, SPAN, conditions=ends, data=seen, solver=TIGHT)
    else:
        curve = solve_bvp(spring, SPAN, a, b, data=seen, solver=TIGHT)

    def S(t):
        return np.stack([np.sin(2 * (2 - t)), np.sin(2 * t)], axis=1) / np.sin(4.0)

    prior = np.array([1.0, 0.5]), np.diag([0.04, 0.25])
    mean, cov, density = regression(S(T), x, 0.01 * np.eye(6), *prior)
    t = np.linspace(0, 2, 9)
    np.testing.assert_allclose(curve.mean(t)[:, 0], S(t) @ mean, atol=1e-7)
    np.testing.assert_allclose(curve(0.0).std, cov[0, 0] ** 0.5, rtol=1e-5)
    np.testing.assert_allclose(curve.log_likelihood, density, rtol=1e-7)


def test_parameters_are_those_of_linear_regression():
    rng = np.random.default_rng(0)
    x = 1.0 + 2.0 * T + 0.1 * rng.standard_normal(6)

    def line(t, y, p):
        return p

    H = np.stack([np.ones(6), T], axis=1)
    for variances in ([0.5, 0.3], [np.inf, np.inf], [np.inf, 0.3]):
        curve = solve_bvp(
            line, SPAN, order=1, conditions=[at(0.0, y={0: ScalarGaussian(0.7, variances[0])})],
            parameters=Gaussian([1.5], [[variances[1]]]), data=observed(T, x[:, None], noise=0.01),
            dimension=1,
        )  # fmt: skip
        inverse = np.diag(1.0 / np.array(variances))
        cov = np.linalg.inv(H.T @ H / 0.01 + inverse)
        mean = cov @ (H.T @ x / 0.01 + inverse @ [0.7, 1.5])
        np.testing.assert_allclose(curve.parameters.mean, mean[1:], rtol=1e-6)
        np.testing.assert_allclose(curve.parameters.std, cov[1, 1] ** 0.5, rtol=1e-6)
        np.testing.assert_allclose(curve(0.0).mean, mean[:1], rtol=1e-6)
        flat = np.isinf(variances)
        missed = x - H @ mean
        apart = np.where(flat, 0.0, mean - [0.7, 1.5])
        known = np.where(flat, 2 * np.pi, variances)  # without the density of the prior
        expected = (
            -0.5 * (missed @ missed / 0.01 + apart @ inverse @ apart)
            - 3 * np.log(2 * np.pi * 0.01)
            + 0.5 * np.linalg.slogdet(cov)[1]
            - 0.5 * np.log(known).sum()
            + flat.sum() * np.log(2 * np.pi)
        )
        np.testing.assert_allclose(curve.log_likelihood, expected, rtol=1e-7)


def volterra(t, y, p):
    return jnp.array([p[0] * y[0] - p[1] * y[0] * y[1], -p[2] * y[1] + p[3] * y[0] * y[1]])


THETA, START = np.array([1.0, 0.4, 1.0, 0.3]), np.array([2.0, 1.0])
SEEN = np.linspace(0.5, 8.0, 16)


def populations(count, noise):
    """Noisy data of many experiments, and the true curve."""
    truth = solve_ivp(volterra, (0.0, 8.0), START, args=THETA, solver=TIGHT)
    rng = np.random.default_rng(1)
    return truth, truth.mean(SEEN) + noise * rng.standard_normal((count, 16, 2))


def test_error_bars_of_curves_and_parameters_from_data():
    truth, x = populations(30, 0.05)
    unknown = Gaussian(np.array([1.1, 0.42, 0.95, 0.3]), np.diag(np.full(4, np.inf)))
    anywhere = Gaussian([2.2, 0.9], np.diag([np.inf, np.inf]))
    curves = solve_bvp(
        volterra, (0.0, 8.0), order=1, conditions=[at(0.0, y=anywhere)], parameters=unknown,
        data=observed(SEEN, x, noise=0.05**2), guess=truth,
    )  # fmt: skip
    assert curves.converged.all()
    t = np.linspace(0.0, 8.0, 41)
    found = curves.parameters
    roots = np.linalg.cholesky(found.cov)
    normed = np.linalg.solve(roots, (found.mean - THETA)[..., None])[..., 0]
    of_curves = (curves.mean(t) - truth.mean(t)) / curves.std(t)
    for z in (normed, of_curves):
        assert 0.90 <= np.mean(np.abs(z) <= 2) <= 0.99
        assert 0.2 <= np.mean(z**2) <= 4.0


def test_start_of_many_initial_value_problems():
    _truth, x = populations(40, 0.1)
    anywhere = Gaussian([2.5, 1.3], np.diag([np.inf, np.inf]))
    args = np.tile(THETA, (40, 1))
    curves = solve_ivp(volterra, (0.0, 8.0), anywhere, args=args, data=observed(SEEN, x, noise=0.01))
    assert curves.converged.all()
    assert curves.log_likelihood.shape == (40,)
    z = (curves.mean(0.0) - START) / curves.std(0.0)
    assert 0.90 <= np.mean(np.abs(z) <= 2) <= 0.99
    assert 0.2 <= np.mean(z**2) <= 4.0
    alone = solve_ivp(volterra, (0, 8), anywhere, args=THETA, data=observed(SEEN, x[3], noise=0.01))
    np.testing.assert_allclose(curves[3].log_likelihood, alone.log_likelihood, rtol=1e-6)


def test_numerical_errors_count_as_noise():
    """Data much better than the solver: the start has error bars that are as wide as its errors."""
    _truth, x = populations(1, 0.0)
    anywhere = Gaussian([2.1, 1.1], np.diag([np.inf, np.inf]))
    z = []
    for n_points in range(12, 26):
        solver = solvers.Markov(n_points=n_points)
        for k in range(4):
            seen = observed(SEEN[k::4], x[0, k::4], noise=1e-16)
            curve = solve_ivp(volterra, (0.0, 8.0), anywhere, args=THETA, data=seen, solver=solver)
            z += list((curve.mean(0.0) - START) / curve.std(0.0, source="boundary"))
    assert 0.90 <= np.mean(np.abs(z) <= 2) <= 0.99
    assert 0.2 <= np.mean(np.square(z)) <= 4.0


def test_likelihood_is_differentiable_by_everything_known():
    _, x = populations(1, 0.1)

    def likelihood(z, solver=TIGHT):
        seen = observed(SEEN, x[0], noise=z[6])
        return solve_ivp(volterra, (0.0, 8.0), z[4:6], args=z[:4], data=seen, solver=solver).log_likelihood

    z = np.concatenate([THETA, START, [0.01]])
    with jax.enable_x64(True):
        value, slope = jax.value_and_grad(likelihood)(jnp.asarray(z))
        np.testing.assert_allclose(value, likelihood(z), rtol=1e-9)
        np.testing.assert_allclose(slope, approx_fprime(z, likelihood, 1e-6), rtol=1e-2)
        both = jax.vmap(jax.jit(likelihood))(jnp.stack([z, 1.01 * z]))
        np.testing.assert_allclose(both, [likelihood(z), likelihood(1.01 * z)], rtol=1e-7)
        with pytest.raises(TypeError, match="give values that are certain"):
            jax.grad(
                lambda k: solve_ivp(
                    volterra, (0.0, 8.0), Gaussian(START, np.eye(2)), args=k,
                    data=observed(SEEN, x[0], noise=0.01),
                ).log_likelihood
            )(jnp.asarray(THETA))  # fmt: skip


def test_what_data_do_not_tell_is_said():
    def apart(t, y):
        return -y

    anywhere = Gaussian([1.0, 1.0], np.diag([np.inf, np.inf]))
    seen = observed(T, np.exp(-T)[:, None], noise=0.01, y=[[1.0, 0.0]])
    with pytest.warns(UserWarning, match="no unique solution"):
        curve = solve_ivp(apart, SPAN, anywhere, data=seen)
    assert not curve.converged
    std = curve.std(0.0)
    assert std[0] < 0.2
    assert std[1] > 1e6


def test_kept_in_files(tmp_path):
    seen = observed(T, np.exp(-T)[:, None], noise=0.01)
    curve = solve_ivp(lambda t, y: -y, SPAN, Gaussian([1.0], [[np.inf]]), data=seen)
    again = load(save(curve, tmp_path / "curve"))
    assert again.log_likelihood == curve.log_likelihood
    assert curve.summary()["log_likelihood"][0] == curve.log_likelihood


ONE = observed([1.0], [[1.0]], noise=1.0)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: observed([1.0, 2.0], [[1.0]], noise=1.0), r"x must have shape \(..., 2, M\)"),
        (lambda: observed([1.0], [[np.nan]], noise=1.0), "x must be finite"),
        (lambda: observed([1.0], [[1.0]], noise=0.0), "noise must be positive"),
        (lambda: observed([1.0], [[1.0]], noise=1.0, y=[[1.0], [2.0]]), "y must be a number or"),
        (lambda: solve_ivp(lambda t, y: -y, (0, 0.5), [1.0], data=ONE), "times of data must lie"),
        (lambda: solve_ivp(lambda t, y: -y, (0, 2), [1.0, 2.0], data=ONE), "y 2 components"),
        (lambda: solve_ivp(lambda t, y: -y, (0, 2), [1.0], data=[1.0]), "data must be observed"),
        (lambda: solve_ivp(lambda t, y: -y, (0, 2), Gaussian([1.0], [[np.inf]])), "give data="),
        (
            lambda: solve_ivp(lambda t, y: -y, (0, 2), [1.0], data=observed([1.0], [[1.0]], noise=1.0, dy=1.0)),
            "the ODE has order 1",
        ),
        (
            lambda: solve_ivp(lambda t, y: -y, (0, 2), [1.0], data=ONE, solver=solvers.Dense()),
            "data need solvers.Markov",
        ),
    ],
)
def test_bad_input_is_named(make, message):
    with pytest.raises((ValueError, TypeError), match=message):
        make()
