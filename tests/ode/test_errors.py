"""Estimated errors of boundary value problems against true ones."""

import numpy as np
import pytest
from problems import bratu, cash, coupled, hyperbolic_geodesic, pendulum

from probgeo.functions import NumpyFunction
from probgeo.ode.markov.errors import error_bars, estimated_errors, is_doubtful, variances
from tests.ode.closed_forms import NumpyField
from tests.ode.test_collocation import factorised
from tests.ode.test_newton import iteration

PROBLEMS = {
    "bratu": bratu(),
    "near the fold": bratu(3.5),
    "hyperbolic": hyperbolic_geodesic(),
    "pendulum": pendulum(),
    "coupled": coupled(),
    "layers": cash(14, 0.1),
    "stiff": cash(1, 0.01),
    "turning point": cash(15, 0.1),
    "convection": cash(4, 0.1),
    "oscillation": cash(16, 0.2),
    "nonlinear": cash(21, 0.1),
}


def settled(problem, elements, k=4):
    ends = [[problem.ya, problem.yb]]
    (found,) = iteration(NumpyField(problem), problem.t_span, ends, elements, k).run(30)
    return found


def true_errors(problem, curves):
    """Time of curves runs from 0 to 1."""
    times = curves.t[curves.left][:, None] + curves.basis.look * curves.h[:, None]
    times = problem.t_span[0] + (problem.t_span[1] - problem.t_span[0]) * times
    return problem.solution(times.ravel()).reshape(*times.shape, -1) - curves.seen()


@pytest.mark.parametrize("k", [3, 4, 5])
@pytest.mark.parametrize("name", PROBLEMS)
def test_estimates_are_the_errors_with_their_signs(name, k):
    problem = PROBLEMS[name]
    found = settled(problem, 12, k)
    errors = estimated_errors(found.curves, found.linear, found.defects)
    true = true_errors(problem, found.curves)
    # the error of the estimate is of higher order: a few per cent on these meshes, and Newton's
    # method stops at a tenth of the error
    assert np.sqrt(np.mean((errors.between - true) ** 2)) < 0.35 * np.sqrt(np.mean(true**2))


def test_error_bars_match_the_errors_on_the_average():
    found = settled(PROBLEMS["coupled"], 8)
    errors = estimated_errors(found.curves, found.linear, found.defects)
    bars = error_bars(found.curves, errors.between, found.left, np.ones((2, 3), dtype=bool))
    std = bars.envelope[found.curves.left][:, None] * np.sqrt(variances(found.curves))[..., None]
    assert 0.4 < np.mean((errors.between / std) ** 2) < 2.0
    assert bars.largest[0] >= 0.7 * std.max()


def spring_on(duration, elements=8, stiffness=1.0):
    """The factorised equations of y'' = -stiffness y."""
    line = iteration(NumpyFunction(lambda t, y, dy: 0.0 * y), (0.0, 1.0), [[[0.0], [0.0]]], elements).curves
    J = np.zeros((elements, 4, 2, 1, 1))
    J[:, :, 0] = -stiffness * duration**2
    return line, factorised(line, J)


@pytest.mark.parametrize("duration", [1.0, 3.0, 3.1, 3.2, 9.0, 9.8])
def test_what_the_mesh_can_tell_from_singular_is_not_doubtful(duration):
    assert not is_doubtful(*spring_on(duration))


@pytest.mark.parametrize("turns", [1, 2, 3])
@pytest.mark.parametrize("elements", [8, 16, 64])
def test_a_singular_problem_is_doubtful_on_every_mesh(turns, elements):
    assert is_doubtful(*spring_on(turns * np.pi, elements))


def test_stiff_problems_are_not_sensitive():
    line, linear = spring_on(1.0, stiffness=-1e8)
    errors = estimated_errors(line, linear, np.zeros((8, 9, 1)))
    assert errors.sensitivity < 1e-3
