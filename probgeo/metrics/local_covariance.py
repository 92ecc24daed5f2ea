"""The kernel-weighted local variances of the data, as used with LAND."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from probgeo._checks import as_positive
from probgeo.functions.composed import constant
from probgeo.metrics.arguments import as_points
from probgeo.metrics.loops import EnergyTerms, filled, kernel_terms
from probgeo.metrics.metric import ByLoop, array_module


@dataclass(frozen=True, init=False, repr=False, eq=False)
class LocalCovariance(ByLoop):
    """M_dd(x) = 1 / (sum_n w_n(x) (x_nd - x_d)^2 + rho), w_n(x) = exp(-|x_n - x|^2 / 2 sigma^2).

    Small where there are data to vary along, and 1 / rho far from all data, so that geodesics stay near the data. The
    weights are not normalised: many points make the metric smaller than few. The energy costs O(N D) a point.

    Parameters
    ----------
    X : array (N, D)
    sigma : float
        Width of the kernel, in the units of the data.
    rho : float
        Variance that is left far from the data, in the units of the data squared.

    References
    ----------
    Arvanitidis, Hansen & Hauberg (2016), A locally adaptive normal distribution.

    Examples
    --------
    >>> metric = LocalCovariance([[0.0, 0.0], [1.0, 0.0]], sigma=1.0, rho=0.1)
    >>> metric(np.array([30.0, 0.0])).round(6).tolist()
    [[10.0, 0.0], [0.0, 10.0]]
    """

    X: np.ndarray
    sigma: float
    rho: float

    def __init__(self, X: Any, sigma: Any, rho: Any = 1e-3) -> None:
        vars(self).update(X=as_points("X", X), sigma=as_positive("sigma", sigma), rho=as_positive("rho", rho))

    @property
    def dimension(self) -> int:
        return self.X.shape[1]

    def diagonal(self, x: Any) -> Any:
        """The entries M_dd (..., D) at x (..., D)."""
        return np.diagonal(self(x), axis1=-2, axis2=-1)

    def _in_jax(self, x: Any) -> Any:
        xp = array_module(x)
        squares = (constant(self.X, x) - x[..., None, :]) ** 2
        weights = xp.exp(-0.5 * xp.sum(squares, axis=-1) / self.sigma**2)
        entries = 1.0 / (xp.einsum("...n,...nd->...d", weights, squares) + self.rho)
        return entries[..., None] * np.eye(self.dimension)

    def landmarks(self) -> np.ndarray:
        """Data far from each other, each moved to the mean of those that are nearest to it."""
        chosen = [int(np.argmin(np.sum((self.X - self.X.mean(axis=0)) ** 2, axis=1)))]
        squares = np.sum((self.X - self.X[chosen[0]]) ** 2, axis=1)
        nearest = np.zeros(len(self.X), dtype=int)
        # thirty: several along every bend of a curve, and one detour costs one polygon
        while len(chosen) < 30 and squares.max() > 0.0:
            new = int(np.argmax(squares))
            distances = np.sum((self.X - self.X[new]) ** 2, axis=1)
            nearest[distances < squares] = len(chosen)
            squares = np.minimum(squares, distances)
            chosen.append(new)
        return np.stack([self.X[nearest == k].mean(axis=0) for k in range(len(chosen))])

    def _filled(self, x: np.ndarray, v: np.ndarray, level: int) -> EnergyTerms:
        return filled(kernel_terms, (x, v, self.X, self.sigma, self.rho), level)
