"""Newton's method on collocation equations: what is solved, what is given up, and at what cost."""

import numpy as np
import pytest

from probgeo.functions import NumpyFunction
from probgeo.ode.curve import NOT_FINITE, OK, STALLED
from probgeo.ode.markov.boundary import as_conditioned, first_curves
from probgeo.ode.markov.newton import Equations, Iteration
from probgeo.ode.problem import boundary_value_problem


def iteration(f, t_span, ends, elements=4, k=4):
    """Newton's method from straight lines between ends (B, 2, D)."""
    ends = np.asarray(ends, float)
    problem = as_conditioned(boundary_value_problem(f, t_span, ends[:, 0], ends[:, 1]))
    members = np.arange(len(ends))
    line = first_curves(problem, members, k, elements, None)
    return Iteration(Equations.of(problem, members), line, np.inf)


def solve(f, ends, elements=4):
    return list(iteration(NumpyFunction(f), (0.0, 1.0), ends, elements).run(30))


def bratu(t, y, dy):
    return -np.exp(y)


def test_equations_are_solved_and_slopes_continuous():
    (settled,) = solve(bratu, [[[0.0], [0.0]], [[0.1], [-0.3]]])
    assert settled.status == OK
    times, states = settled.curves.states(gauss_only=True)
    values = bratu(times, states[:, :, 0], states[:, :, 1])
    # to a tenth of the discretisation error, which is 4e-9 here
    np.testing.assert_allclose(settled.curves.v, values, atol=1e-8)
    assert np.abs(settled.curves.gaps()).max() < 1e-12


def test_linear_equations_take_one_step():
    (settled,) = solve(lambda t, y, dy: 3 * y - dy + t[:, None], [[[0.0], [1.0]]])
    k, K = 4, 9
    assert settled.status == OK
    assert settled.evaluations == [4 * (k + K)]  # once to linearise, once to look


def test_a_full_step_that_leads_astray_is_shortened():
    """y'' = 5 sinh(5 y), Troesch's problem: the first steps from the line are far too long."""
    (settled,) = solve(lambda t, y, dy: 5 * np.sinh(5 * y), [[[0.0], [1.0]]], elements=24)
    assert settled.status == OK
    slope = settled.curves.z[0, 1, 0]
    assert slope == pytest.approx(0.0457504614, rel=1e-4)  # in the literature


def test_no_solution_is_not_found():
    (settled,) = solve(lambda t, y, dy: -4 * np.exp(y), [[[0.0], [0.0]]])
    assert settled.status == STALLED


def test_members_settle_by_themselves():
    def f(t, y, dy):
        with np.errstate(invalid="ignore"):
            return -np.log(y)

    everyone = solve(f, [[[0.5], [1.0]], [[-1.0], [-2.0]], [[2.0], [1.5]]])
    status = {int(m): s.status for s in everyone for m in s.chosen}
    assert status == {0: OK, 1: NOT_FINITE, 2: OK}
    (alone,) = solve(f, [[[2.0], [1.5]]])
    together = next(s for s in everyone if 2 in s.chosen)
    mine = together.curves.take(np.flatnonzero(together.chosen == 2))
    np.testing.assert_array_equal(mine.z, alone.curves.z)
