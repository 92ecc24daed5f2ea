"""The kernel-weighted local variances of the data, as used with LAND."""

from typing import Any

import jax.numpy as jnp
from jaxtyping import Array, Float

from probgeo._old.geometry.inputs import as_number, as_points
from probgeo._old.geometry.metrics.diagonal import Diagonal


class LocalCovariance(Diagonal):
    """M_dd(x) = 1 / (sum_n w_n(x) (x_nd - x_d)^2 + rho), w_n(x) = exp(-|x_n - x|^2 / 2 sigma^2).

    Small where there are data to vary along, and 1 / rho far from all data, so that geodesics stay
    near the data. The weights are not normalised: many points make the metric smaller than few.
    A product M(x) v costs O(N D).

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
    >>> metric(jnp.array([30.0, 0.0])).round(6).tolist()
    [[10.0, 0.0], [0.0, 10.0]]
    """

    X: Float[Array, "n d"]
    sigma: Float[Array, ""]
    rho: Float[Array, ""]

    def __init__(self, X: Any, sigma: Any, rho: Any = 1e-3) -> None:
        self.X = as_points("X", X)
        self.sigma = as_number("sigma", sigma)
        self.rho = as_number("rho", rho)

    def diagonal(self, x: Float[Array, " d"]) -> Float[Array, " d"]:
        squares = (self.X - x) ** 2
        weights = jnp.exp(-0.5 * jnp.sum(squares, axis=-1) / self.sigma**2)
        return 1.0 / (weights @ squares + self.rho)
