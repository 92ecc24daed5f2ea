"""The paper's learned metric: local tensors, blended smoothly (Eq. 8 and 9)."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from probgeo._checks import as_positive
from probgeo.functions.composed import constant
from probgeo.functions.row_function import AT_ONCE
from probgeo.metrics import local_loops
from probgeo.metrics.arguments import as_points, as_tensors, far_apart
from probgeo.metrics.loops import EnergyTerms, filled
from probgeo.metrics.metric import ByLoop, array_module


@dataclass(frozen=True, init=False, repr=False, eq=False)
class LocalMetrics(ByLoop):
    """M(x) = sum_k w_k(x) M_k with weights w_k(x) ~ exp(-rho/2 (x - mu_k)' M_k (x - mu_k)).

    The weights are a softmax: far from all centres the nearest tensor is left, and M(x) stays
    finite and positive definite. Everything costs O(K D^2) a point.

    Parameters
    ----------
    centers : array (K, D)
        mu_k.
    tensors : array (K, D, D), or (K, D) if diagonal
        M_k, symmetric positive definite.
    rho : float
        How sharply one tensor gives way to the next; 0 blends them evenly everywhere.

    References
    ----------
    Hauberg, Freifeld & Black (2012), A geometric take on metric learning.

    Examples
    --------
    >>> metric = LocalMetrics(centers=[[0.0, 0.0], [4.0, 0.0]], tensors=[[1.0, 1.0], [4.0, 1.0]])
    >>> metric(np.array([0.0, 1.0])).round(6).tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    >>> metric.with_rho(0.0)(np.array([0.0, 1.0])).tolist()
    [[2.5, 0.0], [0.0, 1.0]]
    """

    centers: np.ndarray
    tensors: np.ndarray
    rho: float

    def __init__(self, centers: Any, tensors: Any, rho: Any = 1.0) -> None:
        points = as_points("centers", centers)
        vars(self).update(
            centers=points,
            tensors=as_tensors("tensors", tensors, *points.shape),
            rho=as_positive("rho", rho, or_zero=True),
        )

    @property
    def dimension(self) -> int:
        return self.centers.shape[1]

    @property
    def is_diagonal(self) -> bool:
        """Whether the tensors are given by their diagonals."""
        return self.tensors.ndim == 2

    @property
    def is_flat(self) -> bool:  # type: ignore[override]
        return len(self.centers) == 1 or self.rho == 0.0

    def with_rho(self, rho: Any) -> "LocalMetrics":
        """The same metric, sharper or smoother."""
        return LocalMetrics(self.centers, self.tensors, rho)

    def landmarks(self) -> np.ndarray:
        """Centres, at most 64 of them far apart, and where two of their tensors meet."""
        chosen = far_apart(self.centers, 64)
        return np.concatenate([self.centers[chosen], self._meeting_points(chosen)])

    def _meeting_points(self, chosen: np.ndarray, each: int = 4) -> np.ndarray:
        """Points of least squared distance s from two centres, in the tensor of each.

        A short curve follows the cheap axis of one tensor to where that of another begins, which is
        near x = (M_k + M_l)^-1 (M_k mu_k + M_l mu_l). Of those at which these two have most of the
        weight, `each` times as many as there are centres, in order of s. Of the 3453 curves that
        `geometry.search.Effort` speaks of 186 are missed without any, 34 with twice as many, 8 with
        three times, 7 with four times. A weight of .5 or .9 instead of .8 changes it by two.
        """
        mu, M, diagonal = self.centers[chosen], self.tensors[chosen], self.is_diagonal

        def times(tensors: np.ndarray, x: np.ndarray) -> np.ndarray:
            return tensors * x if diagonal else (tensors @ x[:, :, None])[:, :, 0]

        pull, points, squares = times(M, mu), [mu[:0]], [np.empty(0)]
        for k in range(1, len(mu)):
            both, right = M[k] + M[:k], pull[k] + pull[:k]
            x = right / both if diagonal else np.linalg.solve(both, right[:, :, None])[:, :, 0]
            one, two, weights = x - mu[k], x - mu[:k], self.weights(x)[:, chosen]
            s = np.sum(one * times(M[k], one) + two * times(M[:k], two), axis=1)
            most = weights[:, k] + np.diagonal(weights) > 0.8
            points.append(x)
            squares.append(np.where(most, s, np.inf))
        s = np.concatenate(squares)
        best = np.argsort(s, kind="stable")[: each * len(mu)]
        return np.concatenate(points)[best[s[best] < np.inf]]

    def floors(self, dimension: int) -> np.ndarray:
        """A tensor below all M_k, and so below their blends.

        One after the other: if A = T T' and B = T diag(b) T', T diag(min(1, b)) T' is below both.
        """
        lower = self._full[0]
        for tensor in self._full[1:]:
            root = np.linalg.cholesky(lower)
            inverse = np.linalg.inv(root)
            values, axes = np.linalg.eigh(inverse @ tensor @ inverse.T)
            half = root @ axes * np.sqrt(np.clip(values, 0.0, 1.0))
            lower = half @ half.T
        return lower[None]

    def weights(self, x: Any) -> Any:
        """w_k(x) (..., K), which sum to one (Eq. 9)."""
        xp = array_module(x)
        x = xp.asarray(x)
        tensors = constant(self.tensors, x)
        offsets = x[..., None, :] - constant(self.centers, x)
        if self.is_diagonal:
            squares = xp.sum(tensors * offsets**2, axis=-1)
        else:
            squares = xp.einsum("...ki,kij,...kj->...k", offsets, tensors, offsets)
        logs = -0.5 * self.rho * squares
        weights = xp.exp(logs - xp.max(logs, axis=-1, keepdims=True))
        return weights / xp.sum(weights, axis=-1, keepdims=True)

    def _in_jax(self, x: Any) -> Any:
        blend = array_module(x).tensordot(self.weights(x), constant(self.tensors, x), axes=1)
        return blend[..., None] * np.eye(self.dimension) if self.is_diagonal else blend

    def force_jacobians(self, x: np.ndarray, v: np.ndarray, a: np.ndarray) -> np.ndarray:
        J = np.empty((len(x), 2, self.dimension, self.dimension))
        local_loops.local_force_jacobians(x, v, a, self.centers, self._full, self.rho, J)
        return J

    def _filled(self, x: np.ndarray, v: np.ndarray, level: int) -> EnergyTerms:
        given, rho = (x, v, self.centers), self.rho
        K, D = self.centers.shape
        if D <= 4:  # loops that are written out: twice as fast at D = 2, not faster from D = 5 on
            return filled(local_loops.local_terms, (*given, *self._few, rho, (0,) * D), level)
        if self.is_diagonal:
            return filled(local_loops.local_terms_diagonal, (*given, self.tensors, rho), level)
        # so many that their products M_k x stay in the cache, and that OpenBLAS takes one thread
        rows = max(1, AT_ONCE // (D * max(K, D // 8)))
        by_blocks = local_loops.local_terms_by_blocks
        return filled(by_blocks, (*given, self.tensors, rho, rows), level)

    @cached_property
    def _full(self) -> np.ndarray:
        """The tensors (K, D, D), diagonal or not."""
        return self.tensors[:, :, None] * np.eye(self.dimension) if self.is_diagonal else self.tensors

    @cached_property
    def _few(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Tensors (K, D, D), and what `local_terms` wants of centres and tensors."""
        i, j = np.tril_indices(self.dimension)
        packed = np.where(i == j, 0.5, 1.0) * self._full[:, i, j]
        return self._full, self.centers.T.copy(), packed.T.copy()
