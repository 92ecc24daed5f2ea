"""Gaussian conditioning on evaluations of the ODE: the algebra of Sec. 3.2 and 3.3.

Letters: N nodes; m = n + 1 derivatives 0..n of the curve at each, called its state. The output
covariance V is split into `rows` (B x B), which take part in the Gram matrix, and `columns`
(E x E), which factor out of it: B = D, E = 1 in general, and B = 1, E = D if all noise is a
multiple of V.
"""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.scipy.linalg import cho_solve, solve_triangular
from jaxtyping import Array, Float

from probgeo._old.ode.dense.errors import ErrorModel
from probgeo._old.ode.problem import UnitTime


class SplitCovariance(NamedTuple):
    """V = rows (x) columns, of which one is V and the other is 1."""

    rows: Float[Array, "b b"]
    columns: Float[Array, "e e"]

    @classmethod
    def of(cls, V: Float[Array, "d d"], kronecker: bool) -> "SplitCovariance":
        one = jnp.ones((1, 1))
        return cls(one, V) if kronecker else cls(V, one)


class Observations(NamedTuple):
    """What the solver has learned about the curve: H c = value + noise at each node."""

    values: Float[Array, "n d"]
    maps: Float[Array, "n b m b"]
    noise: Float[Array, "n b b"]


class Regression(eqx.Module):
    """One ODE on its nodes, with the prior there.

    `K` is the covariance of the states under the kernel pinned at the boundary values, without the
    factor V; `prior_mean` their mean.
    """

    f: UnitTime
    nodes: Float[Array, " n"]
    K: Float[Array, "n m n m"]
    V: SplitCovariance
    prior_mean: Float[Array, "n m d"]
    nugget: Float[Array, ""]

    def evaluate(self, states: Float[Array, "n m d"]) -> Float[Array, "n d"]:
        """f at the nodes, for given states (whose highest derivative is not used)."""
        return jax.vmap(lambda tau, state: self.f(tau, *state[:-1]))(self.nodes, states)

    def observe(self, model: ErrorModel, states: Float[Array, "n m d"]) -> Observations:
        """Observations made at given states, without noise but for the nugget."""
        observe = jax.vmap(lambda tau, state: model.observe(self.f, tau, state[:-1]))
        values, maps = observe(self.nodes, states)
        highest = jnp.einsum("imim->im", self.K)[:, -1]
        noise = self.nugget * highest[:, None, None] * self.V.rows
        return Observations(values, maps, noise)

    def sweep(
        self, model: ErrorModel, guess: Float[Array, "n order d"] | None
    ) -> tuple[Observations, Float[Array, "nb nb"]]:
        """Skilling's recursion (Sec. 3.2): estimate, evaluate, observe, and on to the next node.

        Appends one block row of the Cholesky factor L of Gamma (Eq. 14) a node, together with the
        same row of W = L^-1 cov(observations, states), which all later estimates need. The
        estimates are taken from `guess` where there is one.
        """
        N, m, D = self.prior_mean.shape
        K, V = self.K, self.V.rows
        B = V.shape[0]

        def step(carry: tuple[Array, Array], i: Array) -> tuple:
            W, z = carry
            w = W[:, :, i]
            state = self.prior_mean[i] + jnp.einsum("nbmc,nbe->mce", w, z).reshape(m, D)
            sigma = jnp.einsum("mp,cd->mcpd", K[i, :, i, :], V)
            sigma = sigma - jnp.einsum("nbmc,nbpd->mcpd", w, w)

            estimate = state[:-1] if guess is None else guess[i]
            value, h = model.observe(self.f, self.nodes[i], estimate)
            noise = model.noise(self.f, self.nodes[i], estimate, sigma[:-1, :, :-1, :])
            noise = noise + self.nugget * K[i, -1, i, -1] * V

            below = jnp.einsum("nbmc,amc->anb", w, h)
            corner = jnp.linalg.cholesky(jnp.einsum("amc,mcpd,bpd->ab", h, sigma, h) + noise)
            with_states = jnp.einsum("amc,cd,mtp->atpd", h, V, K[i])
            row = (with_states - jnp.einsum("anb,nbtpd->atpd", below, W)).reshape(B, -1)
            surprise = value.reshape(B, -1) - jnp.einsum("amc,mce->ae", h, state.reshape(m, B, -1))
            # two solves, not one: rows may be shared by a batch, surprises never are
            row = solve_triangular(corner, row, lower=True)
            surprise = solve_triangular(corner, surprise, lower=True)
            L_row = below.at[:, i].set(corner)
            carry = (W.at[i].set(row.reshape(W.shape[1:])), z.at[i].set(surprise))
            return carry, (Observations(value, h, noise), L_row)

        start = (jnp.zeros((N, B, N, m, B)), jnp.zeros((N, B, D // B)))
        rows: tuple[Observations, Array]
        _, rows = jax.lax.scan(step, start, jnp.arange(N))
        observations, L = rows
        return observations, L.reshape(N * B, N * B)

    def factor(self, observations: Observations) -> Float[Array, "nb nb"]:
        """The Cholesky factor of Gamma (Eq. 14) for given observations, all at once."""
        H = observations.maps
        N, B = H.shape[:2]
        gram = jnp.einsum("iamc,cd,imjp,jbpd->iajb", H, self.V.rows, self.K, H, optimize="optimal")
        gram = gram + jnp.einsum("ij,iab->iajb", jnp.eye(N), observations.noise)
        return jnp.linalg.cholesky(gram.reshape(N * B, N * B))

    def surprise(self, observations: Observations) -> Float[Array, "nb e"]:
        """Observed values minus what the prior mean predicts for them."""
        N, B, m, _ = observations.maps.shape
        mean = self.prior_mean.reshape(N, m, B, -1)
        predicted = jnp.einsum("iamc,imce->iae", observations.maps, mean)
        return (observations.values.reshape(N, B, -1) - predicted).reshape(N * B, -1)

    def weights(
        self, maps: Array, L: Float[Array, "nb nb"], surprise: Float[Array, "nb e"]
    ) -> Float[Array, "n m b e"]:
        """Representers: the mean is mu(t) + sum_im k^(., m)(t, t_i) weights_im (Eq. 14)."""
        N, B = maps.shape[:2]
        solved = cho_solve((L, True), surprise).reshape(N, B, -1)
        return jnp.einsum("cd,iamd,iae->imce", self.V.rows, maps, solved)

    def states(self, observations: Observations, L: Array) -> Float[Array, "n m d"]:
        """Posterior mean of the states."""
        weights = self.weights(observations.maps, L, self.surprise(observations))
        moved = jnp.einsum("imjp,jpce->imce", self.K, weights)
        return self.prior_mean + moved.reshape(self.prior_mean.shape)
