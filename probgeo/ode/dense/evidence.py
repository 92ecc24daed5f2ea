"""The evidence of the evaluations, and the length scale that maximises it (Sec. 3.4, supplement C).

Boundary values are given by the user and need no explanation: the evidence is
p(Y | a, b, lambda) = p(Y, a, b | lambda) / p(a, b | lambda). Eq. 18 is the numerator.
"""

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from probgeo.ode.dense.algebra import cholesky, solve_lower
from probgeo.ode.dense.gram import Observations, Regression, SplitCovariance, observed_covariance, with_member_axis
from probgeo.ode.dense.unit import Places
from probgeo.ode.kernels import Stationary

TINY = np.finfo(float).tiny

# a number for each of P members, with its first and second derivative by the log length scale
WithSlopes = tuple[np.ndarray, np.ndarray, np.ndarray]


class Evidence(NamedTuple):
    """Parts of -2 log p(Y | a, b) = quadratic / s^2 + size log(2 pi s^2) + log_determinant.

    s is the scale of V. Arrays (P,).
    """

    quadratic: np.ndarray
    log_determinant: np.ndarray
    size: int

    def best_scale2(self) -> np.ndarray:
        """The square of the scale of V with the highest evidence."""
        return self.quadratic / self.size

    def log(self, scale2: np.ndarray) -> np.ndarray:
        scale2 = np.maximum(scale2, TINY)
        spread = self.size * np.log(2.0 * np.pi * scale2)
        return -0.5 * (self.quadratic / scale2 + spread + self.log_determinant)


def evidence(L: np.ndarray, surprise: np.ndarray, V: SplitCovariance) -> Evidence:
    """The evidence for unit scale, from the Cholesky factor of the (pinned) Gram matrix."""
    rows, columns = surprise.shape[1:]
    root = np.linalg.cholesky(V.columns)
    z = solve_lower(L, whiten(surprise, root))
    halves = columns * _log_diagonal(L) + rows * _log_diagonal(root[None])
    return Evidence(np.sum(z**2, axis=(1, 2)), 2.0 * halves, rows * columns)


def _log_diagonal(L: np.ndarray) -> np.ndarray:
    return np.sum(np.log(np.diagonal(L, axis1=-2, axis2=-1)), axis=-1)


def whiten(surprise: np.ndarray, root: np.ndarray) -> np.ndarray:
    """Make the columns of (P, n, E) independent, given a Cholesky factor of their covariance."""
    return solve_lower(root[None], surprise.mT).mT


def log_density_terms(G: np.ndarray, dG: np.ndarray, ddG: np.ndarray, r: np.ndarray) -> tuple[WithSlopes, WithSlopes]:
    """r' G^-1 r and log|G|, each with its first and second derivative (supplement C).

    G, dG, ddG (P, n, n); r (P, n, E). With G = L L', A = L^-1 dG L'^-1, C = L^-1 ddG L'^-1 and
    z = L^-1 r: -z'Az and 2 |Az|^2 - z'Cz; tr A and tr C - |A|^2.
    """
    L = cholesky(G)
    z = solve_lower(L, r)
    A, C = (solve_lower(L, solve_lower(L, x).mT) for x in (dG, ddG))
    Az, Cz = A @ z, C @ z
    whole = (1, 2)
    quadratic = (
        np.sum(z * z, axis=whole),
        -np.sum(z * Az, axis=whole),
        2.0 * np.sum(Az * Az, axis=whole) - np.sum(z * Cz, axis=whole),
    )
    log_determinant = (
        2.0 * _log_diagonal(L),
        np.trace(A, axis1=-2, axis2=-1),
        np.trace(C, axis1=-2, axis2=-1) - np.sum(A * A, axis=whole),
    )
    return quadratic, log_determinant


def joint_gram(K: np.ndarray, conditions: Places, V: np.ndarray, maps: np.ndarray) -> np.ndarray:
    """Covariance (P, n, n) of boundary values and observations.

    K (P, C + N, m, C + N, m) is that of the states at the times of both.
    """
    G, _, B, m, _ = maps.shape
    # every time carries all orders; a boundary value picks one of them
    picks = np.zeros((G, len(conditions), B, m, B))
    for c, (_, derivative) in enumerate(conditions):
        picks[:, c, :, derivative, :] = np.eye(B)
    return observed_covariance(np.concatenate([picks, maps], axis=1), V, K)


def objective(
    kernel: Stationary,
    conditions: Places,
    nodes: np.ndarray,
    V: SplitCovariance,
    observations: Observations,
    surprise: np.ndarray,
    scale2: np.ndarray | None,
) -> WithSlopes:
    """-2 log p(Y | a, b, lambda) up to a constant, with two derivatives by log lambda.

    With `scale2` None the scale of V is the best one for each lambda.
    """
    N, B, m, _ = observations.maps.shape[1:]
    ends = len(conditions) * B
    times = np.concatenate([[t for t, _ in conditions], nodes])
    G, dG, ddG = (
        joint_gram(with_member_axis(K, 5), conditions, V.rows, observations.maps)
        for K in kernel.lengthscale_matrices(tuple(range(m)), times)
    )
    for i in range(N):
        own = slice(ends + i * B, ends + (i + 1) * B)
        G[:, own, own] += observations.noise[:, i]

    whitened = whiten(surprise, np.linalg.cholesky(V.columns))
    residual = np.concatenate([np.zeros((len(surprise), ends, whitened.shape[2])), whitened], 1)
    (q, dq, ddq), joint = log_density_terms(G, dG, ddG, residual)
    known = slice(0, ends)
    nothing = np.zeros((len(surprise), ends, 1))
    _, boundary = log_density_terms(G[:, known, known], dG[:, known, known], ddG[:, known, known], nothing)
    columns = surprise.shape[2]
    logdet, dlogdet, ddlogdet = (columns * (x - y) for x, y in zip(joint, boundary, strict=True))
    if scale2 is not None:
        return q / scale2 + logdet, dq / scale2 + dlogdet, ddq / scale2 + ddlogdet
    q = q + TINY
    count = surprise.shape[1] * columns
    slope = dq / q
    return (count * np.log(q) + logdet, count * slope + dlogdet, count * (ddq / q - slope**2) + ddlogdet)


def newton_raphson(
    function: Callable[[np.ndarray, np.ndarray], WithSlopes], x: np.ndarray, bounds: tuple[float, float]
) -> np.ndarray:
    """Minimise P scalar functions from x (P,): safeguarded Newton-Raphson.

    `function(x, members)` gives values of some members with two derivatives. Where the curvature is
    not positive the step goes downhill; a step that does not lower the function is halved.
    """
    largest_step, steps, precision = 0.7, 40, 1e-8

    def direction(slope: np.ndarray, curvature: np.ndarray) -> np.ndarray:
        with np.errstate(all="ignore"):
            step = np.where(curvature > 0, -slope / curvature, -np.sign(slope))
        return np.clip(np.nan_to_num(step), -largest_step, largest_step)

    x = x.copy()
    members = np.arange(len(x))
    value, slope, curvature = function(x, members)
    value = np.where(np.isnan(value), np.inf, value)
    step = direction(slope, curvature)
    for _ in range(steps):
        members = np.flatnonzero(np.abs(step) > precision)
        if not members.size:
            break
        candidate = np.clip(x[members] + step[members], *bounds)
        new, slope, curvature = function(candidate, members)
        better = new < value[members]  # false for NaN
        following = np.where(candidate == x[members], 0.0, direction(slope, curvature))
        step[members] = np.where(better, following, 0.5 * (candidate - x[members]))
        kept = members[better]
        x[kept], value[kept] = candidate[better], new[better]
    return x


def best_lengthscales(
    kernel: Stationary, regression: Regression, observations: Observations, scale2: np.ndarray | None, start: np.ndarray
) -> np.ndarray:
    """The length scales (P,) of highest evidence for given evaluations, from those of `start`."""
    problem, surprise = regression.problem, regression.surprise(observations)

    def at(log_lengthscale: np.ndarray, members: np.ndarray) -> WithSlopes:
        trial = kernel.with_lengthscale(np.exp(log_lengthscale))
        seen, own = observations.take(members), surprise[members]
        size = None if scale2 is None else scale2[members]
        return objective(trial, problem.conditions, regression.nodes, regression.V, seen, own, size)

    bounds = math.log(0.02), math.log(2.0)  # of length scales, as fractions of the interval
    return np.exp(newton_raphson(at, np.clip(np.log(start), *bounds), bounds))
