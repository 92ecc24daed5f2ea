"""Eigenvectors of uncertain second moments, by first-order perturbation and by sampling.

C = sum_i f_i u_i u_i' of vectors u_i that are wrong by eta_i = e_i + K_i delta: errors e_i of their own, N(0, T_i), and
one that they share, delta ~ N(0, S), from the base at which they are taken. To first order C is wrong by sum_i f_i
(eta_i u_i' + u_i eta_i'), with entries q_jk in the basis of its eigenvectors; the eigenvalue l_k is then wrong by q_kk,
and its eigenvector by sum_j q_jk / (l_k - l_j) e_j over all j but k.

The coordinates u = R' v depend on the base too, through M = R R'. With dM = R N R' they change by 1/2 N u, which is
part of K, and what is turned back to v by -1/2 N e.
"""

from typing import NamedTuple

import numpy as np

from probgeo.gaussian import covariance_factor


class Moments(NamedTuple):
    """u (P, D) with factors f (P,), and the errors of u."""

    u: np.ndarray
    f: np.ndarray
    T: np.ndarray  # (P, D, D)
    K: np.ndarray  # (P, D, D)
    S: np.ndarray  # (D, D)
    N: np.ndarray  # (D, D, D), the last axis that of delta

    @property
    def C(self) -> np.ndarray:
        return (self.f * self.u.T) @ self.u


class Eigen(NamedTuple):
    """The first k eigenpairs, largest first, and their uncertainty."""

    values: np.ndarray  # (k,)
    vectors: np.ndarray  # (k, D)
    values_std: np.ndarray  # (k,)
    cov: np.ndarray  # (k, D, D)
    gap_std: np.ndarray  # (k,) of the entry that would mix a vector with the next one
    all_values: np.ndarray  # (D,)


def eigenvectors(moments: Moments, count: int) -> Eigen:
    """By first-order perturbation."""
    values, E = _sorted(moments.C)
    scores = moments.u @ E
    T = E.T @ moments.T @ E
    K = E.T @ moments.K
    found = []
    for k in range(count):
        own, shared = _entries(moments.f, scores, T, K, k)
        gaps = values[k] - values
        weights = np.where(gaps == 0, 0.0, 1.0 / np.where(gaps == 0, 1.0, gaps))
        turned = weights[:, None] * shared - 0.5 * np.einsum("ji,jcd,c->id", E, moments.N, E[:, k])
        cov = E @ (weights[:, None] * own * weights + turned @ moments.S @ turned.T) @ E.T
        Q = own + shared @ moments.S @ shared.T
        after = min(k + 1, len(values) - 1)
        found.append((np.sqrt(max(Q[k, k], 0.0)), cov, np.sqrt(max(Q[after, after], 0.0))))
    stds, covs, gap_stds = (np.array(x) for x in zip(*found, strict=True))
    return Eigen(values[:count], E.T[:count], stds, covs, gap_stds, values)


def _entries(f: np.ndarray, scores: np.ndarray, T: np.ndarray, K: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
    """Of the entries q_jk over j: covariance (D, D) from errors of their own, slope by delta."""
    a, f2 = scores[:, k], f**2
    mixed = (f2 * a * scores.T) @ T[:, k]
    own = np.tensordot(f2 * a**2, T, 1) + mixed + mixed.T
    own += (f2 * T[:, k, k] * scores.T) @ scores
    shared = np.tensordot(f * a, K, 1) + (f * scores.T) @ K[:, k]
    return own, shared


def sampled_eigenvectors(moments: Moments, count: int, seed: int, n: int) -> Eigen:
    """From the eigenvectors of `n` draws, turned to the side of those of the means."""
    values, E = _sorted(moments.C)
    rng = np.random.default_rng(seed)
    own, shared = (covariance_factor(x) for x in (moments.T, moments.S))
    drawn_values, drawn = [], []
    for _ in range(n):
        noise = np.einsum("pij,pj->pi", own, rng.normal(size=moments.u.shape))
        delta = shared @ rng.normal(size=len(values))
        noise += moments.K @ delta
        some, vectors = _sorted(moments._replace(u=moments.u + noise).C)
        side = np.sign(np.sum(vectors * E, axis=0))
        drawn_values.append(some[:count])
        vectors = vectors * np.where(side == 0, 1.0, side)
        drawn.append((vectors - 0.5 * (moments.N @ delta) @ vectors).T[:count])
    away = np.array(drawn) - E.T[:count]
    mean_square = np.mean((np.array(drawn_values) - values[:count]) ** 2, axis=0)
    cov = np.einsum("nki,nkj->kij", away, away) / n
    exact = eigenvectors(moments, count)
    return exact._replace(values_std=np.sqrt(mean_square), cov=cov)


def _sorted(C: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Eigenvalues, largest first, and eigenvectors as columns."""
    values, vectors = np.linalg.eigh(C)
    return values[::-1], vectors[:, ::-1]
