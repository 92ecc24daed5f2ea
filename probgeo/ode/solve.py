"""`solve_ivp` and `solve_bvp`: an ODE and its data in, a posterior over curves out."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Protocol

import numpy as np

from probgeo._checks import is_traced
from probgeo.functions.trees import leaves_of
from probgeo.gaussian import Gaussian
from probgeo.ode.curve import NOT_FINITE, OK, Curve, warn
from probgeo.ode.markov import Markov
from probgeo.ode.piecewise import PiecewisePosterior
from probgeo.ode.problem import Problem, boundary_value_problem, initial_value_problem


class Solver(Protocol):
    """What `solver=` takes: see `probgeo.solvers`."""

    def solve(self, problem: Problem, guess: Any = None) -> Curve: ...


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
        f(t, y) for y' = f or, if `dy0` is given, f(t, y, dy) for y'' = f. Written with jax.numpy
        for one point, y and dy of shape (D,); or with NumPy or PyTorch for many rows at once, see
        `probgeo.functions`.
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
    data = {"y0": y0} if dy0 is None else {"y0": y0, "dy0": dy0}
    if _is_traced(data, args):
        from probgeo.ode.inside_jax import traced_initial

        return traced_initial(f, t_span, data, as_solver(solver), args)
    return _solve(initial_value_problem(f, t_span, y0, dy0, args), solver, None)


def solve_bvp(
    f: Callable,
    t_span: Any,
    ya: Any,
    yb: Any,
    *,
    solver: Solver | None = None,
    guess: Any = None,
    args: Any = None,
) -> Curve:
    """Posterior over the solution of the boundary value problem y'' = f(t, y, dy).

    Parameters
    ----------
    f : callable
        As for `solve_ivp`.
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
    if _is_traced({"ya": ya, "yb": yb}, args):
        from probgeo.ode.inside_jax import traced_boundary

        return traced_boundary(f, t_span, {"ya": ya, "yb": yb}, as_solver(solver), guess, args)
    return _solve(boundary_value_problem(f, t_span, ya, yb, args), solver, guess)


def as_solver(solver: Any) -> Solver:
    """`solver`, if it is one; the default for None."""
    if solver is None:
        return Markov()
    if isinstance(solver, type) or not callable(getattr(solver, "solve", None)):
        raise TypeError(f"solver must be one of probgeo.solvers, such as Markov(), got {solver!r}")
    return solver


def _solve(problem: Problem, solver: Any, guess: Any) -> Curve:
    method = as_solver(solver)
    if not problem.count:
        return _empty(problem)
    curve = _with_error_bars(method.solve(problem, guess))
    warn(curve, "solutions", stacklevel=3)
    return curve


def _with_error_bars(curve: Curve) -> Curve:
    """Flagged where error bars, which grow with powers of the time, are not finite."""
    middle = np.array([0.5 * sum(curve.t_span)])
    with np.errstate(all="ignore"):
        known = np.isfinite(curve.posterior.std(middle, 0, "numerical")).all(axis=(1, 2))
    known = known.reshape(curve.batch_shape) & np.isfinite(curve.scale)
    lost = (curve.status == OK) & ~known
    return replace(curve, status=np.where(lost, NOT_FINITE, curve.status)) if lost.any() else curve


def _empty(problem: Problem) -> Curve:
    """The answer to no problem at all, in the shape of the batch."""
    posterior = PiecewisePosterior.empty(
        problem.dimension, problem.order, problem.kind == "boundary"
    )
    count = np.zeros(problem.batch_shape, dtype=np.int64)
    number = np.zeros(problem.batch_shape)
    t_span = (problem.t0, problem.t1)
    return Curve(posterior, t_span, count, number, count, number, number)


def _is_traced(data: dict[str, Any], args: Any) -> bool:
    """Whether a JAX transformation is under way that the answer has to take part in."""
    parts = [
        x for v in data.values() for x in ((v.mean, v.cov) if isinstance(v, Gaussian) else (v,))
    ]
    return is_traced(*parts, *leaves_of(args))
