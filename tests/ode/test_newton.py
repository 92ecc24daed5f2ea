"""Newton's method on collocation equations: what is solved, what is given up, and at what cost."""

import numpy as np
import pytest

from probgeo.functions import NumpyFunction, as_field
from probgeo.ode.curve import NOT_FINITE, OK, STALLED
from probgeo.ode.markov.collocation import Chains
from probgeo.ode.markov.newton import Equations, Iteration, jumps_of
from probgeo.ragged import offsets_of
from tests.ode.test_collocation import end_slopes


def field(f, D=1):
    return as_field(NumpyFunction(f), 2, D, args=None, batch_shape=())


def lines(ends, elements=4, k=4):
    """Straight lines between ends (B, 2, D) on the unit interval."""
    ends = np.asarray(ends, float)
    s = np.linspace(0.0, 1.0, elements + 1)
    y = (1 - s)[:, None] * ends[:, :1] + s[:, None] * ends[:, 1:]
    B, _, D = ends.shape
    offsets = offsets_of(np.full(B, elements + 1))
    v = np.zeros((B * elements, k, D))
    return Chains(np.tile(s, B), offsets, y.reshape(-1, D).copy(), v)


def solve(f, curves, iterations=30):
    count = curves.count
    equations = Equations(field(f, curves.y.shape[1]), np.arange(count), np.ones(count))
    return list(Iteration(equations, curves).run(iterations))


def bratu(t, y, dy):
    return -np.exp(y)


def test_equations_are_solved_and_slopes_continuous():
    (settled,) = solve(bratu, lines([[[0.0], [0.0]], [[0.1], [-0.3]]]))
    assert settled.status == OK
    times, states = settled.curves.states(gauss_only=True)
    values = bratu(times, states[:, :, 0], states[:, :, 1])
    # to a tenth of the discretisation error, which is 4e-9 here
    np.testing.assert_allclose(settled.curves.v, values, atol=1e-8)
    assert np.abs(jumps_of(settled.curves)).max() < 1e-12


def test_linear_equations_take_one_step():
    (settled,) = solve(lambda t, y, dy: 3 * y - dy + t[:, None], lines([[[0.0], [1.0]]]))
    k, K = 4, 9
    assert settled.status == OK
    assert settled.evaluations == [4 * (k + K)]  # once to linearise, once to look


def test_a_full_step_that_leads_astray_is_shortened():
    """y'' = 5 sinh(5 y), Troesch's problem: the first steps from the line are far too long."""
    line = lines([[[0.0], [1.0]]], elements=24)
    (settled,) = solve(lambda t, y, dy: 5 * np.sinh(5 * y), line)
    assert settled.status == OK
    slope = end_slopes(settled.curves)[0, 0, 0]
    assert slope == pytest.approx(0.0457504614, rel=1e-4)  # in the literature


def test_no_solution_is_not_found():
    (settled,) = solve(lambda t, y, dy: -4 * np.exp(y), lines([[[0.0], [0.0]]]))
    assert settled.status == STALLED


def test_members_settle_by_themselves():
    def f(t, y, dy):
        with np.errstate(invalid="ignore"):
            return -np.log(y)

    everyone = solve(f, lines([[[0.5], [1.0]], [[-1.0], [-2.0]], [[2.0], [1.5]]]))
    status = {int(m): s.status for s in everyone for m in s.chosen}
    assert status == {0: OK, 1: NOT_FINITE, 2: OK}
    (alone,) = solve(f, lines([[[2.0], [1.5]]]))
    together = next(s for s in everyone if 2 in s.chosen)
    mine = together.curves.take(np.flatnonzero(together.chosen == 2))
    np.testing.assert_array_equal(mine.y, alone.curves.y)
