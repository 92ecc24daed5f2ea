"""An ODE with its (uncertain) data: what every solver gets."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from probgeo._checks import as_float_array, as_t_span, as_whole_number
from probgeo.functions import Field, as_field
from probgeo.gaussian import Gaussian, root_and_flat
from probgeo.ode.conditions import Conditions, compiled, dimension_of
from probgeo.ode.singular import WithSingularTerm, check_smooth_start

Kind = Literal["initial", "boundary"]


@dataclass(frozen=True)
class Problem:
    """y^(order) = f(t, y, ...) on [t0, t1] for a batch of B members, and their data.

    Attributes
    ----------
    field : Field
        f, at many rows of many members.
    kind : "initial" | "boundary"
    values : array (B, C, D)
        Data: y(t0) and y(t1) of boundary value problems, y(t0) and derivatives up to order - 1 of
        initial value problems.
    spread : array (B, C, D, D) or None
        Factors A of their covariances A A' (Delta_a, Delta_b or Delta_v in Eq. 3 and 4); None if
        all are certain.
    batch_shape : tuple
        Axes of the batch as the user has them; B is their product.
    flat : array (B, C D) or None
        Which columns of uncertain data have an infinite variance instead.
    events : tuple of Event
        What is watched along the way.
    with_args : bool
        Whether derivatives of the solution by the parameters of f are wanted as well, as columns
        behind those of the data.
    """

    field: Field
    t0: float
    t1: float
    order: int
    kind: Kind
    values: np.ndarray
    spread: np.ndarray | None
    batch_shape: tuple[int, ...]
    with_args: bool = False
    flat: np.ndarray | None = None
    events: tuple[Any, ...] = ()

    @property
    def count(self) -> int:
        return len(self.values)

    @property
    def dimension(self) -> int:
        return self.values.shape[-1]

    @property
    def duration(self) -> float:
        return self.t1 - self.t0

    def columns(self) -> np.ndarray | None:
        """How the data move with R independent standard normal numbers: (B, C, D, R)."""
        if self.spread is None:
            return None
        count, conditions, dimension, _ = self.spread.shape
        out = np.zeros((count, conditions, dimension, conditions * dimension))
        for c in range(conditions):
            out[:, c, :, c * dimension : (c + 1) * dimension] = self.spread[:, c]
        return out

    def moved(self, xi: np.ndarray) -> "Problem":
        """With data that far (B, R) from their means, in their standard normal numbers."""
        columns = self.columns()
        change = 0.0 if columns is None else np.einsum("bcdr,br->bcd", columns, xi)
        return replace(self, values=self.values + change)

    def at_start(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Rows (t, state, member) where the solver starts, along the straight line."""
        state = np.zeros((self.count, self.order, self.dimension))
        if self.kind == "initial":
            state[:] = self.values
        else:
            state[:, 0] = self.values[:, 0]
            state[:, 1] = (self.values[:, 1] - self.values[:, 0]) / self.duration
        return np.full(self.count, self.t0), state, np.arange(self.count)


@dataclass(frozen=True)
class ConditionedProblem:
    """y^(order) = f(t, y, ..., p) on [t0, t1] for B members, with any conditions.

    Attributes
    ----------
    field : Field
        f, with the first guesses of unknown parameters.
    conditions : Conditions
    parameters : array (B, P)
        First guesses of the unknown parameters p.
    """

    field: Field
    t0: float
    t1: float
    order: int
    conditions: Conditions
    parameters: np.ndarray
    batch_shape: tuple[int, ...]

    @property
    def count(self) -> int:
        return len(self.parameters)

    @property
    def dimension(self) -> int:
        return self.field.dimension

    @property
    def duration(self) -> float:
        return self.t1 - self.t0

    @property
    def flat(self) -> np.ndarray | None:
        return self.conditions.flat

    def columns(self) -> np.ndarray | None:
        """How values of conditions move with R independent standard normal numbers: (B, M, R)."""
        return self.conditions.spread

    def moved(self, xi: np.ndarray) -> "ConditionedProblem":
        """With conditions that far (B, R) from their means, in their standard normal numbers."""
        known = self.conditions
        change = 0.0 if known.spread is None else np.einsum("bmr,br->bm", known.spread, xi)
        return replace(self, conditions=replace(known, shift=known.shift + change))

    def field_of(self, members: np.ndarray) -> Field:
        """f for some members, numbered anew."""
        return self.field if len(members) == self.count else self.field.take(members)


def conditioned_problem(
    f: Any,
    t_span: Any,
    conditions: Any,
    order: Any,
    dimension: int | None,
    parameters: Any,
    args: Any,
    guessed: tuple[int, ...],
    S: Any = None,
    also: tuple[int, ...] = (),
) -> ConditionedProblem:
    """Validate and normalise what `solve_bvp` was given with conditions.

    guessed: shape (..., D) of the guess, () without one; also: axes of a batch from elsewhere.
    """
    t0, t1 = as_t_span(t_span)
    if as_whole_number("order", order, 1) > 4:
        raise ValueError(f"order must be at most 4, got {order}")
    listed = list(conditions)
    S = None if S is None else _as_singular(S, order)
    if dimension is None and S is not None:
        dimension = len(S)
    if dimension is None:
        dimension = dimension_of(listed, guessed)
    prior = parameters if isinstance(parameters, Gaussian) else None
    given = [] if parameters is None else parameters
    first = as_float_array("parameters", given) if prior is None else prior.mean
    if first.ndim == 0:
        raise ValueError("parameters must have shape (..., P), got a number")
    if first.shape[-1] and isinstance(f, Field):
        raise TypeError("f must be a function of p, not a Field, where parameters are unknown")
    found, batch = compiled(
        listed, (t0, t1), order, dimension, first if prior is None else prior, np.broadcast_shapes(guessed[:-1], also)
    )
    if S is not None:
        if len(S) != dimension:
            raise ValueError(f"S must have shape (D, D) with D = {dimension}, got {S.shape}")
        check_smooth_start(S, found)
    P = first.shape[-1]
    guesses = np.array(np.broadcast_to(first, (*batch, P)))
    if P:
        args = guesses if args is None else (guesses, args)
    field = as_field(f, order, dimension, args=args, batch_shape=batch)
    if field.n_parameters == 0 and P:
        raise ValueError("f has no derivatives by its parameters")
    if S is not None:
        field = WithSingularTerm(field, S, t0)
    return ConditionedProblem(field, t0, t1, order, found, guesses.reshape(int(np.prod(batch)), P), batch)


def _as_singular(S: Any, order: int) -> np.ndarray:
    matrix = as_float_array("S", S)
    if order != 1:
        raise ValueError(f"S is for first-order systems, order=1, got order={order}")
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1]:
        raise ValueError(f"S must have shape (D, D), got {matrix.shape}")
    return matrix


def initial_value_problem(
    f: Callable | Field, t_span: Any, data: dict[str, Any], args: Any = None, also: tuple[int, ...] = ()
) -> Problem:
    """Validate and normalise what `solve_ivp` was given; `data` by name, y0 and its derivatives.

    `also`: axes of a batch that come from elsewhere.
    """
    return _problem(f, t_span, data, args, "initial", len(data), also)


def boundary_value_problem(
    f: Callable | Field, t_span: Any, ya: Any, yb: Any, args: Any = None, also: tuple = ()
) -> Problem:
    """Validate and normalise what `solve_bvp` was given."""
    return _problem(f, t_span, {"ya": ya, "yb": yb}, args, "boundary", 2, also)


def _problem(
    f: Callable | Field, t_span: Any, data: dict[str, Any], args: Any, kind: Kind, order: int, also: tuple[int, ...]
) -> Problem:
    t0, t1 = as_t_span(t_span)
    gaussians = {name: as_data(name, value) for name, value in data.items()}
    *batch, dimension = common_shape({name: g.mean.shape for name, g in gaussians.items()})
    batch = list(np.broadcast_shapes(tuple(batch), also))
    shape = (*batch, dimension)
    means = [np.broadcast_to(g.mean, shape).reshape(-1, dimension) for g in gaussians.values()]
    spread = flat = None
    if any(np.any(g.cov) for g in gaussians.values()):
        covs = [np.broadcast_to(g.cov, (*shape, dimension)) for g in gaussians.values()]
        together = np.stack([x.reshape(-1, dimension, dimension) for x in covs], axis=1)
        spread, flat = root_and_flat(together)
        flat = flat.reshape(len(flat), -1)
    values = np.stack(means, axis=1)
    field = as_field(f, order, dimension, args=args, batch_shape=tuple(batch))
    return _checked(Problem(field, t0, t1, order, kind, values, spread, tuple(batch), flat=flat))


def _checked(problem: Problem) -> Problem:
    """That f is finite where the solver starts, for at least one member of the batch.

    Single members that are not are left to the solver, which flags them and solves the rest.
    """
    start = problem.field.values(*problem.at_start())
    if start.size and not np.isfinite(start).all(axis=-1).any():
        raise ValueError(f"f must be finite at the start of the interval, got {start[0]}")
    return problem


def as_data(name: str, value: Any) -> Gaussian:
    """Initial or boundary values as users give them: an array (..., D) or a Gaussian."""
    if isinstance(value, Gaussian):
        return value
    mean = as_float_array(name, value)
    if mean.ndim == 0 or mean.shape[-1] == 0:
        raise ValueError(f"{name} must have shape (..., D) with D >= 1, got {mean.shape}")
    return Gaussian(mean)


def common_shape(shapes: dict[str, tuple[int, ...]]) -> tuple[int, ...]:
    """The shape that all data broadcast to."""
    described = " and ".join(f"{name} {shape}" for name, shape in shapes.items())
    if len({shape[-1] for shape in shapes.values()}) > 1:
        raise ValueError(f"the last axes must be of one size D, got {described}")
    try:
        return np.broadcast_shapes(*shapes.values())
    except ValueError as error:
        raise ValueError(f"the leading (batch) axes must broadcast, got {described}") from error
