"""Curves inside a program of JAX: `solve_ivp` and `solve_bvp` under `jit`, `vmap` and `grad`.

While JAX traces, numbers are not known; a callback solves the problem when they are. Axes that `vmap` adds are axes of
the batch, so that all of its members are solved at a time.

Derivatives are those of the implicit function theorem. With data and parameters x, the mean moves by dy(t) = S(t) dx,
where the columns of S solve the ODE linearised along the curve. A solver knows them already: they are how the curve
moves with uncertain data, for data of unit covariance, and with the parameters.
"""

import math
import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.custom_derivatives import SymbolicZero

from probgeo._checks import as_t_span, is_traced
from probgeo.functions import as_field
from probgeo.gaussian import Gaussian, covariance_factor
from probgeo.ode.curve import OK, Curve, Source, as_source, as_times, warn
from probgeo.ode.fit_to_data import fitted
from probgeo.ode.observed import Data, as_data_along
from probgeo.ode.problem import Kind, Problem, as_data, common_shape


class Inputs(NamedTuple):
    """Numbers that a solution depends on; leading axes are a batch.

    means: C arrays (*batch, D); covs: C arrays (*batch, D, D), or none if all data are certain;
    leaves: the arrays of args, (*batch, ...).
    """

    means: tuple
    covs: tuple
    leaves: tuple


@dataclass(eq=False)
class Statement:
    """A problem without its numbers, and the solutions for the last few numbers that it was given.

    `as_args` puts leaves together, `leaf_axes` are the axes of leaves of one member. If the `curve` is known already,
    only times are still to come.
    """

    t_span: tuple[float, float]
    f: Any = None
    kind: Kind = "initial"
    order: int = 0
    solver: Any = None
    guess: Any = None
    as_args: Any = None
    leaf_axes: tuple[int, ...] = ()
    curve: Curve | None = None
    _solved: OrderedDict = field(default_factory=OrderedDict)
    _lock: Any = field(default_factory=threading.Lock)

    def solve(self, means: Sequence[np.ndarray], leaves: Sequence[np.ndarray], by_data: bool, by_args: bool) -> Curve:
        """The solution, with columns S by data and parameters if they are wanted."""
        if self.curve is not None:
            return self.curve
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
        self, means: Sequence[np.ndarray], leaves: Sequence[np.ndarray], by_data: bool, by_args: bool
    ) -> Problem:
        """With numbers; data of unit covariance if derivatives by them are wanted."""
        own = [x.shape[x.ndim - k :] for x, k in zip(leaves, self.leaf_axes, strict=True)]
        lead = [x.shape[: x.ndim - len(shape)] for x, shape in zip(leaves, own, strict=True)]
        batch, D = np.broadcast_shapes(*lead, *(mean.shape[:-1] for mean in means)), means[0].shape[-1]
        rows = [np.broadcast_to(mean, (*batch, D)).reshape(-1, D) for mean in means]
        values = np.stack(rows, axis=1).astype(float)
        args = self.as_args([np.broadcast_to(x, batch + shape) for x, shape in zip(leaves, own, strict=True)])
        f = as_field(self.f, self.order, D, args=args, batch_shape=batch)
        unit = np.broadcast_to(np.eye(D), (*values.shape, D)).copy() if by_data else None
        return Problem(
            f, *self.t_span, self.order, self.kind, values, unit, batch, with_args=by_args and f.n_parameters > 0
        )


def solve_traced(
    f: Callable, t_span: Any, data: dict[str, Any], kind: Kind, solver: Any, guess: Any, args: Any, seen: Any
) -> Any:
    """What `solve_ivp` and `solve_bvp` return for numbers that are not known yet; `seen`: data along the curve."""
    gaussians = {name: as_data(name, value) for name, value in data.items()}
    *batch, D = common_shape({name: g.mean.shape for name, g in gaussians.items()})
    leaves, tree = jax.tree.flatten(args)
    for leaf in leaves:
        if np.shape(leaf)[: len(batch)] != tuple(batch):
            raise ValueError(
                f"the arrays in args must have the batch axes {tuple(batch)} of the values in "
                f"front, got shape {np.shape(leaf)}"
            )
    zeros = [np.zeros((1, *np.shape(x)[len(batch) :]), jnp.result_type(x)) for x in leaves]
    as_args, order = partial(jax.tree.unflatten, tree), len(data)
    as_field(f, order, D, args=as_args(zeros), batch_shape=(1,))  # so that f is checked
    if is_traced(guess):
        raise TypeError("guess must be known: inside jit, vmap or grad it cannot be traced")
    dtype = jnp.result_type(float, *[g.mean for g in gaussians.values()], *leaves)

    def as_arrays(given: list, *shape: int) -> tuple:
        return tuple(jnp.broadcast_to(jnp.asarray(x, dtype), (*batch, *shape)) for x in given)

    covs: list = [g.cov for g in gaussians.values()]
    uncertain = any(is_traced(cov) or np.any(cov) for cov in covs)
    if seen is not None and uncertain:
        raise TypeError(
            "data along curves with uncertain initial or boundary values are not available "
            "inside JAX: give values that are certain, differentiate by these too, and add "
            "the log of their prior density to log_likelihood"
        )
    span = as_t_span(t_span)
    along = None if seen is None else as_data_along(seen, span, order, D)
    axes = tuple(np.ndim(leaf) - len(batch) for leaf in leaves)
    statement = Statement(span, f, kind, order, solver, guess, as_args, axes)
    means = as_arrays([g.mean for g in gaussians.values()], D)
    return TracedCurve(
        statement, Inputs(means, as_arrays(covs, D, D) if uncertain else (), tuple(map(jnp.asarray, leaves))), along
    )


def at_traced_times(curve: Curve) -> "TracedCurve":
    """What a curve answers inside a program of JAX whose times are not known yet."""
    shape = np.zeros((*curve.batch_shape, curve.dimension))  # says no more than that
    return TracedCurve(Statement(curve.t_span, curve=curve), Inputs((jnp.asarray(shape),), (), ()))


def _diagnostic(name: str) -> Any:
    """An attribute (*batch,) of the solution."""

    def answer(curve: "TracedCurve") -> jax.Array:
        inputs = curve._inputs
        if name in WHOLE:  # does not move with the inputs
            inputs = jax.lax.stop_gradient(inputs)
        return ask(curve._statement, ("diagnostic", name), (), inputs.means, inputs.leaves)[0]

    return property(answer)


@jax.tree_util.register_pytree_node_class
class TracedCurve:
    """A posterior over curves inside a program of JAX: what it says are arrays of JAX.

    It can be returned from a program, and then answers outside of it; `solved()` is then the `Curve` itself. Means have
    derivatives with respect to data, parameters and times, error bars only with respect to the covariances of the data.

    Attributes
    ----------
    t_span : (t0, t1)
    batch_shape : tuple
    dimension : int

    Examples
    --------
    >>> import jax
    >>> from probgeo import solve_ivp
    >>> end = lambda k: solve_ivp(lambda t, y, k: -k * y, (0.0, 1.0), [1.0], args=k).mean(1.0)[0]
    >>> bool(abs(jax.grad(end)(2.0) + np.exp(-2.0)) < 1e-5)
    True
    """

    status, n_evaluations = _diagnostic("status"), _diagnostic("n_evaluations")
    residual, scale, log_evidence = map(_diagnostic, ("residual", "scale", "log_evidence"))

    def __init__(self, statement: Statement, inputs: Inputs, data: Data | None = None) -> None:
        self._statement, self._inputs, self._data = statement, inputs, data
        self.t_span = statement.t_span

    def tree_flatten(self) -> tuple[tuple, tuple]:
        seen = None if self._data is None else (self._data.x, self._data.noise)
        return (*self._inputs, seen), (self._statement, self._data)

    @classmethod
    def tree_unflatten(cls, known: tuple, arrays: tuple) -> "TracedCurve":
        (statement, data), (*inputs, seen) = known, arrays
        if data is not None:
            data = replace(data, x=seen[0], noise=seen[1])
        return cls(statement, Inputs(*inputs), data)

    @property
    def batch_shape(self) -> tuple[int, ...]:
        return self._inputs.means[0].shape[:-1]

    @property
    def dimension(self) -> int:
        return self._inputs.means[0].shape[-1]

    def mean(self, t: Any, derivative: int = 0) -> jax.Array:
        """Posterior mean at time(s) `t`, shape (..., *t.shape, D)."""
        times = self._times("t", t)
        values = self._ask(("mean", derivative), times.reshape(-1))[0]
        return values.reshape(*self.batch_shape, *times.shape, self.dimension)

    def cov(self, s: Any, t: Any, derivative: tuple[int, int] = (0, 0), source: Source = "total") -> jax.Array:
        """Covariance of derivative[0] at `s` with derivative[1] at `t`: (..., *shape, D, D)."""
        first, second = jnp.broadcast_arrays(self._times("s", s), self._times("t", t))
        pairs, D = (first.reshape(-1), second.reshape(-1)), self.dimension
        total = jnp.zeros((*self.batch_shape, first.size, D, D), jnp.result_type(*self._inputs.means))
        known = self._statement.curve is not None  # with all its uncertainty; else that of the data is an input
        if as_source(source) != "boundary" or known:
            total += self._ask(("cov", derivative, source if known else "numerical"), *pairs)[0]
        if source != "numerical" and self._inputs.covs:  # sum_c S_c(s) cov_c S_c(t)'
            left, right = (self._ask(("spread", d), x)[1] for x, d in zip(pairs, derivative, strict=True))
            for c, cov in enumerate(self._inputs.covs):
                S, R = (x[..., c * D : (c + 1) * D] for x in (left, right))
                total += jnp.einsum("...tij,...jk,...tlk->...til", S, cov, R)
        return total.reshape(*self.batch_shape, *first.shape, D, D)

    def std(self, t: Any, derivative: int = 0, source: Source = "total") -> jax.Array:
        """Posterior standard deviation at time(s) `t`, shape (..., *t.shape, D)."""
        cov = self.cov(t, t, (derivative, derivative), source)
        variance = jnp.diagonal(cov, axis1=-2, axis2=-1)
        known = variance <= 0  # at given values; the root has no derivative there
        return jnp.where(known, 0.0, jnp.sqrt(jnp.where(known, 1.0, variance)))

    def __call__(self, t: Any, derivative: int = 0) -> Gaussian:
        """The marginal at time(s) `t` as a Gaussian."""
        cov = self.cov(t, t, (derivative, derivative))
        return Gaussian.unchecked(self.mean(t, derivative), cov)

    @property
    def converged(self) -> jax.Array:
        return self.status == OK

    @property
    def log_likelihood(self) -> jax.Array | None:
        """Log density of the data along the curve; numerical errors count as constant noise."""
        data = self._data
        if data is None:
            return None
        missed = data.x - data.of(lambda m: self.mean(data.times, m), jnp)
        still = TracedCurve(self._statement, jax.lax.stop_gradient(self._inputs))
        first, second = data.times[:, None], data.times[None, :]
        error = data.covariances(lambda m, n: still.cov(first, second, (m, n), "numerical"), jnp)
        factor = jnp.linalg.cholesky(data.noise + error)
        scaled = jax.scipy.linalg.solve_triangular(factor, missed[..., None], lower=True)
        volume = jnp.log(jnp.diagonal(factor, axis1=-2, axis2=-1)).sum(axis=-1)
        n = missed.shape[-1]
        return -0.5 * (scaled**2).sum(axis=(-2, -1)) - volume - 0.5 * n * math.log(2 * math.pi)

    def solved(self) -> Curve:
        """The `Curve`, outside of programs, where the numbers are known."""
        if is_traced(*jax.tree.leaves(self._inputs)):
            raise TypeError("solved() is for curves outside of jit, vmap and grad")
        means, covs, leaves = ([np.asarray(x) for x in part] for part in self._inputs)
        statement = self._statement
        problem = statement.problem(means, leaves, bool(covs), False)
        if covs:
            factors = [covariance_factor(cov.astype(float)) for cov in covs]
            problem = replace(problem, spread=np.stack([x.reshape(-1, *x.shape[-2:]) for x in factors], axis=1))
        if self._data is not None:
            return fitted(problem, statement.solver, statement.guess, self._data)
        return statement.solver.solve(problem, statement.guess)

    def __repr__(self) -> str:
        t0, t1 = self.t_span
        batch = f", batch={self.batch_shape}" if self.batch_shape else ""
        return f"TracedCurve(t=[{t0:g}, {t1:g}], dimension={self.dimension}{batch})"

    def _ask(self, question: tuple, *times: jax.Array) -> list[jax.Array]:
        return ask(self._statement, question, times, self._inputs.means, self._inputs.leaves)

    def _times(self, name: str, t: Any) -> jax.Array:
        """Times, checked if they are known."""
        times = t if is_traced(t) else as_times(name, t, self.t_span)
        return jnp.asarray(times, jnp.result_type(*self._inputs.means))


# --- what a program asks of a curve: one callback each ----------------------------------------

# What a posterior answers at times (T,), each (B, T, ...). The first R of its columns belong to the inputs, and come
# with the mean, so that one solve is enough for both.
ANSWERS: dict[str, Callable] = {
    "mean": lambda p, R, t, d: [p.mean(t, d)],
    "slopes": lambda p, R, t, d, by_args: [p.mean(t, d), p.boundary_columns(t, d)[..., :R]],
    "spread": lambda p, R, t, d: [p.mean(t, d), p.boundary_columns(t, d)[..., :R]],
    "cov": lambda p, R, s, t, orders, source: [p.cov(s, t, orders, source)],
}
NOT_DIFFERENTIABLE = {
    "slopes": "second derivatives",
    "spread": "error bars",
    "cov": "error bars",
    "diagnostic": "diagnostics",
}
WHOLE = ("status", "n_evaluations")  # diagnostics that are whole numbers


@partial(jax.custom_jvp, nondiff_argnums=(0, 1))
def ask(statement: Statement, question: tuple, times: tuple, means: tuple, leaves: tuple) -> list[jax.Array]:
    """Answers (*batch, T, ...) to a question (name, options) about the curve at times (T,), by one callback.

    Times get the axes of the batch in front, of length one, and so does everything under `vmap`: leading axes always
    broadcast.
    """
    name, *options = question
    *batch, D = means[0].shape
    by_args = name == "slopes" and options[1]
    R = D * len(means) + (sum(_sizes(statement, leaves)) if by_args else 0)
    dtype: Any = jnp.result_type(*means)
    if name == "diagnostic":
        shapes: list[tuple] = [tuple(batch)]
        dtype = np.dtype(np.int32) if options[0] in WHOLE else dtype
    else:
        each: list[tuple] = [(D,)] if name == "mean" else [(D, D)] if name == "cov" else [(D,), (D, R)]
        shapes = [(*batch, times[0].size, *shape) for shape in each]

    def answer(times: tuple, means: tuple, leaves: tuple) -> list[np.ndarray]:
        curve = statement.solve(means, leaves, name in ("slopes", "spread"), by_args)
        if name == "diagnostic":
            return [getattr(curve, options[0])]
        return _at_times(curve, times, lambda p, *t: ANSWERS[name](p, R, *t, *options))

    given = (tuple(t.reshape((1,) * len(batch) + t.shape) for t in times), means, leaves)
    types = jax.tree.map(lambda x: np.dtype(x.dtype), given)

    def host(arrays: Any) -> Any:
        out = answer(*jax.tree.map(lambda x, dtype: _unpacked(np.asarray(x), dtype), arrays, types))
        return [_packed(np.asarray(x, dtype)) for x in out]

    packed = [jax.eval_shape(_packed, jax.ShapeDtypeStruct(shape, dtype)) for shape in shapes]
    out = jax.pure_callback(host, packed, jax.tree.map(_packed, given), vmap_method="expand_dims")
    return [_unpacked(x, dtype) for x in out]


@partial(ask.defjvp, symbolic_zeros=True)
def _ask_jvp(statement: Statement, question: tuple, primals: tuple, tangents: tuple) -> tuple:
    """Of means dy(t) = S(t) d(data, args) + y'(t) dt: linear in the tangents, so that it can be reversed."""
    (name, *options), (times, means, leaves), (dtimes, dmeans, dleaves) = question, primals, tangents
    flat = [
        dx if isinstance(dx, SymbolicZero) else dx.reshape(*dx.shape[: dx.ndim - k], -1)
        for x, dx, k in zip(leaves, dleaves, statement.leaf_axes, strict=True)
        if _is_real(x)
    ]
    moves = [*dmeans, *flat]
    moving = [not isinstance(dx, SymbolicZero) for dx in moves]
    in_time = any(not isinstance(dt, SymbolicZero) for dt in dtimes)
    if name in NOT_DIFFERENTIABLE and (any(moving) or in_time):
        raise NotImplementedError(
            f"{NOT_DIFFERENTIABLE[name]} of a curve have no derivatives with respect to data, parameters and times: "
            "use jax.lax.stop_gradient, or differentiate means only"
        )
    if not any(moving):
        out = ask(statement, question, times, means, leaves)
        change = [jnp.zeros_like(x) for x in out]
    else:
        by_args = any(moving[len(means) :])
        values, S = ask(statement, ("slopes", *options, by_args), times, means, leaves)
        out, change = [values], [jnp.zeros_like(values)]
        sizes = [x.shape[-1] for x in means] + _sizes(statement, leaves)
        for dx, size, end, moves_here in zip(moves, sizes, np.cumsum(sizes), moving, strict=True):
            if moves_here:
                part = S[..., end - size : end]
                change[0] += jnp.einsum("...tij,...j->...ti", part, dx.astype(values.dtype))
    if in_time:
        rates = ask(statement, ("mean", options[0] + 1), times, means, leaves)[0]
        change[0] += rates * dtimes[0][:, None]
    return out, change


def _is_real(leaf: Any) -> bool:
    return jnp.issubdtype(leaf.dtype, jnp.floating)


def _sizes(statement: Statement, leaves: tuple) -> list[int]:
    """How many parameters of one member each array of real numbers holds."""
    axes = statement.leaf_axes
    return [int(np.prod(x.shape[x.ndim - k :])) for x, k in zip(leaves, axes, strict=True) if _is_real(x)]


def _at_times(curve: Curve, times: tuple[np.ndarray, ...], answers: Callable) -> list[np.ndarray]:
    """answers(posterior, *times (T,)), each (B, T, ...), in the axes that curve and times (..., T) share."""
    # single precision may have moved them
    times = tuple(as_times("t", t, curve.t_span, slack=1e-6) for t in times)
    shared = np.broadcast_shapes(curve.batch_shape, *[t.shape[:-1] for t in times])
    everyone = np.arange(curve.posterior.count).reshape(curve.batch_shape)
    members = np.broadcast_to(everyone, shared).ravel()
    if all(t.size == t.shape[-1] for t in times):
        values = [x[members] for x in answers(curve.posterior, *[t.ravel() for t in times])]
    else:
        rows = [np.broadcast_to(t, shared + t.shape[-1:]).reshape(-1, t.shape[-1]) for t in times]
        own = [curve.posterior.take(np.array([m])) for m in members]
        each = [answers(p, *t) for p, *t in zip(own, *rows, strict=True)]
        values = [np.concatenate(parts) for parts in zip(*each, strict=True)]
    return [x.reshape(*shared, *x.shape[1:]) for x in values]


def _packed(x: Any) -> Any:
    """Numbers of 64 bits as pairs of 32 bits, along a new last axis.

    Callbacks may run in a thread where JAX does not know that it was told to compute with 64 bits, and rounds what they
    get and return.
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
