"""Solving inside a program of JAX: `solve_ivp` and `solve_bvp` under `jit`, `vmap` and `grad`.

The numbers are not known while JAX traces, so that the solve becomes a callback, which runs when
they are. Members of a `vmap` are members of one batch, solved at a time.

The mean has derivatives, forward and in reverse, by the implicit function theorem: with data and
parameters x, dy(t) = S(t) dx, where the columns of S solve the ODE linearised along the curve. A
solver knows them already: they are how the curve moves with uncertain data, for data of unit
covariance, and with the parameters.
"""

import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.custom_derivatives import SymbolicZero

from probgeo._checks import as_float_array, as_t_span, is_traced
from probgeo.functions import as_field
from probgeo.gaussian import Gaussian, covariance_factor
from probgeo.ode.curve import OK, Curve, Source, as_source, warn
from probgeo.ode.problem import Kind, Problem, as_data, common_shape

WHOLE = ("status", "n_evaluations")
KEPT = 4  # solutions of one problem: those of the last few numbers it was asked for


def traced_initial(f: Callable, t_span: Any, data: dict[str, Any], solver: Any, args: Any) -> Any:
    """What `solve_ivp` returns for data or parameters that are not known yet."""
    return _traced(f, t_span, data, solver, None, args, "initial", order=len(data))


def traced_boundary(
    f: Callable, t_span: Any, data: dict[str, Any], solver: Any, guess: Any, args: Any
) -> Any:
    """What `solve_bvp` returns for data or parameters that are not known yet."""
    return _traced(f, t_span, data, solver, guess, args, "boundary", order=2)


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
        curve = self.solver.solve(self._problem(means, leaves, by_data, by_args), self.guess)
        warn(curve, "solutions")
        with self._lock:
            self._solved[(by_data, by_args), key] = curve
            while len(self._solved) > KEPT:
                self._solved.popitem(last=False)
        return curve

    def _problem(
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


@jax.tree_util.register_pytree_node_class
class TracedCurve:
    """A posterior over curves inside a program of JAX: what it says are arrays of JAX.

    It can be returned from a program, and then answers outside of it; `solved()` is then the
    `Curve` itself. Means have derivatives with respect to data, parameters and times, error bars
    only with respect to the covariances of the data.

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

    def __init__(self, statement: Statement, inputs: Inputs) -> None:
        self._statement, self._inputs = statement, inputs
        self.t_span = statement.t_span

    def tree_flatten(self) -> tuple[tuple, Statement]:
        return tuple(self._inputs), self._statement

    @classmethod
    def tree_unflatten(cls, statement: Statement, inputs: tuple) -> "TracedCurve":
        return cls(statement, Inputs(*inputs))

    @property
    def batch_shape(self) -> tuple[int, ...]:
        return self._inputs.means[0].shape[:-1]

    @property
    def dimension(self) -> int:
        return self._inputs.means[0].shape[-1]

    def mean(self, t: Any, derivative: int = 0) -> jax.Array:
        """Posterior mean at time(s) `t`, shape (..., *t.shape, D)."""
        times, shape = self._times("t", t)
        means, _, leaves = self._inputs
        values = _mean(self._statement, derivative, times, means, leaves)
        return values.reshape(*self.batch_shape, *shape, self.dimension)

    def cov(
        self, s: Any, t: Any, derivative: tuple[int, int] = (0, 0), source: Source = "total"
    ) -> jax.Array:
        """Covariance of derivative[0] at `s` with derivative[1] at `t`: (..., *shape, D, D)."""
        total: Any = 0.0
        if as_source(source) != "boundary":
            total += self._error_bars(s, t, derivative, "numerical")
        if source != "numerical":
            total += self._boundary(s, t, derivative)
        return total

    def _error_bars(self, s: Any, t: Any, derivative: tuple[int, int], source: str) -> jax.Array:
        """Covariances that the solver knows."""
        first, second, shape = self._pairs(s, t)
        means, _, leaves = self._inputs
        found = _covariance(self._statement, (derivative, source), first, second, means, leaves)
        return found.reshape(*self.batch_shape, *shape, self.dimension, self.dimension)

    def _boundary(self, s: Any, t: Any, derivative: tuple[int, int]) -> jax.Array:
        """What the covariances of the data make of the curve's: sum_c S_c(s) cov_c S_c(t)'."""
        first, second, shape = self._pairs(s, t)
        (means, covs, leaves), D = self._inputs, self.dimension
        total = jnp.zeros((*self.batch_shape, first.size, D, D), _dtype(means))
        if covs:
            left, right = (
                _bars(self._statement, (d, False), x, means, leaves)[1]
                for x, d in zip((first, second), derivative, strict=True)
            )
            for c, cov in enumerate(covs):
                S, R = (x[..., c * D : (c + 1) * D] for x in (left, right))
                total += jnp.einsum("...tij,...jk,...tlk->...til", S, cov, R)
        return total.reshape(*self.batch_shape, *shape, D, D)

    def _pairs(self, s: Any, t: Any) -> tuple[jax.Array, jax.Array, tuple[int, ...]]:
        """Pairs of times in two rows, and the shape they had."""
        shape = np.broadcast_shapes(np.shape(s), np.shape(t))
        first, second = (
            jnp.broadcast_to(self._times(name, x)[0].reshape(np.shape(x)), shape).reshape(-1)
            for name, x in (("s", s), ("t", t))
        )
        return first, second, shape

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
    def status(self) -> jax.Array:
        return self._diagnostic("status")

    @property
    def converged(self) -> jax.Array:
        return self.status == OK

    @property
    def log_evidence(self) -> jax.Array:
        return self._diagnostic("log_evidence")

    @property
    def n_evaluations(self) -> jax.Array:
        return self._diagnostic("n_evaluations")

    @property
    def residual(self) -> jax.Array:
        return self._diagnostic("residual")

    @property
    def scale(self) -> jax.Array:
        return self._diagnostic("scale")

    def solved(self) -> Curve:
        """The `Curve`, outside of programs, where the numbers are known."""
        means, covs, leaves = self._inputs
        if is_traced(*means, *covs, *leaves):
            raise TypeError("solved() is for curves outside of jit, vmap and grad")
        arrays = [[np.asarray(x) for x in part] for part in self._inputs]
        problem = self._statement._problem(arrays[0], arrays[2], bool(covs), False)
        if covs:
            factors = [covariance_factor(cov.astype(float)) for cov in arrays[1]]
            spread = np.stack([x.reshape(-1, *x.shape[-2:]) for x in factors], axis=1)
            problem = replace(problem, spread=spread)
        return self._statement.solver.solve(problem, self._statement.guess)

    def __repr__(self) -> str:
        t0, t1 = self.t_span
        batch = f", batch={self.batch_shape}" if self.batch_shape else ""
        return f"TracedCurve(t=[{t0:g}, {t1:g}], dimension={self.dimension}{batch})"

    def _diagnostic(self, name: str) -> jax.Array:
        means, _, leaves = self._inputs
        return _diagnostic(self._statement, name, means, leaves)

    def _times(self, name: str, t: Any) -> tuple[Any, tuple[int, ...]]:
        """Times in one row, checked if they are known, and the shape they had."""
        dtype = _dtype(self._inputs.means)
        times = t if is_traced(t) else as_times(name, t, self.t_span)
        return jnp.asarray(times, dtype).reshape(-1), np.shape(times)


def as_times(name: str, t: Any, t_span: tuple[float, float], slack: float = 1e-9) -> np.ndarray:
    """Times of the interval, which rounding may have moved a little outside."""
    times, (t0, t1) = as_float_array(name, t), t_span
    allowed = slack * (t1 - t0)
    if np.any(times < t0 - allowed) or np.any(times > t1 + allowed):
        raise ValueError(f"{name} must lie in [{t0:g}, {t1:g}], got {times}")
    return np.clip(times, t0, t1)


class _KnownStatement(Statement):
    """A problem that is solved already: only times are traced."""

    def __init__(self, curve: Curve) -> None:
        self.curve, self.t_span, self.leaf_axes = curve, curve.t_span, ()

    def solve(self, *_: Any, **__: Any) -> Curve:
        return self.curve


class _KnownCurve(TracedCurve):
    """A curve that is known, at times that are not."""

    def __init__(self, curve: Curve) -> None:
        shape = np.zeros((*curve.batch_shape, curve.dimension))  # says no more than that
        super().__init__(_KnownStatement(curve), Inputs((jnp.asarray(shape),), (), ()))

    def cov(
        self, s: Any, t: Any, derivative: tuple[int, int] = (0, 0), source: Source = "total"
    ) -> jax.Array:
        return self._error_bars(s, t, derivative, source)


def at_traced_times(curve: Curve) -> TracedCurve:
    """What a curve answers inside a program of JAX whose times are not known yet."""
    return _KnownCurve(curve)


def _traced(
    f: Callable,
    t_span: Any,
    data: dict[str, Any],
    solver: Any,
    guess: Any,
    args: Any,
    kind: Kind,
    order: int,
) -> TracedCurve:
    gaussians = {name: as_data(name, value) for name, value in data.items()}
    *batch, D = common_shape({name: g.mean.shape for name, g in gaussians.items()})
    leaves, tree = jax.tree.flatten(args)
    for leaf in leaves:
        if np.shape(leaf)[: len(batch)] != tuple(batch):
            raise ValueError(
                f"the arrays in args must have the batch axes {tuple(batch)} of the values in "
                f"front, got shape {np.shape(leaf)}"
            )
    _check(f, order, D, tree, [np.shape(x)[len(batch) :] for x in leaves], leaves)
    if is_traced(guess):
        raise TypeError("guess must be known: inside jit, vmap or grad it cannot be traced")
    dtype = jnp.result_type(float, *[g.mean for g in gaussians.values()], *leaves)
    means = [jnp.broadcast_to(jnp.asarray(g.mean, dtype), (*batch, D)) for g in gaussians.values()]
    covs: list = []
    if any(is_traced(g.cov) or np.any(g.cov) for g in gaussians.values()):
        shape = (*batch, D, D)
        covs = [jnp.broadcast_to(jnp.asarray(g.cov, dtype), shape) for g in gaussians.values()]
    axes = tuple(np.ndim(leaf) - len(batch) for leaf in leaves)
    statement = Statement(f, as_t_span(t_span), kind, order, solver, guess, (tree, axes))
    arrays = tuple(jnp.asarray(leaf) for leaf in leaves)
    return TracedCurve(statement, Inputs(tuple(means), tuple(covs), arrays))


def _check(f: Any, order: int, D: int, tree: Any, shapes: list, leaves: list) -> None:
    """That f can be called, before it is."""
    dtypes = [np.dtype(jnp.result_type(leaf)) for leaf in leaves]
    zeros = [np.zeros((1, *shape), dtype) for shape, dtype in zip(shapes, dtypes, strict=True)]
    as_field(f, order, D, args=jax.tree.unflatten(tree, zeros), batch_shape=(1,))


# --- callbacks ------------------------------------------------------------------------------------


def _dtype(means: tuple) -> Any:
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
def _mean(
    statement: Statement, derivative: int, t: jax.Array, means: tuple, leaves: tuple
) -> jax.Array:
    """The mean (*batch, T, D)."""
    dtype = _dtype(means)
    out = jax.ShapeDtypeStruct((*_batch(means), t.size, means[0].shape[-1]), dtype)

    def answer(times: tuple, means: tuple, leaves: tuple) -> np.ndarray:
        curve = statement.solve(means, leaves, by_data=False, by_args=False)
        values = _at_times(statement, curve, times, lambda p, t: p.mean(t, derivative))
        return values.astype(dtype)

    return _callback(answer, out, (t,), means, leaves)


@partial(_mean.defjvp, symbolic_zeros=True)
def _mean_jvp(statement: Statement, derivative: int, primals: tuple, tangents: tuple) -> tuple:
    """dy(t) = S(t) d(data, args) + y'(t) dt: linear in the tangents, so that it can be reversed."""
    t, means, leaves = primals
    dt, dmeans, dleaves = tangents
    by_data = any(not isinstance(x, SymbolicZero) for x in dmeans)
    real = [jnp.issubdtype(leaf.dtype, jnp.floating) for leaf in leaves]
    moves = [r and not isinstance(x, SymbolicZero) for r, x in zip(real, dleaves, strict=True)]
    values = _mean(statement, derivative, t, means, leaves)
    change = jnp.zeros_like(values)
    if by_data or any(moves):
        wanted = (derivative, any(moves))
        values, S = _mean_and_columns(statement, wanted, t, means, leaves)
        start, D = 0, means[0].shape[-1]
        for dmean in dmeans:
            if not isinstance(dmean, SymbolicZero):
                change += jnp.einsum("...tij,...j->...ti", S[..., start : start + D], dmean)
            start += D
        for r, leaf, dleaf, axes in zip(real, leaves, dleaves, statement.leaf_axes, strict=True):
            size = int(np.prod(leaf.shape[leaf.ndim - axes :])) if r else 0
            if r and not isinstance(dleaf, SymbolicZero):
                flat = dleaf.reshape(*leaf.shape[: leaf.ndim - axes], size)
                part = S[..., start : start + size]
                change += jnp.einsum("...tij,...j->...ti", part, flat.astype(values.dtype))
            start += size
    if not isinstance(dt, SymbolicZero):
        change += _mean(statement, derivative + 1, t, means, leaves) * dt[:, None]
    return values, change


def _without_derivatives(function: Callable, what: str) -> Callable:
    """A function of arrays that refuses to be differentiated."""
    wrapped = jax.custom_jvp(function, nondiff_argnums=(0, 1))

    def refuse(statement: Statement, derivative: Any, primals: tuple, tangents: tuple) -> tuple:
        if all(isinstance(x, SymbolicZero) for x in jax.tree.leaves(tangents, is_leaf=_is_zero)):
            out = wrapped(statement, derivative, *primals)
            return out, jax.tree.map(jnp.zeros_like, out)
        raise NotImplementedError(
            f"{what} of a curve have no derivatives with respect to data, parameters and times: "
            "use jax.lax.stop_gradient, or differentiate means only"
        )

    wrapped.defjvp(refuse, symbolic_zeros=True)
    return wrapped


def _is_zero(x: Any) -> bool:
    return isinstance(x, SymbolicZero)


def _mean_and_columns_of(
    statement: Statement, wanted: tuple[int, bool], t: jax.Array, means: tuple, leaves: tuple
) -> tuple[jax.Array, jax.Array]:
    """The mean (*batch, T, D), and the columns S (*batch, T, D, R), of one solve."""
    derivative, by_args = wanted
    dtype, D = _dtype(means), means[0].shape[-1]
    parameters = [
        int(np.prod(leaf.shape[leaf.ndim - axes :]))
        for leaf, axes in zip(leaves, statement.leaf_axes, strict=True)
        if jnp.issubdtype(leaf.dtype, jnp.floating)
    ]
    R = D * len(means) + (sum(parameters) if by_args else 0)
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


_mean_and_columns = _without_derivatives(_mean_and_columns_of, "second derivatives")


_bars = _without_derivatives(_mean_and_columns_of, "error bars")


def _covariance_of(
    statement: Statement,
    wanted: tuple[tuple[int, int], Source],
    s: jax.Array,
    t: jax.Array,
    means: tuple,
    leaves: tuple,
) -> jax.Array:
    dtype, D = _dtype(means), means[0].shape[-1]
    out = jax.ShapeDtypeStruct((*_batch(means), t.size, D, D), dtype)

    def answer(times: tuple, means: tuple, leaves: tuple) -> np.ndarray:
        curve = statement.solve(means, leaves, by_data=False, by_args=False)

        def cov(posterior: Any, s: np.ndarray, t: np.ndarray) -> np.ndarray:
            return posterior.cov(s, t, *wanted)

        return _at_times(statement, curve, times, cov).astype(dtype)

    return _callback(answer, out, (s, t), means, leaves)


_covariance = _without_derivatives(_covariance_of, "error bars")


def _diagnostic_of(statement: Statement, name: str, means: tuple, leaves: tuple) -> jax.Array:
    dtype = np.dtype(np.int32) if name in WHOLE else _dtype(means)
    out = jax.ShapeDtypeStruct(_batch(means), dtype)

    def answer(times: tuple, means: tuple, leaves: tuple) -> np.ndarray:
        curve = statement.solve(means, leaves, by_data=False, by_args=False)
        return np.asarray(getattr(curve, name)).astype(dtype)

    return _callback(answer, out, (), means, leaves)


_diagnostic_number = _without_derivatives(_diagnostic_of, "diagnostics")


def _diagnostic(statement: Statement, name: str, means: tuple, leaves: tuple) -> jax.Array:
    """One attribute of the curve; whole numbers do not move with the inputs."""
    if name in WHOLE:
        return _diagnostic_of(statement, name, *jax.lax.stop_gradient((means, leaves)))
    return _diagnostic_number(statement, name, means, leaves)
