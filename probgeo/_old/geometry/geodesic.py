"""The answer of `Manifold.geodesic`: a curve that knows its length and how it was found."""

from typing import Any, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from probgeo._old._checks import array_module, as_whole_number, is_concrete
from probgeo._old._compile import compiled_quickly
from probgeo._old.gaussian import Gaussian, with_error
from probgeo._old.geometry.equation import Metric
from probgeo._old.geometry.length import Measured, ScalarGaussian, direction, draw_measures
from probgeo._old.ode.curve import OK, SOURCES, Curve, Posterior, Source, take_members

Method = Literal["linearised", "sampled"]

FLAGS = (
    "",
    "the metric is not positive definite at one of the ends",
    "the length is not finite: the metric is not positive definite on the way",
    "longer than the straight line",
    "longer than another curve that was found",
)
FINE, NO_METRIC, NO_LENGTH, LONGER_THAN_LINE, LONGER_THAN_KNOWN = range(5)


class Shifted(Posterior):
    """A posterior over curves, moved to another origin.

    Geodesics are solved relative to their first end: tolerances are then relative to how far they
    go, and do not change when the data are moved.
    """

    posterior: Posterior
    origin: Float[Array, " d"]

    def mesh(self) -> list[Array]:
        return self.posterior.mesh()

    def mean(self, tau: Array, derivative: int) -> Array:
        mean = self.posterior.mean(tau, derivative)
        return mean if derivative else self.origin + mean

    def cov(self, sigma: Array, tau: Array, derivative: tuple[int, int], source: Source) -> Array:
        return self.posterior.cov(sigma, tau, derivative, source)

    def marginal(self, tau: Array, derivative: int, source: Source) -> Array:
        return self.posterior.marginal(tau, derivative, source)

    def sample(self, key: Array, n: int, tau: Array, orders: tuple[int, ...]) -> Array:
        draws = self.posterior.sample(key, n, tau, orders)
        moved = jnp.array([float(d == 0) for d in orders])[:, None, None] * self.origin
        return draws + moved


class Geodesic(Curve):
    """A posterior over geodesics on [0, 1], or a batch of them: a `Curve` and what follows.

    Attributes
    ----------
    length : ScalarGaussian (...)
        See `measure` for its variance.
    energy : array (...)
        Integral of c' M(c) c' of the mean curve, the squared length if its speed is constant.
    converged : bool array (...)
        Whether the residual of the ODE is met, and the curve is not longer than the straight line
        or any other curve met on the way. `message` says why not.
    start : str, or array of str (...)
        The start it was found from.
    """

    metric: Metric
    measured: Measured
    flag: Int[Array, "*batch"]
    won: Int[Array, "*batch"]
    starts: tuple[str, ...] = eqx.field(static=True)

    @property
    def converged(self) -> Bool[Array, "*batch"]:
        xp = array_module(self.status, self.flag)
        return super().converged & (xp.asarray(self.flag) == FINE)

    @property
    def flagged(self) -> Bool[Array, "*batch"]:
        """The contrary of `converged`."""
        return ~self.converged

    @property
    def message(self) -> Any:
        flags, status = np.asarray(self.flag), np.asarray(self.status)
        own = np.array(FLAGS, dtype=object)[flags]
        texts = np.where(flags == FINE, np.asarray(super().message, dtype=object), own)
        both = (flags != FINE) & (status != OK) & (flags != NO_METRIC)
        texts = np.where(both, own + "; " + np.asarray(super().message, dtype=object), texts)
        return texts if self.batch_shape else str(texts)

    @property
    def start(self) -> Any:
        names = np.array(self.starts, dtype=object)[np.asarray(self.won)]
        return names if self.batch_shape else str(names)

    @property
    def length(self) -> ScalarGaussian:
        return self.measure()

    @property
    def energy(self) -> Float[Array, "*batch"]:
        return self.measured.energy

    def measure(
        self,
        method: Method = "linearised",
        *,
        source: Source = "total",
        seed: int = 0,
        n: int = 100,
    ) -> ScalarGaussian:
        """The length as a Gaussian.

        Its mean is the length of the mean curve. Its variance is the mean square by which the
        lengths of curves drawn from the posterior differ from that: from `n` draws, or by
        linearisation. Averages over draws would be biased: every curve off the geodesic is longer.

        Parameters
        ----------
        method : "linearised" | "sampled"
        source : "total" | "numerical" | "boundary"
            Which variance; draws know the total only.
        seed, n : int
            Of the draws.
        """
        check_method(method, source)
        mean = self.measured.length
        if method == "sampled":
            lengths = self.sample_lengths(seed, n)
            return ScalarGaussian.unchecked(mean, jnp.mean((lengths - mean) ** 2, axis=0))
        return ScalarGaussian.unchecked(mean, self._variance(source))

    def sample_lengths(self, seed: int, n: int) -> Float[Array, "n *batch"]:
        """Lengths of `n` curves drawn from the posterior."""
        n = as_whole_number("n", n, 1)
        return _sample_lengths(self, jax.random.key(seed), n)

    def log(
        self,
        method: Method = "linearised",
        *,
        source: Source = "total",
        seed: int = 0,
        n: int = 100,
    ) -> Gaussian:
        """c'(0) scaled to the length of the curve in the norm at c(0): the logarithm map.

        For an exact geodesic that is c'(0) itself (erratum 8). The mean is that of the mean curve.
        The covariance is that of c'(0), or the second moment of `n` draws about the mean, each
        scaled to its own length as in the paper: these leave out the error of the speed at c(0),
        and agree with the former across the curve.
        """
        check_method(method, source)
        if method == "sampled":
            n = as_whole_number("n", n, 1)
            return Gaussian.unchecked(*_sample_logs(self, jax.random.key(seed), n))
        mean, numerical, boundary = _log(self)
        parts = {"numerical": numerical, "boundary": boundary, "total": numerical + boundary}
        return Gaussian.unchecked(mean, parts[source])

    def _variance(self, source: Source) -> Array:
        numerical, boundary = self.measured.numerical, self.measured.boundary
        return {
            "numerical": numerical,
            "boundary": boundary,
            "total": numerical + boundary,
        }[source]

    def _columns(self) -> dict[str, Any]:
        length = self.length
        return {
            "length": np.asarray(length.mean),
            "length_std": np.asarray(length.std),
            "energy": np.asarray(self.energy),
            "start": np.asarray(self.start, dtype=object),
            **super()._columns(),
        }

    def __getitem__(self, index: Any) -> "Geodesic":
        """Members of a batch."""
        if not self.batch_shape:
            raise IndexError("this geodesic is not a batch")

        def shared(g: "Geodesic") -> list:
            return [g.t_span, g.metric]

        batched = eqx.tree_at(shared, self, replace=[None, None])
        members = take_members(batched, index)
        return eqx.tree_at(shared, members, shared(self), is_leaf=lambda x: x is None)

    def __repr__(self) -> str:
        text = super().__repr__().replace("Curve", "Geodesic", 1)
        if self.batch_shape or not is_concrete(self):
            return text
        return f"{text[:-1]}, length={with_error(self.length.mean, self.length.std)})"


def check_method(method: str, source: str) -> None:
    if method not in ("linearised", "sampled"):
        raise ValueError(f"method must be 'linearised' or 'sampled', got {method!r}")
    if source not in SOURCES:
        raise ValueError(f"source must be one of {SOURCES}, got {source!r}")
    if method == "sampled" and source != "total":
        raise ValueError(f"draws know the total uncertainty only, got source={source!r}")


def _each(geodesic: Geodesic, function: Any, *extra: Any) -> Any:
    """function(posterior, nodes, *extra) for every member of the batch."""
    for _ in geodesic.batch_shape:
        function = jax.vmap(function)
    return function(geodesic.posterior, geodesic.nodes, *extra)


@compiled_quickly
def _sample_lengths(geodesic: Geodesic, key: Array, n: int) -> Float[Array, "n *batch"]:
    return _draws(geodesic, key, n)[0]


@compiled_quickly
def _sample_logs(geodesic: Geodesic, key: Array, n: int) -> tuple[Array, Array]:
    """The logarithm of the mean curve, and second moments of those of the draws about it."""
    _, logs = _draws(geodesic, key, n)
    mean, _, _ = _log(geodesic)
    return mean, jnp.einsum("n...i,n...j->...ij", logs - mean, logs - mean) / n


def _draws(geodesic: Geodesic, key: Array, n: int) -> tuple[Array, Array]:
    """Lengths (n, *batch) and logarithms (n, *batch, D) of curves drawn from the posterior."""
    keys = jax.random.split(key, geodesic.batch_shape)
    metric = geodesic.metric
    drawn = _each(geodesic, lambda p, t, k: draw_measures(metric, p, t, k, n), keys)
    return jax.tree.map(lambda x: jnp.moveaxis(x, len(geodesic.batch_shape), 0), drawn)


@compiled_quickly
def _log(geodesic: Geodesic) -> tuple[Array, Array, Array]:
    """Mean of the logarithm, and its covariances from the numerics and from uncertain ends."""
    metric = geodesic.metric

    def one(posterior: Posterior, _: Array, length: Array) -> tuple[Array, Array, Array]:
        zero = jnp.zeros(1)
        unit = direction(metric, posterior.mean(zero, 0)[0], posterior.mean(zero, 1)[0])
        numerical, boundary = (
            posterior.marginal(zero, 1, source)[0] for source in ("numerical", "boundary")
        )
        return length * unit, numerical, boundary

    return _each(geodesic, one, geodesic.measured.length)
