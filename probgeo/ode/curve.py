"""The answer of every solver: a Gaussian process posterior over the solution curve."""

import warnings
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any, Literal, Self, TypeVar

import numpy as np

from probgeo._checks import as_float_array, as_seeds, as_whole_number, is_traced, one_of, page
from probgeo.gaussian import Gaussian, covariance_factor

if TYPE_CHECKING:
    import pandas
    import xarray

Source = Literal["total", "numerical", "boundary"]
SOURCES = ("total", "numerical", "boundary")

MESSAGES = (
    "converged",
    "not finite: the solution or its error bars left the range of numbers, or f returned NaN",
    "the residual of the ODE is above the tolerance after the last iteration",
    "no step lowers the residual of the ODE any further, and it is above the tolerance",
    "the error estimate is above rtol and atol on the finest mesh allowed",
    "the evaluations have settled, but the mean is far from the ODE at the nodes: "
    "more points, a shorter length scale or error_model='linearised' may help",
    "the problem has no unique solution: its linearisation is singular, or nearly so",
    "steps are limited by stability, not by accuracy: the problem is stiff, try stiff=True",
    "the metric is not smooth here, and error bars assume that it is",
    "the search for what the data make most likely did not settle",
)
OK, NOT_FINITE, OUT_OF_SWEEPS, STALLED, TOO_COARSE, UNFAITHFUL, SINGULAR, STIFF = range(8)
NOT_SMOOTH, UNSETTLED = 8, 9
READING_CONVERGED = page("concepts/converged")


class ConvergenceWarning(UserWarning):
    """Some results did not converge; `Curve.converged` says which, `Curve.message` why."""


class Posterior(ABC):
    """What a solver provides for a flat batch of B members, in the user's time.

    `source` tells the error of the numerics from the uncertainty of the user's data, which add up
    to the total.
    """

    @property
    @abstractmethod
    def count(self) -> int:
        """B."""

    @property
    @abstractmethod
    def dimension(self) -> int:
        """D."""

    @abstractmethod
    def nodes(self, member: int) -> np.ndarray:
        """The mesh of one member."""

    @abstractmethod
    def take(self, members: np.ndarray) -> "Posterior":
        """Some members."""

    @abstractmethod
    def mean(self, t: np.ndarray, derivative: int) -> np.ndarray:
        """Means (B, T, D) at the times t (T,)."""

    @abstractmethod
    def cov(self, s: np.ndarray, t: np.ndarray, derivative: tuple[int, int], source: Source) -> np.ndarray:
        """Covariances (B, T, D, D) of the times s (T,) with the times t (T,), pair by pair."""

    @abstractmethod
    def boundary_columns(self, t: np.ndarray, derivative: int) -> np.ndarray:
        """How curves move with R standard normal numbers behind their data: (B, T, D, R)."""

    @abstractmethod
    def sample(self, rngs: list[np.random.Generator], n: int, t: np.ndarray, orders: tuple[int, ...]) -> np.ndarray:
        """Joint draws (B, n, len(orders), T, D), one generator a member."""

    def is_surely_finite(self) -> bool:
        """Whether error bars are finite everywhere, by a quick check."""
        return False

    @classmethod
    @abstractmethod
    def joined(cls, parts: Sequence[Any]) -> "Posterior":
        """Batches of one kind one after the other."""

    @abstractmethod
    def moved(self, origin: np.ndarray) -> "Posterior":
        """The same curves, each from another origin (B, D)."""

    def mean_at(self, member: np.ndarray, t: np.ndarray, derivative: int) -> np.ndarray:
        """Means (n, D) at rows (member, t)."""
        return self.mean(t, derivative)[member, np.arange(len(t))]

    def std(self, t: np.ndarray, derivative: int, source: Source) -> np.ndarray:
        """Standard deviations (B, T, D)."""
        cov = self.cov(t, t, (derivative, derivative), source)
        return np.sqrt(np.maximum(np.diagonal(cov, axis1=-2, axis2=-1), 0.0))


def balanced_factor(cov: np.ndarray) -> np.ndarray:
    """A with A A' = cov (..., n, n), NaN where that is not finite.

    Derivatives differ by orders of magnitude: it is correlations that are factorised.
    """
    std = np.sqrt(np.maximum(np.diagonal(cov, axis1=-2, axis2=-1), 0.0))
    unit = np.where(std > 0, std, 1.0)
    finite = np.isfinite(cov).all(axis=(-2, -1))[..., None, None]
    factor = covariance_factor(np.where(finite, cov / (unit[..., :, None] * unit[..., None, :]), 0.0))
    return np.where(finite, std[..., :, None] * factor, np.nan)


@dataclass(frozen=True, repr=False, eq=False)
class Curve:
    """A posterior over curves t -> R^D, or a batch of them.

    Attributes
    ----------
    converged : bool array (...)
        Whether each member can be trusted; `message` says why not.
    log_evidence : array (...)
        Log density of what the solver has seen of f, under its calibrated model.
    n_evaluations : int array (...)
        Evaluations of f, Jacobians not counted.
    residual : array (...)
        By how much the ODE is still missed, relative to the size of the solution.
    scale : array (...)
        Estimated scale of the numerical standard deviation.
    log_likelihood : array (...)
        Log density of the data along the curve, if there are any: given f and its parameters, over
        uncertain initial or boundary values and numerical errors. Of values of infinite variance
        the prior density is one.
    """

    posterior: Posterior
    t_span: tuple[float, float]
    status: np.ndarray
    log_evidence: np.ndarray
    n_evaluations: np.ndarray
    residual: np.ndarray
    scale: np.ndarray
    log_likelihood: np.ndarray | None = field(default=None, kw_only=True)

    @property
    def batch_shape(self) -> tuple[int, ...]:
        return np.shape(self.status)

    @property
    def dimension(self) -> int:
        return self.posterior.dimension

    @property
    def converged(self) -> Any:
        return self.status == OK

    @property
    def message(self) -> Any:
        """What the solver says of each member: a string, or an array of strings."""
        texts = np.array(MESSAGES, dtype=object)[self.status]
        return texts if self.batch_shape else str(texts)

    @property
    def nodes(self) -> Any:
        """The mesh (N,) of the curve; of a batch the list of all meshes, which differ in size."""
        meshes = [self.posterior.nodes(m) for m in range(self.posterior.count)]
        return meshes if self.batch_shape else meshes[0]

    def mean(self, t: Any, derivative: int = 0) -> np.ndarray:
        """Posterior mean at time(s) `t`, shape (..., *t.shape, D)."""
        if is_traced(t):
            return self._inside_jax().mean(t, derivative)
        times = self._times("t", t)
        values = self.posterior.mean(times.ravel(), _order(derivative))
        return self._shaped(values, times.shape)

    def cov(self, s: Any, t: Any, derivative: tuple[int, int] = (0, 0), source: Source = "total") -> np.ndarray:
        """Covariance of derivative[0] at `s` with derivative[1] at `t`: (..., *shape, D, D).

        `s` and `t` broadcast against each other: use s[:, None], t[None, :] for all pairs.
        """
        if is_traced(s, t):
            return self._inside_jax().cov(s, t, derivative, source)
        orders = (_order(derivative[0]), _order(derivative[1]))
        first, second = np.broadcast_arrays(self._times("s", s), self._times("t", t))
        values = self.posterior.cov(first.ravel(), second.ravel(), orders, as_source(source))
        return self._shaped(values, first.shape)

    def std(self, t: Any, derivative: int = 0, source: Source = "total") -> np.ndarray:
        """Posterior standard deviation at time(s) `t`, shape (..., *t.shape, D).

        source : "total", "numerical" (what the solver does not know) or "boundary" (what the
        uncertain initial or boundary values bring in). Their variances add up to the total.
        """
        if is_traced(t):
            return self._inside_jax().std(t, derivative, source)
        times = self._times("t", t)
        values = self.posterior.std(times.ravel(), _order(derivative), as_source(source))
        return self._shaped(values, times.shape)

    def __call__(self, t: Any, derivative: int = 0) -> Gaussian:
        """The marginal at time(s) `t` as a Gaussian."""
        cov = self.cov(t, t, (derivative, derivative))
        return Gaussian.unchecked(self.mean(t, derivative), cov)

    def sample(self, seed: int, n: int, t: Any, derivative: int | Sequence[int] = 0) -> Any:
        """Joint samples of the curve at the times `t` (T,): shape (n, ..., T, D).

        With several derivatives, e.g. (0, 1), a tuple of such arrays, drawn jointly.
        """
        times = np.atleast_1d(self._times("t", t))
        if times.ndim != 1:
            raise ValueError(f"t must be one time or a vector of times, got shape {times.shape}")
        several = [derivative] if isinstance(derivative, int) else derivative
        orders = tuple(_order(d) for d in several)
        seeds = as_seeds("seed", seed).spawn(self.posterior.count)
        rngs = [np.random.default_rng(child) for child in seeds]
        draws = self.posterior.sample(rngs, as_whole_number("n", n, 1), times, orders)
        draws = np.moveaxis(draws, (2, 1), (0, 1))  # (orders, n, B, T, D)
        draws = draws.reshape(*draws.shape[:2], *self.batch_shape, *draws.shape[3:])
        return draws[0] if isinstance(derivative, int) else tuple(draws)

    def __getitem__(self, index: Any) -> Self:
        """Members of a batch."""
        if not self.batch_shape:
            raise IndexError("this curve is not a batch")
        numbers = np.arange(self.posterior.count).reshape(self.batch_shape)
        chosen = np.asarray(numbers[index])
        flat = self.reshaped((numbers.size,))
        own: dict[str, Any] = {name: value[chosen] for name, value in flat._arrays().items()}
        return replace(self, posterior=self.posterior.take(chosen.ravel()), **own)

    def reshaped(self, batch_shape: tuple[int, ...]) -> Self:
        """The same members, along other axes."""
        axes = len(self.batch_shape)
        own: dict[str, Any] = {
            name: np.reshape(x, (*batch_shape, *x.shape[axes:])) for name, x in self._arrays().items()
        }
        return replace(self, **own)

    def _arrays(self) -> dict[str, np.ndarray]:
        """All that is known of the members beside their posterior, (*batch, ...)."""
        values = {one.name: getattr(self, one.name) for one in fields(self)}
        return {name: value for name, value in values.items() if isinstance(value, np.ndarray)}

    def __len__(self) -> int:
        if not self.batch_shape:
            raise TypeError("this curve is not a batch")
        return self.batch_shape[0]

    def __repr__(self) -> str:
        batch = f", batch={self.batch_shape}" if self.batch_shape else ""
        good = np.asarray(self.converged)
        state = f"{good.sum()} of {good.size} converged" if batch else f"{self.message!r}"
        t0, t1 = self.t_span
        name = type(self).__name__
        return f"{name}(t=[{t0:g}, {t1:g}], dimension={self.dimension}{batch}, {state})"

    def _repr_html_(self) -> str:
        from probgeo.export import as_html

        return as_html(self)

    def summary(self) -> "pandas.DataFrame":
        """A table of pandas: how every member of the batch was solved, and how well."""
        from probgeo.export import table

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
        from probgeo.export import dataset

        return dataset(self, t, n_samples, seed)

    def _columns(self) -> dict[str, Any]:
        """What there is to say of every member, by name."""
        columns = {
            "converged": np.asarray(self.converged),
            "message": np.asarray(self.message, dtype=object),
            "residual": self.residual,
            "n_evaluations": self.n_evaluations,
            "log_evidence": self.log_evidence,
        }
        if self.log_likelihood is not None:
            columns["log_likelihood"] = self.log_likelihood
        return columns

    def _inside_jax(self) -> Any:
        """The same curve at times that a JAX transformation does not know yet."""
        from probgeo.ode.inside_jax import at_traced_times

        return at_traced_times(self)

    def _shaped(self, values: np.ndarray, times: tuple[int, ...]) -> np.ndarray:
        """(B, T, ...) in the shape of the batch and of the times."""
        return values.reshape(*self.batch_shape, *times, *values.shape[2:])

    def _times(self, name: str, t: Any) -> np.ndarray:
        return as_times(name, t, self.t_span)


@dataclass(frozen=True, repr=False, eq=False)
class CurveWithParameters(Curve):
    """A posterior over curves and over unknown parameters that were found with them.

    Attributes
    ----------
    parameters : Gaussian (..., P)
        Their values, and how far they can be trusted: numerical errors, uncertain conditions, data.
    parameter_mean (..., P), parameter_error (..., P, P) : covariance of the numerical error
    parameter_columns (..., P, R) : how they move with the standard normal numbers behind conditions
    """

    parameter_mean: np.ndarray
    parameter_error: np.ndarray
    parameter_columns: np.ndarray

    @property
    def parameters(self) -> Gaussian:
        columns = self.parameter_columns
        cov = self.parameter_error + columns @ columns.swapaxes(-1, -2)
        return Gaussian.unchecked(self.parameter_mean, cov)


C = TypeVar("C", bound=Curve)


def joined_curves(parts: Sequence[C]) -> C:
    """Flat batches on one interval, one after the other."""
    if len(parts) == 1:
        return parts[0]
    first = parts[0]
    own: Any = {name: np.concatenate([getattr(part, name) for part in parts]) for name in first._arrays()}
    return replace(first, posterior=type(first.posterior).joined([part.posterior for part in parts]), **own)


def collected(parts: Sequence[tuple[np.ndarray, Curve]], batch_shape: tuple[int, ...]) -> Curve:
    """Flat batches (members, curves) as one batch, in the order of the members' numbers."""
    members = np.concatenate([numbers for numbers, _ in parts])
    curve = joined_curves([part for _, part in parts])
    if np.any(members[1:] < members[:-1]):
        curve = curve[np.argsort(members)]
    return curve.reshaped(batch_shape)


def as_times(name: str, t: Any, t_span: tuple[float, float], slack: float = 1e-9) -> np.ndarray:
    """Times of the interval, which rounding may have moved a little outside."""
    times, (t0, t1) = as_float_array(name, t), t_span
    allowed = slack * (t1 - t0)
    if np.any(times < t0 - allowed) or np.any(times > t1 + allowed):
        raise ValueError(f"{name} must lie in [{t0:g}, {t1:g}], got {times}")
    return np.clip(times, t0, t1)


def _order(derivative: Any) -> int:
    return as_whole_number("derivative", derivative, 0)


def as_source(source: str) -> Source:
    return one_of("source", source, SOURCES)  # type: ignore[return-value]


def warn(curve: Curve, what: str, stacklevel: int = 2) -> None:
    """Tell a caller who does not look at `converged`."""
    bad = ~np.atleast_1d(curve.converged)
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


# Classes of earlier versions, for files that name them; called with their parts, like named tuples.


class Moved:
    _fields = ("posterior", "origin")

    def __new__(cls, posterior: Posterior, origin: np.ndarray) -> Any:
        return posterior.moved(origin)


class Joined:
    _fields = ("parts",)

    def __new__(cls, parts: Sequence[Posterior]) -> Any:
        return type(parts[0]).joined(parts)
