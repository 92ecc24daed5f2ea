"""Solves as callbacks of JAX, and their derivatives by the implicit function theorem.

While JAX traces, numbers are not known; a callback solves the problem when they are. Axes that
`vmap` adds are axes of the batch, so that all of its members are solved at a time.

With data and parameters x, the mean moves by dy(t) = S(t) dx, where the columns of S solve the ODE
linearised along the curve. A solver knows them already: they are how the curve moves with uncertain
data, for data of unit covariance, and with the parameters.
"""

import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.custom_derivatives import SymbolicZero

from probgeo._checks import as_float_array
from probgeo.functions import as_field
from probgeo.ode.curve import Curve, Source, warn
from probgeo.ode.problem import Kind, Problem

WHOLE = ("status", "n_evaluations")


class Inputs(NamedTuple):
    """Numbers that a solution depends on; leading axes are a batch.

    means: C arrays (*batch, D); covs: C arrays (*batch, D, D), or none if all data are certain;
    leaves: the arrays of args, (*batch, ...).
    """

    means: tuple
    covs: tuple
    leaves: tuple


class Statement:
    """All of a problem but its numbers, and the solutions for numbers that it had lately."""

    def __init__(
        self,
        f: Callable,
        t_span: tuple[float, float],
        kind: Kind,
        order: int,
        solver: Any,
        guess: Any,
        args: tuple[Any, tuple[int, ...]],
    ) -> None:
        self.f, self.t_span, self.kind, self.order = f, t_span, kind, order
        self.solver, self.guess = solver, guess
        self.tree, self.leaf_axes = args  # how args hang together; axes of leaves of one member
        self._solved: OrderedDict = OrderedDict()
        self._lock = threading.Lock()

    def lead(self, means: Sequence[np.ndarray], leaves: Sequence[np.ndarray]) -> tuple[int, ...]:
        """The axes of the batch that data and parameters have together."""
        shapes = [mean.shape[:-1] for mean in means]
        shapes += [x.shape[: x.ndim - k] for x, k in zip(leaves, self.leaf_axes, strict=True)]
        return np.broadcast_shapes(*shapes)

    def solve(
        self,
        means: Sequence[np.ndarray],
        leaves: Sequence[np.ndarray],
        by_data: bool,
        by_args: bool,
    ) -> Curve:
        """The solution, with columns S by data and parameters if they are wanted."""
        key = tuple((x.shape, x.tobytes()) for x in (*means, *leaves))
        with self._lock:
            for known in ((by_data, by_args), (True, False), (True, True)):
                if known >= (by_data, by_args) and (known, key) in self._solved:
                    return self._solved[known, key]
        curve = self.solver.solve(self.problem(means, leaves, by_data, by_args), self.guess)
        warn(curve, "solutions")
        with self._lock:
            self._solved[(by_data, by_args), key] = curve
            while len(self._solved) > 4:  # a program asks for few numbers in turn
                self._solved.popitem(last=False)
        return curve

    def problem(
        self,
        means: Sequence[np.ndarray],
        leaves: Sequence[np.ndarray],
        by_data: bool,
        by_args: bool,
    ) -> Problem:
        batch, D = self.lead(means, leaves), means[0].shape[-1]
        rows = [np.broadcast_to(mean, (*batch, D)).reshape(-1, D) for mean in means]
        values = np.stack(rows, axis=1).astype(float)
        every = [
            np.broadcast_to(x, batch + x.shape[x.ndim - k :])
            for x, k in zip(leaves, self.leaf_axes, strict=True)
        ]
        args = jax.tree.unflatten(self.tree, every)
        field = as_field(self.f, self.order, D, args=args, batch_shape=batch)
        unit = np.broadcast_to(np.eye(D), (len(values), len(means), D, D)).copy()
        return Problem(
            field,
            *self.t_span,
            self.order,
            self.kind,
            values,
            unit if by_data else None,
            batch,
            with_args=by_args and field.n_parameters > 0,
        )


def as_times(name: str, t: Any, t_span: tuple[float, float], slack: float = 1e-9) -> np.ndarray:
    """Times of the interval, which rounding may have moved a little outside."""
    times, (t0, t1) = as_float_array(name, t), t_span
    allowed = slack * (t1 - t0)
    if np.any(times < t0 - allowed) or np.any(times > t1 + allowed):
        raise ValueError(f"{name} must lie in [{t0:g}, {t1:g}], got {times}")
    return np.clip(times, t0, t1)


def dtype_of(means: tuple) -> Any:
    return jnp.result_type(*means)


def _batch(means: tuple) -> tuple[int, ...]:
    return means[0].shape[:-1]


def _callback(answer: Callable, outputs: Any, times: tuple, means: tuple, leaves: tuple) -> Any:
    """answer(times, means, leaves) on arrays of NumPy, as a part of a program.

    Times (T,) get the axes of the batch in front, of length one, and so does everything under
    `vmap`: leading axes always broadcast.
    """
    axes = len(_batch(means))
    given = (tuple(t.reshape((1,) * axes + t.shape) for t in times), means, leaves)
    types = jax.tree.map(lambda x: np.dtype(x.dtype), given)
    wanted = jax.tree.map(lambda x: np.dtype(x.dtype), outputs)

    def host(arrays: Any) -> Any:
        out = answer(*jax.tree.map(lambda x, dtype: _unpacked(np.asarray(x), dtype), arrays, types))
        return jax.tree.map(lambda x, dtype: _packed(np.asarray(x, dtype)), out, wanted)

    packed = jax.tree.map(lambda x: jax.eval_shape(_packed, x), outputs)
    out = jax.pure_callback(host, packed, jax.tree.map(_packed, given), vmap_method="expand_dims")
    return jax.tree.map(_unpacked, out, wanted)


def _packed(x: Any) -> Any:
    """Numbers of 64 bits as pairs of 32 bits, along a new last axis.

    Callbacks may run in a thread where JAX does not know that it was told to compute with 64 bits,
    and rounds what they get and return.
    """
    if x.dtype.itemsize < 8:
        return x
    if isinstance(x, np.ndarray):
        return np.array(x, order="C")[..., None].view(np.uint32)
    return jax.lax.bitcast_convert_type(x, jnp.uint32)


def _unpacked(x: Any, dtype: np.dtype) -> Any:
    """The numbers of 64 bits again."""
    if dtype.itemsize < 8:
        return x
    if isinstance(x, np.ndarray):
        return np.array(x, order="C").view(dtype)[..., 0]
    return jax.lax.bitcast_convert_type(x, dtype)


def _at_times(
    statement: Statement, curve: Curve, times: tuple[np.ndarray, ...], evaluate: Callable
) -> np.ndarray:
    """evaluate(posterior, *times (T,)) -> (B, T, ...) in the axes that curve and times share."""
    shared = np.broadcast_shapes(curve.batch_shape, *[t.shape[:-1] for t in times])
    count = curve.posterior.count
    numbers = np.broadcast_to(np.arange(count).reshape(curve.batch_shape), shared).ravel()
    if all(t.size == t.shape[-1] for t in times):
        values = evaluate(curve.posterior, *[_inside(statement, t.ravel()) for t in times])[numbers]
    else:
        rows = [np.broadcast_to(t, shared + t.shape[-1:]).reshape(-1, t.shape[-1]) for t in times]
        values = np.concatenate(
            [
                evaluate(
                    curve.posterior.take(np.array([m])), *[_inside(statement, t[i]) for t in rows]
                )
                for i, m in enumerate(numbers)
            ]
        )
    return values.reshape(*shared, *values.shape[1:])


def _inside(statement: Statement, t: np.ndarray) -> np.ndarray:
    """Times of the interval, as far as single precision can tell."""
    return as_times("t", t, statement.t_span, slack=1e-6)


@partial(jax.custom_jvp, nondiff_argnums=(0, 1))
def mean_of(
    statement: Statement, derivative: int, t: jax.Array, means: tuple, leaves: tuple
) -> jax.Array:
    """The mean (*batch, T, D)."""
    dtype = dtype_of(means)
    out = jax.ShapeDtypeStruct((*_batch(means), t.size, means[0].shape[-1]), dtype)

    def answer(times: tuple, means: tuple, leaves: tuple) -> np.ndarray:
        curve = statement.solve(means, leaves, by_data=False, by_args=False)
        values = _at_times(statement, curve, times, lambda p, t: p.mean(t, derivative))
        return values.astype(dtype)

    return _callback(answer, out, (t,), means, leaves)


@partial(mean_of.defjvp, symbolic_zeros=True)
def _mean_jvp(statement: Statement, derivative: int, primals: tuple, tangents: tuple) -> tuple:
    """dy(t) = S(t) d(data, args) + y'(t) dt: linear in the tangents, so that it can be reversed."""
    t, means, leaves = primals
    dt, dmeans, dleaves = tangents
    of_leaves = [
        None if _is_zero(dx) else dx.reshape(*dx.shape[: dx.ndim - k], -1)
        for x, dx, k in zip(leaves, dleaves, statement.leaf_axes, strict=True)
        if _is_real(x)
    ]
    moves = [None if _is_zero(dx) else dx for dx in dmeans] + of_leaves
    if all(dx is None for dx in moves):
        values = mean_of(statement, derivative, t, means, leaves)
        change = jnp.zeros_like(values)
    else:
        by_args = any(dx is not None for dx in of_leaves)
        values, S = _mean_and_columns(statement, (derivative, by_args), t, means, leaves)
        change = jnp.zeros_like(values)
        sizes = [x.shape[-1] for x in means] + _sizes(statement, leaves)
        for dx, size, end in zip(moves, sizes, np.cumsum(sizes), strict=True):
            if dx is not None:
                part = S[..., end - size : end]
                change += jnp.einsum("...tij,...j->...ti", part, dx.astype(values.dtype))
    if not _is_zero(dt):
        change += mean_of(statement, derivative + 1, t, means, leaves) * dt[:, None]
    return values, change


def _is_zero(tangent: Any) -> bool:
    return isinstance(tangent, SymbolicZero)


def _is_real(leaf: Any) -> bool:
    return jnp.issubdtype(leaf.dtype, jnp.floating)


def _sizes(statement: Statement, leaves: tuple) -> list[int]:
    """How many parameters of one member each array of real numbers holds."""
    return [
        int(np.prod(x.shape[x.ndim - k :]))
        for x, k in zip(leaves, statement.leaf_axes, strict=True)
        if _is_real(x)
    ]


def _without_derivatives(function: Callable, what: str) -> Callable:
    """A function of arrays that refuses to be differentiated."""
    wrapped = jax.custom_jvp(function, nondiff_argnums=(0, 1))

    def refuse(statement: Statement, derivative: Any, primals: tuple, tangents: tuple) -> tuple:
        if all(map(_is_zero, jax.tree.leaves(tangents, is_leaf=_is_zero))):
            out = wrapped(statement, derivative, *primals)
            return out, jax.tree.map(jnp.zeros_like, out)
        raise NotImplementedError(
            f"{what} of a curve have no derivatives with respect to data, parameters and times: "
            "use jax.lax.stop_gradient, or differentiate means only"
        )

    wrapped.defjvp(refuse, symbolic_zeros=True)
    return wrapped


def _mean_and_columns_called(
    statement: Statement, wanted: tuple[int, bool], t: jax.Array, means: tuple, leaves: tuple
) -> tuple[jax.Array, jax.Array]:
    """The mean (*batch, T, D), and the columns S (*batch, T, D, R), of one solve."""
    derivative, by_args = wanted
    dtype, D = dtype_of(means), means[0].shape[-1]
    R = D * len(means) + (sum(_sizes(statement, leaves)) if by_args else 0)
    shape = (*_batch(means), t.size, D)
    outputs = (jax.ShapeDtypeStruct(shape, dtype), jax.ShapeDtypeStruct((*shape, R), dtype))

    def answer(times: tuple, means: tuple, leaves: tuple) -> tuple:
        curve = statement.solve(means, leaves, by_data=True, by_args=by_args)

        def columns(posterior: Any, t: np.ndarray) -> np.ndarray:
            return posterior.boundary_columns(t, derivative)[..., :R]

        values = _at_times(statement, curve, times, lambda p, t: p.mean(t, derivative))
        S = _at_times(statement, curve, times, columns)
        return values.astype(dtype), S.astype(dtype)

    return _callback(answer, outputs, (t,), means, leaves)


_mean_and_columns = _without_derivatives(_mean_and_columns_called, "second derivatives")


columns_of = _without_derivatives(_mean_and_columns_called, "error bars")


def _covariance_called(
    statement: Statement,
    wanted: tuple[tuple[int, int], Source],
    s: jax.Array,
    t: jax.Array,
    means: tuple,
    leaves: tuple,
) -> jax.Array:
    dtype, D = dtype_of(means), means[0].shape[-1]
    out = jax.ShapeDtypeStruct((*_batch(means), t.size, D, D), dtype)

    def answer(times: tuple, means: tuple, leaves: tuple) -> np.ndarray:
        curve = statement.solve(means, leaves, by_data=False, by_args=False)

        def cov(posterior: Any, s: np.ndarray, t: np.ndarray) -> np.ndarray:
            return posterior.cov(s, t, *wanted)

        return _at_times(statement, curve, times, cov).astype(dtype)

    return _callback(answer, out, (s, t), means, leaves)


covariance_of = _without_derivatives(_covariance_called, "error bars")


def _diagnostic_called(statement: Statement, name: str, means: tuple, leaves: tuple) -> jax.Array:
    dtype = np.dtype(np.int32) if name in WHOLE else dtype_of(means)
    out = jax.ShapeDtypeStruct(_batch(means), dtype)

    def answer(times: tuple, means: tuple, leaves: tuple) -> np.ndarray:
        curve = statement.solve(means, leaves, by_data=False, by_args=False)
        return np.asarray(getattr(curve, name)).astype(dtype)

    return _callback(answer, out, (), means, leaves)


_diagnostic_number = _without_derivatives(_diagnostic_called, "diagnostics")


def diagnostic_of(statement: Statement, name: str, means: tuple, leaves: tuple) -> jax.Array:
    """One attribute of the curve; whole numbers do not move with the inputs."""
    if name in WHOLE:
        return _diagnostic_called(statement, name, *jax.lax.stop_gradient((means, leaves)))
    return _diagnostic_number(statement, name, means, leaves)
