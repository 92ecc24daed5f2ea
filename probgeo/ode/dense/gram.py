"""Gaussian conditioning on evaluations of the ODE: the algebra of Sec. 3.2 and 3.3.

Letters: P members, each with N nodes; m = n + 1 derivatives 0..n of the curve at each node, called
its state. The output covariance V is split into `rows` (B x B), which take part in the Gram matrix,
and `columns` (E x E), which factor out of it: B = D, E = 1 in general, and B = 1, E = D if all
noise is a multiple of V. What all members share has a leading axis of size 1 instead of P: G.
"""

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from probgeo.ode.dense.algebra import cholesky, solve_lower, solve_upper
from probgeo.ode.dense.error_models import ErrorModel
from probgeo.ode.dense.unit import UnitProblem


class SplitCovariance(NamedTuple):
    """V = rows (x) columns, of which one is V and the other is 1."""

    rows: np.ndarray
    columns: np.ndarray

    @classmethod
    def of(cls, V: np.ndarray, kronecker: bool) -> "SplitCovariance":
        one = np.ones((1, 1))
        return cls(one, V) if kronecker else cls(V, one)


def take_members(array: np.ndarray, members: np.ndarray) -> np.ndarray:
    """Some members of an array with P of them, or of one that all of them share."""
    return array if len(array) == 1 else array[members]


def with_member_axis(array: np.ndarray, ndim: int) -> np.ndarray:
    """Covariances of a kernel with a leading axis, of size 1 if it is not B kernels in one."""
    return array if array.ndim == ndim else array[None]


class Observations(NamedTuple):
    """What the solver has learned about the curves: H c = value + noise at each node.

    values (P, N, D), maps H (G, N, B, m, B), noise (G, N, B, B).
    """

    values: np.ndarray
    maps: np.ndarray
    noise: np.ndarray

    def take(self, members: np.ndarray) -> "Observations":
        maps, noise = take_members(self.maps, members), take_members(self.noise, members)
        return Observations(self.values[members], maps, noise)


def observed_covariance(maps: np.ndarray, V: np.ndarray, K: np.ndarray) -> np.ndarray:
    """Covariance H (K (x) V) H' of observations: (G, N B, N B).

    maps (G, N, B, m, B), V (B, B), K (G, N, m, N, m); the leading axes broadcast.
    """
    N, B, m = maps.shape[1:4]
    # first the right factor, node j by node j: sum_p K[i m, j p] H_jp'
    K_j = np.transpose(K, (0, 3, 1, 2, 4)).reshape(-1, N, N * m, m)
    right = K_j @ np.swapaxes(maps, 2, 3).reshape(-1, N, m, B * B)
    right = right.reshape(-1, N, N, m, B, B).transpose(0, 2, 3, 5, 1, 4)  # to g i m d j b
    left = (maps @ V).reshape(-1, N, B, m * B)
    return (left @ right.reshape(-1, N, m * B, N * B)).reshape(-1, N * B, N * B)


@dataclass(frozen=True)
class Regression:
    """An ODE on its nodes (N,), with the prior there, for P members.

    `K` (G, N, m, N, m) is the covariance of the states under the kernel pinned at the boundary
    values, without the factor V; `prior_mean` (P, N, m, D) their mean.
    """

    problem: UnitProblem
    nodes: np.ndarray
    K: np.ndarray
    V: SplitCovariance
    prior_mean: np.ndarray
    nugget: float

    def take(self, members: np.ndarray) -> "Regression":
        """Some of the members."""
        return replace(
            self,
            problem=self.problem.take(members),
            K=take_members(self.K, members),
            prior_mean=self.prior_mean[members],
        )

    def evaluate(self, states: np.ndarray) -> np.ndarray:
        """f (P, N, D) at the nodes, for states (P, N, m, D) (whose highest derivative is not
        used)."""
        seen = self.problem.evaluate(self.nodes, states[:, :, :-1])
        return seen.values.reshape(*states.shape[:2], states.shape[-1])

    def observe(self, model: ErrorModel, states: np.ndarray) -> Observations:
        """Observations made at given states (P, N, m, D), without noise but for the nugget."""
        P, N, _, D = states.shape
        lower = states[:, :, :-1]
        values, maps = model.observe(self.problem.evaluate(self.nodes, lower, jacobians=model.uses_jacobians))
        if len(maps) == 1:
            maps = np.broadcast_to(maps, (N, *maps.shape[1:]))
        maps = maps.reshape(-1, N, *maps.shape[1:])
        return Observations(values.reshape(P, N, D), maps, self._nugget_noise())

    def sweep(self, model: ErrorModel, guess: np.ndarray | None) -> tuple[Observations, np.ndarray]:
        """Skilling's recursion (Sec. 3.2): estimate, evaluate, observe, and on to the next node.

        Appends one block row of the Cholesky factor L (G, N B, N B) of Gamma (Eq. 14) a node,
        together with the same row of W = L^-1 cov(observations, states), which all later estimates
        need. The estimates are taken from `guess` (P, N, n, D) where there is one.
        """
        P, N, m, D = self.prior_mean.shape
        V = self.V.rows
        B, E = len(V), D // len(V)
        G = 1 if model.shared and len(self.K) == 1 else P
        W, L = np.zeros((G, N * B, N * m * B)), np.zeros((G, N * B, N * B))
        z = np.zeros((P, N * B, E))
        seen = Observations(np.empty((P, N, D)), np.empty((G, N, B, m, B)), np.empty((G, N, B, B)))
        nugget = self._nugget_noise()
        for i in range(N):
            before, own = slice(0, i * B), slice(i * B, (i + 1) * B)
            later = slice((i + 1) * m * B, None)
            w = W[:, before, i * m * B : (i + 1) * m * B]
            state = self.prior_mean[:, i] + (w.mT @ z[:, before]).reshape(P, m, D)
            sigma = kron(self.K[:, i, :, i], V) - w.mT @ w

            estimate = state[:, :-1] if guess is None else guess[:, i]
            evaluations = self.problem.evaluate(
                self.nodes[i : i + 1], estimate[:, None], jacobians=model.uses_jacobians
            )
            value, h = model.observe(evaluations)
            of_estimate = sigma[:, :-B, :-B].reshape(-1, m - 1, B, m - 1, B)
            noise = model.noise(evaluations, of_estimate) + nugget[:, i]

            H = h.reshape(-1, B, m * B)
            below = H @ w.mT
            corner = cholesky(H @ sigma @ H.mT + noise)
            with_later = kron_rows(h @ V, self.K[:, i, :, i + 1 :])
            W[:, own, later] = np.linalg.solve(corner, with_later - below @ W[:, before, later])
            surprise = value.reshape(P, B, E) - H @ state.reshape(P, m * B, E)
            z[:, own] = np.linalg.solve(corner, surprise)
            L[:, own, before], L[:, own, own] = below, corner
            seen.values[:, i], seen.maps[:, i], seen.noise[:, i] = value, h, noise
        return seen, L

    def factor(self, observations: Observations) -> np.ndarray:
        """The Cholesky factor (G, N B, N B) of Gamma (Eq. 14) for given observations, at once."""
        N, B = observations.maps.shape[1:3]
        gram = observed_covariance(observations.maps, self.V.rows, self.K)
        blocks = gram.reshape(-1, N, B, N, B)
        for i in range(N):
            blocks[:, i, :, i] += observations.noise[:, i]
        return cholesky(gram)

    def surprise(self, observations: Observations) -> np.ndarray:
        """Observed values minus what the prior mean predicts for them: (P, N B, E)."""
        P, N, m, D = self.prior_mean.shape
        B, E = len(self.V.rows), D // len(self.V.rows)
        maps = observations.maps.reshape(-1, N, B, m * B)
        predicted = maps @ self.prior_mean.reshape(P, N, m * B, E)
        return (observations.values.reshape(P, N, B, E) - predicted).reshape(P, N * B, E)

    def weights(self, maps: np.ndarray, L: np.ndarray, surprise: np.ndarray) -> np.ndarray:
        """Representers (P, N, m, B, E): the mean is mu(t) + sum_im k^(., m)(t, t_i) weights_im
        (Eq. 14)."""
        _, N, B, m, _ = maps.shape
        P, _, E = surprise.shape
        solved = solve_upper(L, solve_lower(L, surprise)).reshape(P, N, B, E)
        weights = (maps @ self.V.rows).reshape(-1, N, B, m * B).mT @ solved
        return weights.reshape(P, N, m, B, E)

    def states(self, observations: Observations, L: np.ndarray) -> np.ndarray:
        """Posterior mean (P, N, m, D) of the states."""
        P, N, m, D = self.prior_mean.shape
        weights = self.weights(observations.maps, L, self.surprise(observations))
        moved = self.K.reshape(-1, N * m, N * m) @ weights.reshape(P, N * m, D)
        return self.prior_mean + moved.reshape(P, N, m, D)

    def _nugget_noise(self) -> np.ndarray:
        """What is added to the covariance of every evaluation: (G, N, B, B)."""
        variances = self.nugget * np.einsum("gii->gi", self.K[:, :, -1, :, -1])
        return variances[..., None, None] * self.V.rows


def kron(K: np.ndarray, V: np.ndarray) -> np.ndarray:
    """K (x) V for K (G, m, n) and V (B, B): (G, m B, n B)."""
    G, m, n = K.shape
    return np.einsum("gmn,ab->gmanb", K, V).reshape(G, m * len(V), n * len(V))


def kron_rows(maps: np.ndarray, K: np.ndarray) -> np.ndarray:
    """H (K (x) V) from maps H V (G, B, m, B) and K (G, m, N, m): (G, B, N m B)."""
    rows = np.einsum("gamb,gmnk->gankb", maps, K)
    return rows.reshape(*rows.shape[:2], -1)
