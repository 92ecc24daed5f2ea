"""The paper's solver against independent references."""

import itertools
import warnings
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.integrate import solve_bvp as scipy_bvp
from scipy.integrate import solve_ivp as scipy_ivp
from scipy.stats import multivariate_normal

from probgeo import ConvergenceWarning, Gaussian, solve_bvp, solve_ivp, solvers
from probgeo.functions import Field
from probgeo.functions.in_jax import double_precision
from probgeo.ode.dense import algebra
from probgeo.ode.dense.error_models import BoundError, Evaluations
from probgeo.ode.dense.gram import observed_covariance
from probgeo.ode.dense.sweeps import damped_sweeps
from probgeo.ode.kernels import IntegratedWiener, Kernel, Matern, SquaredExponential
from probgeo.ode.problem import boundary_value_problem
from probgeo.ragged import members_at_a_time
from tests.ode.reference import condition

A0 = np.array([[-2.0, 0.5], [0.3, -1.0]])
A1 = np.array([[0.1, -0.4], [0.2, 0.3]])
FORCE = np.array([1.0, -0.5])
YA, YB = np.array([0.3, -0.2]), np.array([1.0, 0.8])
V = np.array([[1.0, 0.3], [0.3, 0.5]])
ERROR_MODELS = ["jacobian", "bound", "none", "linearised"]
# the default nugget keeps the relative residual of smooth problems at about 3e-7
FLOOR = 1e-6


def linear_field(t, y, dy, library=jnp):
    return A0 @ y + A1 @ dy + FORCE * library.cos(t)


def first_order_field(t, y):
    return A0 @ y + FORCE * t


def pendulum(t, y, dy):
    return -jnp.sin(y)


def strong_field(t, y, dy):
    return -40.0 * jnp.sin(y) + dy**2


def line(t, d):
    return {0: YA + (YB - YA) * t, 1: YB - YA}.get(d, np.zeros(2))


def exact_linear(t, order=0):
    """The linear boundary value problem by a tight SciPy solution."""

    def rhs(s, u):
        force = np.cos(s)[None, :] * FORCE[:, None]
        return np.vstack([u[2:], A0 @ u[:2] + A1 @ u[2:] + force])

    def ends(ua, ub):
        return np.concatenate([ua[:2] - YA, ub[:2] - YB])

    mesh = np.linspace(0, 1, 50)
    solution = scipy_bvp(rhs, ends, mesh, np.zeros((4, 50)), tol=1e-10, max_nodes=10**5)
    return solution.sol(t)[2 * order : 2 * order + 2].T


@pytest.mark.parametrize("kernel", [Matern(3.5, 0.6), IntegratedWiener(3), SquaredExponential(0.5)])
def test_linear_ode_posterior_is_gaussian_conditioning(kernel):
    """'linearised': the curve conditioned on its ends and on c'' - A0 c - A1 c' = force."""
    nodes = np.array([0.1, 0.35, 0.6, 0.9])
    solver = solvers.Dense(kernel, grid=nodes, error_model="linearised", V=V, nugget=0.0, refinements=3)
    curve = solve_bvp(linear_field, (0.0, 1.0), YA, YB, solver=solver)

    ends = [[(0.0, 0, np.eye(2))], [(1.0, 0, np.eye(2))]]
    odes = [[(t, 2, np.eye(2)), (t, 0, -A0), (t, 1, -A1)] for t in nodes]
    values = [YA, YB] + [FORCE * np.cos(t) for t in nodes]
    targets = [(0.2, 0), (0.77, 0), (0.5, 1)]
    none = [np.zeros((2, 2))] * 6
    mean, cov, joint = condition(kernel, V, ends + odes, values, none, targets, line)
    _, _, marginal = condition(kernel, V, ends, [YA, YB], none[:2], targets, line)

    np.testing.assert_allclose(curve.mean([0.2, 0.77]), mean[:2], rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(curve.mean(0.5, 1), mean[2], rtol=1e-9, atol=1e-9)
    size = np.abs(cov).max()
    np.testing.assert_allclose(curve.cov(0.2, 0.77), cov[0, :, 1], atol=1e-9 * size)
    np.testing.assert_allclose(curve.cov(0.77, 0.5, (0, 1)), cov[1, :, 2], atol=1e-9 * size)
    np.testing.assert_allclose(curve.log_evidence, joint - marginal, rtol=1e-8)


def test_skilling_recursion_is_gaussian_conditioning_on_noisy_evaluations():
    """Eq. 10-15 step by step: estimate, evaluate, add c'' = f with noise J Sigma J'."""
    kernel = Matern(4.5, 0.5)
    nodes = np.array([0.15, 0.4, 0.7, 0.95])
    solver = solvers.Dense(kernel, grid=nodes, error_model="jacobian", V=V, nugget=0.0, refinements=0, tolerance=10.0)
    curve = solve_bvp(linear_field, (0.0, 1.0), YA, YB, solver=solver)

    functionals = [[(0.0, 0, np.eye(2))], [(1.0, 0, np.eye(2))]]
    values, noise = [YA, YB], [np.zeros((2, 2))] * 2
    J = np.hstack([A0, A1])
    for t in nodes:
        targets = [(t, 0), (t, 1)]
        (c, dc), sigma, _ = condition(kernel, V, functionals, values, noise, targets, line)
        functionals = [*functionals, [(t, 2, np.eye(2))]]
        values = [*values, linear_field(t, c, dc, np)]
        noise = [*noise, J @ sigma.reshape(4, 4) @ J.T]
    mean, cov, _ = condition(kernel, V, functionals, values, noise, [(0.3, 0), (0.8, 1)], line)
    np.testing.assert_allclose(curve.mean(0.3), mean[0], rtol=1e-9)
    np.testing.assert_allclose(curve.mean(0.8, 1), mean[1], rtol=1e-9)
    np.testing.assert_allclose(curve.cov(0.3, 0.8, (0, 1)), cov[0, :, 1], atol=1e-11)


def test_erratum_5_joint_evidence_counts_every_dimension():
    """Eq. 18 with (2 + N) D log 2 pi is p(a, b, Y): the evidence times the density of the ends."""
    kernel, nodes = Matern(4.5, 0.5), np.array([0.2, 0.5, 0.8])
    solver = solvers.Dense(kernel, grid=nodes, error_model="none", V=V, nugget=0.0, refinements=0,
                           tolerance=10.0)  # fmt: skip
    curve = solve_bvp(linear_field, (0.0, 1.0), YA, YB, solver=solver)
    atoms = [(0.0, 0), (1.0, 0)] + [(t, 2) for t in nodes]
    K = np.array([[float(kernel.derivative(d, e, s, t)) for t, e in atoms] for s, d in atoms])
    gamma = np.kron(K, V)
    # the evaluations follow from the posterior mean, which interpolates them (no noise)
    Y = np.concatenate([curve.mean(t, 2) for t in nodes])
    residual = np.concatenate([np.zeros(4), Y])
    eq_18 = residual @ np.linalg.solve(gamma, residual) + np.linalg.slogdet(gamma)[1] + (2 + 3) * 2 * np.log(2 * np.pi)
    ends = multivariate_normal(np.zeros(4), np.kron(K[:2, :2], V)).logpdf(np.zeros(4))
    np.testing.assert_allclose(curve.log_evidence + ends, -0.5 * eq_18, rtol=1e-8)


@pytest.mark.parametrize("error_model", ["none", "linearised"])
def test_zero_boundary_covariance_pins_the_ends(error_model):
    solver = solvers.Dense(n_points=12, error_model=error_model, V=V)
    curve = solve_bvp(linear_field, (0.0, 1.0), YA, YB, solver=solver)
    np.testing.assert_allclose(curve.mean([0.0, 1.0]), [YA, YB], atol=1e-9)
    # a variance is a difference of numbers of order 1: zero to round-off, its root to 1e-7
    np.testing.assert_array_less(curve.std([0.0, 1.0]), 1e-7)


@pytest.mark.parametrize("error_model", ["jacobian", "none", "linearised"])
def test_more_points_less_error_and_less_uncertainty(error_model):
    t = np.linspace(0, 1, 41)
    exact = exact_linear(t)
    errors, stds = [], []
    for n in (5, 15):
        solver = solvers.Dense(Matern(4.5, 0.6), n_points=n, error_model=error_model, V=V,
                               tolerance=1e-10, refinements=60)  # fmt: skip
        curve = solve_bvp(linear_field, (0.0, 1.0), YA, YB, solver=solver)
        errors.append(float(np.abs(curve.mean(t) - exact).max()))
        stds.append(float(curve.std(t).max()))
    assert errors[1] < 0.2 * errors[0]
    assert stds[1] < 0.2 * stds[0]


@pytest.mark.parametrize("error_model", ["none", "linearised"])
def test_mean_converges_to_the_exact_solution(error_model):
    solver = solvers.Dense(SquaredExponential(0.5), n_points=20, error_model=error_model,
                           refinements=60, tolerance=FLOOR)  # fmt: skip
    curve = solve_bvp(linear_field, (0.0, 1.0), YA, YB, solver=solver)
    t = np.linspace(0, 1, 33)
    # the nugget bounds what can be reached: its root, 1e-6, relative to c''
    np.testing.assert_allclose(curve.mean(t), exact_linear(t), atol=2e-6)
    np.testing.assert_allclose(curve.mean(t, 1), exact_linear(t, 1), atol=2e-5)


@pytest.mark.parametrize("error_model", ERROR_MODELS)
def test_uncertain_oscillator(error_model):
    """x'' = -x, x0 ~ N(1, .1^2), v0 ~ N(0, .2^2): std(x)^2 = .01 cos^2 t + .04 sin^2 t."""
    solver = solvers.Dense(n_points=40, error_model=error_model)
    y0, dy0 = Gaussian([1.0], [[0.01]]), Gaussian([0.0], [[0.04]])
    curve = solve_ivp(lambda t, y, dy: -y, (0.0, 6.0), y0, dy0, solver=solver)
    t = np.array([0.0, 1.5, 6.0])
    np.testing.assert_allclose(curve.mean(t)[:, 0], np.cos(t), atol=1e-4)
    np.testing.assert_allclose(curve.std(t)[:, 0], [0.1000, 0.1996, 0.1111], rtol=0.03)
    # the scale of the prior has no say in what the user put in
    np.testing.assert_allclose(curve.std(t, source="boundary")[:, 0], curve.std(t)[:, 0], rtol=1e-3)


@pytest.mark.parametrize("V", [1e-8 * np.eye(1), np.eye(1), 1e8 * np.eye(1)])
def test_scale_of_the_prior_never_rescales_the_users_uncertainty(V):
    solver = solvers.Dense(n_points=20, V=V)
    curve = solve_ivp(pendulum, (0.0, 3.0), Gaussian([1.0], [[0.01]]), [0.0], solver=solver)
    np.testing.assert_allclose(curve.std(0.0), 0.1, rtol=1e-6)
    numerical, boundary, total = (curve.cov(2.0, 2.0, source=s) for s in ("numerical", "boundary", "total"))
    np.testing.assert_allclose(numerical + boundary, total, rtol=1e-12)
    np.testing.assert_allclose(numerical / V, unit_numerical_variance(), rtol=1e-5)


def unit_numerical_variance():
    solver = solvers.Dense(n_points=20, V=np.eye(1))
    curve = solve_ivp(pendulum, (0.0, 3.0), [1.0], [0.0], solver=solver)
    return curve.cov(2.0, 2.0)


def test_boundary_covariance_in_the_gram_matrix_is_the_limit_of_a_wide_prior():
    """Eq. 14 puts Delta into the Gram matrix; for V large against Delta that is the same."""
    kernel = Matern(4.5, 0.5)
    nodes = np.linspace(0.05, 0.95, 8)
    wide, delta = 1e6 * np.eye(2), np.array([[0.04, 0.01], [0.01, 0.02]])
    solver = solvers.Dense(kernel, grid=nodes, error_model="linearised", V=wide, nugget=0.0)
    curve = solve_bvp(linear_field, (0.0, 1.0), Gaussian(YA, delta), YB, solver=solver)
    ends = [[(0.0, 0, np.eye(2))], [(1.0, 0, np.eye(2))]]
    odes = [[(t, 2, np.eye(2)), (t, 0, -A0), (t, 1, -A1)] for t in nodes]
    values = [YA, YB] + [FORCE * np.cos(t) for t in nodes]
    noise = [delta] + [np.zeros((2, 2))] * 9
    mean, cov, _ = condition(kernel, wide, ends + odes, values, noise, [(0.4, 0)], line)
    np.testing.assert_allclose(curve.mean(0.4), mean[0], rtol=1e-5)
    np.testing.assert_allclose(curve.cov(0.4, 0.4), cov[0, :, 0], rtol=1e-4)


def test_sensitivity_to_the_ends_against_finite_differences():
    """The boundary part is (dc/da) Delta (dc/da)', dc/da by re-solving a nonlinear problem."""
    solver = solvers.Dense(n_points=24, error_model="linearised", refinements=30, tolerance=FLOOR)
    delta = 0.01
    curve = solve_bvp(pendulum, (0.0, 2.0), Gaussian([0.4], [[delta]]), [1.2], solver=solver)
    h = 1e-4
    shifted = solve_bvp(pendulum, (0.0, 2.0), [[0.4 + h], [0.4 - h]], [1.2], solver=solver)
    slope = np.diff(shifted.mean(1.3)[::-1, 0])[0] / (2 * h)
    np.testing.assert_allclose(curve.std(1.3, source="boundary"), abs(slope) * 0.1, rtol=1e-4)


class Recorded(Field):
    """A first-order field in one dimension that remembers where it was evaluated."""

    order, dimension = 1, 1

    def __init__(self, f):
        self.f = f
        self.visited = []

    def values(self, t, state, member):
        self.visited += zip(t.tolist(), state[:, 0, 0].tolist(), strict=True)
        return self.f(t, state[:, 0, 0])[:, None]

    def jacobians(self, t, state, member):
        raise AssertionError("not asked for by error_model='none'")


def test_estimates_are_linear_in_earlier_evaluations_as_in_runge_kutta():
    """Sec. 3.5: c_i = w_0 c_0 + sum_{j<i} w_ij y_j, with weights that do not depend on f."""
    n, h = 4, 0.4
    grid = np.linspace(0.0, h, n)
    options = {"error_model": "none", "refinements": 0, "tolerance": 1e6}

    def estimates(y0, values):
        """Prediction for each node from the nodes before it."""
        field = Recorded(lambda t, y: np.interp(t, grid, values))
        parts = [solvers.Dense(SquaredExponential(1.0), grid=grid[:i], **options) for i in range(1, n)]
        curves = [solve_ivp(field, (0.0, h), [y0], solver=part) for part in parts]
        return np.array([c.mean(grid[i + 1])[0] for i, c in enumerate(curves)])

    weights = np.array([estimates(0.0, unit) for unit in np.eye(n)]).T
    w0 = estimates(1.0, np.zeros(n))
    # strictly lower triangular, as the tableau of an explicit method; w_0 = 1
    for i in range(n - 1):
        np.testing.assert_allclose(weights[i, i + 1 :], 0.0, atol=1e-12)
    np.testing.assert_allclose(w0, 1.0, atol=1e-9)

    # the same weights explain the estimates of a nonlinear f that does depend on y
    logistic = Recorded(lambda t, y: y * (1.0 - y) + t)
    solver = solvers.Dense(SquaredExponential(1.0), grid=grid, **options)
    solve_ivp(logistic, (0.0, h), [0.3], solver=solver)
    # the method with this tableau, run by hand: f was evaluated at each of its stages (and, in no
    # particular order, at those of other sweeps)
    values = np.zeros(n)
    for i, t in enumerate(grid):
        stage = 0.3 if i == 0 else w0[i - 1] * 0.3 + weights[i - 1] @ values
        visited = np.array([y for time, y in logistic.visited if abs(time - t) < 1e-12])
        assert np.abs(visited - stage).min() < 1e-9
        values[i] = stage * (1.0 - stage) + t


@pytest.mark.parametrize("error_model", ["jacobian", "none"])
def test_first_order_problem(error_model):
    solver = solvers.Dense(SquaredExponential(0.4), n_points=25, error_model=error_model,
                           refinements=40)  # fmt: skip
    curve = solve_ivp(first_order_field, (1.0, 3.0), YA, solver=solver)
    t = np.linspace(1, 3, 9)
    reference = scipy_ivp(lambda s, y: A0 @ y + FORCE * s, (1, 3), YA, rtol=1e-11, atol=1e-11, t_eval=t)
    np.testing.assert_allclose(curve.mean(t), reference.y.T, atol=2e-3)
    np.testing.assert_allclose(curve.mean(2.0, 1), first_order_field(2.0, curve.mean(2.0)), atol=2e-2)


def test_nonlinear_bvp_against_scipy():
    def rhs(t, u):
        return np.vstack([u[1], -np.sin(u[0])])

    def ends(ua, ub):
        return np.array([ua[0] - 0.4, ub[0] - 2.0])

    mesh = np.linspace(0, 3, 100)
    reference = scipy_bvp(rhs, ends, mesh, np.vstack([0.4 + 1.6 * mesh / 3, 0 * mesh]), tol=1e-10)
    solver = solvers.Dense(n_points=30, error_model="linearised", refinements=30, tolerance=FLOOR)
    curve = solve_bvp(pendulum, (0.0, 3.0), [0.4], [2.0], solver=solver)
    t = np.linspace(0, 3, 50)
    np.testing.assert_allclose(curve.mean(t)[:, 0], reference.sol(t)[0], atol=1e-5)


@pytest.mark.parametrize("error_model", ["jacobian", "none", "linearised"])
def test_refinements_never_make_the_residual_worse(error_model):
    """A field so strong that undamped sweeps diverge."""
    residuals = []
    for count in range(6):
        solver = solvers.Dense(n_points=12, error_model=error_model, refinements=count, tolerance=1e-12)
        with pytest.warns(ConvergenceWarning):
            curve = solve_bvp(strong_field, (0.0, 1.0), [0.0], [1.0], solver=solver)
        residuals.append(float(curve.residual))
    assert all(b <= a for a, b in itertools.pairwise(residuals))
    assert residuals[-1] < residuals[0]


def test_batch_members_are_solved_as_if_alone():
    ends = np.array([[[0.0, 0.1]], [[0.5, -0.5]]])  # (2, 1, 2), broadcast against (3, 2)
    others = np.array([[1.0, 0.0], [0.3, 0.3], [-1.0, 2.0]])
    for error_model in ("none", "jacobian"):  # with and without Kronecker structure
        solver = solvers.Dense(n_points=10, error_model=error_model)
        batch = solve_bvp(linear_field, (0.0, 1.0), ends, others, solver=solver)
        assert batch.converged.shape == (2, 3)
        assert batch.mean([0.2, 0.4, 0.6]).shape == (2, 3, 3, 2)
        assert batch.cov(0.2, [0.4, 0.6]).shape == (2, 3, 2, 2, 2)
        alone = solve_bvp(linear_field, (0.0, 1.0), ends[1, 0], others[2], solver=solver)
        np.testing.assert_allclose(batch.mean(0.3)[1, 2], alone.mean(0.3), atol=1e-10)
        np.testing.assert_allclose(batch[1, 2].std(0.3), alone.std(0.3), atol=1e-8)


@pytest.mark.parametrize("threads", ["1", "2"])
@pytest.mark.parametrize("options", [{}, {"error_model": "none"}, {"fit_lengthscale": True}])
def test_chunks_and_threads_give_the_same(monkeypatch, options, threads):
    ends = np.random.default_rng(0).normal(size=(70, 2))
    ya = Gaussian(YA, 0.01 * V)
    solver = solvers.Dense(n_points=6, **options)
    whole = solve_bvp(linear_field, (0.0, 1.0), ya, ends, solver=solver)
    monkeypatch.setenv("PROBGEO_THREADS", threads)
    bytes_of_four = 4 * 3 * 8 * 3 * 144
    monkeypatch.setattr(members_at_a_time, "__defaults__", (bytes_of_four,))
    parts = solve_bvp(linear_field, (0.0, 1.0), ya, ends, solver=solver)
    t = np.array([0.0, 0.4, 0.9])
    np.testing.assert_allclose(parts.mean(t), whole.mean(t), atol=1e-11)
    np.testing.assert_allclose(parts.std(t, 1), whole.std(t, 1), atol=1e-8)
    np.testing.assert_allclose(parts.cov(0.2, t), whole.cov(0.2, t), atol=1e-10)
    np.testing.assert_array_equal(parts.n_evaluations, whole.n_evaluations)


def test_members_of_different_difficulty_do_not_meet():
    """A batch of easy, hard and hopeless members: the results are those of each alone."""
    ends = np.array([[0.1], [3.0], [np.pi], [20.0], [0.5]])
    for error_model in ("none", "jacobian", "linearised", "bound"):
        solver = solvers.Dense(n_points=10, error_model=error_model, refinements=8)
        with pytest.warns(ConvergenceWarning):
            batch = solve_bvp(strong_field, (0.0, 1.0), [0.0], ends, solver=solver)
        for k, end in enumerate(ends):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                alone = solve_bvp(strong_field, (0.0, 1.0), [0.0], end, solver=solver)
            assert alone.message == batch.message[k]
            assert alone.n_evaluations == batch.n_evaluations[k]
            size = np.abs(alone.mean(0.5)).max()
            np.testing.assert_allclose(batch.mean(0.5)[k], alone.mean(0.5), atol=1e-6 * size)


def test_an_empty_batch_is_a_batch():
    curve = solve_bvp(linear_field, (0.0, 1.0), np.zeros((0, 2)), YB, solver=solvers.Dense())
    assert curve.converged.shape == (0,)
    assert curve.mean([0.2, 0.4]).shape == (0, 2, 2)
    assert curve.std(0.2).shape == (0, 2)
    assert curve.sample(0, 3, [0.2, 0.4]).shape == (3, 0, 2, 2)


def test_no_times_are_times():
    for solver in (solvers.Dense(n_points=4), solvers.Dense(n_points=4, error_model="none")):
        curve = solve_bvp(linear_field, (0.0, 1.0), Gaussian(YA, V), [YB, YA], solver=solver)
        assert curve.mean([]).shape == (2, 0, 2)
        assert curve.std([]).shape == (2, 0, 2)
        assert curve.cov([], []).shape == (2, 0, 2, 2)


def test_a_bad_member_is_flagged_and_the_rest_unharmed():
    def field(t, y, dy):
        return -jnp.log(y)

    with pytest.warns(ConvergenceWarning, match="1 of 3 solutions did not converge"):
        curve = solve_bvp(
            field, (0.0, 1.0), [[0.5], [-1.0], [2.0]], [[1.0], [-2.0], [1.5]],
            solver=solvers.Dense(),
        )  # fmt: skip
    assert list(curve.converged) == [True, False, True]
    assert "not finite" in curve.message[1]
    assert np.isfinite(curve.mean(0.5)[[0, 2]]).all()


def test_samples_of_a_batch_with_a_bad_member():
    with pytest.warns(ConvergenceWarning):
        curve = solve_bvp(
            lambda t, y, dy: -jnp.log(y), (0.0, 1.0), [[0.5], [-1.0]], [[1.0], [-2.0]],
            solver=solvers.Dense(n_points=5),
        )  # fmt: skip
    draws = curve.sample(0, 4, [0.2, 0.5])
    assert np.isfinite(draws[:, 0]).all()
    assert np.isnan(draws[:, 1]).all()


def test_an_ode_that_blows_up_is_flagged():
    with pytest.warns(ConvergenceWarning):
        curve = solve_ivp(lambda t, y: y**2, (0.0, 3.0), [1.0], solver=solvers.Dense())
    assert not curve.converged
    assert curve.message != "converged"
    assert curve.message in repr(curve)


@pytest.mark.parametrize("D", [1, 5, 50])
@pytest.mark.parametrize("error_model", ["none", "jacobian"])
def test_dimensions_up_to_fifty(D, error_model):
    """y'' = -w^2 y with D frequencies, closed form."""
    w = np.linspace(0.5, 2.0, D)

    def field(t, y, dy):
        return -(w**2) * y

    solver = solvers.Dense(n_points=12, error_model=error_model)
    curve = solve_ivp(field, (0.0, 1.0), np.ones(D), np.zeros(D), solver=solver)
    np.testing.assert_allclose(curve.mean(1.0), np.cos(w), atol=2e-3)


def test_guesses_of_every_kind_reach_the_same_solution():
    def bent(t):
        return np.array([0.75 * t + 0.5 * np.sin(t * np.pi / 2)])

    solver = solvers.Dense(n_points=24, error_model="linearised", refinements=30, tolerance=FLOOR)
    plain = solve_bvp(pendulum, (0.0, 2.0), [0.0], [1.5], solver=solver)
    samples = np.array([bent(t) for t in np.linspace(0, 2, 9)])
    for guess in (plain, bent, samples):
        curve = solve_bvp(pendulum, (0.0, 2.0), [0.0], [1.5], solver=solver, guess=guess)
        np.testing.assert_allclose(curve.mean([0.5, 1.0]), plain.mean([0.5, 1.0]), atol=1e-7)


def test_a_guess_chooses_between_two_solutions():
    """Bratu, y'' = -e^y with zero ends: a low and a high solution, 0.1405 and 4.0915 at 1/2."""

    def field(t, y, dy):
        return -jnp.exp(y)

    def hump(t):
        return np.array([4.0 * np.sin(np.pi * t)])

    # on the high solution the nugget keeps the residual at 1.6e-4, whatever the sweeps
    solver = solvers.Dense(n_points=30, error_model="linearised", refinements=60, tolerance=1e-3)
    low = solve_bvp(field, (0.0, 1.0), [0.0], [0.0], solver=solver)
    high = solve_bvp(field, (0.0, 1.0), [0.0], [0.0], solver=solver, guess=hump)
    np.testing.assert_allclose(low.mean(0.5), 0.1405392, atol=1e-5)
    np.testing.assert_allclose(high.mean(0.5), 4.0914672, atol=1e-4)


NOTHING = Evaluations(np.zeros((1, 2, 2)), np.zeros((1, 2)), None)


def test_bound_noise_is_at_least_the_exact_term():
    """Where Jacobian and covariances are not negative, the bound with U = |J| is exact."""
    rng = np.random.default_rng(2)
    J = np.abs(rng.normal(size=(2, 2, 2)))
    root = np.abs(rng.normal(size=(4, 4)))
    sigma = root @ root.T
    blocks = sigma.reshape(1, 2, 2, 2, 2)
    stacked = np.hstack([J[0].T, J[1].T])  # J[m][i, j] = d f_j / d c^(m)_i
    exact = stacked @ sigma @ stacked.T
    (got,) = BoundError(J[0], J[1]).noise(NOTHING, blocks)
    majorant = 2 * sum(J[m].T @ blocks[0, m, :, m] @ J[m] for m in range(2))
    printed_is_definite = np.linalg.eigvalsh(exact)[0] >= 0
    np.testing.assert_allclose(got, exact if printed_is_definite else majorant, rtol=1e-10)
    # doubling the bounds quadruples the noise
    (double,) = BoundError(2 * J[0], 2 * J[1]).noise(NOTHING, blocks)
    np.testing.assert_allclose(double, 4 * got, rtol=1e-10)


def test_erratum_4_printed_bound_is_indefinite_but_ours_is_not():
    rng = np.random.default_rng(0)
    indefinite = 0
    for _ in range(500):
        root = rng.normal(size=(6, 6))
        blocks = (root @ root.T).reshape(2, 3, 2, 3)
        u, v = np.abs(rng.normal(size=(2, 3, 3)))
        printed = (
            u.T @ blocks[0, :, 0] @ u
            + np.abs(v.T @ blocks[1, :, 0] @ u)
            + np.abs(u.T @ blocks[0, :, 1] @ v)
            + v.T @ blocks[1, :, 1] @ v
        )
        indefinite += np.linalg.eigvalsh(printed)[0] < 0
        (ours,) = BoundError(u, v).noise(NOTHING, blocks[None])
        assert np.linalg.eigvalsh(ours)[0] > -1e-12 * np.abs(ours).max()
    assert indefinite > 0  # 122 of 2000 in the erratum's draws


def test_scalar_bounds_keep_the_kronecker_structure():
    """U = u I as a number or as a matrix is the same posterior, at a different cost."""
    kernel = Matern(4.5, 0.5)
    scalar = solvers.Dense(kernel, n_points=8, error_model=BoundError(2.0, 0.5), V=V)
    matrix = solvers.Dense(kernel, n_points=8, error_model=BoundError(2.0 * np.eye(2), 0.5 * np.eye(2)), V=V)
    a = solve_bvp(linear_field, (0.0, 1.0), YA, YB, solver=scalar)
    b = solve_bvp(linear_field, (0.0, 1.0), YA, YB, solver=matrix)
    assert a.posterior.L.shape == (1, 8, 8)
    assert b.posterior.L.shape == (1, 16, 16)
    np.testing.assert_allclose(a.mean([0.3, 0.6]), b.mean([0.3, 0.6]), atol=1e-8)
    np.testing.assert_allclose(a.cov(0.3, 0.6), b.cov(0.3, 0.6), atol=1e-10)
    np.testing.assert_allclose(a.log_evidence, b.log_evidence, rtol=1e-6)


def bratu_field(t, y, dy):
    return -jnp.exp(y)


def high_hump(t):
    return np.array([6.0 * np.sin(np.pi * t)])


def test_evaluations_that_settle_off_the_ode_are_flagged():
    """From a guess far too high the noise lets the mean ignore the evaluations."""
    solver = solvers.Dense(n_points=20, refinements=60)
    with pytest.warns(ConvergenceWarning, match="far from the ODE"):
        curve = solve_bvp(bratu_field, (0.0, 1.0), [0.0], [0.0], solver=solver, guess=high_hump)
    assert not curve.converged


def test_a_kernel_of_ones_own_is_as_good_as_a_built_in_one():
    class Own(Kernel):
        def __call__(self, s, t):
            return jnp.exp(-0.5 * ((s - t) / 0.25) ** 2)

    t = np.linspace(0.0, 1.0, 5)
    own, built_in = (
        solve_bvp(linear_field, (0.0, 1.0), YA, YB, solver=solvers.Dense(kernel, 8))
        for kernel in (Own(), SquaredExponential(0.25))
    )
    np.testing.assert_allclose(own.mean(t, 1), built_in.mean(t, 1), atol=1e-9)
    np.testing.assert_allclose(own.std(t), built_in.std(t), atol=1e-8)


def test_the_same_function_written_with_numpy_is_the_same_problem():
    def rows(t, y, dy):
        return -np.sin(y)

    t = np.linspace(0.0, 2.0, 5)
    for error_model in ERROR_MODELS:
        solver = solvers.Dense(n_points=10, error_model=error_model)
        ends = Gaussian([[0.4], [0.2]], [[0.01]]), [1.2]
        a, b = (solve_bvp(f, (0.0, 2.0), *ends, solver=solver) for f in (pendulum, rows))
        np.testing.assert_allclose(a.mean(t), b.mean(t), atol=1e-7)
        np.testing.assert_allclose(a.std(t), b.std(t), atol=1e-6)


def test_samples_have_the_moments_of_the_posterior():
    """Joint over times and derivatives, with the numerical and the boundary part in it."""
    for options in ({}, {"error_model": "none", "S": V}):
        solver = solvers.Dense(Matern(3.5, 0.5), n_points=4, tolerance=10.0, **options)
        ya = Gaussian([YA, YB], 1e-3 * V)
        curve = solve_bvp(linear_field, (0.0, 2.0), ya, YB, solver=solver)
        t, n = np.array([0.3, 1.1]), 20000
        y, dy = curve.sample(0, n, t, (0, 1))
        assert y.shape == dy.shape == (n, 2, 2, 2)
        for member in range(2):
            flat = np.concatenate([x[:, member].reshape(n, 4) for x in (y, dy)], axis=1)
            mean = np.concatenate([curve[member].mean(t, d).ravel() for d in (0, 1)])
            s = t[:, None]
            blocks = [[curve[member].cov(s, t, (d, e)) for e in (0, 1)] for d in (0, 1)]
            cov = np.transpose(blocks, (0, 2, 4, 1, 3, 5)).reshape(8, 8)
            std = np.sqrt(np.diag(cov))
            # the errors of moments from n draws: 1 / sqrt(n), and at most sqrt(2 / n)
            assert np.abs((flat.mean(axis=0) - mean) / std).max() < 5 / np.sqrt(n)
            off = (np.cov(flat.T) - cov) / np.outer(std, std)
            assert np.abs(off).max() < 5 * np.sqrt(2 / n)


def test_columns_of_the_boundary_are_the_derivatives_by_the_data():
    solver = solvers.Dense(n_points=20, error_model="linearised", refinements=30, tolerance=FLOOR)
    roots = np.array([[0.2, 0.0], [0.1, 0.3]])
    ya = Gaussian(YA, roots @ roots.T)
    curve = solve_bvp(linear_field, (0.0, 2.0), ya, YB, solver=solver)
    t = np.array([0.4, 1.7])
    for d in (0, 1):
        columns = curve.posterior.boundary_columns(t, d)
        assert columns.shape == (1, 2, 2, 4)
        cov = np.einsum("tir,tjr->tij", columns[0], columns[0])
        np.testing.assert_allclose(cov, curve.cov(t, t, (d, d), "boundary"), rtol=1e-12)
    certain = solve_bvp(linear_field, (0.0, 2.0), YA, YB, solver=solver)
    assert certain.posterior.boundary_columns(t, 0).shape == (1, 2, 2, 0)


def test_columns_of_the_parameters_are_derivatives_by_them():
    """Against finite differences of solutions with other parameters."""

    def field(t, y, dy, args):
        return -args["k"] * jnp.sin(y) + args["force"]

    solver = solvers.Dense(n_points=24, error_model="linearised", refinements=30, tolerance=FLOOR)
    values = {"k": np.array([1.3]), "force": np.array([[0.2, 0.5]])}
    ya, yb, t, h = [[0.4, 0.1]], [[1.2, 0.3]], np.array([0.7, 1.5]), 1e-4
    problem = boundary_value_problem(field, (0.0, 2.0), ya, yb, args=values)
    columns = solver.solve(replace(problem, with_args=True)).posterior.boundary_columns(t, 0)[0]

    def by(name, direction):
        high, low = (
            solve_bvp(
                field, (0.0, 2.0), ya, yb, solver=solver,
                args=values | {name: values[name] + sign * h * direction},
            )
            for sign in (1.0, -1.0)
        )  # fmt: skip
        return (high.mean(t) - low.mean(t))[0] / (2 * h)

    found = {"k": [by("k", np.ones(1))], "force": [by("force", np.eye(2)[None, i]) for i in range(2)]}
    expected = np.stack([x for name in order_of_leaves(values) for x in found[name]], axis=-1)
    np.testing.assert_allclose(columns, expected, atol=1e-5)


def order_of_leaves(tree):
    """Trees of JAX have their keys in order."""
    return sorted(tree)


@pytest.mark.parametrize("error_model", ["none", "linearised"])
def test_gradients_through_a_solve(error_model):
    """Inside JAX, by the data and by parameters, against differences of solutions outside."""
    solver = solvers.Dense(n_points=20, error_model=error_model, refinements=60, tolerance=FLOOR)

    def field(t, y, dy, k):
        return -k * jnp.sin(y)

    def middle(k, end):
        curve = solve_bvp(field, (0.0, 1.5), jnp.zeros(1), end, args=k, solver=solver)
        return curve.mean(0.7)[0]

    def outside(k, end):
        curve = solve_bvp(field, (0.0, 1.5), [0.0], [end], args=np.array(k), solver=solver)
        return curve.mean(0.7)[0]

    with double_precision():
        by_k, by_end = jax.jit(jax.grad(middle, argnums=(0, 1)))(jnp.array(2.0), jnp.array([1.0]))
        forward = jax.jacfwd(middle)(jnp.array(2.0), jnp.array([1.0]))
    h = 1e-3
    by_differences = (outside(2 + h, 1.0) - outside(2 - h, 1.0)) / (2 * h)
    # differences of solutions with a residual of 1e-6 over steps of 1e-3
    np.testing.assert_allclose(by_k, by_differences, atol=1e-3)
    by_differences = (outside(2.0, 1 + h) - outside(2.0, 1 - h)) / (2 * h)
    np.testing.assert_allclose(by_end[0], by_differences, atol=1e-3)
    np.testing.assert_allclose(forward, by_k, rtol=1e-9)


class TestAlgebra:
    """Batches of matrices against plain NumPy, for sizes at random."""

    @pytest.mark.parametrize("seed", range(6))
    def test_triangular_systems(self, seed):
        rng = np.random.default_rng(seed)
        P, r = rng.integers(1, 5, 2)
        n = int(rng.choice([1, 3, 40, 64, 65, 150]))
        for G in {1, P}:
            L = np.tril(rng.normal(size=(G, n, n)) / n) + np.eye(n)
            b = rng.normal(size=(P, n, r))
            every = np.broadcast_to(L, (P, n, n))
            below = np.linalg.solve(every, b)
            above = np.linalg.solve(every.swapaxes(-1, -2), b)
            np.testing.assert_allclose(algebra.solve_lower(L, b), below, rtol=1e-10, atol=1e-12)
            np.testing.assert_allclose(algebra.solve_upper(L, b), above, rtol=1e-10, atol=1e-12)

    def test_one_right_hand_side_for_many_matrices(self):
        L = np.tril(np.random.default_rng(0).normal(size=(3, 4, 4))) + 3 * np.eye(4)
        got = algebra.solve_lower(L, np.ones((1, 4, 2)))
        np.testing.assert_allclose(got, np.linalg.solve(L, np.ones((3, 4, 2))), rtol=1e-12)

    def test_a_matrix_without_factor_is_nan_and_the_others_unharmed(self):
        good = 2 * np.eye(3) + 1
        bad = -np.eye(3)
        nan = np.full((3, 3), np.nan)
        factors = algebra.cholesky(np.stack([good, bad, nan, good]))
        np.testing.assert_allclose(factors[[0, 3]], np.linalg.cholesky([good, good]))
        assert np.isnan(factors[[1, 2]]).any(axis=(1, 2)).all()

    @pytest.mark.parametrize("seed", range(4))
    def test_covariance_of_observations(self, seed):
        rng = np.random.default_rng(seed)
        N, B, m, G = (int(k) for k in rng.integers(1, 5, 4))
        maps, V = rng.normal(size=(G, N, B, m, B)), rng.normal(size=(B, B))
        V = V @ V.T
        K = rng.normal(size=(G if seed % 2 else 1, N, m, N, m))
        expected = np.einsum("giamc,cd,gimjp,gjbpd->giajb", maps, V, np.broadcast_to(K, (G, *K.shape[1:])), maps)
        got = observed_covariance(maps, V, K)
        np.testing.assert_allclose(got, expected.reshape(G, N * B, N * B), atol=1e-12)

    def test_damped_sweeps_treat_every_member_as_if_alone(self):
        """x -> proposal that overshoots by different factors, one of them into NaN."""
        factors = np.array([1.0, 1.5, 3.5, np.nan, 0.0])

        def sweep(x, members):
            return np.abs(x[:, 0]), (1.0 - factors[members, None]) * x

        start = np.array([[1.0], [1.0], [-2.0], [1.0], [1.0]])
        refined = damped_sweeps(sweep, start, 80, 1e-3)
        assert list(refined.status) == [0, 0, 0, 3, 3]  # the last never moves: no step helps
        assert (np.abs(refined.x[:3]) <= 1e-3).all()
        for k in range(5):
            alone = damped_sweeps(lambda x, _: sweep(x, np.array([k])), start[k : k + 1], 80, 1e-3)  # noqa: B023
            np.testing.assert_array_equal(alone.x[0], refined.x[k])
            assert alone.sweeps[0] == refined.sweeps[k]
