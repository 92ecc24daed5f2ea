"""Curves inside a program of JAX: `solve_ivp` and `solve_bvp` under `jit`, `vmap` and `grad`.

While JAX traces, numbers are not known; a callback solves the problem when they are. Axes that
`vmap` adds are axes of the batch, so that all of its members are solved at a time.

Derivatives are those of the implicit function theorem. With data and parameters x, the mean moves
by dy(t) = S(t) dx, where the columns of S solve the ODE linearised along the curve. A solver knows
them already: they are how the curve moves with uncertain data, for data of unit covariance, and
with the parameters.
"""

import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.custom_derivatives import SymbolicZero

from probgeo._checks import as_t_span, is_traced
from probgeo.functions import as_field
from probgeo.gaussian import Gaussian, covariance_factor
from probgeo.ode.curve import OK, Curve, Source, as_source
from probgeo.ode.fit import fitted
from probgeo.ode.observed import Data, as_data_along
from probgeo.ode.problem import Kind, as_data, common_shape
from probgeo.ode.statement import Solved, Statement, as_times, at_times

WHOLE = ("status", "n_evaluations")  # diagnostics that are whole numbers


class Inputs(NamedTuple):
    """Numbers that a solution depends on; leading axes are a batch.

    means: C arrays (*batch, D); covs: C arrays (*batch, D, D), or none if all data are certain;
    leaves: the arrays of args, (*batch, ...).
    """

    means: tuple
    covs: tuple
    leaves: tuple


def traced_initial(f: Callable, t_span: Any, data: dict[str, Any], solver: Any, args: Any, seen: Any = None) -> Any:
    """What `solve_ivp` returns for numbers that are not known yet; `seen`: data along the curve."""
    curve = _traced(f, t_span, data, solver, None, args, "initial", order=len(data))
    return curve.given(seen)


def traced_boundary(
    f: Callable, t_span: Any, data: dict[str, Any], solver: Any, guess: Any, args: Any, seen: Any = None
) -> Any:
    """What `solve_bvp` returns for numbers that are not known yet; `seen`: data along the curve."""
    return _traced(f, t_span, data, solver, guess, args, "boundary", order=2).given(seen)


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

    def given(self, seen: Any) -> "TracedCurve":
        """The same curve, with data along it."""
        if seen is None:
            return self
        if self._inputs.covs:
            raise TypeError(
                "data along curves with uncertain initial or boundary values are not available "
                "inside JAX: give values that are certain, differentiate by these too, and add "
                "the log of their prior density to log_likelihood"
            )
        data = as_data_along(seen, self.t_span, self._statement.order, self.dimension)
        return TracedCurve(self._statement, self._inputs, data)

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
        values = mean_of(self._statement, derivative, times, means, leaves)
        return values.reshape(*self.batch_shape, *shape, self.dimension)

    def cov(self, s: Any, t: Any, derivative: tuple[int, int] = (0, 0), source: Source = "total") -> jax.Array:
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
        found = covariance_of(self._statement, (derivative, source), first, second, means, leaves)
        return found.reshape(*self.batch_shape, *shape, self.dimension, self.dimension)

    def _boundary(self, s: Any, t: Any, derivative: tuple[int, int]) -> jax.Array:
        """What the covariances of the data make of the curve's: sum_c S_c(s) cov_c S_c(t)'."""
        first, second, shape = self._pairs(s, t)
        (means, covs, leaves), D = self._inputs, self.dimension
        total = jnp.zeros((*self.batch_shape, first.size, D, D), jnp.result_type(*means))
        if covs:
            left, right = (
                columns_of(self._statement, (d, False), x, means, leaves)[1]
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
        problem = self._statement.problem(arrays[0], arrays[2], bool(covs), False)
        if covs:
            factors = [covariance_factor(cov.astype(float)) for cov in arrays[1]]
            spread = np.stack([x.reshape(-1, *x.shape[-2:]) for x in factors], axis=1)
            problem = replace(problem, spread=spread)
        if self._data is not None:
            return fitted(problem, self._statement.solver, self._statement.guess, self._data)
        return self._statement.solver.solve(problem, self._statement.guess)

    def __repr__(self) -> str:
        t0, t1 = self.t_span
        batch = f", batch={self.batch_shape}" if self.batch_shape else ""
        return f"TracedCurve(t=[{t0:g}, {t1:g}], dimension={self.dimension}{batch})"

    def _diagnostic(self, name: str) -> jax.Array:
        means, _, leaves = self._inputs
        if name in WHOLE:  # does not move with the inputs
            return _attribute(self._statement, name, *jax.lax.stop_gradient((means, leaves)))
        return _real_attribute(self._statement, name, means, leaves)

    def _times(self, name: str, t: Any) -> tuple[Any, tuple[int, ...]]:
        """Times in one row, checked if they are known, and the shape they had."""
        dtype = jnp.result_type(*self._inputs.means)
        times = t if is_traced(t) else as_times(name, t, self.t_span)
        return jnp.asarray(times, dtype).reshape(-1), np.shape(times)


class _KnownCurve(TracedCurve):
    """A curve that is known, at times that are not."""

    def __init__(self, curve: Curve) -> None:
        shape = np.zeros((*curve.batch_shape, curve.dimension))  # says no more than that
        super().__init__(Solved(curve), Inputs((jnp.asarray(shape),), (), ()))

    def cov(self, s: Any, t: Any, derivative: tuple[int, int] = (0, 0), source: Source = "total") -> jax.Array:
        return self._error_bars(s, t, derivative, source)


def at_traced_times(curve: Curve) -> TracedCurve:
    """What a curve answers inside a program of JAX whose times are not known yet."""
    return _KnownCurve(curve)


def _traced(
    f: Callable, t_span: Any, data: dict[str, Any], solver: Any, guess: Any, args: Any, kind: Kind, order: int
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
    zeros = [np.zeros((1, *np.shape(x)[len(batch) :]), jnp.result_type(x)) for x in leaves]
    as_args = partial(jax.tree.unflatten, tree)
    as_field(f, order, D, args=as_args(zeros), batch_shape=(1,))  # so that f is checked
    if is_traced(guess):
        raise TypeError("guess must be known: inside jit, vmap or grad it cannot be traced")
    dtype = jnp.result_type(float, *[g.mean for g in gaussians.values()], *leaves)
    means = [jnp.broadcast_to(jnp.asarray(g.mean, dtype), (*batch, D)) for g in gaussians.values()]
    covs: list = []
    if any(is_traced(g.cov) or np.any(g.cov) for g in gaussians.values()):
        shape = (*batch, D, D)
        covs = [jnp.broadcast_to(jnp.asarray(g.cov, dtype), shape) for g in gaussians.values()]
    axes = tuple(np.ndim(leaf) - len(batch) for leaf in leaves)
    statement = Statement(f, as_t_span(t_span), kind, order, solver, guess, (as_args, axes))
    arrays = tuple(jnp.asarray(leaf) for leaf in leaves)
    return TracedCurve(statement, Inputs(tuple(means), tuple(covs), arrays))


# --- what a program asks of a curve: one callback each ----------------------------------------


def _callback(answer: Callable, outputs: Any, times: tuple, means: tuple, leaves: tuple) -> Any:
    """answer(times, means, leaves) on arrays of NumPy, as a part of a program.

    Times (T,) get the axes of the batch in front, of length one, and so does everything under
    `vmap`: leading axes always broadcast.
    """
    axes = means[0].ndim - 1
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


def _along(
    statement: Statement,
    questions: list[tuple[Callable, tuple[int, ...]]],
    times: tuple[jax.Array, ...],
    means: tuple,
    leaves: tuple,
    columns: tuple[bool, bool] = (False, False),
) -> list[jax.Array]:
    """Answers (*batch, T, ...) to question(posterior, *times (T,)), of which the shapes are given.

    `columns`: whether the curve is to know how it moves with its data, and with its parameters.
    """
    dtype, lead = jnp.result_type(*means), (*means[0].shape[:-1], times[0].size)
    outputs = [jax.ShapeDtypeStruct((*lead, *shape), dtype) for _, shape in questions]

    def answers(times: tuple, means: tuple, leaves: tuple) -> list[np.ndarray]:
        curve = statement.solve(means, leaves, *columns)
        return [at_times(curve, times, question) for question, _ in questions]

    return _callback(answers, outputs, times, means, leaves)


@partial(jax.custom_jvp, nondiff_argnums=(0, 1))
def mean_of(statement: Statement, derivative: int, t: jax.Array, means: tuple, leaves: tuple) -> jax.Array:
    """The mean (*batch, T, D)."""
    question = lambda p, t: p.mean(t, derivative), means[0].shape[-1:]
    return _along(statement, [question], (t,), means, leaves)[0]


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
        values, S = _mean_and_slopes(statement, (derivative, by_args), t, means, leaves)
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
        int(np.prod(x.shape[x.ndim - k :])) for x, k in zip(leaves, statement.leaf_axes, strict=True) if _is_real(x)
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


def _mean_and_columns(
    statement: Statement, wanted: tuple[int, bool], t: jax.Array, means: tuple, leaves: tuple
) -> list[jax.Array]:
    """The mean (*batch, T, D), and the columns S (*batch, T, D, R), of one solve."""
    derivative, by_args = wanted
    D = means[0].shape[-1]
    R = D * len(means) + (sum(_sizes(statement, leaves)) if by_args else 0)
    mean = lambda p, t: p.mean(t, derivative), (D,)
    columns = lambda p, t: p.boundary_columns(t, derivative)[..., :R], (D, R)
    return _along(statement, [mean, columns], (t,), means, leaves, (True, by_args))


_mean_and_slopes = _without_derivatives(_mean_and_columns, "second derivatives")
columns_of = _without_derivatives(_mean_and_columns, "error bars")


@partial(_without_derivatives, what="error bars")
def covariance_of(
    statement: Statement,
    wanted: tuple[tuple[int, int], Source],
    s: jax.Array,
    t: jax.Array,
    means: tuple,
    leaves: tuple,
) -> jax.Array:
    """Covariances (*batch, T, D, D) of the pairs of times s, t (T,)."""
    D = means[0].shape[-1]
    question = lambda p, s, t: p.cov(s, t, *wanted), (D, D)
    return _along(statement, [question], (s, t), means, leaves)[0]


def _attribute(statement: Statement, name: str, means: tuple, leaves: tuple) -> jax.Array:
    """An attribute (*batch,) of the curve."""
    dtype = np.dtype(np.int32) if name in WHOLE else jnp.result_type(*means)

    def answer(times: tuple, means: tuple, leaves: tuple) -> np.ndarray:
        return getattr(statement.solve(means, leaves, by_data=False, by_args=False), name)

    out = jax.ShapeDtypeStruct(means[0].shape[:-1], dtype)
    return _callback(answer, out, (), means, leaves)


_real_attribute = _without_derivatives(_attribute, "diagnostics")
