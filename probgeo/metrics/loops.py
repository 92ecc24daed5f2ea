"""Compiled loops of the metrics: rows (n, D) in, numbers for every row out.

`level` says how much of the energy L = v' M(x) v / 2 a loop writes:

    ENERGY   L
    FIRST    and its gradients by x and by v
    FORCE    L, M v in the place of the gradient by v, M in that of `vv`, and in that of the
             gradient by x the force M c'' = dL/dx - (d^2 L / dv dx) v
    SECOND   all first and second derivatives
"""

import numpy as np

from probgeo._loops import loop

ENERGY, FIRST, FORCE, SECOND = range(4)

# Weights are relative to the largest. Below exp(-36) = 2e-16 they are lost in the sum.
NEGLIGIBLE = -36.0


@loop
def local_terms(
    x, v, centers, tensors, rho, size, level, energy, by_x, by_v, xx, xv, vv
) -> None:  # fmt: skip
    """The energy of a local metric (Eq. 8, 9): M(x) = sum_k w_k M_k, O(K D^2) a row.

    With c_k the slope of log w_k less the weighted mean of all, p_k = M_k v, q_k = v' M_k v and q
    their weighted mean:

        dL/dx = sum w_k (q_k - q) c_k / 2      vv = sum w_k M_k      xv = sum w_k c_k p_k'
        xx = sum w_k (q_k - q) (c_k c_k' - rho M_k) / 2

    centers (K, D), tensors (K, D, D). `size` is a tuple of length D: its length is known when the
    loop is compiled, so that loops over coordinates are written out (twice as fast in the plane).
    """
    D = len(size)
    K = centers.shape[0]
    w, q, active = np.empty(K), np.empty(K), np.empty(K, np.int64)
    c, p, mean = np.empty((K, D)), np.empty((K, D)), np.empty(D)
    for n in range(x.shape[0]):
        best = -np.inf
        for k in range(K):
            e = 0.0
            for i in range(D):
                s = 0.5 * tensors[k, i, i] * (x[n, i] - centers[k, i])
                for j in range(i):
                    s += tensors[k, i, j] * (x[n, j] - centers[k, j])
                e += s * (x[n, i] - centers[k, i])
            w[k] = -rho * e
            best = max(best, w[k])
        A = 0
        total = 0.0
        for k in range(K):
            if w[k] - best > NEGLIGIBLE:
                w[A] = np.exp(w[k] - best)
                total += w[A]
                active[A] = k
                A += 1
        qbar = 0.0
        for a in range(A):
            k = active[a]
            w[a] /= total
            q[a] = 0.0
            for i in range(D):
                p[a, i] = 0.0
                for j in range(D):
                    p[a, i] += tensors[k, i, j] * v[n, j]
                q[a] += p[a, i] * v[n, i]
            qbar += w[a] * q[a]
        energy[n] = 0.5 * qbar if A > 0 else np.nan
        if level == ENERGY:
            continue
        for i in range(D):
            by_x[n, i], by_v[n, i], mean[i] = 0.0, 0.0, 0.0
            if level >= FORCE:
                for j in range(D):
                    vv[n, i, j] = 0.0
                    if level == SECOND:
                        xx[n, i, j], xv[n, i, j] = 0.0, 0.0
        for a in range(A):
            k = active[a]
            for i in range(D):
                s = 0.0
                for j in range(D):
                    s -= tensors[k, i, j] * (x[n, j] - centers[k, j])
                c[a, i] = rho * s
                mean[i] += w[a] * c[a, i]
        for a in range(A):
            k = active[a]
            rise = 0.5 * w[a] * (q[a] - qbar)
            rate = 0.0
            for i in range(D):
                c[a, i] -= mean[i]
                rate += w[a] * c[a, i] * v[n, i]
                by_x[n, i] += rise * c[a, i]
                by_v[n, i] += w[a] * p[a, i]
            if level == FORCE:
                for i in range(D):
                    by_x[n, i] -= rate * p[a, i]
            if level >= FORCE:
                for i in range(D):
                    for j in range(D):
                        vv[n, i, j] += w[a] * tensors[k, i, j]
            if level == SECOND:
                for i in range(D):
                    for j in range(D):
                        xv[n, i, j] += w[a] * c[a, i] * p[a, j]
                        xx[n, i, j] += rise * (c[a, i] * c[a, j] - rho * tensors[k, i, j])


@loop
def local_terms_diagonal(
    x, v, centers, tensors, rho, level, energy, by_x, by_v, xx, xv, vv
) -> None:
    """As `local_terms`, of diagonal tensors (K, D): O(K D) a row, O(K D^2) for the second ones."""
    K, D = centers.shape
    w, q, active = np.empty(K), np.empty(K), np.empty(K, np.int64)
    c, mean = np.empty((K, D)), np.empty(D)
    for n in range(x.shape[0]):
        best = -np.inf
        for k in range(K):
            e = 0.0
            for i in range(D):
                e += tensors[k, i] * (x[n, i] - centers[k, i]) ** 2
            w[k] = -0.5 * rho * e
            best = max(best, w[k])
        A = 0
        total = 0.0
        for k in range(K):
            if w[k] - best > NEGLIGIBLE:
                w[A] = np.exp(w[k] - best)
                total += w[A]
                active[A] = k
                A += 1
        qbar = 0.0
        for a in range(A):
            k = active[a]
            w[a] /= total
            q[a] = 0.0
            for i in range(D):
                q[a] += tensors[k, i] * v[n, i] ** 2
            qbar += w[a] * q[a]
        energy[n] = 0.5 * qbar if A > 0 else np.nan
        if level == ENERGY:
            continue
        for i in range(D):
            by_x[n, i], by_v[n, i], mean[i] = 0.0, 0.0, 0.0
            if level >= FORCE:
                for j in range(D):
                    vv[n, i, j] = 0.0
                    if level == SECOND:
                        xx[n, i, j], xv[n, i, j] = 0.0, 0.0
        for a in range(A):
            k = active[a]
            for i in range(D):
                c[a, i] = -rho * tensors[k, i] * (x[n, i] - centers[k, i])
                mean[i] += w[a] * c[a, i]
        for a in range(A):
            k = active[a]
            rise = 0.5 * w[a] * (q[a] - qbar)
            rate = 0.0
            for i in range(D):
                c[a, i] -= mean[i]
                rate += w[a] * c[a, i] * v[n, i]
                by_x[n, i] += rise * c[a, i]
                by_v[n, i] += w[a] * tensors[k, i] * v[n, i]
            if level == FORCE:
                for i in range(D):
                    by_x[n, i] -= rate * tensors[k, i] * v[n, i]
            if level >= FORCE:
                for i in range(D):
                    vv[n, i, i] += w[a] * tensors[k, i]
            if level == SECOND:
                for i in range(D):
                    xx[n, i, i] -= rise * rho * tensors[k, i]
                    for j in range(D):
                        xx[n, i, j] += rise * c[a, i] * c[a, j]
                        xv[n, i, j] += w[a] * c[a, i] * tensors[k, j] * v[n, j]


@loop
def cholesky_solve(M, B, U, X) -> None:
    """X = M^-1 B for rows of positive definite M (n, D, D) and B (n, D, C), by M = U' U.

    NaN where M is not positive definite. Inner loops run along rows in memory.
    """
    D, C = B.shape[1:]
    for n in range(M.shape[0]):
        U[:] = M[n]
        X[n] = B[n]
        good = True
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
            X[n] = np.nan
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
