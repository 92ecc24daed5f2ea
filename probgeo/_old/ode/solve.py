"""`solve_ivp` and `solve_bvp`: an ODE and its data in, a posterior over curves out."""

import math
from collections.abc import Callable
from typing import Any, Protocol

from probgeo._old._checks import is_concrete
from probgeo._old._compile import hurried, is_little
from probgeo._old.ode.curve import Curve, warn
from probgeo._old.ode.guess import Guess
from probgeo._old.ode.markov import Markov
from probgeo._old.ode.problem import Problem, boundary_value_problem, initial_value_problem


class Solver(Protocol):
    """What `solver=` takes: see `probgeo.solvers`."""

    def solve(self, problem: Problem, guess: Guess | None = None) -> Curve: ...


def solve_ivp(
    f: Callable,
    t_span: Any,
    y0: Any,
    dy0: Any = None,
    *,
    solver: Solver | None = None,
    args: Any = None,
) -> Curve:
    """Posterior over the solution of an initial value problem.

    Parameters
    ----------
    f : callable
        f(t, y) for y' = f or, if `dy0` is given, f(t, y, dy) for y'' = f. Written for one point,
        y and dy of shape (D,), with jax.numpy. The same function object is compiled once. If it
        has a method `jacobian`, called alike, that is used for its derivatives by y and dy,
        (D, 1, D) or (D, 2, D); otherwise they come from automatic differentiation.
    t_span : (t0, t1)
        Interval, t0 < t1.
    y0, dy0 : array (..., D) or Gaussian
        Initial value (and slope) at t0; leading axes are a batch.
    solver : optional
        One of `probgeo.solvers`; `solvers.Markov()` by default.
    args : pytree of arrays, optional
        Parameters of f, which is then called with them last. Each array has the batch axes of the
        values in front, so that every member of a batch has parameters of its own.

    Returns
    -------
    Curve

    Examples
    --------
    >>> from probgeo import Gaussian, solve_ivp
    >>> x0 = Gaussian([1.0], [[0.01]])
    >>> curve = solve_ivp(lambda t, x: -x, (0.0, 2.0), x0)
    >>> curve.mean([0.0, 2.0]).shape
    (2, 1)
    """
    return _solve(initial_value_problem(f, t_span, y0, dy0, args), solver, None)


def solve_bvp(
    f: Callable,
    t_span: Any,
    ya: Any,
    yb: Any,
    *,
    solver: Solver | None = None,
    guess: Guess | None = None,
    args: Any = None,
) -> Curve:
    """Posterior over the solution of y'' = f(t, y, dy) with y(t0) = ya and y(t1) = yb.

    Parameters
    ----------
    f : callable
        f(t, y, dy), written for one point, y and dy of shape (D,), with jax.numpy.
    t_span : (t0, t1)
        Interval, t0 < t1.
    ya, yb : array (..., D) or Gaussian
        Values at t0 and t1; leading axes are a batch.
    solver : optional
        One of `probgeo.solvers`; `solvers.Markov()` by default.
    guess : Curve, function or array, optional
        Where to start instead of the straight line: another solution, a function t -> (..., D),
        or samples (..., T, D) at equal steps over t_span.
    args : pytree of arrays, optional
        Parameters of f, which is then called with them last. Each array has the batch axes of the
        values in front, so that every member of a batch has parameters of its own.

    Returns
    -------
    Curve

    Examples
    --------
    >>> from probgeo import solve_bvp
    >>> curve = solve_bvp(lambda t, y, dy: -y, (0.0, 1.0), [0.0], [1.0])
    >>> bool(curve.converged)
    True
    """
    return _solve(boundary_value_problem(f, t_span, ya, yb, args), solver, guess)


def _solve(problem: Problem, solver: Solver | None, guess: Guess | None) -> Curve:
    with hurried(is_little(math.prod(problem.batch_shape), problem.dimension)):
        curve = (Markov() if solver is None else solver).solve(problem, guess)
    if is_concrete(curve.status):
        warn(curve, "solutions", stacklevel=4)
    return curve
