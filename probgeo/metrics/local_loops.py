"""Compiled loops of local metrics (Eq. 8, 9): M(x) = sum_k w_k(x) M_k.

With c_k the slope of log w_k less the weighted mean of all, p_k = M_k v, q_k = v' M_k v and q their
weighted mean, the energy L = v' M v / 2 has

    dL/dx = sum w_k (q_k - q) c_k / 2      vv = sum w_k M_k      xv = sum w_k c_k p_k'
    xx = sum w_k (q_k - q) (c_k c_k' - rho M_k) / 2

All in O(K D^2) a row, and less where few weights count: M_k v and all that follows is computed only
for those. `level` says how much is written, and where, see `loops`.
"""

import numpy as np

from probgeo._loops import loop
from probgeo.metrics.loops import ENERGY, FORCE, SECOND

# Weights are relative to the largest: smaller ones than round-off are lost in the sum.
NEGLIGIBLE = float(np.log(np.finfo(float).eps))


@loop
def those_that_count(w: np.ndarray, active: np.ndarray) -> tuple[int, float]:
    """How many of the weights with logarithms w (K,) count next to the largest, and their sum.

    They are then the first in w, not yet normalised, and `active` says which they are.
    """
    best = -np.inf
    for k in range(len(w)):
        best = max(best, w[k])
    count = 0
    total = 0.0
    for k in range(len(w)):
        e = w[k] - best
        if e > NEGLIGIBLE:
            w[count] = np.exp(e)
            total += w[count]
            active[count] = k
            count += 1
    return count, total


@loop
def local_terms(
    x: np.ndarray,
    v: np.ndarray,
    centers: np.ndarray,
    tensors: np.ndarray,
    columns: np.ndarray,
    packed: np.ndarray,
    rho: float,
    size: tuple[int, ...],
    level: int,
    energy: np.ndarray,
    first: np.ndarray,
    second: np.ndarray,
) -> None:
    """Terms in few dimensions: centers (K, D), tensors (K, D, D).

    `columns` (D, K) are the centres once more and `packed` (D (D + 1) / 2, K) the lower triangles of the tensors with
    halved diagonals: the loop over k runs along memory. `size` is a tuple of length D, which is known
    when the loop is compiled, so that loops over coordinates are written out: twice as fast in the plane.
    """
    D = len(size)
    K = centers.shape[0]
    w, q, active = np.empty(K), np.empty(K), np.empty(K, np.int64)
    c, p, mean = np.empty((K, D)), np.empty((K, D)), np.empty(D)
    s_x, s_v = np.empty(D), np.empty(D)
    s_xx, s_xv, s_vv = np.empty((D, D)), np.empty((D, D)), np.empty((D, D))
    for n in range(x.shape[0]):
        for k in range(K):
            e = 0.0
            m = 0
            for i in range(D):
                s = 0.0
                for j in range(i + 1):
                    s += packed[m, k] * (x[n, j] - columns[j, k])
                    m += 1
                e += s * (x[n, i] - columns[i, k])
            w[k] = -rho * e
        A, total = those_that_count(w, active)
        qbar = 0.0 if A > 0 else np.nan
        for a in range(A):
            k = active[a]
            w[a] /= total
            q[a] = 0.0
            for i in range(D):
                s = 0.0
                for j in range(D):
                    s += tensors[k, i, j] * v[n, j]
                p[a, i] = s
                q[a] += s * v[n, i]
            qbar += w[a] * q[a]
        energy[n] = 0.5 * qbar
        if level == ENERGY:
            continue
        for i in range(D):
            mean[i], s_x[i], s_v[i] = 0.0 * qbar, 0.0 * qbar, 0.0 * qbar
            for j in range(D):
                s_xx[i, j], s_xv[i, j], s_vv[i, j] = 0.0 * qbar, 0.0 * qbar, 0.0 * qbar
        for a in range(A):
            k = active[a]
            for i in range(D):
                s = 0.0
                for j in range(D):
                    s -= tensors[k, i, j] * (x[n, j] - centers[k, j])
                c[a, i] = rho * s
                mean[i] += w[a] * rho * s
        for a in range(A):
            k = active[a]
            rise = 0.5 * w[a] * (q[a] - qbar)
            rate = 0.0
            for i in range(D):
                c[a, i] -= mean[i]
                rate += w[a] * c[a, i] * v[n, i]
                s_x[i] += rise * c[a, i]
                s_v[i] += w[a] * p[a, i]
            if level == FORCE:
                for i in range(D):
                    s_x[i] -= rate * p[a, i]
            if level >= FORCE:
                for i in range(D):
                    for j in range(D):
                        s_vv[i, j] += w[a] * tensors[k, i, j]
            if level == SECOND and A > 1:
                for i in range(D):
                    for j in range(D):
                        s_xv[i, j] += w[a] * c[a, i] * p[a, j]
                        s_xx[i, j] += rise * (c[a, i] * c[a, j] - rho * tensors[k, i, j])
        for i in range(D):
            first[0, n, i], first[1, n, i] = s_x[i], s_v[i]
            if level >= FORCE:
                for j in range(D):
                    second[0, n, i, j] = s_vv[i, j]
            if level == SECOND:
                for j in range(D):
                    second[1, n, i, j], second[2, n, i, j] = s_xx[i, j], s_xv[i, j]


@loop
def local_terms_by_blocks(
    x: np.ndarray,
    v: np.ndarray,
    centers: np.ndarray,
    tensors: np.ndarray,
    rho: float,
    rows: int,
    level: int,
    energy: np.ndarray,
    first: np.ndarray,
    second: np.ndarray,
) -> None:
    """Terms in many dimensions: `rows` rows at a time, so that most of it is products of matrices.

    M_k (x - mu_k) for all k, then M_k v and the blends of M_k for those that count in the block.
    """
    K, D = centers.shape
    Mx, Mv = np.empty((K, rows, D)), np.empty((K, rows, D))
    W, Q, rise = np.empty((rows, K)), np.empty((rows, K)), np.empty((rows, K))
    active = np.empty(K, np.int64)
    own = np.empty((K, D, D))
    offsets, mean = np.empty((rows, D)), np.empty(D)
    c, wc, rc, p = np.empty((K, D)), np.empty((K, D)), np.empty((K, D)), np.empty((K, D))
    outer = np.empty((D, D))
    for start in range(0, x.shape[0], rows):
        R = min(rows, x.shape[0] - start)
        for k in range(K):
            for r in range(R):
                for i in range(D):
                    offsets[r, i] = x[start + r, i] - centers[k, i]
            np.dot(offsets[:R], tensors[k], Mx[k, :R])
            for r in range(R):
                e = 0.0
                for i in range(D):
                    e += offsets[r, i] * Mx[k, r, i]
                W[r, k] = -0.5 * rho * e
        for r in range(R):
            best = -np.inf
            for k in range(K):
                best = max(best, W[r, k])
            total = 0.0
            for k in range(K):
                e = W[r, k] - best
                W[r, k] = np.exp(e) if e > NEGLIGIBLE else 0.0
                total += W[r, k]
            for k in range(K):
                W[r, k] /= total  # 0 / 0 where x is not finite
        U = 0
        for k in range(K):
            for r in range(R):
                if W[r, k] != 0.0:
                    # from here on only those that are used, numbered anew
                    np.dot(v[start : start + R], tensors[k], Mv[U, :R])
                    for m in range(R):
                        W[m, U] = W[m, k]
                        for i in range(D):
                            Mx[U, m, i] = Mx[k, m, i]
                    if level >= FORCE:
                        own[U] = tensors[k]
                    U += 1
                    break
        for r in range(R):
            qbar = 0.0
            for u in range(U):
                Q[r, u] = 0.0
                for i in range(D):
                    Q[r, u] += Mv[u, r, i] * v[start + r, i]
                qbar += W[r, u] * Q[r, u]
            energy[start + r] = 0.5 * qbar
            for u in range(U):
                rise[r, u] = 0.5 * W[r, u] * (Q[r, u] - qbar)
        if level == ENERGY:
            continue
        if level >= FORCE:
            blend = own[:U].reshape(U, D * D)
            weights, slopes = W[:R, :U].copy(), -rho * rise[:R, :U]
            # OpenBLAS computes products of so few numbers on one thread: more threads for so little
            # work took up to a hundred times as long
            part = max(1, 2**18 // (U * D * D))
            for r in range(0, R, part):
                end = min(r + part, R)
                n, m = start + r, start + end
                np.dot(weights[r:end], blend, second[0, n:m].reshape(end - r, D * D))
                if level == SECOND:
                    np.dot(slopes[r:end], blend, second[1, n:m].reshape(end - r, D * D))
        for r in range(R):
            n = start + r
            A = 0
            mean[:] = 0.0
            for u in range(U):
                if W[r, u] != 0.0:
                    active[A] = u
                    A += 1
                    for i in range(D):
                        mean[i] -= rho * W[r, u] * Mx[u, r, i]
            for i in range(D):
                first[0, n, i], first[1, n, i] = 0.0, 0.0
            for a in range(A):
                u = active[a]
                rate = 0.0
                for i in range(D):
                    c[a, i] = -rho * Mx[u, r, i] - mean[i]
                    wc[a, i] = W[r, u] * c[a, i]
                    rc[a, i] = rise[r, u] * c[a, i]
                    p[a, i] = Mv[u, r, i]
                    first[0, n, i] += rc[a, i]
                    first[1, n, i] += W[r, u] * p[a, i]
                    rate += wc[a, i] * v[n, i]
                if level == FORCE:
                    for i in range(D):
                        first[0, n, i] -= rate * p[a, i]
            if level == SECOND and A > 8:  # for fewer, BLAS takes up to twice as long as plain loops
                np.dot(wc[:A].T, p[:A], second[2, n])
                np.dot(rc[:A].T, c[:A], outer)
                for i in range(D):
                    for j in range(D):
                        second[1, n, i, j] += outer[i, j]
            elif level == SECOND:
                second[2, n] = 0.0
                for a in range(A):
                    for i in range(D):
                        for j in range(D):
                            second[2, n, i, j] += wc[a, i] * p[a, j]
                        for j in range(D):
                            second[1, n, i, j] += rc[a, i] * c[a, j]


@loop
def local_terms_diagonal(
    x: np.ndarray,
    v: np.ndarray,
    centers: np.ndarray,
    diagonals: np.ndarray,
    rho: float,
    level: int,
    energy: np.ndarray,
    first: np.ndarray,
    second: np.ndarray,
) -> None:
    """Terms of diagonal tensors (K, D): O(K D) a row, and O(K D^2) for second derivatives."""
    K, D = centers.shape
    w, q, active = np.empty(K), np.empty(K), np.empty(K, np.int64)
    c, p, mean = np.empty((K, D)), np.empty((K, D)), np.empty(D)
    for n in range(x.shape[0]):
        for k in range(K):
            e = 0.0
            for i in range(D):
                e += diagonals[k, i] * (x[n, i] - centers[k, i]) ** 2
            w[k] = -0.5 * rho * e
        A, total = those_that_count(w, active)
        qbar = 0.0 if A > 0 else np.nan
        for a in range(A):
            k = active[a]
            w[a] /= total
            q[a] = 0.0
            for i in range(D):
                p[a, i] = diagonals[k, i] * v[n, i]
                q[a] += p[a, i] * v[n, i]
            qbar += w[a] * q[a]
        energy[n] = 0.5 * qbar
        if level == ENERGY:
            continue
        for i in range(D):
            first[0, n, i], first[1, n, i], mean[i] = 0.0 * qbar, 0.0 * qbar, 0.0
        if level >= FORCE:
            second[0, n] = 0.0 * qbar
        if level == SECOND:
            second[1, n], second[2, n] = 0.0 * qbar, 0.0 * qbar
        for a in range(A):
            k = active[a]
            for i in range(D):
                c[a, i] = -rho * diagonals[k, i] * (x[n, i] - centers[k, i])
                mean[i] += w[a] * c[a, i]
        for a in range(A):
            k = active[a]
            rise = 0.5 * w[a] * (q[a] - qbar)
            rate = 0.0
            for i in range(D):
                c[a, i] -= mean[i]
                rate += w[a] * c[a, i] * v[n, i]
                first[0, n, i] += rise * c[a, i]
                first[1, n, i] += w[a] * p[a, i]
            if level >= FORCE:
                for i in range(D):
                    second[0, n, i, i] += w[a] * diagonals[k, i]
            if level == FORCE:
                for i in range(D):
                    first[0, n, i] -= rate * p[a, i]
            if level == SECOND and A > 1:
                for i in range(D):
                    second[1, n, i, i] -= rise * rho * diagonals[k, i]
                    r, s = rise * c[a, i], w[a] * c[a, i]
                    for j in range(D):
                        second[1, n, i, j] += r * c[a, j]
                    for j in range(D):
                        second[2, n, i, j] += s * p[a, j]


@loop
def local_force_jacobians(
    x: np.ndarray,
    v: np.ndarray,
    acceleration: np.ndarray,
    centers: np.ndarray,
    tensors: np.ndarray,
    rho: float,
    J: np.ndarray,
) -> None:
    """Derivatives J (n, 2, D, D) of the force F(x, v) - M(x) a at fixed a: by x, then by v.

    With r_k = w_k c_k' v and t = sum r_k c_k - rho M v, the second derivatives above and

        by x:  xx - sum p_k (r_k c_k - w_k (rho p_k + t))' - sum w_k (M_k a) c_k'
        by v:  xv - xv' - sum r_k M_k
    """
    K, D = centers.shape
    w, q, r, active = np.empty(K), np.empty(K), np.empty(K), np.empty(K, np.int64)
    c, p, Ma = np.empty((K, D)), np.empty((K, D)), np.empty((K, D))
    mean, turn = np.empty(D), np.empty(D)
    for n in range(x.shape[0]):
        for k in range(K):
            e = 0.0
            for i in range(D):
                s = 0.0
                for j in range(D):
                    s += tensors[k, i, j] * (x[n, j] - centers[k, j])
                e += s * (x[n, i] - centers[k, i])
                c[k, i] = -rho * s
            w[k] = -0.5 * rho * e
        A, total = those_that_count(w, active)
        J[n] = 0.0 if A > 0 else np.nan
        qbar = 0.0
        mean[:] = 0.0
        turn[:] = 0.0
        for a in range(A):
            k = active[a]
            c[a] = c[k]
            w[a] /= total
            q[a] = 0.0
            for i in range(D):
                p[a, i], Ma[a, i] = 0.0, 0.0
                for j in range(D):
                    p[a, i] += tensors[k, i, j] * v[n, j]
                    Ma[a, i] += tensors[k, i, j] * acceleration[n, j]
                q[a] += p[a, i] * v[n, i]
                mean[i] += w[a] * c[a, i]
            qbar += w[a] * q[a]
        for a in range(A):
            r[a] = 0.0
            for i in range(D):
                c[a, i] -= mean[i]
                r[a] += w[a] * c[a, i] * v[n, i]
            for i in range(D):
                turn[i] += r[a] * c[a, i] - rho * w[a] * p[a, i]
        for a in range(A):
            k = active[a]
            rise = 0.5 * w[a] * (q[a] - qbar)
            for i in range(D):
                for j in range(D):
                    J[n, 0, i, j] += (
                        rise * (c[a, i] * c[a, j] - rho * tensors[k, i, j])
                        - p[a, i] * (r[a] * c[a, j] - w[a] * (rho * p[a, j] + turn[j]))
                        - w[a] * Ma[a, i] * c[a, j]
                    )
                    J[n, 1, i, j] += w[a] * (c[a, i] * p[a, j] - p[a, i] * c[a, j]) - r[a] * tensors[k, i, j]
