"""The posterior of the dense solver (Eq. 14 and 15)."""

import equinox as eqx
import jax.numpy as jnp
from jax.scipy.linalg import solve_triangular
from jaxtyping import Array, Float

from probgeo._old.ode.curve import Posterior, Source
from probgeo._old.ode.dense.gram import Observations, Regression, SplitCovariance
from probgeo._old.ode.kernels import Pinned
from probgeo._old.ode.problem import Problem, mean_basis


class Sensitivity(eqx.Module):
    """How the curve moves with the user's data, in units of their standard deviations.

    A linear map of R independent standard normal variables: `lines` moves the straight line,
    `weights` the representers on top of it.
    """

    lines: Float[Array, "c d r"]
    weights: Float[Array, "n m d r"]


class DensePosterior(Posterior):
    """GP(mean, cov) for one problem.

    The numerical part is the prior, given exact boundary values, conditioned on the evaluations;
    the boundary part carries the uncertainty of those values along the ODE. Keeping them apart
    leaves what the user put in untouched by the scale of the prior. (With Delta inside the Gram
    matrix, as in Eq. 7, a small V would shrink it; the two agree when V is large against Delta.)
    """

    kernel: Pinned
    nodes: Float[Array, " n"]
    values: Float[Array, "c d"]
    scale2: Float[Array, ""]
    V: SplitCovariance
    L: Float[Array, "nb nb"]
    maps: Float[Array, "n b m b"]
    weights: Float[Array, "n m d"]
    sensitivity: Sensitivity | None

    def mean(self, tau: Array, derivative: int) -> Array:
        line = mean_basis(self.kernel.conditions, derivative, tau) @ self.values
        return line + jnp.einsum("...im,imd->...d", self._to_nodes(tau, derivative), self.weights)

    def cov(self, sigma: Array, tau: Array, derivative: tuple[int, int], source: Source) -> Array:
        total = jnp.array(0.0)
        if source != "boundary":
            total = total + self._numerical_cov(sigma, tau, derivative)
        if source != "numerical":
            total = total + self._boundary_cov(sigma, tau, derivative)
        return total

    def _to_nodes(self, tau: Array, derivative: int) -> Float[Array, "*t n m"]:
        """Prior covariance (without V) of the curve at tau with the states at the nodes."""
        orders = tuple(range(self.weights.shape[1]))
        return self.kernel.matrix((derivative,), tau, orders, self.nodes)[..., 0, :, :]

    def _explained(self, tau: Array, derivative: int) -> Float[Array, "*t nb b"]:
        """L^-1 cov(observations, curve at tau)."""
        N, B = self.maps.shape[:2]
        cross = jnp.einsum(
            "iamc,cd,...im->...iad", self.maps, self.V.rows, self._to_nodes(tau, derivative)
        )
        columns = jnp.moveaxis(cross.reshape(*tau.shape, N * B, B), -2, 0)
        solved = solve_triangular(self.L, columns.reshape(N * B, -1), lower=True)
        return jnp.moveaxis(solved.reshape(columns.shape), 0, -2)

    def _numerical_cov(self, sigma: Array, tau: Array, derivative: tuple[int, int]) -> Array:
        prior = self.kernel.derivative(*derivative, sigma, tau)[..., None, None] * self.V.rows
        known = jnp.einsum(
            "...ra,...rb->...ab",
            self._explained(sigma, derivative[0]),
            self._explained(tau, derivative[1]),
        )
        blocks = jnp.einsum("...ab,cd->...acbd", prior - known, self.V.columns)
        dimension = self.values.shape[-1]
        return self.scale2 * blocks.reshape(*prior.shape[:-2], dimension, dimension)

    def _boundary_cov(self, sigma: Array, tau: Array, derivative: tuple[int, int]) -> Array:
        if self.sensitivity is None:
            dimension = self.values.shape[-1]
            return jnp.zeros((*jnp.broadcast_shapes(sigma.shape, tau.shape), dimension, dimension))
        moves = [self._move(t, d) for t, d in zip((sigma, tau), derivative, strict=True)]
        return jnp.einsum("...ir,...jr->...ij", *moves)

    def _move(self, tau: Array, derivative: int) -> Float[Array, "*t d r"]:
        assert self.sensitivity is not None
        basis = mean_basis(self.kernel.conditions, derivative, tau)
        line = jnp.einsum("...c,cdr->...dr", basis, self.sensitivity.lines)
        to_nodes = self._to_nodes(tau, derivative)
        return line + jnp.einsum("...im,imdr->...dr", to_nodes, self.sensitivity.weights)


def sensitivity(regression: Regression, linearised: Observations, problem: Problem) -> Sensitivity:
    """Solve the ODE linearised about the curve for each direction in which the data may move."""
    assert problem.spread is not None
    C, D, _ = problem.spread.shape
    # direction (e, j) moves value e only, by the j-th column of its factor
    lines = jnp.einsum("ce,cij->ciej", jnp.eye(C), problem.spread).reshape(C, D, C * D)
    along = jnp.stack(
        [
            jnp.einsum("ic,cdr->idr", mean_basis(problem.conditions, m, regression.nodes), lines)
            for m in range(problem.order + 1)
        ],
        axis=1,
    )
    violated = -jnp.einsum("iamd,imdr->iar", linearised.maps, along).reshape(-1, C * D)
    L = regression.factor(linearised)
    return Sensitivity(lines, regression.weights(linearised.maps, L, violated))
