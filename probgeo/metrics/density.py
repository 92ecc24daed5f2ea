"""Metrics that are cheap where data are likely: a power of a density."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from probgeo._checks import as_positive
from probgeo.functions import RowFunction, as_row_function
from probgeo.functions.composed import Composed, library_of
from probgeo.metrics.arguments import as_function, as_points, far_apart, unwrapped
from probgeo.metrics.conformal import Conformal


@dataclass(frozen=True)
class Price:
    """1 / ((p / p0)^power + floor), of log p in any framework."""

    log_peak: float  # log p0
    power: float
    floor: float

    def __call__(self, log_p: Any) -> Any:
        xp = library_of(log_p)
        share = self.power * (log_p - self.log_peak)
        return xp.exp(-xp.logaddexp(share, xp.full_like(share, np.log(self.floor))))


@dataclass(frozen=True, init=False, repr=False, eq=False)
class DensityMetric(Conformal):
    """M(x) = price(log p(x)) B(x), which knows where the data are; see `from_density`."""

    log_density: Callable
    price: Price
    data: np.ndarray

    def __init__(self, log_density: Callable, price: Price, data: np.ndarray, base: Any) -> None:
        super().__init__(Composed(unwrapped(log_density), price), base)
        vars(self).update(log_density=log_density, price=price, data=data)

    @property
    def dimension(self) -> int:
        return self.data.shape[1]

    def _factor(self, x: np.ndarray) -> RowFunction:
        return self._kept(
            x.shape[1], lambda D: as_row_function(self.log_density, D, "log_density", (), after=self.price)
        )

    def landmarks(self) -> np.ndarray:
        """Those of the base, and at most 64 of the data, far apart."""
        data = self.data[far_apart(self.data, 64)]
        return np.concatenate([self.base.landmarks().reshape(-1, self.dimension), data])


def from_density(
    log_density: Callable, data: Any, *, power: Any = None, floor: Any = 1e-2, base: Any = None
) -> DensityMetric:
    """M(x) = I / ((p(x) / p0)^power + floor): short paths run where data are dense.

    p0 is the largest density among the data, so that it does not matter in which units p is given, or whether it is
    normalised. At the densest point lengths are (almost) Euclidean. With the default power, and where the floor does
    not matter, they count the data that are passed: points of density p are p^(-1/D) apart.

    Parameters
    ----------
    log_density : function x (D,) -> number
        log p, in JAX; or of rows (n, D) -> (n,) in NumPy or torch. `score_samples` of
        scikit-learn's `KernelDensity` and `GaussianMixture` is one in NumPy.
    data : array (N, D)
        Points at which p0 is looked for. They are the landmarks of geodesics as well.
    power : float, optional
        How much differences of the density count; 2 / D by default.
    floor : float
        The metric is at most 1 / floor: no path is taken that is longer than the straight line by more than a factor of
        about 1 / sqrt(floor).
    base : metric, optional
        To be used in place of the identity, which makes it M(x) = B(x) / ((p / p0)^power + floor).

    Returns
    -------
    DensityMetric
        A `Conformal` metric. Its derivatives are those of log p in JAX or torch; for functions of
        NumPy they come from differences, and log p has to be smooth to round-off.

    References
    ----------
    Arvanitidis, Hauberg & Schölkopf (2021), Geometrically enriched latent spaces.
    Groisman, Jonckheere & Sapienza (2022), Nonhomogeneous Euclidean first-passage percolation and
    distance learning (the default power).

    Examples
    --------
    >>> X = np.random.default_rng(0).normal(size=(200, 2))
    >>> metric = from_density(lambda x: -0.5 * x @ x, X)
    >>> metric.scale(np.array([[0.0, 0.0], [9.0, 0.0]])).round(2)  # likely, unlikely
    array([  0.97, 100.  ])
    """
    points = as_points("data", data)
    D = points.shape[1]
    exponent = 2.0 / D if power is None else as_positive("power", power)
    least = as_positive("floor", floor)
    as_function("log_density", log_density)
    at_data = as_row_function(log_density, D, "log_density", ()).values(points)
    peak = np.max(at_data)  # NaN if there is any
    if not np.isfinite(peak):
        n = np.argmin(np.isfinite(at_data))
        raise ValueError(f"log_density must be finite where data are, got {at_data[n]} at data[{n}] = {points[n]}")
    return DensityMetric(log_density, Price(float(peak), exponent, least), points, base)
