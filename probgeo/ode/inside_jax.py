"""Curves inside a program of JAX: `solve_ivp` and `solve_bvp` under `jit`, `vmap` and `grad`.

The numbers are not known while JAX traces: what a curve is asked for becomes a callback that solves
the problem when they are. See `callbacks` for that, and for derivatives.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from probgeo._checks import as_t_span, is_traced
from probgeo.functions import as_field
from probgeo.gaussian import Gaussian, covariance_factor
from probgeo.ode.callbacks import (
    Inputs,
    Statement,
    as_times,
    columns_of,
    covariance_of,
    diagnostic_of,
    dtype_of,
    mean_of,
)
from probgeo.ode.curve import OK, Curve, Source, as_source
from probgeo.ode.problem import Kind, as_data, common_shape


def traced_initial(f: Callable, t_span: Any, data: dict[str, Any], solver: Any, args: Any) -> Any:
    """What `solve_ivp` returns for data or parameters that are not known yet."""
    return _traced(f, t_span, data, solver, None, args, "initial", order=len(data))


def traced_boundary(
    f: Callable, t_span: Any, data: dict[str, Any], solver: Any, guess: Any, args: Any
) -> Any:
    """What `solve_bvp` returns for data or parameters that are not known yet."""
    return _traced(f, t_span, data, solver, guess, args, "boundary", order=2)


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
        values = mean_of(self._statement, derivative, times, means, leaves)
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
        found = covariance_of(self._statement, (derivative, source), first, second, means, leaves)
        return found.reshape(*self.batch_shape, *shape, self.dimension, self.dimension)

    def _boundary(self, s: Any, t: Any, derivative: tuple[int, int]) -> jax.Array:
        """What the covariances of the data make of the curve's: sum_c S_c(s) cov_c S_c(t)'."""
        first, second, shape = self._pairs(s, t)
        (means, covs, leaves), D = self._inputs, self.dimension
        total = jnp.zeros((*self.batch_shape, first.size, D, D), dtype_of(means))
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
        return self._statement.solver.solve(problem, self._statement.guess)

    def __repr__(self) -> str:
        t0, t1 = self.t_span
        batch = f", batch={self.batch_shape}" if self.batch_shape else ""
        return f"TracedCurve(t=[{t0:g}, {t1:g}], dimension={self.dimension}{batch})"

    def _diagnostic(self, name: str) -> jax.Array:
        means, _, leaves = self._inputs
        return diagnostic_of(self._statement, name, means, leaves)

    def _times(self, name: str, t: Any) -> tuple[Any, tuple[int, ...]]:
        """Times in one row, checked if they are known, and the shape they had."""
        dtype = dtype_of(self._inputs.means)
        times = t if is_traced(t) else as_times(name, t, self.t_span)
        return jnp.asarray(times, dtype).reshape(-1), np.shape(times)


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
