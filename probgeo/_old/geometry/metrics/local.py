"""The paper's learned metric: local tensors, blended smoothly (Eq. 8 and 9)."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from probgeo._old.geometry.equation import Metric
from probgeo._old.geometry.inputs import as_number, as_points, as_tensors
from probgeo._old.geometry.linalg import solve_spd


class LocalMetrics(Metric):
    """M(x) = sum_k w_k(x) M_k with weights w_k(x) ~ exp(-rho/2 (x - mu_k)' M_k (x - mu_k)).

    The weights are a softmax: far from all centres the nearest tensor is left, and M(x) stays
    finite and positive definite. A product M(x) v, and the geodesic equation up to its solve, cost
    O(K D^2), or O(K D) with diagonal tensors.

    Parameters
    ----------
    centers : array (K, D)
        mu_k.
    tensors : array (K, D, D), or (K, D) if diagonal
        M_k, symmetric positive definite.
    rho : float
        How sharply one tensor gives way to the next; 0 blends them evenly everywhere. It is a
        number like the others, so that changing it compiles nothing anew.

    References
    ----------
    Hauberg, Freifeld & Black (2012), A geometric take on metric learning.

    Examples
    --------
    >>> metric = LocalMetrics(centers=[[0.0, 0.0], [4.0, 0.0]], tensors=[[1.0, 1.0], [4.0, 1.0]])
    >>> metric(jnp.array([0.0, 1.0])).round(6).tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    >>> metric.with_rho(0.0)(jnp.array([0.0, 1.0])).tolist()
    [[2.5, 0.0], [0.0, 1.0]]
    """

    centers: Float[Array, "k d"]
    tensors: Float[Array, "k d d"] | Float[Array, "k d"]
    rho: Float[Array, ""]

    def __init__(self, centers: Any, tensors: Any, rho: Any = 1.0) -> None:
        self.centers = as_points("centers", centers)
        self.tensors = as_tensors("tensors", tensors, *self.centers.shape)
        self.rho = as_number("rho", rho, or_zero=True)

    @property
    def is_diagonal(self) -> bool:
        """Whether the tensors are given by their diagonals."""
        return self.tensors.ndim == 2

    def with_rho(self, rho: Any) -> "LocalMetrics":
        """The same metric, sharper or smoother."""
        return eqx.tree_at(lambda metric: metric.rho, self, as_number("rho", rho, or_zero=True))

    def weights(self, x: Float[Array, " d"]) -> Float[Array, " k"]:
        """w_k(x), which sum to one (Eq. 9)."""
        return self._weights_and_slopes(x)[0]

    def __call__(self, x: Float[Array, " d"]) -> Float[Array, "d d"]:
        return self._full(self.weights(x))

    def apply(self, x: Float[Array, " d"], v: Float[Array, " d"]) -> Float[Array, " d"]:
        return self.weights(x) @ self._products(v)

    def energy(self, x: Float[Array, " d"], v: Float[Array, " d"]) -> Float[Array, ""]:
        return self.weights(x) @ (self._products(v) @ v)

    def solve(self, x: Float[Array, " d"], p: Float[Array, " d"]) -> Float[Array, " d"]:
        return self._solve(self.weights(x), p)

    def acceleration(self, x: Float[Array, " d"], v: Float[Array, " d"]) -> Float[Array, " d"]:
        # with g_k the gradient of log w~_k, that of w_k is w_k (g_k - sum_j w_j g_j)
        w, g = self._weights_and_slopes(x)
        Mv = self._products(v)
        energies, rates = Mv @ v, g @ v
        gradient = (w * (energies - w @ energies)) @ g
        change = (w * (rates - w @ rates)) @ Mv
        return self._solve(w, 0.5 * gradient - change)

    def acceleration_jacobian(
        self, x: Float[Array, " d"], v: Float[Array, " d"]
    ) -> Float[Array, "d 2 d"]:
        """Derivatives of c'' by x, [:, 0], and by v, [:, 1], in O(K D^2) up to the solve.

        Automatic differentiation takes D times as long: it does not see the products of K columns.
        """
        w, g = self._weights_and_slopes(x)
        Mv = self._products(v)
        Ma = self._products(self.acceleration(x, v))
        energies, centred = Mv @ v, g - w @ g
        slopes = w[:, None] * centred  # of the weights
        rates = slopes @ v
        # M a = r, r = 1/2 sum_k (v' M_k v) slope_k - sum_k (slope_k . v) M_k v
        by_v = slopes.T @ Mv - Mv.T @ slopes - self._full(rates)
        # the derivative of slope_k is w_k (centred_k centred_k' - rho M_k - turn)
        turn = centred.T @ slopes - self.rho * self._full(w)
        moved = rates[:, None] * centred - w[:, None] * (self.rho * Mv + turn @ v)
        weighted = w * energies
        curved = centred.T @ (weighted[:, None] * centred) - self.rho * self._full(weighted)
        by_x = 0.5 * (curved - jnp.sum(weighted) * turn) - Mv.T @ moved - Ma.T @ slopes
        columns = jnp.concatenate([by_x, by_v], axis=1)
        solved = jax.vmap(lambda p: self._solve(w, p), in_axes=1, out_axes=1)(columns)
        return solved.reshape(x.size, 2, x.size)

    def _weights_and_slopes(self, x: Array) -> tuple[Float[Array, " k"], Float[Array, "k d"]]:
        """w_k(x), and the gradients g_k of log w~_k(x)."""
        offsets = x - self.centers
        slopes = -self.rho * self._products(offsets)
        return jax.nn.softmax(0.5 * jnp.sum(slopes * offsets, axis=-1)), slopes

    def _products(self, u: Float[Array, "*k d"]) -> Float[Array, "k d"]:
        """M_k u_k, or M_k u for one u."""
        if self.is_diagonal:
            return self.tensors * u
        if u.ndim == 1:
            return self.tensors @ u
        return jnp.einsum("kij,kj->ki", self.tensors, u)

    def _blend(self, w: Float[Array, " k"]) -> Array:
        """sum_k w_k M_k (Eq. 8), in the shape of one tensor."""
        return jnp.tensordot(w, self.tensors, axes=1)

    def _full(self, w: Float[Array, " k"]) -> Float[Array, "d d"]:
        """sum_k w_k M_k as a matrix."""
        blend = self._blend(w)
        return jnp.diag(blend) if self.is_diagonal else blend

    def _solve(self, w: Float[Array, " k"], p: Float[Array, " d"]) -> Float[Array, " d"]:
        if self.is_diagonal:
            return p / self._blend(w)
        return solve_spd(lambda u: w @ self._products(u), self._blend(w), p)
