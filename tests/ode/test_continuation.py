"""Branches of solutions, each from the one before."""

import re

import jax.numpy as jnp
import numpy as np
import pytest
from scipy.integrate import quad
from scipy.optimize import brentq

from probgeo import at, continuation, solve_bvp, solvers

FOLD = 3.513830719125162  # the largest strength for which Bratu's problem has a solution


def bratu(t, y, dy, strength):
    return -strength * jnp.exp(y)


def solve(strength, guess):
    return solve_bvp(bratu, (0.0, 1.0), [0.0], [0.0], args=strength, guess=guess)


def middle(strength, upper):
    """y(1/2) = 2 log cosh(theta / 4), theta = sqrt(2 strength) cosh(theta / 4)."""
    turn = brentq(lambda x: 1 - np.sqrt(2 * strength) / 4 * np.sinh(x / 4), 1e-3, 60.0)
    between = (turn, 100.0) if upper else (0.0, turn)
    theta = brentq(lambda x: x - np.sqrt(2 * strength) * np.cosh(x / 4), *between, xtol=1e-14)
    return 2 * np.log(np.cosh(theta / 4))


@pytest.mark.parametrize(("upper", "values"), [(False, [0.5, 2, 3.3, 3.5]), (True, [3, 2, 1, 0.3])])
def test_both_branches_of_bratu(upper, values):
    start = (lambda t: [8.0 * t * (1 - t)]) if upper else None
    curves = continuation(solve, values, guess=start)
    found = [curve.mean(0.5)[0] for curve in curves]
    np.testing.assert_allclose(found, [middle(v, upper) for v in values], rtol=1e-4)


def test_a_branch_that_ends_tells_where_it_was_last_solved():
    with pytest.raises(RuntimeError, match=r"between .*, where it was solved, and") as error:
        continuation(solve, [3.0, 4.0], halvings=12)
    solved = float(re.search(r"between ([\d.]+)", str(error.value))[1])
    assert FOLD - 2 * 0.5**12 <= solved <= FOLD


def test_a_first_value_without_solution_is_told():
    with pytest.raises(RuntimeError, match="at its first value, 12"):
        continuation(solve, [12.0, 1.0])


def test_steps_are_halved_where_one_leap_fails():
    tried = []

    def troesch(t, y, dy, n):
        return n * jnp.sinh(n * y)

    def solve(n, guess):
        tried.append(float(n))
        return solve_bvp(
            troesch, (0.0, 1.0), [0.0], [1.0], args=n, guess=guess,
            solver=solvers.Markov(rtol=1e-4, iterations=3),
        )  # fmt: skip

    slopes = [curve.mean(0.0, 1)[0] for curve in continuation(solve, [1.0, 10.0])]
    assert len(tried) > 2
    np.testing.assert_allclose(slopes, [troesch_slope(n) for n in (1.0, 10.0)], rtol=1e-2)


def troesch_slope(n):
    """y'(0) = s with int_0^1 dy / (s^2 + 4 sinh^2(n y / 2))^(1/2) = 1, and y = s sinh(u) / n."""

    def missed(log_s):
        s = np.exp(log_s)

        def integrand(u):
            y = s * np.sinh(u) / n
            return s * np.cosh(u) / n / np.hypot(s, 2 * np.sinh(n * y / 2))

        return quad(integrand, 0.0, np.arcsinh(n / s), epsabs=1e-13, epsrel=1e-13)[0] - 1

    return np.exp(brentq(missed, -2 * n, 1.0, xtol=1e-13))


def test_parameters_follow():
    def wave(t, y, dy, p):
        q, a = p
        return -(q[0] ** 2) * (1 + a * t) * y

    def solve(a, guess):
        def third(t):
            return [np.sin(3 * t) / 3]

        first = [3.0] if guess is None else guess.parameters.mean
        return solve_bvp(
            wave, (0.0, np.pi), [0.0], [0.0], conditions=[at(0.0, dy=1.0)], parameters=first,
            args=a, guess=third if guess is None else guess,
        )  # fmt: skip

    curves = continuation(solve, [0.0, 0.1, 0.2])
    k = [curve.parameters.mean[0] for curve in curves]
    assert abs(k[0] - 3.0) < 1e-5
    assert k[0] > k[1] > k[2]
    t = np.linspace(0.0, np.pi, 400)[1:-1]
    for curve in curves:  # still the third mode
        assert np.sum(np.diff(np.sign(curve.mean(t)[:, 0])) != 0) == 2


def test_values_of_batches_are_rows():
    both = np.array([[0.5, 1.0], [1.0, 2.0]])
    curves = continuation(solve_rows, both)
    assert curves[1].batch_shape == (2,)
    expected = [middle(v, upper=False) for v in both[1]]
    np.testing.assert_allclose(curves[1].mean(0.5)[:, 0], expected, rtol=1e-4)


def solve_rows(strengths, guess):
    ends = np.zeros((2, 1))
    return solve_bvp(bratu, (0.0, 1.0), ends, ends, args=strengths, guess=guess)


def test_bad_input():
    with pytest.raises(ValueError, match="at least one"):
        continuation(solve, [])
    with pytest.raises(ValueError, match="halvings"):
        continuation(solve, [1.0], halvings=-1)
