"""Solving along a sequence of values, each problem from the solution of the one before."""

import warnings
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from probgeo._checks import as_float_array, as_whole_number
from probgeo.ode.curve import ConvergenceWarning, Curve


def continuation(
    solve: Callable[[Any, Curve | None], Curve],
    values: Sequence[Any] | np.ndarray,
    *,
    guess: Any = None,
    halvings: int = 8,
) -> list[Curve]:
    """Solutions for a sequence of values, each from the last; steps are halved where that fails.

    Parameters
    ----------
    solve : callable
        solve(value, guess) -> Curve, such as a call of `solve_bvp` with that guess. The guess is
        the last solution; its `parameters`, if there are any, may be the next first guess.
    values : sequence (N,) or array (N, ...)
        In the order in which they are visited. Between two of them steps go along the line.
    guess : optional
        What the first call gets.
    halvings : int
        How often the way between two values is halved before it is given up.

    Returns
    -------
    list of Curve
        One for each value.

    Raises
    ------
    RuntimeError
        Where no step leads on: it names the last value that was solved.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> from probgeo import continuation, solve_bvp
    >>> def bratu(t, y, dy, strength):
    ...     return -strength * jnp.exp(y)
    >>> def solve(strength, guess):
    ...     return solve_bvp(bratu, (0.0, 1.0), [0.0], [0.0], args=strength, guess=guess)
    >>> curves = continuation(solve, [1.0, 2.0, 3.0])
    >>> [round(float(curve.mean(0.5)[0]), 3) for curve in curves]
    [0.141, 0.329, 0.64]
    """
    as_whole_number("halvings", halvings, 0)
    goals = as_float_array("values", values)
    if goals.ndim == 0 or not len(goals):
        raise ValueError(f"values must be a sequence of at least one, got shape {goals.shape}")
    found = [_tried(solve, goals[0], guess)]
    if not _is_solved(found[0]):
        raise RuntimeError(f"continuation failed at its first value, {goals[0]}: {_why(found[0])}")
    for begin, goal in pairwise(goals):
        found.append(_led(solve, begin, goal, found[-1], halvings))
    return found


def _led(solve: Callable, begin: Any, goal: Any, curve: Curve, halvings: int) -> Curve:
    """The solution at `goal`, from the one at `begin`."""
    done, share = 0.0, 1.0  # of the way
    while done < 1.0:
        ahead = min(done + share, 1.0)
        tried = _tried(solve, begin + ahead * (goal - begin), curve)
        if _is_solved(tried):
            curve, done, share = tried, ahead, 2 * share
        elif share <= 0.5**halvings:
            raise RuntimeError(
                f"continuation lost the solution between {begin + done * (goal - begin)}, where it "
                f"was solved, and {begin + ahead * (goal - begin)}: {_why(tried)}"
            )
        else:
            share /= 2
    return curve


def _tried(solve: Callable, value: Any, guess: Any) -> Curve:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return solve(value, guess)


def _is_solved(curve: Curve) -> bool:
    return bool(np.all(curve.converged))


def _why(curve: Curve) -> str:
    return str(np.ravel(curve.message)[np.argmin(np.ravel(curve.converged))])
