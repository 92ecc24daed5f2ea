"""An ODE with its (uncertain) data, brought to the unit interval: what every solver gets."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from probgeo._old._checks import (
    array_module,
    as_float_array,
    as_t_span,
    check_vector_field,
    is_concrete,
)
from probgeo._old._compile import compiled_quickly
from probgeo._old.gaussian import Gaussian, covariance_factor

# where the data of a problem sit: (time on the unit interval, derivative)
Conditions = tuple[tuple[float, int], ...]
BOUNDARY: Conditions = ((0.0, 0), (1.0, 0))
INITIAL: dict[int, Conditions] = {1: ((0.0, 0),), 2: ((0.0, 0), (0.0, 1))}


class UnitTime(eqx.Module):
    """The vector field in the time tau = (t - t0) / (t1 - t0).

    A module, not a closure, so that the same f is compiled once whatever the interval. `args` are
    the parameters of f, if it has any; in a batch of problems their leading axes are those of it.
    """

    f: Callable
    t0: Float[Array, ""]
    duration: Float[Array, ""]
    args: Any = None

    def __call__(self, tau: Array, *state: Array) -> Array:
        t = self.t0 + tau * self.duration
        derivatives = [y / self.duration**d for d, y in enumerate(state)]
        parameters = () if self.args is None else (self.args,)
        return self.duration ** len(state) * self.f(t, *derivatives, *parameters)

    def jacobian(self, tau: Array, state: Float[Array, "o d"]) -> Float[Array, "d o d"]:
        """J[j, m, i] = d f_j / d c^(m)_i: from `f.jacobian(t, y, ...)` or automatically."""
        if not hasattr(self.f, "jacobian"):
            return jax.jacfwd(lambda y: self(tau, *y))(state)
        t = self.t0 + tau * self.duration
        units = self.duration ** jnp.arange(len(state))
        parameters = () if self.args is None else (self.args,)
        J = self.f.jacobian(t, *(state / units[:, None]), *parameters)
        return self.duration ** len(state) * J / units[:, None]


class Problem(eqx.Module):
    """y^(order) = f(tau, y, ...) on [0, 1] with values of y or y' at one or two times.

    `values` (*batch, C, D) are the data at the C `conditions`; `spread` (*batch, C, D, D) are
    factors of their covariances (Delta_a, Delta_b or Delta_v in Eq. 3 and 4), or None if all are
    certain.
    """

    f: UnitTime
    values: Float[Array, "*batch c d"]
    spread: Float[Array, "*batch c d d"] | None
    conditions: Conditions = eqx.field(static=True)
    order: int = eqx.field(static=True)

    @property
    def dimension(self) -> int:
        return self.values.shape[-1]

    @property
    def batch_shape(self) -> tuple[int, ...]:
        return self.values.shape[:-2]

    @property
    def t_span(self) -> Float[Array, " 2"]:
        xp = array_module(self.f.t0, self.f.duration)
        t0, duration = xp.asarray(self.f.t0), xp.asarray(self.f.duration)
        return jnp.asarray(xp.stack([t0, t0 + duration]))

    def flattened(self) -> "Problem":
        """The same problems with one batch axis."""
        count = len(self.batch_shape)
        return self._with_data(lambda x: x.reshape(-1, *x.shape[count:]))

    def members(self, index: Any) -> "Problem":
        """Some members of the batch."""
        return self._with_data(lambda x: x[index])

    def as_arrays(self, convert: Callable) -> "Problem":
        """The same with its data as arrays of NumPy (quick to take apart) or JAX (to compute)."""
        return self._with_data(convert)

    def map(self, function: Callable, *extra: Any) -> Any:
        """function(member, *extra_member) for every member of one batch axis, vectorised."""

        def one(batched: tuple, *more: Any) -> Any:
            return function(self._with(batched), *more)

        return jax.vmap(one)(self._batched, *extra)

    @property
    def _batched(self) -> tuple:
        """What differs from member to member."""
        return self.values, self.spread, self.f.args

    def _with(self, batched: tuple) -> "Problem":
        values, spread, args = batched
        f = UnitTime(self.f.f, self.f.t0, self.f.duration, args)
        return Problem(f, values, spread, self.conditions, self.order)

    def _with_data(self, change: Callable[[Array], Array]) -> "Problem":
        return self._with(jax.tree.map(change, self._batched))


def mean_basis(conditions: Conditions, derivative: int, tau: Array) -> Float[Array, "*t c"]:
    """The prior mean as a linear map of the data: mu^(derivative)(tau) = basis @ values.

    The straight line through the boundary values, or through y0 with slope dy0 (Sec. 3.1).
    """
    one, zero = jnp.ones_like(tau), jnp.zeros_like(tau)
    line = {0: tau, 1: one}.get(derivative, zero)
    constant = one if derivative == 0 else zero
    if conditions == BOUNDARY:
        return jnp.stack([constant - line, line], axis=-1)
    return jnp.stack([constant, line][: len(conditions)], axis=-1)


def initial_value_problem(
    f: Callable, t_span: Any, y0: Any, dy0: Any = None, args: Any = None, check: bool = True
) -> Problem:
    """Validate and normalise what `solve_ivp` was given; `check` f, unless it is known."""
    data = {"y0": y0} if dy0 is None else {"y0": y0, "dy0": dy0}
    problem = _problem(f, t_span, data, args, INITIAL[len(data)], order=len(data))
    return _checked(problem) if check else problem


def boundary_value_problem(
    f: Callable, t_span: Any, ya: Any, yb: Any, args: Any = None, check: bool = True
) -> Problem:
    """Validate and normalise what `solve_bvp` was given; `check` f, unless it is known."""
    problem = _problem(f, t_span, {"ya": ya, "yb": yb}, args, BOUNDARY, order=2)
    return _checked(problem) if check else problem


def _problem(
    f: Callable, t_span: Any, data: dict[str, Any], args: Any, conditions: Conditions, order: int
) -> Problem:
    t0, t1 = as_t_span(t_span)
    gaussians = {name: _as_gaussian(name, value) for name, value in data.items()}
    shape = _common_shape({name: g.mean.shape for name, g in gaussians.items()})

    # a derivative by tau is the duration times a derivative by t
    units = [(t1 - t0) ** d for _, d in conditions]
    xp = array_module(t0, t1, [g.mean for g in gaussians.values()])
    means = [u * xp.asarray(g.mean) for u, g in zip(units, gaussians.values(), strict=True)]
    values = jnp.asarray(xp.stack([xp.broadcast_to(m, shape) for m in means], axis=-2))
    spread = None
    if any(_is_uncertain(g) for g in gaussians.values()):
        factors = [
            u * jnp.broadcast_to(covariance_factor(g.cov), (*shape, shape[-1]))
            for u, g in zip(units, gaussians.values(), strict=True)
        ]
        spread = jnp.stack(factors, axis=-3)

    field = UnitTime(f, jnp.asarray(t0), jnp.asarray(t1 - t0), _as_args(args, shape[:-1]))
    return Problem(field, values, spread, conditions, order)


def _checked(problem: Problem) -> Problem:
    """That f is a vector field of the right shape, and finite where the solver starts."""
    field, axes = problem.f, len(problem.batch_shape)
    point = jnp.zeros(problem.dimension)
    first = jax.tree.map(lambda x: jnp.zeros(x.shape[axes:], x.dtype), field.args)
    check_vector_field(field.f, field.t0, *[point] * problem.order, args=first)
    _check_start(problem)
    return problem


def _as_args(args: Any, batch_shape: tuple[int, ...]) -> Any:
    """Parameters of f as arrays whose leading axes are those of the batch."""

    def check(leaf: Any) -> Array:
        array = jnp.asarray(leaf)
        if array.shape[: len(batch_shape)] != batch_shape:
            raise ValueError(
                f"the arrays in args must have the batch axes {batch_shape} of the values in "
                f"front, got shape {array.shape}"
            )
        return array

    return jax.tree.map(check, args)


def _as_gaussian(name: str, value: Any) -> Gaussian:
    if isinstance(value, Gaussian):
        return value
    mean = as_float_array(name, value)
    if mean.ndim == 0 or mean.shape[-1] == 0:
        raise ValueError(f"{name} must have shape (..., D) with D >= 1, got {mean.shape}")
    return Gaussian(mean)


def _is_uncertain(gaussian: Gaussian) -> bool:
    return not is_concrete(gaussian.cov) or bool(np.any(np.asarray(gaussian.cov)))


def _common_shape(shapes: dict[str, tuple[int, ...]]) -> tuple[int, ...]:
    described = " and ".join(f"{name} {shape}" for name, shape in shapes.items())
    if len({shape[-1] for shape in shapes.values()}) > 1:
        raise ValueError(f"the last axes must be of one size D, got {described}")
    try:
        return np.broadcast_shapes(*shapes.values())
    except ValueError as error:
        raise ValueError(f"the leading (batch) axes must broadcast, got {described}") from error


def _check_start(problem: Problem) -> None:
    """That f is finite where the solver starts, for at least one member of the batch.

    Single members that are not are left to the solver, which flags them and solves the rest.
    """
    if not is_concrete(problem):
        return
    start = np.asarray(_at_start(problem.flattened()))
    if start.size and not np.isfinite(start).all(axis=-1).any():
        raise ValueError(f"f must be finite at the start of the interval, got {start[0]}")


@compiled_quickly
def _at_start(problem: Problem) -> Float[Array, "batch d"]:
    """f at the start of the interval, along the straight line."""
    zero = jnp.array(0.0)

    def one(member: Problem) -> Array:
        bases = [mean_basis(member.conditions, d, zero) for d in range(member.order)]
        return member.f(zero, *[basis @ member.values for basis in bases])

    return problem.map(one)
