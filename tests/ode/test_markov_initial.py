"""Initial value problems with the Markov solver, against closed forms and tight references."""

from dataclasses import replace

import jax.numpy as jnp
import numpy as np
import pytest
from problems import arenstorf, lotka_volterra, pleiades, stiff_van_der_pol
from scipy import integrate

from probgeo import ConvergenceWarning, Gaussian, solve_ivp, solvers
from probgeo.functions import NumpyFunction, as_field
from probgeo.ode.curve import NOT_FINITE, OK, STIFF
from probgeo.ode.markov import initial_loops as loops
from probgeo.ode.markov.defect import polynomials, polynomials_at, radau, random_signs, without_bumps
from probgeo.ode.markov.implicit import implicit_tableau
from probgeo.ode.markov.runge_kutta import tableau
from probgeo.ode.markov.steps import integrated
from probgeo.ode.problem import initial_value_problem


def oscillator(t, y, dy):
    return -y


def decay(t, y):
    return -y


def exact_oscillator(t):
    return np.cos(t)[:, None]


class TestPrinciple:
    """What the user put in and what the numerics add are kept apart."""

    @pytest.mark.parametrize("stiff", [False, True])
    def test_uncertain_oscillator(self, stiff):
        y0, dy0 = Gaussian([1.0], [[0.01]]), Gaussian([0.0], [[0.04]])
        curve = solve_ivp(oscillator, (0.0, 6.0), y0, dy0, solver=solvers.Markov(stiff=stiff))
        t = np.array([0.0, 1.5, 6.0])
        np.testing.assert_allclose(curve.mean(t)[:, 0], np.cos(t), atol=1e-5)
        np.testing.assert_allclose(curve.std(t)[:, 0], [0.1000, 0.1996, 0.1111], atol=1e-4)
        expected = np.sqrt(0.01 * np.cos(t) ** 2 + 0.04 * np.sin(t) ** 2)
        # columns are solved for to 1e-11, and interpolated with degree eight
        boundary = curve.std(t, source="boundary")[:, 0]
        np.testing.assert_allclose(boundary, expected, rtol=1e-8)
        assert np.all(curve.std(t, source="numerical") < 1e-5)

    def test_uncertainty_of_the_data_leaves_the_numerical_one_alone(self):
        certain = solve_ivp(decay, (0.0, 3.0), [1.0, 2.0])
        data = Gaussian([1.0, 2.0], [[0.1, 0.05], [0.05, 0.2]])
        uncertain = solve_ivp(decay, (0.0, 3.0), data)
        t = np.linspace(0.0, 3.0, 7)
        # errors inside of steps are solved for to 1e-3 without, to 1e-11 with uncertain data
        np.testing.assert_allclose(certain.mean(t), uncertain.mean(t), atol=1e-9)
        one, other = (curve.std(t, source="numerical") for curve in (certain, uncertain))
        np.testing.assert_allclose(one, other, rtol=0.01, atol=1e-16)
        cov = uncertain.cov(3.0, 1.0)
        np.testing.assert_allclose(cov, np.exp(-4.0) * np.array(data.cov), rtol=1e-5)


class TestConvergence:
    @pytest.mark.parametrize(("stiff", "order"), [(False, 8), (True, 9)])
    @pytest.mark.parametrize("second", [False, True])
    def test_order(self, second, stiff, order):
        def f(t, y):
            return np.stack([y[:, 1], -y[:, 0]], axis=1)

        t = np.linspace(0.0, 6.0, 57)
        errors = []
        for n in (7, 13):
            solver = solvers.Markov(n_points=n, stiff=stiff)
            if second:
                curve = solve_ivp(oscillator, (0.0, 6.0), [1.0], [0.0], solver=solver)
            else:
                curve = solve_ivp(NumpyFunction(f), (0.0, 6.0), [1.0, 0.0], solver=solver)
            errors.append(np.abs(curve.mean(t)[:, :1] - exact_oscillator(t)).max())
            assert len(curve.nodes) == n
            assert curve.converged
        # before they settle, ratios of errors are within a factor of two of 2^order
        assert errors[0] / errors[1] > 2 ** (order - 1)

    def test_inside_of_steps_is_as_good_as_their_ends(self):
        # the interpolant alone misses by ten times more inside
        solver = solvers.Markov(n_points=12)
        curve = solve_ivp(decay, (0.0, 8.0), [1.0], solver=solver)
        nodes = curve.nodes
        t = np.linspace(0.0, 8.0, 201)
        at_nodes = np.abs(curve.mean(nodes)[:, 0] - np.exp(-nodes)).max()
        assert np.abs(curve.mean(t)[:, 0] - np.exp(-t)).max() < 1.5 * at_nodes

    def test_velocity_is_the_derivative_of_the_position(self):
        curve = solve_ivp(oscillator, (0.0, 10.0), [1.0], [0.0], solver=solvers.Markov(rtol=1e-8))
        t = np.linspace(0.0, 10.0, 101)
        np.testing.assert_allclose(curve.mean(t, derivative=1)[:, 0], -np.sin(t), atol=3e-8)
        np.testing.assert_allclose(curve.mean(t, derivative=2)[:, 0], -np.cos(t), atol=3e-7)

    @pytest.mark.parametrize("rtol", [1e-2, 1e-5, 1e-8, 1e-10])
    def test_the_tolerance_is_met_by_error_bars_and_errors(self, rtol):
        y0 = np.array([[1.0], [20.0]])
        curve = solve_ivp(oscillator, (0.0, 20.0), y0, [0.0], solver=solvers.Markov(rtol=rtol))
        t = np.linspace(0.0, 20.0, 300)
        error = np.abs(curve.mean(t) - y0[:, :, None] * np.cos(t)[None, :, None])
        assert curve.converged.all()
        assert np.all(2.0 * curve.std(t).max(axis=(1, 2)) <= 1.01 * rtol * y0[:, 0])
        assert np.all(error.max(axis=(1, 2)) <= rtol * y0[:, 0])

    def test_absolute_tolerance(self):
        solver = solvers.Markov(rtol=0.0, atol=1e-3)
        curve = solve_ivp(oscillator, (0.0, 20.0), [1e-2], [0.0], solver=solver)
        finer = solve_ivp(oscillator, (0.0, 20.0), [1e2], [0.0], solver=solver)
        assert len(curve.nodes) < len(finer.nodes)
        assert np.abs(finer.mean(20.0)[0] - 1e2 * np.cos(20.0)) < 1e-3

    def test_nothing_at_first_and_much_later(self):
        # no step is so long that a bump lies between its evaluations
        def f(t, y):
            return np.exp(-(((t - 0.9) / 0.01) ** 2))[:, None] + 0.0 * y

        curve = solve_ivp(NumpyFunction(f), (0.0, 1.0), [1.0])
        assert curve.converged
        np.testing.assert_allclose(curve.mean(1.0), 1.0 + 0.01 * np.pi**0.5, atol=1e-5)

    @pytest.mark.parametrize("length", [1e-6, 1.0, 1e6])
    def test_units_of_time_do_not_matter(self, length):
        curve = solve_ivp(lambda t, y, dy: -y / length**2, (0.0, 6.0 * length), [1.0], [0.0])
        t = np.linspace(0.0, 6.0, 31)
        np.testing.assert_allclose(curve.mean(t * length), exact_oscillator(t), atol=1e-5)
        assert curve.converged
        # one more step of a first guess in other units may be taken
        assert len(curve.nodes) <= 10


def perturbed(y0, dy0, count, size=0.02):
    rng = np.random.default_rng(0)
    start = np.stack([y0] if dy0 is None else [y0, dy0])
    return start * (1.0 + size * rng.standard_normal((count, *start.shape)))


def reference(f, span, start):
    """SciPy's solution at 1e-13, t (T,) -> (T, D)."""
    order, D = start.shape

    def slopes(t, state):
        rows = state.reshape(order, 1, D)
        return np.concatenate([state[D:], f(np.array([t]), *rows)[0]])

    found = integrate.solve_ivp(slopes, span, start.ravel(), "DOP853", rtol=1e-13, atol=1e-14, dense_output=True)
    return lambda t: found.sol(t)[:D].T


def duffing(t, y, dy):
    return y - y**3 - 0.1 * dy + 0.3 * np.cos(t)[:, None]


def lotka(t, y):
    prey, predators = y.T
    return np.stack([prey * (1.5 - predators), predators * (prey - 3.0)], axis=1)


def kepler(t, y, dy):
    return -y / np.sum(y**2, axis=1, keepdims=True) ** 1.5


def lorenz(t, y):
    a, b, c = y.T
    return np.stack([10.0 * (b - a), a * (28.0 - c) - b, a * b - 8.0 / 3.0 * c], axis=1)


KINDS = {
    "oscillator": (oscillator, (0.0, 20.0), [1.0], [0.0]),
    "damped": (lambda t, y, dy: -0.6 * dy - 9.0 * y, (0.0, 10.0), [1.0], [0.0]),
    "growth": (lambda t, y: y, (0.0, 10.0), [1.0], None),
    "logistic": (lambda t, y: y * (1.0 - y), (0.0, 10.0), [0.1], None),
    "forced": (lambda t, y: -2.0 * (y - np.cos(3.0 * t)[:, None]), (0.0, 15.0), [0.5], None),
    "lotka-volterra": (lotka, (0.0, 15.0), [1.0, 1.0], None),
    "duffing": (duffing, (0.0, 10.0), [1.0], [0.1]),
    "van der pol": (lambda t, y, dy: (1 - y**2) * dy - y, (0.0, 20.0), [2.0], [0.1]),
    "kepler": (kepler, (0.0, 20.0), [0.4, 0.1], [0.1, 2.0]),
    "lorenz": (lorenz, (0.0, 5.0), [1.0, 1.0, 1.0], None),
}
TOLERANCES = (1e-2, 1e-4, 1e-6, 1e-8)


@pytest.fixture(scope="module")
def calibration():
    """Coverage and normalised squared errors (kind, tolerance, member)."""
    coverage = np.zeros((len(KINDS), len(TOLERANCES), 4))
    square = coverage.copy()
    for k, (f, span, y0, dy0) in enumerate(KINDS.values()):
        starts = perturbed(y0, dy0, coverage.shape[2])
        t = np.random.default_rng(1).uniform(*span, 200)
        exact = np.stack([reference(f, span, start)(t) for start in starts])
        size = np.abs(exact).max(axis=(1, 2), keepdims=True)
        for j, rtol in enumerate(TOLERANCES):
            solver = solvers.Markov(rtol=rtol)
            curve = solve_ivp(NumpyFunction(f), span, *starts.swapaxes(0, 1), solver=solver)
            assert curve.converged.all()
            z = (curve.mean(t) - exact) / np.hypot(curve.std(t), 1e-12 * size)
            coverage[k, j] = np.mean(np.abs(z) < 2.0, axis=(1, 2))
            square[k, j] = np.median(z**2, axis=(1, 2))
    return coverage, square


class TestCalibration:
    """From both sides: neither too narrow nor too wide."""

    def test_at_every_tolerance(self, calibration):
        coverage, square = calibration
        pooled = coverage.mean(axis=(0, 2))
        assert np.all((pooled >= 0.90) & (pooled <= 0.99)), pooled
        middle = np.median(square, axis=(0, 2))
        assert np.all((middle >= 0.2) & (middle <= 4.0)), middle

    def test_of_every_kind(self, calibration):
        coverage, square = calibration
        pooled = dict(zip(KINDS, coverage.mean(axis=(1, 2)), strict=True))
        # where errors only grow all are alike, and coverage is one
        assert all(share >= 0.90 for share in pooled.values()), pooled
        middle = dict(zip(KINDS, np.median(square, axis=(1, 2)), strict=True))
        assert all(0.2 <= value <= 4.0 for value in middle.values()), middle


class TestReferences:
    """Hairer's problems, at default settings."""

    @pytest.mark.parametrize("problem", [lotka_volterra(), arenstorf(), pleiades()], ids=lambda p: p.name)
    def test_explicit(self, problem):
        curve = solve_ivp(problem.f, problem.t_span, problem.y0, problem.dy0)
        t = np.random.default_rng(0).uniform(*problem.t_span, 200)
        error = np.abs(curve.mean(t) - problem.solution(t))
        assert curve.converged
        assert error.max() < 1e-5 * np.abs(problem.solution(t)).max()
        assert np.mean(error < 2 * curve.std(t)) >= 0.88

    def test_van_der_pols_slow_branch(self):
        problem = stiff_van_der_pol()
        solver = solvers.Markov(stiff=True)
        curve = solve_ivp(problem.f, problem.t_span, problem.y0, problem.dy0, solver=solver)
        t = np.linspace(*problem.t_span, 50)
        assert curve.converged
        np.testing.assert_allclose(curve.mean(t), problem.solution(t), atol=2e-5)


def relaxation(t, y, dy):
    return 1000.0 * (1.0 - y**2) * dy - y


def robertson(t, y):
    a, b, c = y.T
    slow, fast, faster = 0.04 * a, 1e4 * b * c, 3e7 * b**2
    return np.stack([fast - slow, slow - fast - faster, faster], axis=1)


class TestStiff:
    def test_relaxation_oscillation(self):
        # two periods; the second jump down is a jump up, one period after the first
        solver = solvers.Markov(stiff=True)
        curve = solve_ivp(NumpyFunction(relaxation), (0.0, 3400.0), [2.0], [0.0], solver=solver)
        state = integrate.solve_ivp(
            lambda t, s: [s[1], 1000.0 * (1 - s[0] ** 2) * s[1] - s[0]],
            (0.0, 3400.0),
            [2.0, 0.0],
            "Radau",
            rtol=1e-10,
            atol=1e-12,
            t_eval=[500.0, 1200.0, 2000.0, 3000.0],
        )
        assert curve.converged
        np.testing.assert_allclose(curve.mean(state.t)[:, 0], state.y[0], atol=2e-5)

    def test_what_is_too_coarse_is_still_there(self):
        """As a system its velocities, up to 1300 in the jumps, ask for more nodes than allowed."""

        def system(t, y):
            return np.stack([y[:, 1], 1000.0 * (1 - y[:, 0] ** 2) * y[:, 1] - y[:, 0]], axis=1)

        solver = solvers.Markov(stiff=True)
        with pytest.warns(ConvergenceWarning, match="finest mesh"):
            curve = solve_ivp(NumpyFunction(system), (0.0, 3400.0), [2.0, 0.0], solver=solver)
        second = solve_ivp(NumpyFunction(relaxation), (0.0, 3400.0), [2.0], [0.0], solver=solver)
        t = np.array([500.0, 1200.0, 2000.0, 3000.0])
        off = np.abs(curve.mean(t)[:, 0] - second.mean(t)[:, 0])
        assert np.all(off < 3.0 * curve.std(t)[:, 0] + 1e-5)

    def test_robertson(self):
        solver = solvers.Markov(stiff=True)
        curve = solve_ivp(NumpyFunction(robertson), (0.0, 1e5), [1.0, 0.0, 0.0], solver=solver)
        t = np.array([0.4, 40.0, 4e3, 4e4])
        # Hairer & Wanner II; the sum of all is kept
        expected = [0.98517, 0.71583, 0.18320, 0.03898]
        assert curve.converged
        np.testing.assert_allclose(curve.mean(t)[:, 0], expected, atol=2e-5)
        np.testing.assert_allclose(curve.mean(t).sum(axis=1), 1.0, atol=1e-5)

    def test_layer_at_the_start(self):
        def f(t, y):
            return -1e4 * (y - np.cos(t)[:, None]) - np.sin(t)[:, None]

        curve = solve_ivp(NumpyFunction(f), (0.0, 5.0), [1.5], solver=solvers.Markov(stiff=True))
        t = np.concatenate([np.linspace(0.0, 1e-3, 50), np.linspace(0.0, 5.0, 50)])
        exact = np.cos(t) + 0.5 * np.exp(-1e4 * t)
        assert curve.converged
        np.testing.assert_allclose(curve.mean(t)[:, 0], exact, atol=2e-5)

    def test_message_names_the_option(self):
        solver = solvers.Markov(max_points=300)
        with np.errstate(over="ignore"), pytest.warns(UserWarning, match="converge"):
            curve = solve_ivp(NumpyFunction(relaxation), (0.0, 100.0), [2.0], [0.0], solver=solver)
        assert curve.status == STIFF
        assert "stiff=True" in curve.message

    def test_implicit_steps_solve_what_explicit_ones_do(self):
        explicit, implicit = (
            solve_ivp(
                NumpyFunction(duffing),
                (0.0, 10.0),
                [[1.0], [-0.3]],
                [0.1],
                solver=solvers.Markov(stiff=stiff, rtol=1e-7),
            )
            for stiff in (False, True)
        )
        t = np.linspace(0.0, 10.0, 50)
        np.testing.assert_allclose(explicit.mean(t), implicit.mean(t), atol=4e-7)


class TestBatches:
    def test_nobody_depends_on_the_others(self):
        starts = perturbed([1.0], [0.1], 5, size=0.5)
        field = NumpyFunction(duffing)
        t = np.linspace(0.0, 10.0, 40)
        for stiff in (False, True):
            solver = solvers.Markov(stiff=stiff)
            together = solve_ivp(field, (0.0, 10.0), *starts.swapaxes(0, 1), solver=solver)
            for k in (0, 3):
                alone = solve_ivp(field, (0.0, 10.0), *starts[k], solver=solver)
                np.testing.assert_array_equal(together[k].nodes, alone.nodes)
                np.testing.assert_array_equal(together[k].mean(t), alone.mean(t))
                np.testing.assert_array_equal(together[k].std(t), alone.std(t))
                assert together.n_evaluations[k] == alone.n_evaluations

    def test_members_of_very_different_difficulty(self):
        omega = np.array([0.1, 1.0, 30.0, 300.0])

        def f(t, y, dy, w):
            return -(w[:, None] ** 2) * y

        curve = solve_ivp(NumpyFunction(f), (0.0, 6.0), np.ones((4, 1)), [0.0], args=omega)
        t = np.linspace(0.0, 6.0, 77)
        assert curve.converged.all()
        np.testing.assert_allclose(curve.mean(t)[..., 0], np.cos(omega[:, None] * t), atol=1e-5)
        sizes = [len(nodes) for nodes in curve.nodes]
        assert sizes[0] == 5
        assert sizes[3] > 500

    def test_a_solution_that_ends_takes_nobody_along(self):
        with pytest.warns(UserWarning, match="converge"):
            curve = solve_ivp(NumpyFunction(lambda t, y: y**2), (0.0, 2.0), [[0.1], [1.0], [0.3]])
        assert curve.status.tolist() == [OK, NOT_FINITE, OK]
        y0 = np.array([0.1, 0.3])
        np.testing.assert_allclose(curve.mean(1.5)[[0, 2], 0], y0 / (1 - 1.5 * y0), rtol=1e-5)
        # up to where it ends it is known
        np.testing.assert_allclose(curve.mean(0.9)[1, 0], 10.0, rtol=1e-3)
        assert np.isnan(curve.mean(1.5)[1, 0])

    def test_a_member_without_a_start(self):
        with np.errstate(invalid="ignore"), pytest.warns(UserWarning, match="converge"):
            curve = solve_ivp(NumpyFunction(lambda t, y: -np.sqrt(y)), (0.0, 1.0), [[1.0], [-1.0]])
        assert curve.status.tolist() == [OK, NOT_FINITE]
        np.testing.assert_allclose(curve.mean(1.0)[0, 0], 0.25, atol=1e-5)

    def test_every_member_has_its_own_parameters(self):
        rates = np.array([0.5, 1.0, 2.0])
        f = NumpyFunction(lambda t, y, k: -k[:, None] * y)
        curve = solve_ivp(f, (0.0, 1.0), np.ones((3, 1)), args=rates)
        np.testing.assert_allclose(curve.mean(1.0)[:, 0], np.exp(-rates), rtol=1e-5)
        with pytest.raises(ValueError, match=r"args must have the batch axes \(3,\)"):
            solve_ivp(f, (0.0, 1.0), np.ones((3, 1)), args=np.ones(2))

    def test_nothing_to_do(self):
        curve = solve_ivp(NumpyFunction(lambda t, y: 0.0 * y), (0.0, 5.0), [0.0, 0.0])
        assert curve.converged
        assert np.all(curve.mean([1.0, 5.0]) == 0.0)


def test_derivatives_by_parameters_are_columns_behind_those_of_the_data():
    f = NumpyFunction(lambda t, y, k: -k[:, None] * y)
    rates = np.array([0.5, 2.0])
    problem = initial_value_problem(f, (0.0, 1.0), {"y0": np.ones((2, 1))}, rates)
    problem = replace(problem, with_args=True, spread=np.ones((2, 1, 1, 1)))
    t = np.array([0.3, 1.0])
    for stiff in (False, True):
        columns = solvers.Markov(stiff=stiff).solve(problem).posterior.boundary_columns(t, 0)
        by_y0 = np.exp(-rates[:, None] * t)
        assert columns.shape == (2, 2, 1, 2)
        np.testing.assert_allclose(columns[:, :, 0, 0], by_y0, rtol=1e-6)
        np.testing.assert_allclose(columns[:, :, 0, 1], -t * by_y0, rtol=1e-6)


class TestCoefficients:
    def test_interpolant_has_the_ends_and_slopes_of_the_step(self):
        rng = np.random.default_rng(0)
        slopes = rng.standard_normal(17)
        pieces = tableau().interpolant @ slopes
        k = np.arange(8)
        assert pieces[0] == 0.0
        np.testing.assert_allclose(pieces.sum(), slopes[0], atol=1e-12)
        np.testing.assert_allclose(pieces[1], slopes[1], atol=1e-12)
        np.testing.assert_allclose(k @ pieces, slopes[13], atol=1e-10)

    @pytest.mark.parametrize("points", [2, 5, 8])
    def test_radau_is_exact_for_polynomials(self, points):
        rule = radau(points)
        k = np.arange(points)
        powers = rule.points[:, None] ** k
        np.testing.assert_allclose(rule.integrals @ powers, rule.points[:, None] ** (k + 1) / (k + 1), atol=1e-12)
        high = rule.integrals[-1] @ rule.points ** (2 * points - 2)
        np.testing.assert_allclose(high, 1.0 / (2 * points - 1), rtol=1e-11)

    def test_the_embedded_formula_is_of_the_order_of_its_stages(self):
        # y' = (5 t^4 ... 1): the difference vanishes for polynomials of degree up to S
        m = implicit_tableau()
        for degree in range(1, len(m.points) + 1):
            f0 = 1.0 if degree == 1 else 0.0
            Z = m.points**degree / degree
            assert abs(m.gamma * f0 + m.error @ Z) < 1e-12


@pytest.mark.parametrize("with_args", [False, True])
@pytest.mark.parametrize("order", [1, 2])
def test_stages_of_a_jax_function_in_one_call(order, with_args):
    def f(t, y, *rest):
        scale = rest[-1] if with_args else 2.0
        return jnp.cos(t) * y - scale * rest[0] if order == 2 else jnp.sin(y * t) * scale

    rng = np.random.default_rng(0)
    n, D, S = 5, 3, 4
    args = rng.uniform(size=(n, D)) if with_args else None
    field = as_field(f, order, D, args=args, batch_shape=(n,))
    t, h = rng.uniform(size=(2, n))
    state, member = rng.standard_normal((n, order, D)), np.array([3, 1, 0, 4, 2])
    nodes, weights = rng.uniform(size=S), np.tril(rng.uniform(size=(S, S)))
    first = field.values(t, state, member)
    found = field.stages(t, state, member, h, first, nodes, weights)
    flat = state.reshape(n, -1)
    k = [np.concatenate([flat[:, D:], first], axis=1)]
    for s in range(S):
        point = flat + h[:, None] * sum(weights[s, j] * k[j] for j in range(s + 1))
        values = field.values(t + nodes[s] * h, point.reshape(n, order, D), member)
        k.append(np.concatenate([point[:, D:], values], axis=1))
    np.testing.assert_allclose(found, np.stack(k, axis=1), rtol=1e-12)


class TestPolynomials:
    def test_integrated(self):
        rng = np.random.default_rng(0)
        velocity, h = rng.standard_normal((4, 5, 2)), rng.uniform(0.5, 2.0, 4)
        y, rise = rng.standard_normal((2, 4, 4))  # of states (y, y'), of which y' is known already
        pieces = integrated(velocity, h, y, rise)
        ends = polynomials_at(pieces, h, np.array([0.0, 1.0]), 0)
        expected = np.stack([y, y + rise], axis=1)[..., :2]
        np.testing.assert_allclose(ends, expected, atol=1e-12)
        slopes = polynomials_at(pieces, h, np.array([0.0, 1.0]), 1)
        expected = np.stack([velocity[:, 0], velocity.sum(axis=1)], axis=1)
        np.testing.assert_allclose(slopes, expected, atol=1e-12)

    def test_polynomials_go_through_their_points(self):
        rng = np.random.default_rng(0)
        elements = np.array([0, 2, 5])
        start, columns = rng.standard_normal((2, 2, 3)), rng.standard_normal((5, 4, 2, 3))
        pieces = polynomials(elements, start, columns).reshape(5, 5, -1)
        s = np.concatenate([[0.0], radau(4).points])
        values = polynomials_at(pieces, np.ones(5), s, 0).reshape(5, 5, 2, 3)
        np.testing.assert_allclose(values[:, 1:], columns, atol=1e-11)
        before = np.stack([start[0], columns[0, -1], start[1], columns[2, -1], columns[3, -1]])
        np.testing.assert_allclose(values[:, 0], before, atol=1e-11)

    def test_bumps_leave_values_at_nodes_and_slopes_before_them(self):
        rng = np.random.default_rng(0)
        pieces, error = rng.standard_normal((5, 6, 2)), rng.standard_normal((5, 9, 2))
        elements, ends = np.array([0, 2, 5]), np.array([0.0, 1.0])
        h = rng.uniform(0.5, 2.0, 5)
        # errors of a member are continuous
        error[[0, 2], 0] = 0.0
        for e in (1, 3, 4):
            error[e, 0] = error[e - 1].sum(axis=0)
        better, left = without_bumps(pieces, error, elements, h)
        np.testing.assert_allclose(polynomials_at(better, h, ends, 0), polynomials_at(pieces, h, ends, 0), atol=1e-12)
        slopes, before, wrong = (polynomials_at(x, h, ends, 1) for x in (better, pieces, error))
        np.testing.assert_allclose(slopes[:, 1], before[:, 1], atol=1e-11)
        # what is left of the error starts with the slope that it ended with
        remaining = wrong - (before - slopes)
        np.testing.assert_allclose(remaining[[1, 3, 4], 0], remaining[[0, 2, 3], 1], atol=1e-11)
        np.testing.assert_allclose(remaining[[0, 2], 0], 0.0, atol=1e-11)
        assert np.all(left > 0)

    def test_signs_of_a_step_are_the_same_in_any_batch(self):
        many = random_signs(np.array([0, 3, 10, 12]))
        np.testing.assert_array_equal(many[3:10], random_signs(np.array([0, 7])))
        assert set(np.unique(many)) == {-1.0, 1.0}


@pytest.mark.loops
class TestLoops:
    """Each compiled loop against the same formula in NumPy."""

    @pytest.mark.parametrize("seed", range(4))
    def test_next_stage(self, seed):
        rng = np.random.default_rng(seed)
        A, D, order = rng.integers(1, 6), rng.integers(1, 5), rng.integers(1, 3)
        n, S, stage = order * D, 7, rng.integers(0, 6)
        k, start, point = (rng.standard_normal(x) for x in ((A, S, n), (A, n), (A, n)))
        rates, h, weights = rng.standard_normal((A, D)), rng.uniform(size=A), rng.uniform(size=S)
        expected = k.copy()
        expected[:, stage] = np.concatenate([point[:, D:], rates], axis=1)
        moved = start + h[:, None] * np.einsum("j,ajn->an", weights[: stage + 1], expected[:, : stage + 1])
        loops.next_stage(k, stage, rates, point, start, h, weights)
        np.testing.assert_array_equal(k, expected)
        np.testing.assert_allclose(point, moved, rtol=1e-13)

    @pytest.mark.parametrize("seed", range(4))
    def test_judge_steps(self, seed):
        rng = np.random.default_rng(seed)
        A, D, order = rng.integers(1, 6), rng.integers(1, 5), rng.integers(1, 3)
        n, S = order * D, 13
        k = rng.standard_normal((A, S, n))
        start, weights = rng.standard_normal((A, n)), rng.standard_normal((2, S - 1))
        h, rtol, atol = rng.uniform(0.1, 1.0, (3, A))
        size, e5, e3 = rng.uniform(size=(A, order)), rng.standard_normal(S), rng.standard_normal(S)
        found, error, stiffness = np.empty((A, n)), np.empty(A), np.empty(A)
        loops.judge_steps(k, weights, start, h, size, rtol, atol, e5, e3, found, error, stiffness)
        moved = np.einsum("wj,ajn->wan", weights, k[:, :-1])
        last, point = start + h[:, None] * moved
        np.testing.assert_allclose(found, point, rtol=1e-12)
        largest = np.maximum(size, np.abs(point).reshape(A, order, D).max(axis=2))
        unit = np.repeat((rtol + atol / largest[:, 0])[:, None] * largest, D, axis=1)
        five = np.sum((np.einsum("j,ajn->an", e5, k) / unit) ** 2, axis=1)
        three = np.sum((np.einsum("j,ajn->an", e3, k) / unit) ** 2, axis=1)
        np.testing.assert_allclose(error, h * five / np.sqrt((five + 0.01 * three) * n), rtol=1e-12)
        norms = [np.linalg.norm(x, axis=1) for x in (k[:, -1] - k[:, -2], point - last)]
        np.testing.assert_allclose(stiffness, h * norms[0] / norms[1], rtol=1e-12)

    @pytest.mark.parametrize("equal", [0, 4])
    def test_take_steps(self, equal):
        rng = np.random.default_rng(0)
        A, B, order, D, t0, t1 = 40, 60, 2, 2, 1.0, 3.0
        active = rng.permutation(B)[:A]
        t, h = rng.uniform(t0, t1, A), rng.uniform(0.0, 2.0, A) * rng.choice([1.0, 1e-15], A)
        y, point = rng.standard_normal((2, A, order * D))
        slopes, rates = rng.standard_normal((2, A, D))
        error = 10.0 ** rng.uniform(-5, 2, A)
        error[:3], point[3, 1], rates[4, 1] = np.nan, np.inf, np.nan
        size, retried = np.abs(y).reshape(A, order, D).max(axis=2), rng.choice([False, True], A)
        taken, following = rng.integers(0, 4, B), np.empty(A)
        accepted, ended = np.empty(A, dtype=bool), np.empty(A, dtype=np.int64)
        limits = np.array([t0, t1, 0.2, 1.5, equal, 3])

        finite = np.isfinite(error + point.sum(axis=1) + rates.sum(axis=1))
        good = finite & (error <= 1.0)
        short = (taken[active] == 0) & (error < 1e-3) & (h < 1.5)
        step = finite if equal else good & (retried | ~short)
        factor = np.where(finite, np.clip(0.9 * error**-0.2, 0.25, 4.0), 0.25)
        next_h = h * np.where(retried, np.minimum(factor, 1.0), factor)
        count = taken[active] + step
        there = step & (count == equal if equal else h >= t1 - t)
        new_t = np.where(there, t1, np.where(step, t + h, t))
        lost = ~step & ((equal > 0) | (h <= 1e-14 * np.maximum(t, t1 - t0)))
        how = np.where(lost, 2, np.where(there, 1, np.where(step & (count >= 3), 3, 0)))
        new_y, new_slopes = (np.where(step[:, None], point, y), np.where(step[:, None], rates, slopes))
        new_size = np.maximum(size, np.abs(new_y).reshape(A, order, D).max(axis=2))

        loops.take_steps(
            active, h, point, rates, error, limits,
            t, y, slopes, size, following, retried, taken, accepted, ended,
        )  # fmt: skip
        np.testing.assert_array_equal(accepted, step)
        np.testing.assert_array_equal(ended, how)
        np.testing.assert_allclose(following, next_h, rtol=1e-13)
        np.testing.assert_array_equal(retried, ~good)
        np.testing.assert_array_equal(taken[active], count)
        for now, then in ((t, new_t), (y, new_y), (slopes, new_slopes), (size, new_size)):
            np.testing.assert_array_equal(now, then)

    def test_eliminate(self):
        rng = np.random.default_rng(0)
        for N, K in ((1, 1), (5, 3), (12, 2)):
            matrix, right = rng.standard_normal((N, N)), rng.standard_normal((N, K))
            matrix[0, 0] = 0.0 if N > 1 else 2.0
            expected = np.linalg.solve(matrix, right)
            loops.eliminate(matrix, right)
            np.testing.assert_allclose(right, expected, rtol=1e-9)

    @pytest.mark.parametrize("iterations", [0, 100])
    @pytest.mark.parametrize("seed", range(6))
    def test_error_equation(self, seed, iterations):
        rng = np.random.default_rng(seed)
        D, order, S = rng.choice([1, 3, 14]), rng.integers(1, 3), rng.integers(3, 9)
        forced, data, P = rng.integers(1, 4), rng.integers(0, 3), rng.integers(0, 3)
        offsets = np.array([0, 2, 2, 5])
        E, n, C = 5, order * D, forced + data + P
        rule = radau(int(S)).integrals
        h, J = rng.uniform(0.1, 0.5, E), rng.standard_normal((E, S, order, D, D)) / D**0.5
        d, signs = rng.standard_normal((E, S, D)), rng.choice([-1.0, 1.0], (E, forced))
        forcing, start = rng.standard_normal((E, S, D, P)), rng.standard_normal((3, n, C))
        solution = np.empty((E, S, n, C))
        loops.error_equation(offsets, h, J, d, signs, forcing, start, rule, iterations, 1e-13, solution)
        for b in range(3):
            x0 = start[b]
            for e in range(offsets[b], offsets[b + 1]):
                F = np.zeros((S, n, C))
                F[:, n - D :, :forced] = d[e][:, :, None] * signs[e]
                F[:, n - D :, C - P :] = forcing[e]
                slopes = np.zeros((S, n, S, n))
                for s in range(S):
                    slopes[s, : n - D, s, D:] = np.eye(n - D)
                    slopes[s, n - D :, s] = np.concatenate(J[e, s], axis=1)
                A = h[e] * np.kron(rule, np.eye(n))
                matrix = np.eye(S * n) - A @ slopes.reshape(S * n, S * n)
                right = np.tile(x0, (S, 1)) + A @ F.reshape(S * n, C)
                expected = np.linalg.solve(matrix, right).reshape(S, n, C)
                np.testing.assert_allclose(solution[e], expected, rtol=1e-9, atol=1e-10)
                x0 = expected[-1]

    @pytest.mark.parametrize("D", [1, 20])
    def test_error_equation_without_numbers(self, D):
        J = np.full((1, 3, 1, D, D), np.nan)
        solution = np.empty((1, 3, D, 1))
        loops.error_equation(
            np.array([0, 1]), np.ones(1), J, np.ones((1, 3, D)), np.ones((1, 1)),
            np.zeros((1, 3, D, 0)), np.zeros((1, D, 1)), radau(3).integrals, 5, 1e-3, solution,
        )  # fmt: skip
        assert np.isnan(solution).all()

    @pytest.mark.parametrize("seed", range(4))
    def test_error_scales(self, seed):
        rng = np.random.default_rng(seed)
        offsets = np.array([0, 7, 7, 40])
        ratio = rng.standard_normal((40, rng.integers(1, 4))) ** rng.choice([2, 4])
        ratio[rng.uniform(size=ratio.shape) < 0.2] = 0.0
        found = loops.error_scales(offsets, ratio)
        for b in (0, 2):
            own = ratio[offsets[b] : offsets[b + 1]]
            own = own[own > 0]
            wanted = np.quantile(own, 0.954) / 4.0
            expected = np.maximum(wanted, 0.8 * own.mean())
            expected *= 1.0 + 4.0 / own.size
            np.testing.assert_allclose(found[b], expected, rtol=1e-12)
        assert found[1] == 0.0

    @pytest.mark.parametrize("seed", range(4))
    def test_newton(self, seed):
        rng = np.random.default_rng(seed)
        A, D, order, S = 4, rng.integers(1, 4), rng.integers(1, 3), 3
        n, rule = order * D, radau(3).integrals
        J, h = rng.standard_normal((A, order, D, D)), rng.uniform(0.1, 1.0, A)
        inverses, filters = np.empty((A, S * n, S * n)), np.empty((A, n, n))
        loops.newton_inverses(J, h, rule, 0.3, inverses, filters)
        slopes, Z = rng.standard_normal((2, S, n)), rng.standard_normal((A, S, n))
        unit, norm, pending = rng.uniform(0.5, 1.0, (A, n)), np.zeros(A), np.array([1, 3])
        before = Z.copy()
        loops.newton_update(pending, slopes, h, unit, rule, inverses, Z, norm)
        for a in range(A):
            state = np.zeros((n, n))
            state[: n - D, D:] = np.eye(n - D)
            state[n - D :] = np.concatenate(J[a], axis=1)
            matrix = np.eye(S * n) - h[a] * np.kron(rule, state)
            np.testing.assert_allclose(inverses[a] @ matrix, np.eye(S * n), atol=1e-10)
            small = np.eye(n) - 0.3 * h[a] * state
            np.testing.assert_allclose(filters[a] @ small, np.eye(n), atol=1e-10)
        np.testing.assert_array_equal(Z[[0, 2]], before[[0, 2]])
        for p, a in enumerate(pending):
            right = h[a] * (rule @ slopes[p]) - before[a]
            change = (inverses[a] @ right.ravel()).reshape(S, n)
            np.testing.assert_allclose(Z[a], before[a] + change, rtol=1e-10, atol=1e-12)
            np.testing.assert_allclose(norm[a], np.sqrt(np.mean((change / unit[a]) ** 2)))
