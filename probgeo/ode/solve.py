"""`solve_ivp` and `solve_bvp`: an ODE and its data in, a posterior over curves out."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Protocol

import numpy as np

from probgeo._checks import as_t_span, is_traced
from probgeo.functions.parameters import leaves_of
from probgeo.gaussian import Gaussian
from probgeo.ode.conditions import Condition, at
from probgeo.ode.curve import NOT_FINITE, OK, Curve, warn
from probgeo.ode.events import CurveWithEvents, as_events, with_events
from probgeo.ode.fit_to_data import fitted
from probgeo.ode.guess import Guess, shape_of_guess
from probgeo.ode.markov import Markov
from probgeo.ode.observed import as_data_along, batch_of, listed
from probgeo.ode.piecewise import PiecewisePosterior
from probgeo.ode.problem import (
    ConditionedProblem,
    Problem,
    boundary_value_problem,
    conditioned_problem,
    initial_value_problem,
)


class Solver(Protocol):
    """What `solver=` takes: see `probgeo.solvers`."""

    def solve(self, problem: Any, guess: Any = None) -> Curve: ...


def solve_ivp(
    f: Callable,
    t_span: Any,
    y0: Any,
    dy0: Any = None,
    d2y0: Any = None,
    d3y0: Any = None,
    *,
    solver: Solver | None = None,
    args: Any = None,
    data: Any = None,
    events: Any = None,
) -> Curve:
    """Posterior over the solution of an initial value problem.

    Parameters
    ----------
    f : callable
        f(t, y) for y' = f or, if `dy0` is given, f(t, y, dy) for y'' = f, and so on up to
        f(t, y, dy, d2y, d3y). Written with jax.numpy for one point, y and dy of shape (D,); or with
        NumPy or PyTorch for many rows at once, see `probgeo.functions`.
    t_span : (t0, t1)
        Interval, t0 < t1.
    y0, dy0, d2y0, d3y0 : array (..., D) or Gaussian
        Initial value (and derivatives below the order of the ODE) at t0; leading axes are a batch.
    solver : optional
        One of `probgeo.solvers`; `solvers.Markov()` by default.
    args : pytree of arrays, optional
        Parameters of f, which is then called with them last. Each array has the batch axes of the
        values in front, so that every member of a batch has parameters of its own.
    data : optional
        Noisy data along the curve, `observed(...)` or a list of these. They tell about the initial
        values as far as these are Gaussians, and the curve has a `log_likelihood`.
    events : function or list of functions, optional
        g(t, y, ...) with arguments as f, one number at a point, whose zeros are sought. With an
        attribute `terminal` that is true (or n) a member stops at the first (or n-th); `direction`
        is positive for zeros from below only, negative for those from above. The curve then has
        `t_events`, `y_events` and `t_end`, with error bars.

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
    values = _initial_data(y0, dy0, d2y0, d3y0)
    if _is_traced(values, args, data):
        if events is not None:
            raise TypeError("events are not available inside JAX transformations")
        from probgeo.ode.inside_jax import solve_traced

        return solve_traced(f, t_span, values, "initial", as_solver(solver), None, args, data)
    problem = initial_value_problem(f, t_span, values, args, batch_of(data))
    watched = as_events(events, problem.order, problem.dimension, args, problem.batch_shape)
    if watched and (data is not None or not isinstance(as_solver(solver), Markov)):
        raise TypeError("events need solvers.Markov, and curves without data")
    return _solve(replace(problem, events=watched), solver, None, data)


def solve_bvp(
    f: Callable,
    t_span: Any,
    ya: Any = None,
    yb: Any = None,
    *,
    conditions: Sequence[Condition] | None = None,
    parameters: Any = None,
    order: int = 2,
    dimension: int | None = None,
    S: Any = None,
    solver: Solver | None = None,
    guess: Guess | None = None,
    args: Any = None,
    data: Any = None,
) -> Curve:
    """Posterior over the solution of a boundary value problem.

    By default of y'' = f(t, y, dy) with y given at both ends; with `conditions` of ODEs of order 1
    to 4 with values, slopes, periods, or any function of them.

    Parameters
    ----------
    f : callable
        As for `solve_ivp`: f(t, y) if `order` is 1, f(t, y, dy) if it is 2, and so on. With
        conditions it is never evaluated at the ends of the interval, where it may be singular.
    t_span : (t0, t1)
        Interval, t0 < t1.
    ya, yb : array (..., D) or Gaussian, optional
        Values at t0 and t1; leading axes are a batch.
    conditions : list, optional
        What else is known of the solution: `at`, `robin`, `periodic` and `condition`, as many
        numbers in all, ya and yb included, as there are unknowns: order D + P.
    parameters : array (..., P) or Gaussian, optional
        First guesses of unknown parameters p, found with the curve: f gets p (P,) last (or the pair
        (p, args), if there are args), so do functions in conditions. The result has them as
        `parameters`, a Gaussian. A Gaussian is what is known of them, as good as P conditions.
    order : int
        Of the ODE, 1 to 4.
    dimension : int, optional
        D, if neither conditions nor guess tell; 1 if conditions have plain numbers only.
    S : array (D, D), optional
        Of a singular term: the ODE is y' = f(t, y) + S y / (t - t0), with `order` 1. Solutions
        that are smooth at t0 have S y(t0) = 0; the conditions must not contradict that.
    solver : optional
        One of `probgeo.solvers`; `solvers.Markov()` by default, the only one for conditions.
    guess : Curve, function or array, optional
        Where to start instead of the straight line: another solution, a function t -> (..., D),
        or samples (..., T, D) at equal steps over t_span.
    args : pytree of arrays, optional
        Parameters of f, which is then called with them last. Each array has the batch axes of the
        values in front, so that every member of a batch has parameters of its own.
    data : optional
        As for `solve_ivp`; data tell about conditions with Gaussians or noise, and parameters.

    Returns
    -------
    Curve

    Examples
    --------
    >>> from probgeo import at, solve_bvp
    >>> curve = solve_bvp(lambda t, y, dy: -y, (0.0, 1.0), [0.0], [1.0])
    >>> bool(curve.converged)
    True

    The eigenvalue k^2 of y'' = -k^2 y that is next to 9, with its error bar:

    >>> wave = lambda t, y, dy, p: -(p[0] ** 2) * y
    >>> start = lambda t: [0.3 * np.sin(3.0 * t)]
    >>> curve = solve_bvp(wave, (0.0, np.pi), [0.0], [0.0], conditions=[at(0.0, dy=1.0)],
    ...                   parameters=[2.9], guess=start)
    >>> bool(abs(curve.parameters.mean[0] - 3.0) < 1e-6)
    True
    """
    general = conditions is not None or parameters is not None or order != 2 or S is not None
    if _is_traced({"ya": ya, "yb": yb, "parameters": parameters}, args, data):
        if general:
            raise TypeError("conditions, parameters and order are not available inside JAX transformations")
        from probgeo.ode.inside_jax import solve_traced

        return solve_traced(f, t_span, {"ya": ya, "yb": yb}, "boundary", as_solver(solver), guess, args, data)
    if not general:
        if ya is None or yb is None:
            raise TypeError("solve_bvp needs ya and yb, or conditions")
        problem = boundary_value_problem(f, t_span, ya, yb, args, batch_of(data))
        return _solve(problem, solver, guess, data)
    if conditions is not None and not isinstance(conditions, list | tuple):
        raise TypeError(f"conditions must be a list, got {conditions!r}")
    ends = [at(t, y=y) for t, y in zip(as_t_span(t_span), (ya, yb), strict=True) if y is not None]
    general_problem = conditioned_problem(
        f, t_span, [*ends, *(conditions or ())], order, dimension, parameters, args,
        shape_of_guess(guess, as_t_span(t_span)[0]), S, batch_of(data),
    )  # fmt: skip
    return _solve(general_problem, solver, guess, data)


def as_solver(solver: Any) -> Solver:
    """`solver`, if it is one; the default for None."""
    if solver is None:
        return Markov()
    if isinstance(solver, type) or not callable(getattr(solver, "solve", None)):
        raise TypeError(f"solver must be one of probgeo.solvers, such as Markov(), got {solver!r}")
    return solver


def _initial_data(*values: Any) -> dict[str, Any]:
    """y0 and the derivatives that are given, by name: none may be left out in between."""
    names = ("y0", "dy0", "d2y0", "d3y0")
    given = {name: value for name, value in zip(names, values, strict=True) if value is not None}
    missing = [name for name in names[: len(given)] if name not in given]
    if missing:
        raise TypeError(f"solve_ivp was given {', '.join(given)}: {missing[0]} is missing")
    return given


def _solve(problem: Problem | ConditionedProblem, solver: Any, guess: Any, data: Any) -> Curve:
    method = as_solver(solver)
    if not isinstance(method, Markov) and (data or isinstance(problem, ConditionedProblem)):
        what = "data" if data else "conditions"
        raise TypeError(f"{what} need solvers.Markov, got {type(method).__name__}")
    if data is None and problem.flat is not None and problem.flat.any():
        raise ValueError("infinite variances are for values that data tell: give data=observed(...)")
    if not problem.count:
        return _empty(problem)
    if data is None:
        curve = method.solve(problem, guess)
        if isinstance(problem, Problem) and problem.events:
            curve = with_events(curve, problem.events, problem.order)
    else:
        along = as_data_along(data, (problem.t0, problem.t1), problem.order, problem.dimension)
        curve = fitted(problem, method, guess, along)
    curve = _with_error_bars(curve)
    warn(curve, "solutions", stacklevel=3)
    return curve


def _with_error_bars(curve: Curve) -> Curve:
    """Flagged where error bars, which grow with powers of the time, are not finite."""
    if np.isfinite(curve.scale).all() and curve.posterior.is_surely_finite():
        return curve
    middle = np.array([0.5 * sum(curve.t_span)])
    with np.errstate(all="ignore"):
        known = np.isfinite(curve.posterior.std(middle, 0, "numerical")).all(axis=(1, 2))
    known = known.reshape(curve.batch_shape) & np.isfinite(curve.scale)
    if isinstance(curve, CurveWithEvents):  # members that ended early have none in the middle
        known |= curve.ends[..., 0] < middle[0]
    lost = (curve.status == OK) & ~known
    return replace(curve, status=np.where(lost, NOT_FINITE, curve.status)) if lost.any() else curve


def _empty(problem: Problem | ConditionedProblem) -> Curve:
    """The answer to no problem at all, in the shape of the batch."""
    pinned = isinstance(problem, ConditionedProblem) or problem.kind == "boundary"
    posterior = PiecewisePosterior.empty(problem.dimension, problem.order, pinned)
    count = np.zeros(problem.batch_shape, dtype=np.int64)
    number = np.zeros(problem.batch_shape)
    t_span = (problem.t0, problem.t1)
    return Curve(posterior, t_span, count, number, count, number, number)


def _is_traced(values: dict[str, Any], args: Any, data: Any) -> bool:
    """Whether a JAX transformation is under way that the answer has to take part in."""
    parts = [x for v in values.values() for x in ((v.mean, v.cov) if isinstance(v, Gaussian) else (v,))]
    seen = [x for one in listed(data) for x in (one.x, one.noise)]
    return is_traced(*parts, *leaves_of(args), *seen)
