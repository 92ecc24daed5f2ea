"""Initial value problems with the Markov solver, against closed forms and tight references."""

import numpy as np
import pytest
from problems import (
    arenstorf,
    damped,
    harmonic,
    lotka_volterra,
    pleiades,
    stiff_van_der_pol,
    van_der_pol,
)

from probgeo import Gaussian, solve_ivp, solvers
from tests.ode.together import arguments, calibration, in_one_field


def oscillator(t, y, dy):
    return -y


@pytest.fixture(scope="module")
def oscillators():
    problems = [harmonic(), damped(), van_der_pol()]
    fields = [lambda t, y, dy, _, f=p.f: f(t, y, dy) for p in problems]
    args = arguments(range(3), problems, np.zeros(3))
    duration = np.array([[p.t_span[1] - p.t_span[0]] for p in problems])
    y0 = np.array([p.y0 for p in problems])
    dy0 = np.array([p.dy0 for p in problems]) * duration
    return problems, solve_ivp(in_one_field(fields, 2), (0.0, 1.0), y0, dy0, args=args)


@pytest.mark.slow
class TestInitialValueProblems:
    def test_oscillators_converge_within_the_tolerance(self, oscillators):
        problems, curve = oscillators
        errors, coverage, anees = calibration(curve, problems)
        assert np.all(curve.converged)
        assert np.all(errors < 2e-5)
        assert coverage.mean() >= 0.88
        assert anees.mean() <= 5.0

    @pytest.mark.parametrize(
        ("problem", "linearisation"),
        [
            (lotka_volterra(), "first"),
            (stiff_van_der_pol(), "first"),
            (arenstorf(), "first"),
            (pleiades(), "zeroth"),
        ],
        ids=lambda x: getattr(x, "name", x),
    )
    def test_against_tight_references(self, problem, linearisation):
        solver = solvers.Markov(linearisation=linearisation)
        curve = solve_ivp(problem.f, problem.t_span, problem.y0, problem.dy0, solver=solver)
        t = np.random.default_rng(0).uniform(*problem.t_span, 200)
        error = np.abs(np.asarray(curve.mean(t)) - problem.solution(t))
        assert curve.converged
        assert error.max() < 1e-5 * np.abs(problem.solution(t)).max()
        assert np.mean(error < 2 * np.asarray(curve.std(t))) >= 0.88


def test_uncertain_oscillator():
    y0, dy0 = Gaussian([1.0], [[0.01]]), Gaussian([0.0], [[0.04]])
    curve = solve_ivp(oscillator, (0.0, 6.0), y0, dy0, solver=solvers.Markov())
    t = np.array([0.0, 1.5, 6.0])
    np.testing.assert_allclose(curve.mean(t)[:, 0], np.cos(t), atol=1e-5)
    np.testing.assert_allclose(curve.std(t)[:, 0], [0.1000, 0.1996, 0.1111], rtol=0.01)
    boundary = curve.std(t, source="boundary")[:, 0]
    np.testing.assert_allclose(boundary, curve.std(t)[:, 0], rtol=1e-3)


def decay(t, y):
    return -y


def test_first_order_problem_and_batch():
    y0 = np.array([[1.0], [2.0], [-0.5]])
    curve = solve_ivp(decay, (0.0, 3.0), y0, solver=solvers.Markov())
    assert curve.converged.shape == (3,)
    np.testing.assert_allclose(curve.mean(2.0), y0 * np.exp(-2.0), atol=1e-5)


class TestParametersOfTheField:
    def test_every_member_has_its_own(self):
        rates = np.array([0.5, 1.0, 2.0])
        curve = solve_ivp(lambda t, y, k: -k * y, (0.0, 1.0), np.ones((3, 1)), args=rates)
        np.testing.assert_allclose(curve.mean(1.0)[:, 0], np.exp(-rates), rtol=1e-5)

    def test_batch_axes_are_checked(self):
        with pytest.raises(ValueError, match=r"args must have the batch axes \(3,\)"):
            solve_ivp(lambda t, y, k: -k * y, (0.0, 1.0), np.ones((3, 1)), args=np.ones(2))
