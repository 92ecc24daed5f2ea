"""Compiled loops of the metrics: rows (n, D) in, numbers for every row out.

`level` says how much of the energy L = v' M(x) v / 2 a loop writes, to `energy` (n,), `first`
(2, n, D) and `second` (3, n, D, D):

    ENERGY   L
    FIRST    and its gradients by x and by v
    FORCE    L, in the place of the gradient by x the force M c'' = dL/dx - (d^2 L / dv dx) v, M v,
             and M alone of the blocks
    SECOND   all first and second derivatives: vv = M, xx, xv
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from probgeo._loops import loop

ENERGY, FIRST, FORCE, SECOND = range(4)


class EnergyTerms(NamedTuple):
    """L = v' M(x) v / 2 at n rows, with its derivatives.

    The second ones are empty, (0, D, D), where they were not asked for.
    """

    energy: np.ndarray  # (n,)
    by_x: np.ndarray  # (n, D)
    by_v: np.ndarray  # (n, D), M v
    xx: np.ndarray  # (n, D, D)
    xv: np.ndarray  # (n, D, D), [i, j] = d^2 L / dx_i dv_j
    vv: np.ndarray  # (n, D, D), M


def filled(loop: Callable, arguments: tuple, level: int) -> EnergyTerms:
    """What a loop writes for its arguments, which begin with rows (n, D)."""
    n, D = arguments[0].shape
    energy, first = np.empty(n), np.empty((2, n if level > ENERGY else 0, D))
    second = np.empty((3, n if level >= FORCE else 0, D, D))
    loop(*arguments, level, energy, first, second)
    xx, xv = second[1:] if level == SECOND else second[1:, :0]
    return EnergyTerms(energy, first[0], first[1], xx, xv, second[0])


@loop
def rescale_terms(
    s: np.ndarray,
    ds: np.ndarray,
    Hs: np.ndarray,
    energy: np.ndarray,
    by_x: np.ndarray,
    by_v: np.ndarray,
    xx: np.ndarray,
    xv: np.ndarray,
    vv: np.ndarray,
) -> None:
    """From the terms of L to those of s L, in place: s (n,), gradients ds (n, D) and Hessians Hs (n, D, D) by x."""
    D = ds.shape[1]
    for n in range(len(s)):
        for i in range(D if len(vv) else 0):
            for j in range(D):
                mixed = ds[n, i] * by_x[n, j] + by_x[n, i] * ds[n, j]
                xx[n, i, j] = s[n] * xx[n, i, j] + mixed + energy[n] * Hs[n, i, j]
                xv[n, i, j] = s[n] * xv[n, i, j] + ds[n, i] * by_v[n, j]
                vv[n, i, j] *= s[n]
        for i in range(D):
            by_x[n, i] = s[n] * by_x[n, i] + energy[n] * ds[n, i]
            by_v[n, i] *= s[n]
        energy[n] *= s[n]


@loop
def kernel_terms(
    x: np.ndarray,
    v: np.ndarray,
    data: np.ndarray,
    sigma: float,
    rho: float,
    level: int,
    energy: np.ndarray,
    first: np.ndarray,
    second: np.ndarray,
) -> None:
    """The energy of M = diag(m), m_d = 1 / (S_d + rho), S_d = sum_n w_n (x_nd - x_d)^2.

    With e the offsets of data from x, w = exp(-|e|^2 / 2 sigma^2) and u_d = (v_d m_d)^2:

        dS_d/dx_i = sum w (e_i e_d^2 / sigma^2 - 2 e_d [i = d])      vv = diag(m)
        xv_id = -m_d^2 v_d dS_d/dx_i
        xx_ij = sum_d v_d^2 m_d^3 dS_d/dx_i dS_d/dx_j - 1/2 sum_d u_d d^2 S_d / dx_i dx_j

    O(N D^2) a row for those data with a weight that counts, O(N D) for the energy.
    """
    N, D = data.shape
    e, S, m, u = np.empty(D), np.empty(D), np.empty(D), np.empty(D)
    slope = np.empty((D, D))
    inverse = 1.0 / (sigma * sigma)
    near, weight = np.empty(N, np.int64), np.empty(N)
    for n in range(x.shape[0]):
        count = 0
        S[:] = 0.0
        slope[:] = 0.0
        for k in range(N):
            square = 0.0
            for i in range(D):
                e[i] = data[k, i] - x[n, i]
                square += e[i] * e[i]
            exponent = -0.5 * square * inverse
            if exponent < -50.0:  # exp(-50) = 2e-22 of one datum
                continue
            w = np.exp(exponent)
            near[count], weight[count] = k, w
            count += 1
            for d in range(D):
                S[d] += w * e[d] * e[d]
            if level > ENERGY:
                for i in range(D):
                    slope[i, i] -= 2.0 * w * e[i]
                    f = w * e[i] * inverse
                    for d in range(D):
                        slope[i, d] += f * e[d] * e[d]
        energy[n] = 0.0
        for d in range(D):
            m[d] = 1.0 / (S[d] + rho)
            energy[n] += 0.5 * m[d] * v[n, d] * v[n, d]
            u[d] = (v[n, d] * m[d]) ** 2
        if level == ENERGY:
            continue
        for i in range(D):
            first[1, n, i] = m[i] * v[n, i]
            first[0, n, i] = 0.0
            for d in range(D):
                first[0, n, i] -= 0.5 * u[d] * slope[i, d]
        if level < FORCE:
            continue
        for i in range(D):
            for d in range(D):
                second[0, n, i, d] = 0.0
            second[0, n, i, i] = m[i]
        if level == FORCE:
            for i in range(D):
                for d in range(D):
                    first[0, n, d] += m[d] * m[d] * v[n, d] * slope[i, d] * v[n, i]
            continue
        for i in range(D):
            for j in range(D):
                second[2, n, i, j] = -m[j] * m[j] * v[n, j] * slope[i, j]
                second[1, n, i, j] = 0.0
                for d in range(D):
                    second[1, n, i, j] += u[d] * m[d] * slope[i, d] * slope[j, d]
        for a in range(count):
            k, w = near[a], weight[a]
            q = 0.0
            for d in range(D):
                e[d] = data[k, d] - x[n, d]
                q += u[d] * e[d] * e[d]
            for i in range(D):
                second[1, n, i, i] -= 0.5 * w * (2.0 * u[i] - q * inverse)
                for j in range(D):
                    f = q * inverse - 2.0 * (u[i] + u[j])
                    second[1, n, i, j] -= 0.5 * w * inverse * f * e[i] * e[j]


@loop
def cholesky_solve(M: np.ndarray, B: np.ndarray, U: np.ndarray, X: np.ndarray) -> None:
    """X = M^-1 B for rows of positive definite M (n, D, D) and B (n, D, C), by M = U' U.

    NaN where M is not positive definite. Inner loops run along rows in memory.
    """
    D, C = B.shape[1:]
    for n in range(M.shape[0]):
        good = True
        for i in range(D):
            for j in range(D):
                U[i, j] = M[n, i, j]
            for j in range(C):
                X[n, i, j] = B[n, i, j]
        for k in range(D):
            if not U[k, k] > 0.0:
                good = False
                break
            scale = 1.0 / np.sqrt(U[k, k])
            for j in range(k, D):
                U[k, j] *= scale
            for j in range(C):
                X[n, k, j] *= scale
            for i in range(k + 1, D):
                f = U[k, i]
                for j in range(i, D):
                    U[i, j] -= f * U[k, j]
                for j in range(C):
                    X[n, i, j] -= f * X[n, k, j]
        if not good:
            for i in range(D):
                for j in range(C):
                    X[n, i, j] = np.nan
            continue
        for k in range(D - 1, -1, -1):
            for i in range(k + 1, D):
                for j in range(C):
                    X[n, k, j] -= U[k, i] * X[n, i, j]
            for j in range(C):
                X[n, k, j] /= U[k, k]


def solve_rows(M: np.ndarray, B: np.ndarray) -> np.ndarray:
    """M^-1 B (n, D, C) for rows of M (n, D, D) and B (n, D, C); NaN where M is not definite."""
    X = np.empty(B.shape)
    cholesky_solve(M, B, np.empty(M.shape[1:]), X)
    return X


def solve_vectors(M: np.ndarray, p: np.ndarray) -> np.ndarray:
    """M^-1 p (n, D) for rows of M (n, D, D) and p (n, D)."""
    return solve_rows(M, np.ascontiguousarray(p)[:, :, None])[:, :, 0]


def solve_jacobians(M: np.ndarray, J: np.ndarray) -> np.ndarray:
    """M^-1 J (n, 2, D, D) for rows of M (n, D, D) and J (n, 2, D, D), by x and then by v."""
    n, D, _ = M.shape
    columns = solve_rows(M, J.swapaxes(1, 2).reshape(n, D, 2 * D))
    return np.ascontiguousarray(columns.reshape(n, D, 2, D).swapaxes(1, 2))
