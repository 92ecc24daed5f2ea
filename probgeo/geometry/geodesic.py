"""The answer of `Manifold.geodesic`: a curve that knows its length, its rivals and its ends."""

from dataclasses import dataclass, replace
from typing import Any, Literal, Self

import numpy as np

from probgeo._checks import as_whole_number, one_of
from probgeo.gaussian import Gaussian, ScalarGaussian, with_error
from probgeo.geometry.length import draw_lengths
from probgeo.geometry.search import STARTS
from probgeo.metrics import Metric
from probgeo.ode.curve import OK, Curve, Source, as_source

Method = Literal["linearised", "sampled"]

FLAGS = (
    "",
    "the metric is not positive definite at one of the ends",
    "the length is zero or not finite: the metric is not positive definite on the way",
    "longer than the straight line",
    "longer than another curve that was found",
)
GOOD, NO_METRIC, NO_LENGTH, LONGER_THAN_LINE, LONGER_THAN_KNOWN = range(5)


@dataclass(frozen=True, repr=False, eq=False)
class Geodesic(Curve):
    """A posterior over geodesics on [0, 1], or a batch of them: a `Curve` and what follows.

    Attributes
    ----------
    length : ScalarGaussian (...)
        See `measure` for its variance.
    energy : array (...)
        Integral of c' M(c) c' of the mean curve, the squared length if its speed is constant.
    converged : bool array (...)
        Whether the curve is a local minimum, known to the tolerance, and not longer than the
        straight line. `message` says why not.
    n_minima : int array (...)
        How many distinct curves the search has met, local minima all of them.
    gap : array (...)
        How much longer the second shortest of them is, relatively. A small gap says that "the"
        shortest curve is a close call. Infinite if there is no other, or if all others fell behind
        (by 4 % and more, or two better ones) before they were worth refining.
    start : str, or array of str (...)
        The start it was found from.
    """

    metric: Metric
    energy: np.ndarray
    n_minima: np.ndarray
    gap: np.ndarray
    flag: np.ndarray
    won: np.ndarray
    mean_length: np.ndarray
    length_error: np.ndarray  # standard deviation by the numerics
    length_spread: np.ndarray  # standard deviation by uncertain ends
    velocity: np.ndarray  # (..., D), the logarithm
    velocity_error: np.ndarray  # standard deviation of its coordinates by the numerics

    @property
    def converged(self) -> Any:
        return super().converged & (self.flag == GOOD)

    @property
    def flagged(self) -> Any:
        """Not `converged`."""
        return ~self.converged

    @property
    def message(self) -> Any:
        own = np.array(FLAGS, dtype=object)[self.flag]
        solver = np.asarray(super().message, dtype=object)
        texts = np.where(self.flag == GOOD, solver, own)
        both = (self.flag != GOOD) & (self.status != OK) & (self.flag != NO_METRIC)
        texts = np.where(both, own + "; " + solver, texts)
        return texts if self.batch_shape else str(texts)

    @property
    def start(self) -> Any:
        names = np.array(STARTS, dtype=object)[self.won]
        return names if self.batch_shape else str(names)

    @property
    def length(self) -> ScalarGaussian:
        return self.measure()

    def measure(
        self, method: Method = "linearised", *, source: Source = "total", seed: int = 0, n: int = 100
    ) -> ScalarGaussian:
        """The length as a Gaussian.

        Its mean is the length of the mean curve. The numerical standard deviation is by how much
        that is too long, as far as can be told: every curve off the geodesic is longer. Uncertain
        ends change the length by <c'(1), db> - <c'(0), da> over the speed, the first variation.

        Parameters
        ----------
        method : "linearised" | "sampled"
            Sampled: the mean square by which the lengths of `n` curves drawn from the posterior
            differ from that of the mean.
        source : "total" | "numerical" | "boundary"
            Which variance; draws know the total only.
        seed, n : int
            Of the draws.
        """
        check_method(method, source)
        if method == "sampled":
            off = self.sample_lengths(seed, n) - self.mean_length
            return ScalarGaussian.unchecked(self.mean_length, np.mean(off**2, axis=0))
        numerical, boundary = self.length_error**2, self.length_spread**2
        return ScalarGaussian.unchecked(self.mean_length, _part(source, numerical, boundary))

    def sample_lengths(self, seed: int, n: int) -> np.ndarray:
        """Lengths (n, ...) of `n` curves drawn from the posterior."""
        return self._draws(seed, n)[0]

    def log(self, method: Method = "linearised", *, source: Source = "total", seed: int = 0, n: int = 100) -> Gaussian:
        """The logarithm map: c'(0), whose norm at c(0) is the length (erratum 8).

        Its mean follows from how the energy changes with c(0), which is known far better than the
        slope of the mean curve. The covariance is that of its error, estimated, or the second
        moment of `n` draws about the mean, each scaled to its own length as in the paper.
        """
        check_method(method, source)
        if method == "sampled":
            off = self._draws(seed, n)[1] - self.velocity
            return Gaussian.unchecked(self.velocity, np.einsum("n...i,n...j->...ij", off, off) / n)
        D = self.dimension
        numerical = self.velocity_error[..., None, None] ** 2 * np.eye(D)
        if np.isnan(self.velocity_error).all():  # not estimated by itself
            numerical = self.cov(0.0, 0.0, (1, 1), "numerical")
        columns = self.posterior.boundary_columns(np.zeros(1), 1)[:, 0]
        boundary = (columns @ np.swapaxes(columns, 1, 2)).reshape(*self.batch_shape, D, D)
        return Gaussian.unchecked(self.velocity, _part(source, numerical, boundary))

    def _draws(self, seed: int, n: int) -> tuple[np.ndarray, np.ndarray]:
        """Lengths (n, ...) and logarithms (n, ..., D) of curves drawn from the posterior."""
        n = as_whole_number("n", n, 1)
        lengths, logs = draw_lengths(self.metric, self.posterior, seed, n)
        batch = self.batch_shape
        return lengths.reshape(n, *batch), logs.reshape(n, *batch, self.dimension)

    def _columns(self) -> dict[str, Any]:
        length = self.length
        return {
            "length": length.mean,
            "length_std": length.std,
            "energy": self.energy,
            "start": np.asarray(self.start, dtype=object),
            "n_minima": self.n_minima,
            "gap": self.gap,
            **super()._columns(),
        }

    def __getitem__(self, index: Any) -> Self:
        """Members of a batch."""
        members = super().__getitem__(index)
        batch = np.arange(self.mean_length.size).reshape(self.batch_shape)[index]
        velocity = self.velocity.reshape(-1, self.dimension)[batch]
        return replace(members, velocity=velocity)

    def __repr__(self) -> str:
        text = super().__repr__()
        if self.batch_shape:
            return text
        return f"{text[:-1]}, length={with_error(self.length.mean, self.length.std)})"


def check_method(method: str, source: str) -> None:
    """That a way to find uncertainties is known, and knows what is asked for."""
    one_of("method", method, ("linearised", "sampled"))
    as_source(source)
    if method == "sampled" and source != "total":
        raise ValueError(f"draws know the total uncertainty only, got source={source!r}")


def _part(source: Source, numerical: np.ndarray, boundary: np.ndarray) -> np.ndarray:
    parts = {"numerical": numerical, "boundary": boundary, "total": numerical + boundary}
    return parts[source]
