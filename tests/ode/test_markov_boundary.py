"""Boundary value problems with the Markov solver, against closed forms and other solvers."""

from dataclasses import replace

import numpy as np
import pytest
import scipy.integrate
from problems import bratu, cash, coupled, hyperbolic_geodesic, pendulum
from scipy.linalg import expm

from probgeo import ConvergenceWarning, Gaussian, solve_bvp, solvers
from probgeo.functions import Field, NumpyFunction
from probgeo.ode.curve import OK, SINGULAR, STALLED, TOO_COARSE
from probgeo.ode.markov.boundary import log_evidence
from probgeo.ode.problem import boundary_value_problem
from probgeo.ragged import members_at_a_time
from tests.ode.closed_forms import NumpyField, Together, calibration
from tests.ode.test_collocation import random_chains, random_sizes

TIMES = np.array([0.13, 0.5, 0.77])

# layers at one end, at both, and inside; turning points; oscillations; Airy's equation
CASH = (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 18, 20, 21)


def many_problems():
    """Cash and Mazzia's problems at three epsilon, Bratu's and pendulums."""
    problems = [cash(n, e) for n in CASH for e in (1.0, 0.1, 0.01)]
    problems += [cash(17, 1.0), cash(17, 0.1)]  # singular at 0.01
    return [*problems, bratu(1.0), bratu(3.0), bratu(3.5), pendulum(0.5), pendulum(0.9)]


def solved_together(problems, **options):
    ya, yb = (np.array([getattr(p, end) for p in problems]) for end in ("ya", "yb"))
    return solve_bvp(Together(problems), (0.0, 1.0), ya, yb, solver=solvers.Markov(**options))


def solved(problem, **options):
    solver = solvers.Markov(**options)
    return solve_bvp(NumpyField(problem), problem.t_span, problem.ya, problem.yb, solver=solver)


# --- accuracy and error bars ---------------------------------------------------------------------


@pytest.mark.parametrize("rtol", [1e-2, 1e-3, 1e-4, 1e-5, 1e-6, 1e-8])
def test_within_the_tolerance_and_calibrated(rtol):
    """On meshes that the solver chose itself, members of all difficulties in one batch."""
    problems = many_problems()
    curve = solved_together(problems, rtol=rtol)
    errors, coverage, anees = calibration(curve, problems)
    assert np.all(curve.converged)
    # the tolerance is for two standard deviations; none is beyond four
    assert np.all(errors < 2 * rtol)
    assert 0.90 <= coverage.mean() <= 0.99
    assert 0.5 <= np.median(anees) <= 2.0
    assert np.mean((anees > 0.2) & (anees < 4.0)) > 0.9


def test_standard_deviations_keep_the_tolerance():
    problems = many_problems()
    curve = solved_together(problems, rtol=1e-4)
    t = np.linspace(0.0, 1.0, 2001)
    sizes = np.abs(curve.mean(t)).max(axis=(1, 2))
    assert np.all(2 * curve.std(t).max(axis=(1, 2)) <= 1e-4 * sizes * (1 + 1e-6))


@pytest.mark.parametrize("order", range(3, 8))
def test_every_order(order):
    problems = [cash(1, 0.1), cash(4, 0.1), bratu(), pendulum()]
    curve = solved_together(problems, order=order, rtol=1e-6)
    errors, coverage, _ = calibration(curve, problems)
    assert np.all(curve.converged)
    assert np.all(errors < 2e-6)
    assert coverage.mean() > 0.85


def test_absolute_tolerances():
    curve = solved(bratu(), rtol=0.0, atol=1e-3)
    finer = solved(bratu(), rtol=0.0, atol=1e-10)
    assert len(finer.nodes) > len(curve.nodes)
    assert np.abs(finer.mean(TIMES) - bratu().solution(TIMES)).max() < 2e-10


def test_errors_fall_like_the_seventh_power_of_the_step():
    """Six at least: pieces of degree five have an error of h^6 along the curve."""
    p = hyperbolic_geodesic()
    t = np.linspace(*p.t_span, 301)
    errors = [np.abs(solved(p, n_points=n).mean(t) - p.solution(t)).max() for n in (9, 17, 33)]
    assert np.log2(errors[0] / errors[1]) > 5.5
    assert np.log2(errors[1] / errors[2]) > 5.5


def test_layers_get_the_nodes():
    """y = exp(-t / epsilon): the first tenth of the interval holds four times its share or more."""
    curve = solved(cash(18, 0.01))
    assert np.mean(curve.nodes < 0.1) > 0.4


@pytest.mark.parametrize("number", [1, 3, 6, 7, 11, 12, 14, 15, 21])
def test_thin_layers(number):
    p = cash(number, 1e-4)
    curve = solved(p)
    t = np.unique(np.concatenate([np.linspace(*p.t_span, 501), curve.nodes]))
    assert curve.converged
    assert np.abs(curve.mean(t) - p.solution(t)).max() < 2e-5 * np.abs(p.solution(t)).max()


@pytest.mark.parametrize("make", [hyperbolic_geodesic, coupled])
def test_several_dimensions(make):
    p = make()
    curve = solved(p)
    t = np.random.default_rng(0).uniform(*p.t_span, 300)
    z = (curve.mean(t) - p.solution(t)) / curve.std(t)
    assert curve.converged
    assert np.abs(curve.mean(t) - p.solution(t)).max() < 2e-5 * np.abs(p.solution(t)).max()
    assert np.mean(np.abs(z) < 2) >= 0.88
    assert np.all(np.mean(z**2, axis=0) < 4)  # of every dimension, though one is a parabola
    assert np.mean(z**2) > 0.2


@pytest.mark.parametrize("D", [1, 2, 3, 5, 7, 8, 9, 20, 100])
def test_from_one_to_a_hundred_dimensions(D):
    """A linear system, against its matrix exponential."""
    rng = np.random.default_rng(D)
    A, R = rng.normal(size=(2, D, D)) / np.sqrt(D)
    S = A @ A.T
    ya, yb = rng.normal(size=(2, D))

    def jacobian(t, y, dy):
        return np.broadcast_to(np.stack([S, R]), (len(t), 2, D, D))

    f = NumpyFunction(lambda t, y, dy: y @ S.T + dy @ R.T, jacobian)
    curve = solve_bvp(f, (0.0, 1.0), ya, yb)
    M = np.block([[np.zeros((D, D)), np.eye(D)], [S, R]])
    across = expm(M)
    slope = np.linalg.solve(across[:D, D:], yb - across[:D, :D] @ ya)
    exact = np.array([expm(t * M)[:D] @ np.concatenate([ya, slope]) for t in TIMES])
    assert curve.converged
    error = np.abs(curve.mean(TIMES) - exact)
    assert error.max() < 1e-5 * np.abs(exact).max()
    assert np.mean(error < 2 * curve.std(TIMES)) > 0.8


def test_against_scipy_where_there_is_no_closed_form():
    def f(t, y, dy):
        return 2.0 * (1 - y**2) * dy - y + np.sin(3 * t)[:, None]

    def first_order(t, state):
        y, dy = state
        return np.stack([dy, 2.0 * (1 - y**2) * dy - y + np.sin(3 * t)])

    curve = solve_bvp(NumpyFunction(f), (0.0, 2.0), [0.5], [-1.0], solver=solvers.Markov(rtol=1e-7))
    t = np.linspace(0.0, 2.0, 50)
    start = np.stack([0.5 - 0.75 * t, np.full_like(t, -0.75)])
    ends = lambda a, b: np.array([a[0] - 0.5, b[0] + 1.0])  # noqa: E731
    reference = scipy.integrate.solve_bvp(first_order, ends, t, start, tol=1e-10, max_nodes=10**5)
    assert reference.success
    np.testing.assert_allclose(curve.mean(t)[:, 0], reference.sol(t)[0], atol=3e-7)
    np.testing.assert_allclose(curve.mean(t, 1)[:, 0], reference.sol(t)[1], atol=3e-5)


def test_many_waves():
    """250 periods: the first meshes show nothing of them."""
    p = cash(16, 0.001)
    curve = solved(p)
    t = np.random.default_rng(0).uniform(*p.t_span, 500)
    assert curve.converged
    assert np.abs(curve.mean(t) - p.solution(t)).max() < 2e-5


def test_a_switch_between_the_points_that_are_looked_at():
    """f jumps from 5 to -5 within a fiftieth of the interval; the kink moves the whole curve."""

    def f(t, y, dy):
        return -5 * np.tanh(50 * (y - 0.3))

    curve = solve_bvp(NumpyFunction(f), (0.0, 1.0), [0.0], [1.0], solver=solvers.Markov(rtol=1e-4))
    fine = solve_bvp(NumpyFunction(f), (0.0, 1.0), [0.0], [1.0], solver=solvers.Markov(rtol=1e-9))
    t = np.linspace(0.0, 1.0, 101)
    assert curve.converged
    assert np.abs(curve.mean(t) - fine.mean(t)).max() < 2e-4


def test_troesch():
    """y'' = 10 sinh(10 y): a layer at the right, y'(0) = 3.583378e-4 and y'(1) = 148.406."""

    def f(t, y, dy):
        with np.errstate(over="ignore"):
            return 10 * np.sinh(10 * y)

    curve = solve_bvp(NumpyFunction(f), (0.0, 1.0), [0.0], [1.0])
    assert curve.converged
    assert curve.mean(0.0, 1)[0] == pytest.approx(3.583378e-4, rel=1e-3)
    assert curve.mean(1.0, 1)[0] == pytest.approx(148.406, rel=1e-4)


@pytest.mark.parametrize("epsilon", [0.01, 0.001])
def test_a_corner_that_newtons_method_does_not_find_at_once(epsilon):
    p = cash(20, epsilon)
    curve = solved(p)
    t = np.linspace(*p.t_span, 501)
    assert curve.converged
    assert np.abs(curve.mean(t) - p.solution(t)).max() < 2e-5 * np.abs(p.solution(t)).max()


def test_a_straight_line_has_no_error():
    """f = 0: nothing is uncertain, and nothing is divided by zero."""
    f = NumpyFunction(lambda t, y, dy: 0.0 * y)
    curve = solve_bvp(f, (0.0, 1.0), [1.0, 2.0], [3.0, 5.0])
    assert curve.converged
    np.testing.assert_allclose(curve.mean(0.25), [1.5, 2.75], atol=1e-12)
    assert np.all(curve.std(TIMES) < 1e-12)
    zero = solve_bvp(f, (0.0, 1.0), [0.0], [0.0])
    assert zero.converged
    np.testing.assert_array_equal(zero.mean(TIMES), np.zeros((3, 1)))


# --- problems that have no answer ----------------------------------------------------------------


def spring(rate):
    return NumpyFunction(lambda t, y, dy: -rate * y)


@pytest.mark.filterwarnings("ignore::probgeo.ConvergenceWarning")
class TestNoUniqueSolution:
    def test_no_solution_of_a_singular_problem(self):
        curve = solve_bvp(spring(1.0), (0.0, np.pi), [0.0], [1.0])
        assert curve.status == SINGULAR
        assert "no unique solution" in curve.message

    def test_more_than_one_solution_of_a_singular_problem(self):
        curve = solve_bvp(spring(9.0), (0.0, np.pi), [0.0], [0.0])
        assert curve.status == SINGULAR

    def test_one_direction_of_several_is_enough(self):
        f = NumpyFunction(lambda t, y, dy: y * np.array([-1.0, -4.0, 2.0]))
        curve = solve_bvp(f, (0.0, np.pi), [0.0, 1.0, 0.0], [1.0, 0.5, 2.0])
        assert curve.status == SINGULAR

    def test_singular_at_the_solution_found(self):
        """Problem 17 of Cash and Mazzia at epsilon = 0.01: the ends are conjugate points."""
        assert solved(cash(17, 0.01)).status == SINGULAR

    @pytest.mark.parametrize("rtol", [1e-2, 1e-8])
    def test_whatever_the_tolerance(self, rtol):
        solver = solvers.Markov(rtol=rtol)
        for rate, end in ((1.0, 1.0), (9.0, 0.0)):
            curve = solve_bvp(spring(rate), (0.0, np.pi), [0.0], [end], solver=solver)
            assert curve.status == SINGULAR

    def test_on_a_mesh_of_ones_own(self):
        solver = solvers.Markov(n_points=17)
        curve = solve_bvp(spring(1.0), (0.0, np.pi), [0.0], [1.0], solver=solver)
        assert not curve.converged

    def test_bratu_beyond_the_fold(self):
        curve = solve_bvp(NumpyFunction(lambda t, y, dy: -3.6 * np.exp(y)), (0, 1), [0.0], [0.0])
        assert curve.status in (STALLED, SINGULAR)

    def test_neighbours_are_unharmed(self):
        ya, yb = np.zeros((3, 1)), np.array([[1.0], [1.0], [1.0]])
        rates = np.array([0.5, 1.0, 2.0])

        class Springs(Field):
            order, dimension = 2, 1

            def values(self, t, state, member):
                return -rates[member][:, None] * state[:, 0]

            def jacobians(self, t, state, member):
                J = np.zeros((len(t), 2, 1, 1))
                J[:, 0, 0, 0] = -rates[member]
                return J

        with pytest.warns(ConvergenceWarning, match="1 of 3 solutions did not converge"):
            curve = solve_bvp(Springs(), (0.0, np.pi), ya, yb)
        assert list(curve.status) == [OK, SINGULAR, OK]
        w = np.sqrt(rates)
        for m in (0, 2):
            exact = np.sin(w[m] * TIMES) / np.sin(w[m] * np.pi)
            np.testing.assert_allclose(curve.mean(TIMES)[m, :, 0], exact, rtol=2e-5)


@pytest.mark.parametrize("gap", [1e-2, 1e-4, 1e-6])
def test_nearly_singular_problems_have_solutions(gap):
    """y = sin(t) / sin(pi - gap): huge, but there is a mesh that can tell."""
    curve = solve_bvp(spring(1.0), (0.0, np.pi - gap), [0.0], [1.0])
    assert curve.converged
    exact = np.sin(TIMES) / np.sin(gap)
    np.testing.assert_allclose(curve.mean(TIMES)[:, 0], exact, rtol=2e-5)


def test_a_mesh_that_is_not_allowed_to_grow():
    with pytest.warns(ConvergenceWarning, match="finest mesh allowed"):
        curve = solved(cash(6, 0.01), max_points=6)
    assert curve.status == TOO_COARSE
    assert len(curve.nodes) <= 6


def test_a_bad_member_is_flagged_and_the_rest_unharmed():
    def f(t, y, dy):
        with np.errstate(invalid="ignore"):
            return -np.log(y)

    ya, yb = [[0.5], [-1.0], [2.0]], [[1.0], [-2.0], [1.5]]
    with pytest.warns(ConvergenceWarning, match="1 of 3 solutions did not converge"):
        curve = solve_bvp(NumpyFunction(f), (0.0, 1.0), ya, yb)
    assert list(curve.converged) == [True, False, True]
    assert np.isfinite(curve.mean(0.5)).all()
    alone = solve_bvp(NumpyFunction(f), (0.0, 1.0), [2.0], [1.5])
    np.testing.assert_allclose(curve.mean(TIMES)[2], alone.mean(TIMES), rtol=1e-12)


def test_no_false_success_on_the_way_to_impossible_tolerances():
    """Wherever a curve is called converged, its error is within a few times the tolerance."""
    problems = [cash(n, e) for n in (2, 4, 8, 10, 18) for e in (1e-3, 1e-4)]
    ya, yb = (np.array([getattr(p, end) for p in problems]) for end in ("ya", "yb"))
    for rtol, most in ((1e-3, 40), (1e-6, 60), (1e-5, 4096)):
        problem = boundary_value_problem(Together(problems), (0.0, 1.0), ya, yb)
        curve = solvers.Markov(rtol=rtol, max_points=most).solve(problem)
        errors, _, _ = calibration(curve, problems)
        assert np.all(errors[curve.converged] < 3 * rtol)


# --- meshes and guesses --------------------------------------------------------------------------


@pytest.mark.parametrize("n_points", [2, 4, 17, 128])
def test_a_mesh_of_ones_own(n_points):
    p = hyperbolic_geodesic()
    curve = solved(p, n_points=n_points)
    assert curve.converged
    np.testing.assert_allclose(curve.nodes, np.linspace(*p.t_span, n_points), atol=1e-15)


def test_a_large_mesh_begins_with_a_coarse_solution():
    p = hyperbolic_geodesic()
    curve = solved(p, n_points=128)
    t = np.linspace(*p.t_span, 101)
    assert np.abs(curve.mean(t) - p.solution(t)).max() < 1e-11
    coarse = solved(p, n_points=5)
    # once to linearise (4 an element), once or twice to look (9): no iteration on the large mesh
    assert curve.n_evaluations - coarse.n_evaluations <= 127 * (4 + 9 + 9)


@pytest.mark.parametrize("kind", ["curve", "function", "samples"])
def test_guesses_lead_to_the_solution_they_are_near(kind):
    """Bratu's equation has two solutions; the upper one is found from a guess near it."""
    field = NumpyFunction(lambda t, y, dy: -np.exp(y))
    t = np.linspace(0.0, 1.0, 9)
    high = {"function": lambda t: 4.0 * np.sin(np.pi * t)[None], "samples": 4.0 * np.sin(np.pi * t)[:, None]}
    guess = high.get(kind)
    if kind == "curve":
        guess = solve_bvp(field, (0.0, 1.0), [0.0], [0.0], guess=high["samples"])
    curve = solve_bvp(field, (0.0, 1.0), [0.0], [0.0], guess=guess)
    # theta = sqrt(2) cosh(theta / 4) has the roots 1.5171646 and 10.9387028
    expected = 2.0 * np.log(np.cosh(10.9387028 / 4.0))
    assert curve.converged
    np.testing.assert_allclose(curve.mean(0.5), [expected], rtol=2e-5)


def test_a_guess_need_not_have_the_right_ends():
    p = pendulum()
    samples = np.linspace(0.3, 0.9, 17)[:, None]
    curve = solve_bvp(NumpyField(p), p.t_span, p.ya, p.yb, guess=samples)
    np.testing.assert_allclose(curve.mean(p.t_span), [p.ya, p.yb], atol=1e-13)


# --- batches and units ---------------------------------------------------------------------------


def test_results_do_not_depend_on_who_else_is_in_the_batch(monkeypatch):
    problems = many_problems()[::3]
    together = solved_together(problems)
    for m in (0, 5, 11, len(problems) - 1):
        alone = solved_together([problems[m]])
        np.testing.assert_allclose(alone.nodes[0], together.nodes[m], atol=1e-14)
        np.testing.assert_allclose(alone.mean(TIMES)[0], together.mean(TIMES)[m], rtol=1e-13)
        np.testing.assert_allclose(alone.std(TIMES)[0], together.std(TIMES)[m], rtol=1e-9)
        assert alone.n_evaluations[0] == together.n_evaluations[m]
    monkeypatch.setattr(members_at_a_time, "__defaults__", (1,))
    divided = solved_together(problems)
    np.testing.assert_array_equal(divided.mean(TIMES), together.mean(TIMES))


def test_threads_change_nothing(monkeypatch):
    p = hyperbolic_geodesic()
    yb = p.yb + 0.1 * np.random.default_rng(0).normal(size=(80, 2))
    answers = []
    for threads in ("1", "2"):
        monkeypatch.setenv("PROBGEO_THREADS", threads)
        curve = solve_bvp(NumpyField(p), p.t_span, p.ya, yb)
        answers.append((curve.mean(TIMES), curve.std(TIMES), curve.n_evaluations))
    for one, other in zip(*answers, strict=True):
        np.testing.assert_array_equal(one, other)


def test_batch_axes():
    p = pendulum()
    yb = p.yb + np.linspace(-0.1, 0.1, 6).reshape(2, 3, 1)
    curve = solve_bvp(NumpyField(p), p.t_span, p.ya, yb)
    assert curve.batch_shape == (2, 3)
    assert curve.mean(TIMES).shape == (2, 3, 3, 1)
    one = solve_bvp(NumpyField(p), p.t_span, p.ya, yb[1, 2])
    np.testing.assert_allclose(curve[1, 2].mean(TIMES), one.mean(TIMES), rtol=1e-13)


@pytest.mark.parametrize(("start", "unit"), [(0.0, 1e-6), (-7.0, 1e4)])
def test_units_of_time_do_not_matter(start, unit):
    """The same curve in other units, up to the rounding of times."""
    p = cash(6, 0.1)
    t0, t1 = p.t_span
    plain = solved(p)

    class Rescaled(NumpyField):
        def values(self, t, state, member):
            return super().values(*self._plain(t, state), member) / unit**2

        def jacobians(self, t, state, member):
            J = super().jacobians(*self._plain(t, state), member)
            return J / np.array([unit**2, unit])[:, None, None]

        def _plain(self, t, state):
            return t0 + (t - start) / unit, state * np.array([1.0, unit])[:, None]

    span = (start, start + unit * (t1 - t0))
    curve = solve_bvp(Rescaled(p), span, p.ya, p.yb)
    t = np.linspace(t0, t1, 9)
    rescaled = np.clip(start + unit * (t - t0), *span)
    assert len(curve.nodes) == len(plain.nodes)
    np.testing.assert_allclose(curve.mean(rescaled), plain.mean(t), rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(curve.std(rescaled)[1:-1], plain.std(t)[1:-1], rtol=1e-4)
    np.testing.assert_allclose(unit * curve.mean(rescaled, 1), plain.mean(t, 1), rtol=1e-6, atol=1e-8)


# --- uncertain ends and parameters ---------------------------------------------------------------


def test_uncertain_ends_of_a_linear_problem():
    """y'' = y: y = (ya sinh(T - t) + yb sinh t) / sinh T."""
    T = 2.0
    f = NumpyFunction(lambda t, y, dy: y)
    ya, yb = Gaussian([1.0], [[0.04]]), Gaussian([2.0], [[0.09]])
    curve = solve_bvp(f, (0.0, T), ya, yb)
    t = np.linspace(0.0, T, 9)
    a, b = np.sinh(T - t) / np.sinh(T), np.sinh(t) / np.sinh(T)
    std = np.sqrt(0.04 * a**2 + 0.09 * b**2)
    np.testing.assert_allclose(curve.std(t, source="boundary")[:, 0], std, rtol=1e-6)
    across = 0.04 * a[:, None] * a + 0.09 * b[:, None] * b
    found = curve.cov(t[:, None], t[None], source="boundary")[..., 0, 0]
    np.testing.assert_allclose(found, across, rtol=1e-6, atol=1e-9)
    certain = solve_bvp(f, (0.0, T), [1.0], [2.0])
    np.testing.assert_allclose(curve.std(t, source="numerical"), certain.std(t))


def test_uncertain_ends_that_are_correlated():
    """Uncoupled equations leave correlations between dimensions what they are at the end."""
    cov = np.array([[0.04, 0.01], [0.01, 0.09]])
    f = NumpyFunction(lambda t, y, dy: y)
    curve = solve_bvp(f, (0.0, 1.0), Gaussian([[0.0, 1.0]] * 3, cov), np.ones((3, 2)))
    share = np.sinh(0.5) / np.sinh(1.0)
    found = curve.cov(0.5, 0.5, source="boundary")
    np.testing.assert_allclose(found, np.broadcast_to(share**2 * cov, (3, 2, 2)), rtol=1e-6)


def test_uncertain_ends_of_a_nonlinear_problem():
    """Against differences of solutions."""
    p = hyperbolic_geodesic()
    factor = np.diag([0.1, 0.2])
    curve = solve_bvp(NumpyField(p), p.t_span, p.ya, Gaussian(p.yb, factor @ factor.T))
    tight = solvers.Markov(rtol=1e-10)
    step = 1e-5
    shifts = np.array([s * step * factor[:, i] for i in (0, 1) for s in (1, -1)])
    moved = solve_bvp(NumpyField(p), p.t_span, p.ya, p.yb + shifts, solver=tight).mean(TIMES)
    columns = np.stack([moved[0] - moved[1], moved[2] - moved[3]], axis=-1) / (2 * step)
    expected = columns @ columns.swapaxes(-1, -2)
    found = curve.cov(TIMES, TIMES, source="boundary")
    np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-8)


class Forced(Field):
    """y'' = a + b t, with parameters a and b."""

    order, dimension, n_parameters = 2, 1, 2

    def values(self, t, state, member):
        return 1.0 + 2.0 * t[:, None]

    def jacobians(self, t, state, member):
        return np.zeros((len(t), 2, 1, 1))

    def by_args(self, t, state, member):
        return [np.ones((len(t), 1)), t[:, None, None].copy()]


@pytest.mark.parametrize("uncertain", [False, True])
def test_columns_of_parameters_follow_those_of_the_data(uncertain):
    ya = Gaussian([0.0], [[1.0]]) if uncertain else [0.0]
    problem = replace(boundary_value_problem(Forced(), (0.0, 1.0), ya, [1.0]), with_args=True)
    curve = solvers.Markov().solve(problem)
    columns = curve.posterior.boundary_columns(TIMES, 0)[0, :, 0]
    by_args = np.stack([TIMES * (TIMES - 1) / 2, TIMES * (TIMES**2 - 1) / 6], axis=1)
    data = 2 if uncertain else 0
    assert columns.shape == (3, data + 2)
    np.testing.assert_allclose(columns[:, data:], by_args, atol=1e-12)
    if uncertain:
        np.testing.assert_allclose(columns[:, :2], np.stack([1 - TIMES, 0 * TIMES], 1), atol=1e-12)


# --- what is said about a solution ---------------------------------------------------------------


@random_sizes
def test_log_evidence_is_the_density_of_brownian_increments(seed):
    curves, _ = random_chains(seed)
    found = log_evidence(curves)
    k = curves.basis.k
    times = curves.states(gauss_only=True)[0]
    for m in range(curves.count):
        own = curves.member == m
        t, v = times[own].ravel(), curves.v[own].reshape(k * own.sum(), -1)
        dt, rise = np.diff(t)[:, None], np.diff(v, axis=0)
        scale = np.sqrt(np.mean(rise**2 / dt))
        density = scipy.stats.norm.logpdf(rise, scale=scale * np.sqrt(dt))
        np.testing.assert_allclose(found[m], density.sum(), rtol=1e-10)


def test_evaluations_are_counted():
    problems = many_problems()[::5]
    ya, yb = (np.array([getattr(p, end) for p in problems]) for end in ("ya", "yb"))
    field = Together(problems)
    problem = boundary_value_problem(field, (0.0, 1.0), ya, yb)
    field.rows = 0
    curve = solvers.Markov().solve(problem)
    assert curve.n_evaluations.sum() == field.rows


def test_the_residual_is_small_where_the_solution_is_good():
    coarse, fine = (solved(bratu(), n_points=n) for n in (3, 17))
    assert 0 < fine.residual < 1e-3 * coarse.residual
    assert fine.scale < coarse.scale
