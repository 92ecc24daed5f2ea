"""Eigenvectors of uncertain second moments, by first-order perturbation and by sampling.

C = sum_i f_i u_i u_i' of vectors u_i that are wrong by eta_i = e_i + K_i delta: errors e_i of their
own, N(0, T_i), and one that they share, delta ~ N(0, S), from the base at which they are taken. To
first order C is wrong by sum_i f_i (eta_i u_i' + u_i eta_i'), with entries q_jk in the basis of its
eigenvectors; the eigenvalue l_k is then wrong by q_kk, and its eigenvector by
sum_j q_jk / (l_k - l_j) e_j over all j but k.
"""

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np

from probgeo.gaussian import covariance_factor


class Moments(NamedTuple):
    """u (P, D) with factors f (P,), and the errors of u."""

    u: np.ndarray
    f: np.ndarray
    T: np.ndarray  # (P, D, D)
    K: np.ndarray  # (P, D, D)
    S: np.ndarray  # (D, D)

    @property
    def C(self) -> np.ndarray:
        return np.einsum("p,pi,pj->ij", self.f, self.u, self.u)


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
        Q = _entries(moments, scores, T, K, k)
        gaps = values[k] - values
        weights = np.where(np.arange(len(values)) == k, 0.0, 1.0)
        with np.errstate(divide="ignore"):
            weights = np.where(weights > 0, 1.0 / np.where(gaps == 0, np.inf, gaps), 0.0)
        cov = E @ (weights[:, None] * Q * weights) @ E.T
        after = min(k + 1, len(values) - 1)
        found.append((np.sqrt(max(Q[k, k], 0.0)), cov, np.sqrt(max(Q[after, after], 0.0))))
    stds, covs, gap_stds = (np.array(x) for x in zip(*found, strict=True))
    return Eigen(values[:count], E.T[:count], stds, covs, gap_stds, values)


def _entries(
    moments: Moments, scores: np.ndarray, T: np.ndarray, K: np.ndarray, k: int
) -> np.ndarray:
    """Covariance (D, D) of the entries q_jk over j."""
    f, a = moments.f, scores[:, k]
    f2 = f**2
    own = np.einsum("p,pjl->jl", f2 * a**2, T)
    mixed = np.einsum("p,pj,pl->jl", f2 * a, scores, T[:, k])
    own += mixed + mixed.T
    own += np.einsum("p,pj,pl->jl", f2 * T[:, k, k], scores, scores)
    shared = np.tensordot(f * a, K, 1) + np.einsum("p,pj,pd->jd", f, scores, K[:, k])
    return own + shared @ moments.S @ shared.T


def sampled_eigenvectors(moments: Moments, count: int, seed: int, n: int) -> Eigen:
    """From the eigenvectors of `n` draws, turned to the side of those of the means."""
    values, E = _sorted(moments.C)
    rng = np.random.default_rng(seed)
    own, shared = (np.asarray(covariance_factor(jnp.asarray(x))) for x in (moments.T, moments.S))
    drawn_values, drawn = [], []
    for _ in range(n):
        noise = np.einsum("pij,pj->pi", own, rng.normal(size=moments.u.shape))
        noise += moments.K @ (shared @ rng.normal(size=len(values)))
        some, vectors = _sorted(moments._replace(u=moments.u + noise).C)
        side = np.sign(np.sum(vectors * E, axis=0))
        drawn_values.append(some[:count])
        drawn.append((vectors * np.where(side == 0, 1.0, side)).T[:count])
    away = np.array(drawn) - E.T[:count]
    mean_square = np.mean((np.array(drawn_values) - values[:count]) ** 2, axis=0)
    cov = np.einsum("nki,nkj->kij", away, away) / n
    exact = eigenvectors(moments, count)
    return exact._replace(values_std=np.sqrt(mean_square), cov=cov)


def _sorted(C: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Eigenvalues, largest first, and eigenvectors as columns."""
    values, vectors = np.linalg.eigh(C)
    return values[::-1], vectors[:, ::-1]
