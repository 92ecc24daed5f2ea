"""The answer of every solver: a Gaussian process posterior over the solution curve."""

import warnings
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from probgeo._old._checks import array_module, as_float_array, is_concrete, page
from probgeo._old._compile import compiled_quickly
from probgeo._old.gaussian import Gaussian, covariance_factor
from probgeo._old.ode.export import as_html, dataset, table

if TYPE_CHECKING:
    import pandas
    import xarray

Source = Literal["total", "numerical", "boundary"]
SOURCES = ("total", "numerical", "boundary")

MESSAGES = (
    "converged",
    "not finite: the solution left the range of numbers, or f returned NaN",
    "the residual of the ODE is above the tolerance after the last sweep",
    "no step lowers the residual of the ODE any further, and it is above the tolerance",
    "the error estimate is above rtol and atol on the finest mesh allowed",
    "the evaluations have settled, but the mean is far from the ODE at the nodes: "
    "more points, a shorter length scale or error_model='linearised' may help",
)
READING_CONVERGED = page("concepts/converged")
OK, NOT_FINITE, OUT_OF_SWEEPS, STALLED, TOO_COARSE, UNFAITHFUL = range(6)


class ConvergenceWarning(UserWarning):
    """Some results did not converge; `Curve.converged` says which, `Curve.message` why."""


class Posterior(eqx.Module):
    """What a solver must provide for one problem, on the unit interval.

    Times are arrays of any shape; `source` tells the error of the numerics from the uncertainty
    of the user's data, which add up to the total.
    """

    def mean(self, tau: Array, derivative: int) -> Float[Array, "*t d"]:
        raise NotImplementedError

    def mesh(self) -> list[Array]:
        """The arrays that depend on the nodes alone: equal for all members on one mesh."""
        return []

    def cov(
        self, sigma: Array, tau: Array, derivative: tuple[int, int], source: Source
    ) -> Float[Array, "*t d d"]:
        """Covariance between the times sigma and tau, which broadcast."""
        raise NotImplementedError

    def marginal(self, tau: Array, derivative: int, source: Source) -> Float[Array, "*t d d"]:
        """Covariance at each of the times tau."""
        return self.cov(tau, tau, (derivative, derivative), source)

    def sample(self, key: Array, n: int, tau: Array, orders: tuple[int, ...]) -> Array:
        """Joint draws (n, len(orders), T, D) at the times tau (T,)."""
        mean = jnp.stack([self.mean(tau, d) for d in orders])
        sigma, tau = tau[:, None], tau[None, :]
        blocks = [[self.cov(sigma, tau, (d, e), "total") for e in orders] for d in orders]
        cov = jnp.transpose(jnp.array(blocks), (0, 2, 4, 1, 3, 5)).reshape(mean.size, mean.size)
        # derivatives differ by orders of magnitude: factorise correlations, not covariances
        std = jnp.sqrt(jnp.maximum(jnp.diagonal(cov), 0.0))
        unit = jnp.where(std > 0, std, 1.0)
        factor = std[:, None] * covariance_factor(cov / (unit[:, None] * unit[None, :]))
        noise = jax.random.normal(key, (n, mean.size))
        return mean + (noise @ factor.T).reshape(n, *mean.shape)


def map_on_one_mesh(function: Callable, posterior: Any, *rows: Any) -> Any:
    """function(posterior, *row) for every member of a batch whose members share their nodes.

    What depends on the nodes alone, bridges between them above all, is then computed only once.
    """
    shared = posterior.mesh()
    if not shared:
        return jax.vmap(function)(posterior, *rows)

    def mesh(p: Posterior) -> list[Array]:
        return p.mesh()

    one = eqx.tree_at(mesh, posterior, [x[0] for x in shared])
    axes = eqx.tree_at(mesh, jax.tree.map(lambda _: 0, posterior), [None] * len(shared))
    return jax.vmap(function, in_axes=(axes, *(0 for _ in rows)))(one, *rows)


def take_members(tree: Any, index: Any) -> Any:
    """Some members of a batch of anything."""
    if not is_concrete(tree):
        return jax.tree.map(lambda x: x[index], tree)
    return jax.device_put(jax.tree.map(lambda x: np.asarray(x)[index], tree))


class Curve(eqx.Module):
    """A posterior over curves t -> R^D, or a batch of them.

    Attributes
    ----------
    converged : bool array (...)
        Whether each member can be trusted; `message` says why not.
    log_evidence : array (...)
        Log probability (density) of the evaluations of f, given the boundary values.
    n_evaluations : int array (...)
        Evaluations of f, Jacobians not counted.
    residual : array (...)
        How much the last sweep would still have changed, relative to the size of the solution.
    nodes : array (..., N)
        Times at which f was evaluated.
    scale : array (...)
        Estimated scale of the numerical standard deviation (1 if the prior was used as given).
    """

    posterior: Posterior
    t_span: Float[Array, " 2"]
    nodes: Float[Array, "*batch n"]
    status: Int[Array, "*batch"]
    log_evidence: Float[Array, "*batch"]
    n_evaluations: Int[Array, "*batch"]
    residual: Float[Array, "*batch"]
    scale: Float[Array, "*batch"]
    dimension: int = eqx.field(static=True)

    @property
    def batch_shape(self) -> tuple[int, ...]:
        return self.status.shape

    @property
    def converged(self) -> Bool[Array, "*batch"]:
        return array_module(self.status).asarray(self.status) == OK

    @property
    def message(self) -> Any:
        """What the solver says of each member: a string, or an array of strings."""
        texts = np.array(MESSAGES, dtype=object)[np.asarray(self.status)]
        return texts if self.batch_shape else str(texts)

    def mean(self, t: Any, derivative: int = 0) -> Float[Array, "..."]:
        """Posterior mean at time(s) `t`, shape (..., *t.shape, D)."""
        return _mean(self, self._times("t", t), _order(derivative))

    def cov(
        self, s: Any, t: Any, derivative: tuple[int, int] = (0, 0), source: Source = "total"
    ) -> Float[Array, "..."]:
        """Covariance of derivative[0] at `s` with derivative[1] at `t`: (..., *shape, D, D).

        `s` and `t` broadcast against each other: use s[:, None], t[None, :] for all pairs.
        """
        orders = (_order(derivative[0]), _order(derivative[1]))
        return _cov(self, self._times("s", s), self._times("t", t), orders, _source(source))

    def std(self, t: Any, derivative: int = 0, source: Source = "total") -> Float[Array, "..."]:
        """Posterior standard deviation at time(s) `t`, shape (..., *t.shape, D).

        source : "total", "numerical" (what the solver does not know) or "boundary" (what the
        uncertain initial or boundary values bring in). Their variances add up to the total.
        """
        cov = _marginal(self, self._times("t", t), _order(derivative), _source(source))
        return jnp.sqrt(jnp.maximum(jnp.diagonal(cov, axis1=-2, axis2=-1), 0.0))

    def __call__(self, t: Any, derivative: int = 0) -> Gaussian:
        """The marginal at time(s) `t` as a Gaussian."""
        cov = _marginal(self, self._times("t", t), _order(derivative), "total")
        return Gaussian.unchecked(self.mean(t, derivative), cov)

    def sample(
        self, seed: int, n: int, t: Any, derivative: int | Sequence[int] = 0
    ) -> Array | tuple[Array, ...]:
        """Joint samples of the curve at the times `t` (T,): shape (n, ..., T, D).

        With several derivatives, e.g. (0, 1), a tuple of such arrays, drawn jointly.
        """
        times = jnp.atleast_1d(self._times("t", t))
        if times.ndim != 1:
            raise ValueError(f"t must be one time or a vector of times, got shape {times.shape}")
        several = [derivative] if isinstance(derivative, int) else derivative
        orders = tuple(_order(d) for d in several)
        samples = _sample(self, jax.random.key(seed), n, times, orders)
        return samples[0] if isinstance(derivative, int) else tuple(samples)

    def __getitem__(self, index: Any) -> "Curve":
        """Members of a batch."""
        if not self.batch_shape:
            raise IndexError("this curve is not a batch")
        shared = eqx.tree_at(lambda curve: curve.t_span, self, replace=None)
        members = take_members(shared, index)
        return eqx.tree_at(
            lambda curve: curve.t_span, members, self.t_span, is_leaf=lambda x: x is None
        )

    def __len__(self) -> int:
        if not self.batch_shape:
            raise TypeError("this curve is not a batch")
        return self.batch_shape[0]

    def __repr__(self) -> str:
        batch = f", batch={self.batch_shape}" if self.batch_shape else ""
        if not is_concrete(self):
            return f"Curve(dimension={self.dimension}{batch})"
        good = np.asarray(self.converged)
        state = f"{good.sum()} of {good.size} converged" if batch else f"{self.message!r}"
        t0, t1 = np.asarray(self.t_span)
        return f"Curve(t=[{t0:g}, {t1:g}], dimension={self.dimension}{batch}, {state})"

    def _repr_html_(self) -> str:
        return as_html(self)

    def summary(self) -> "pandas.DataFrame":
        """A table of pandas: how every member of the batch was solved, and how well."""
        return table(self._columns(), self.batch_shape)

    def to_xarray(self, t: Any = None, n_samples: int = 0, seed: int = 0) -> "xarray.Dataset":
        """Means, standard deviations by their source, and joint samples, with named axes.

        Parameters
        ----------
        t : array (T,), optional
            Times; by default 101 at equal steps.
        n_samples, seed : int
            How many draws to add as the variable `sample`, and their seed.
        """
        return dataset(self, t, n_samples, seed)

    def _columns(self) -> dict[str, Any]:
        """What there is to say of every member, by name."""
        return {
            "converged": np.asarray(self.converged),
            "message": np.asarray(self.message, dtype=object),
            "residual": np.asarray(self.residual),
            "n_evaluations": np.asarray(self.n_evaluations),
            "log_evidence": np.asarray(self.log_evidence),
        }

    def _times(self, name: str, t: Any) -> Array:
        times = as_float_array(name, t)
        if is_concrete(times, self.t_span):
            t0, t1 = np.asarray(self.t_span)
            slack = 1e-9 * (t1 - t0)
            if np.any(np.asarray(times) < t0 - slack) or np.any(np.asarray(times) > t1 + slack):
                raise ValueError(f"{name} must lie in [{t0:g}, {t1:g}], got {np.asarray(times)}")
        return times


def _order(derivative: Any) -> int:
    if not isinstance(derivative, int) or derivative < 0:
        raise ValueError(f"derivative must be a whole number >= 0, got {derivative!r}")
    return derivative


def _source(source: str) -> Source:
    if source not in SOURCES:
        raise ValueError(f"source must be one of {SOURCES}, got {source!r}")
    return source  # type: ignore[return-value]


def _for_each(curve: Curve, function: Any, *extra: Array) -> Array:
    """function(posterior, *extra) for every member of the batch; `extra` carries batch axes."""
    for _ in curve.batch_shape:
        function = jax.vmap(function)
    return function(curve.posterior, *extra)


def _unit(curve: Curve, t: Array) -> Array:
    t0, t1 = curve.t_span
    return (t - t0) / (t1 - t0)


@compiled_quickly
def _mean(curve: Curve, t: Array, derivative: int) -> Array:
    tau = _unit(curve, t)
    values = _for_each(curve, lambda p: p.mean(tau, derivative))
    return values / (curve.t_span[1] - curve.t_span[0]) ** derivative


@compiled_quickly
def _cov(curve: Curve, s: Array, t: Array, derivative: tuple[int, int], source: Source) -> Array:
    sigma, tau = _unit(curve, s), _unit(curve, t)
    values = _for_each(curve, lambda p: p.cov(sigma, tau, derivative, source))
    return values / (curve.t_span[1] - curve.t_span[0]) ** sum(derivative)


@compiled_quickly
def _marginal(curve: Curve, t: Array, derivative: int, source: Source) -> Array:
    tau = _unit(curve, t)
    values = _for_each(curve, lambda p: p.marginal(tau, derivative, source))
    return values / (curve.t_span[1] - curve.t_span[0]) ** (2 * derivative)


@compiled_quickly
def _sample(curve: Curve, key: Array, n: int, t: Array, orders: tuple[int, ...]) -> Array:
    """Draws with the derivative as the first axis: (len(orders), n, *batch, T, D)."""
    tau = _unit(curve, t)
    keys = jax.random.split(key, curve.batch_shape)
    draws = _for_each(curve, lambda p, k: p.sample(k, n, tau, orders), keys)
    batch = len(curve.batch_shape)
    draws = jnp.moveaxis(draws, (batch + 1, batch), (0, 1))
    units = (curve.t_span[1] - curve.t_span[0]) ** jnp.array(orders)
    return draws / units.reshape(-1, *[1] * (draws.ndim - 1))


def warn(curve: Curve, what: str, stacklevel: int = 3) -> None:
    """Tell a caller who does not look at `converged`."""
    bad = ~np.atleast_1d(np.asarray(curve.converged))
    if not bad.any():
        return
    messages = np.atleast_1d(np.asarray(curve.message, dtype=object))[bad]
    reasons, counts = np.unique(messages.astype(str), return_counts=True)
    listed = "; ".join(f"{n} x {r}" for r, n in zip(reasons, counts, strict=True))
    warnings.warn(
        f"{bad.sum()} of {bad.size} {what} did not converge: {listed}. "
        f"See `converged`, `message` and `residual` of the result, and {READING_CONVERGED}.",
        ConvergenceWarning,
        stacklevel=stacklevel + 1,
    )
