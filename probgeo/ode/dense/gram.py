"""Gaussian conditioning on evaluations of the ODE: the algebra of Sec. 3.2 and 3.3.

Letters: P members, each with N nodes; m = n + 1 derivatives 0..n of the curve at each node, called its state. The
output covariance V is split into `rows` (B x B), which take part in the Gram matrix, and `columns` (E x E), which
factor out of it: B = D, E = 1 in general, and B = 1, E = D if all noise is a multiple of V. What all members share has
a leading axis of size 1 instead of P: G.
"""

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from probgeo.ode.dense.algebra import cholesky, solve_lower, solve_upper
from probgeo.ode.dense.error_models import ErrorModel, Evaluations
from probgeo.ode.kernels import Kernel, Pinned
from probgeo.ode.problem import Problem

# where the data of a problem sit: (time on the unit interval, derivative)
Places = tuple[tuple[float, int], ...]
BOUNDARY: Places = ((0.0, 0), (1.0, 0))
INITIAL: dict[int, Places] = {1: ((0.0, 0),), 2: ((0.0, 0), (0.0, 1))}


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


def prior_covariance(kernel: Kernel, orders: Any, s: np.ndarray, others: Any, t: np.ndarray) -> np.ndarray:
    """Of derivatives at s with others at t: (G, S, m, T, n), with G above one if it is many kernels in one."""
    K = kernel.matrix(orders, s, others, t)
    return K if K.ndim == 5 else K[None]


def mean_basis(conditions: Places, derivative: int, tau: np.ndarray) -> np.ndarray:
    """The prior mean as a linear map (T, C) of the data: mu^(derivative)(tau) = basis @ values.

    The straight line through the boundary values, or through y0 with slope dy0 (Sec. 3.1).
    """
    zero, one = np.zeros_like(tau), np.ones_like(tau)
    constant, line = {0: (one, tau), 1: (zero, one)}.get(derivative, (zero, zero))
    if conditions == BOUNDARY:
        return np.stack([constant - line, line], axis=-1)
    return np.stack([constant, line][: len(conditions)], axis=-1)


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
class PriorAtNodes:
    """Some members of a problem on nodes of the unit interval, with the prior there.

    A derivative by tau = (t - t0) / (t1 - t0) is the duration times a derivative by t.

    Attributes
    ----------
    problem : Problem
    members (P,) : their numbers in the problem
    nodes (N,)
    values (P, C, D) : their data, by unit time, at the C `conditions` of the kernel
    kernel : the prior, pinned at the boundary values
    V : SplitCovariance
    nugget : relative variance added to every evaluation
    K (G, N, m, N, m), prior_mean (P, N, m, D) : of the states; the covariance without the factor V
    """

    problem: Problem
    members: np.ndarray
    nodes: np.ndarray
    values: np.ndarray
    kernel: Pinned
    V: SplitCovariance
    nugget: float
    K: np.ndarray
    prior_mean: np.ndarray

    @classmethod
    def of(
        cls, problem: Problem, members: np.ndarray, nodes: np.ndarray, kernel: Kernel, V: SplitCovariance, nugget: float
    ) -> "PriorAtNodes":
        places = BOUNDARY if problem.kind == "boundary" else INITIAL[problem.order]
        values = problem.values[members] * _units(places, problem.duration)
        m = range(problem.order + 1)
        mean = np.stack([mean_basis(places, d, nodes) @ values for d in m], axis=2)
        nothing = np.zeros((1, len(nodes), len(m), len(nodes), len(m)))
        own = cls(problem, members, nodes, values, Pinned(kernel, places), V, nugget, nothing, mean)
        return own.with_kernel(kernel)

    def with_kernel(self, kernel: Kernel) -> "PriorAtNodes":
        """Under another prior."""
        orders = tuple(range(self.problem.order + 1))
        pinned = Pinned(kernel, self.kernel.conditions)
        return replace(self, kernel=pinned, K=prior_covariance(pinned, orders, self.nodes, orders, self.nodes))

    def take(self, members: np.ndarray) -> "PriorAtNodes":
        """Some of these members, by their place among them."""
        return replace(
            self,
            members=self.members[members],
            values=self.values[members],
            kernel=self.kernel.take(members),
            K=take_members(self.K, members),
            prior_mean=self.prior_mean[members],
        )

    def evaluate(self, states: np.ndarray) -> np.ndarray:
        """f (P, N, D) at the nodes, for states (P, N, m, D) (whose highest derivative is not used)."""
        seen = self.evaluations(self.nodes, states[:, :, :-1], jacobians=False)
        return seen.values.reshape(*states.shape[:2], states.shape[-1])

    def evaluations(self, nodes: np.ndarray, states: np.ndarray, jacobians: bool) -> Evaluations:
        """f for every member at nodes (N,) and states (P, N, order, D) there: R = P N rows."""
        field, duration, order = self.problem.field, self.problem.duration, self.problem.order
        rows = self._rows(nodes, states)
        J = None
        with np.errstate(all="ignore"):  # where f is not finite the solver says so itself
            if jacobians:
                values, J = field.values_and_jacobians(*rows)
                J = (duration ** (order - np.arange(order)))[:, None, None] * J
            else:
                values = field.values(*rows)
        return Evaluations(states.reshape(rows[1].shape), duration**order * values, J)

    def by_args(self, states: np.ndarray) -> np.ndarray:
        """Derivatives of f by its parameters, one after the other, at states (P, N, order, D): (P, N, D, A)."""
        P, N, order, D = states.shape
        leaves = self.problem.field.by_args(*self._rows(self.nodes, states))
        flat = [np.zeros((P, N, D, 0)), *(leaf.reshape(P, N, D, -1) for leaf in leaves)]
        return self.problem.duration**order * np.concatenate(flat, axis=-1)

    def lines(self) -> np.ndarray:
        """How the data move with R standard normal numbers behind them: (P, C, D, R)."""
        if self.problem.spread is None:
            return np.zeros((*self.values.shape, 0))
        columns = replace(self.problem, spread=self.problem.spread[self.members]).columns()
        return columns * _units(self.kernel.conditions, self.problem.duration)[..., None]

    def _rows(self, nodes: np.ndarray, states: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Times, states and members in the user's units, one row after the other."""
        P, N, order, D = states.shape
        rows = states / (self.problem.duration ** np.arange(order))[:, None]
        t = self.problem.t0 + nodes * self.problem.duration
        return np.tile(t, P), rows.reshape(P * N, order, D), np.repeat(self.members, N)

    def observe(self, model: ErrorModel, states: np.ndarray) -> Observations:
        """Observations made at given states (P, N, m, D), without noise but for the nugget."""
        P, N, _, D = states.shape
        values, maps = model.observe(self.evaluations(self.nodes, states[:, :, :-1], model.uses_jacobians))
        if len(maps) == 1:
            maps = np.broadcast_to(maps, (N, *maps.shape[1:]))
        maps = maps.reshape(-1, N, *maps.shape[1:])
        return Observations(values.reshape(P, N, D), maps, self._nugget_noise())

    def sweep(self, model: ErrorModel, guess: np.ndarray | None) -> tuple[Observations, np.ndarray]:
        """Skilling's recursion (Sec. 3.2): estimate, evaluate, observe, and on to the next node.

        Appends one block row of the Cholesky factor L (G, N B, N B) of Gamma (Eq. 14) a node, together with the same
        row of W = L^-1 cov(observations, states), which all later estimates need. The estimates are taken from `guess`
        (P, N, n, D) where there is one.
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
            K_i = self.K[:, i, :, i]
            sigma = np.einsum("gmn,ab->gmanb", K_i, V).reshape(len(K_i), m * B, m * B) - w.mT @ w

            estimate = state[:, :-1] if guess is None else guess[:, i]
            evaluations = self.evaluations(self.nodes[i : i + 1], estimate[:, None], model.uses_jacobians)
            value, h = model.observe(evaluations)
            of_estimate = sigma[:, :-B, :-B].reshape(-1, m - 1, B, m - 1, B)
            noise = model.noise(evaluations, of_estimate) + nugget[:, i]

            H = h.reshape(-1, B, m * B)
            below = H @ w.mT
            corner = cholesky(H @ sigma @ H.mT + noise)
            with_later = np.einsum("gamb,gmnk->gankb", h @ V, self.K[:, i, :, i + 1 :])
            with_later = with_later.reshape(*with_later.shape[:2], -1)
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
        """Representers (P, N, m, B, E): the mean is mu(t) + sum_im k^(., m)(t, t_i) weights_im (Eq. 14)."""
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


def _units(conditions: Places, duration: float) -> np.ndarray:
    """From derivatives by t to derivatives by tau, for every condition: (C, 1)."""
    return duration ** np.array([[derivative] for _, derivative in conditions], dtype=float)
