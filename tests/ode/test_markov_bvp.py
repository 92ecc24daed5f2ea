"""Boundary value problems with the Markov solver, against closed forms."""

import jax.numpy as jnp
import numpy as np
import pytest
from problems import bratu, cash, hyperbolic_geodesic, pendulum

from probgeo import ConvergenceWarning, solve_bvp, solvers
from tests.ode.together import arguments, calibration, in_one_field

TIMES = np.array([0.13, 0.5, 0.77])

CASH = (1, 3, 4, 6, 7, 9, 10, 12, 15, 18, 21)  # layers at one end, both, and inside; Airy


@pytest.fixture(scope="module")
def boundary_problems():
    """Cash and Mazzia's problems at three epsilon, Bratu's and a pendulum, and their solutions."""
    families = [*(cash(n, 0.1).field for n in CASH), bratu().field, pendulum().field]
    cases = [(k, cash(n, e)) for k, n in enumerate(CASH) for e in (1.0, 0.1, 0.01)]
    cases += [(len(CASH), bratu(lam)) for lam in (1.0, 3.0)]
    cases += [(len(CASH) + 1, pendulum(k)) for k in (0.5, 0.9)]
    which, problems = zip(*cases, strict=True)
    args = arguments(which, problems, [p.parameters for p in problems])
    ya, yb = (np.array([getattr(p, end) for p in problems]) for end in ("ya", "yb"))
    return problems, solve_bvp(in_one_field(families, 2), (0.0, 1.0), ya, yb, args=args)


@pytest.mark.slow
class TestBoundaryValueProblems:
    """At default settings, on meshes that the solver chose itself."""

    def test_all_converge_within_the_tolerance(self, boundary_problems):
        problems, curve = boundary_problems
        errors, _, _ = calibration(curve, problems)
        assert np.all(curve.converged)
        # the tolerance is for two standard deviations; none is beyond four
        assert np.all(errors < 2e-5)

    def test_calibrated(self, boundary_problems):
        problems, curve = boundary_problems
        _, coverage, anees = calibration(curve, problems)
        assert 0.88 <= coverage.mean() <= 0.999
        assert 0.2 <= anees.mean() <= 5.0

    def test_layers_get_the_nodes(self, boundary_problems):
        problems, curve = boundary_problems
        k = next(k for k, p in enumerate(problems) if p.name == "cash18" and p.epsilon == 0.01)
        nodes = np.unique(np.asarray(curve.nodes[k]))
        # y = exp(-t / epsilon): the first tenth of the interval holds ten times its share or more
        assert np.mean(nodes < 0.1) > 0.4


def test_hyperbolic_geodesic():
    p = hyperbolic_geodesic()
    curve = solve_bvp(p.f, p.t_span, p.ya, p.yb)
    t = np.random.default_rng(0).uniform(*p.t_span, 200)
    z = (np.asarray(curve.mean(t)) - p.solution(t)) / np.asarray(curve.std(t))
    assert curve.converged
    assert np.abs(curve.mean(t) - p.solution(t)).max() < 2e-5 * np.abs(p.solution(t)).max()
    assert np.mean(np.abs(z) < 2) >= 0.88


def test_a_straight_line_has_no_error():
    """f = 0: nothing is uncertain, and nothing is divided by zero."""
    curve = solve_bvp(lambda t, y, dy: 0.0 * y, (0.0, 1.0), [1.0, 2.0], [3.0, 5.0])
    assert curve.converged
    np.testing.assert_allclose(curve.mean(0.25), [1.5, 2.75], atol=1e-12)
    assert np.all(np.asarray(curve.std(TIMES)) < 1e-12)


def test_a_large_mesh_begins_with_a_coarse_solution():
    p = hyperbolic_geodesic()
    curve = solve_bvp(p.f, p.t_span, p.ya, p.yb, solver=solvers.Markov(n_points=128))
    t = np.linspace(*p.t_span, 101)
    assert curve.converged
    assert np.abs(curve.mean(t) - p.solution(t)).max() < 1e-8
    assert curve.n_evaluations < 6 * 128  # from the straight line it takes eight a node


@pytest.mark.parametrize("kind", ["curve", "function", "samples"])
def test_guesses_lead_to_the_solution_they_are_near(kind):
    """Bratu's equation has two solutions; the upper one is found from a guess near it."""
    field = lambda t, y, dy: -jnp.exp(y)  # noqa: E731
    t = np.linspace(0.0, 1.0, 9)
    high = {
        "function": lambda t: 4.0 * jnp.sin(jnp.pi * t)[None],
        "samples": 4.0 * np.sin(np.pi * t)[:, None],
    }
    guess = high.get(kind)
    if kind == "curve":
        guess = solve_bvp(field, (0.0, 1.0), [0.0], [0.0], guess=high["samples"])
    curve = solve_bvp(field, (0.0, 1.0), [0.0], [0.0], guess=guess)
    # theta = sqrt(2) cosh(theta / 4) has the roots 1.5171646 and 10.9387028
    expected = 2.0 * np.log(np.cosh(10.9387028 / 4.0))
    assert curve.converged
    np.testing.assert_allclose(curve.mean(0.5), [expected], rtol=2e-5)


def minus_log(t, y, dy):
    return -jnp.log(y)


def test_a_bad_member_is_flagged_and_the_rest_unharmed():
    solver = solvers.Markov(max_points=32)
    with pytest.warns(ConvergenceWarning, match="1 of 3 solutions did not converge"):
        curve = solve_bvp(
            minus_log, (0.0, 1.0), [[0.5], [-1.0], [2.0]], [[1.0], [-2.0], [1.5]], solver=solver
        )
    assert list(np.asarray(curve.converged)) == [True, False, True]
    assert np.isfinite(np.asarray(curve.mean(0.5))[[0, 2]]).all()
