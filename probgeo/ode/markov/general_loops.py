"""Compiled loops of boundary value problems of any order with any conditions.

Member m has the nodes offsets[m] : offsets[m+1]; node n at the left of an element makes it element
n - m of the flat list. At a node the unknowns are the state z = (y, y', ..., y^(q-1)), on an
element the highest derivative v at k Gauss points; on an element of length h, with s from 0 to 1,

    y^(m)(s) = sum_l (h s)^l / l! z_(m+l) + h^(q-m) sum_j G^m_j(s) v_j,

with G^m_j the j-th Lagrange polynomial of the Gauss points integrated q - m times from 0.
"""

import numpy as np

from probgeo._loops import loop


@loop
def states_at(
    t: np.ndarray,
    offsets: np.ndarray,
    z: np.ndarray,
    v: np.ndarray,
    points: np.ndarray,
    integrals: np.ndarray,
    times: np.ndarray,
    states: np.ndarray,
) -> None:
    """y, ..., y^(q-1) at points (P,) of every element: times (E, P), states (E, P, q, D).

    z (rows, q, D), v (E, k, D), integrals (q, P, k): G^m_j at the points.
    """
    q, D = z.shape[1], z.shape[2]
    k = v.shape[1]
    for m in range(len(offsets) - 1):
        for n in range(offsets[m], offsets[m + 1] - 1):
            e = n - m
            h = t[n + 1] - t[n]
            for p in range(len(points)):
                x = h * points[p]
                times[e, p] = t[n] + x
                for d in range(q):
                    for i in range(D):
                        total = 0.0
                        for j in range(k):
                            total += integrals[d, p, j] * v[e, j, i]
                        total *= h ** (q - d)
                        factor = 1.0
                        for a in range(q - d):
                            total += factor * z[n, d + a, i]
                            factor *= x / (a + 1)
                        states[e, p, d, i] = total


@loop
def gaps(t: np.ndarray, offsets: np.ndarray, z: np.ndarray, v: np.ndarray, at_end: np.ndarray, out: np.ndarray) -> None:
    """States at the right of elements, with at_end (q, k), less those at the nodes: (E, q D)."""
    q, D = z.shape[1], z.shape[2]
    for m in range(len(offsets) - 1):
        for n in range(offsets[m], offsets[m + 1] - 1):
            e = n - m
            h = t[n + 1] - t[n]
            for d in range(q):
                for i in range(D):
                    total = 0.0
                    for j in range(v.shape[1]):
                        total += at_end[d, j] * v[e, j, i]
                    total *= h ** (q - d)
                    factor = 1.0
                    for a in range(q - d):
                        total += factor * z[n, d + a, i]
                        factor *= h / (a + 1)
                    out[e, d * D + i] = total - z[n + 1, d, i]


@loop
def assemble(
    h: np.ndarray,
    jacobians: np.ndarray,
    by_parameters: np.ndarray,
    gauss: np.ndarray,
    integrals: np.ndarray,
    matrices: np.ndarray,
    columns: np.ndarray,
) -> None:
    """v at the Gauss points by themselves, by the state at the left, and by the parameters.

    matrices (E, k D, k D): I - sum_m h^(q-m) J_m G^m. columns (E, k D, q D + P): derivatives of f
    by z at the left, then by p. jacobians (E, k, q, D, D), by_parameters (E, k, D, P), integrals
    (q, k, k).
    """
    E, k, q, D, _ = jacobians.shape
    P = by_parameters.shape[3]
    for e in range(E):
        for j in range(k):
            x = h[e] * gauss[j]
            for i in range(D):
                row, right = matrices[e, j * D + i], columns[e, j * D + i]
                for c in range(q * D):
                    right[c] = 0.0
                for c in range(P):
                    right[q * D + c] = by_parameters[e, j, i, c]
                for c in range(D):
                    for other in range(k):
                        total = 0.0
                        for d in range(q):
                            factor = h[e] ** (q - d) * integrals[d, j, other]
                            total += factor * jacobians[e, j, d, i, c]
                        row[other * D + c] = -total
                    for d in range(q):
                        factor = 1.0
                        for a in range(q - d):
                            right[(d + a) * D + c] += factor * jacobians[e, j, d, i, c]
                            factor *= x / (a + 1)
                row[j * D + i] += 1.0


@loop
def transfer(h: np.ndarray, responses: np.ndarray, at_end: np.ndarray, q: int, states: int, out: np.ndarray) -> None:
    """States at the right of elements (E, n, C), for columns of v (E, k D, C).

    at_end (q, k) are G^m_j(1). The first `states` columns are those of the state at the left, which
    goes on by itself as well.
    """
    E, size, C = responses.shape
    k = at_end.shape[1]
    D = size // k
    for e in range(E):
        for d in range(q):
            for i in range(D):
                for c in range(C):
                    total = 0.0
                    for j in range(k):
                        total += at_end[d, j] * responses[e, j * D + i, c]
                    out[e, d * D + i, c] = h[e] ** (q - d) * total
                if states > 0:
                    factor = 1.0
                    for a in range(q - d):
                        out[e, d * D + i, (d + a) * D + i] += factor
                        factor *= h[e] / (a + 1)


@loop
def factorise(
    kept: np.ndarray, transfers: np.ndarray, upper: np.ndarray, reflectors: np.ndarray, ends: np.ndarray
) -> None:
    """Relations between the states at kept nodes (B, J), the nodes between them eliminated.

    z_(r+1) = A_r z_r + B_r p + c_r with transfers (E, n, n + P) = (A, B). At every node r between
    kept ones a and b a relation of (z_a, z_r) and one of (z_r, z_(r+1)) are turned by reflectors
    I - w w' (rows, 2 n, n) such that the first n rows, upper (rows, n, 3 n + P) for (z_r, z_a,
    z_(r+1), p), give z_r, and the others a relation of (z_a, z_(r+1)). Orthogonal, and therefore
    stable with growing and falling solutions alike (Wright 1992). ends (B, J - 1, n, 2 n + P) are
    the relations of (z_a, z_b, p). O(n^3) a node.
    """
    n = transfers.shape[1]
    P = transfers.shape[2] - n
    W = np.zeros((2 * n, 3 * n + P))
    for m in range(kept.shape[0]):
        for s in range(kept.shape[1] - 1):
            a, b = kept[m, s], kept[m, s + 1]
            relation = ends[m, s]
            for i in range(n):
                for c in range(n):
                    relation[i, c] = -transfers[a - m, i, c]
                    relation[i, n + c] = 0.0
                relation[i, n + i] = 1.0
                for c in range(P):
                    relation[i, 2 * n + c] = -transfers[a - m, i, n + c]
            for r in range(a + 1, b):
                for i in range(n):
                    for c in range(n):
                        W[i, c] = relation[i, n + c]
                        W[i, n + c] = relation[i, c]
                        W[i, 2 * n + c] = 0.0
                        W[n + i, c] = -transfers[r - m, i, c]
                        W[n + i, n + c] = 0.0
                        W[n + i, 2 * n + c] = 0.0
                    W[n + i, 2 * n + i] = 1.0
                    for c in range(P):
                        W[i, 3 * n + c] = relation[i, 2 * n + c]
                        W[n + i, 3 * n + c] = -transfers[r - m, i, n + c]
                for c in range(n):
                    length = 0.0
                    for i in range(c, 2 * n):
                        length += W[i, c] * W[i, c]
                    length = np.sqrt(length)
                    turned = -length if W[c, c] > 0.0 else length
                    first = W[c, c] - turned
                    square = -turned * first  # half of |w|^2 before scaling
                    scale = 1.0 / np.sqrt(square) if square > 0.0 else 0.0
                    if length != length:
                        scale = length
                    for i in range(2 * n):
                        reflectors[r, i, c] = 0.0 if i < c else W[i, c] * scale
                    reflectors[r, c, c] = first * scale
                    W[c, c] = turned
                    for j in range(c + 1, 3 * n + P):
                        total = 0.0
                        for i in range(c, 2 * n):
                            total += reflectors[r, i, c] * W[i, j]
                        for i in range(c, 2 * n):
                            W[i, j] -= reflectors[r, i, c] * total
                for i in range(n):
                    for j in range(3 * n + P):
                        upper[r, i, j] = W[i, j]
                    for c in range(n):
                        relation[i, c] = W[n + i, n + c]
                        relation[i, n + c] = W[n + i, 2 * n + c]
                    for c in range(P):
                        relation[i, 2 * n + c] = W[n + i, 3 * n + c]


@loop
def reduce_columns(kept: np.ndarray, reflectors: np.ndarray, columns: np.ndarray, ends: np.ndarray) -> None:
    """The right-hand sides c (E, n, C) turned as `factorise` turned the rows, in place.

    Afterwards element r - 1 has that of node r, the last element of a segment that of its ends,
    which goes into ends (B, n (J - 1) or more, C) as well.
    """
    n, C = columns.shape[1], columns.shape[2]
    for m in range(kept.shape[0]):
        for s in range(kept.shape[1] - 1):
            for r in range(kept[m, s] + 1, kept[m, s + 1]):
                top, below = columns[r - 1 - m], columns[r - m]
                for c in range(n):
                    for j in range(C):
                        total = 0.0
                        for i in range(c, n):
                            total += reflectors[r, i, c] * top[i, j]
                        for i in range(n):
                            total += reflectors[r, n + i, c] * below[i, j]
                        for i in range(c, n):
                            top[i, j] -= reflectors[r, i, c] * total
                        for i in range(n):
                            below[i, j] -= reflectors[r, n + i, c] * total
            for i in range(n):
                for j in range(C):
                    ends[m, s * n + i, j] = columns[kept[m, s + 1] - 1 - m, i, j]


@loop
def substitute(
    kept: np.ndarray, upper: np.ndarray, columns: np.ndarray, found: np.ndarray, z: np.ndarray, moved: np.ndarray
) -> None:
    """States z (rows, n, C), given those of the kept nodes and the parameters, found (B, S, C).

    moved (E, n + P, C) are states at the left of elements, then parameters.
    """
    n, C = columns.shape[1], columns.shape[2]
    J = kept.shape[1]
    P = found.shape[1] - n * J
    for m in range(kept.shape[0]):
        p = found[m, n * J :]
        for s in range(J):
            z[kept[m, s]] = found[m, n * s : n * (s + 1)]
        for s in range(J - 1):
            a, b = kept[m, s], kept[m, s + 1]
            for r in range(b - 1, a, -1):
                for i in range(n - 1, -1, -1):
                    for j in range(C):
                        total = columns[r - 1 - m, i, j]
                        for c in range(i + 1, n):
                            total -= upper[r, i, c] * z[r, c, j]
                        for c in range(n):
                            total -= upper[r, i, n + c] * z[a, c, j]
                            total -= upper[r, i, 2 * n + c] * z[r + 1, c, j]
                        for c in range(P):
                            total -= upper[r, i, 3 * n + c] * p[c, j]
                        z[r, i, j] = total / upper[r, i, i]
            for r in range(a, b):
                moved[r - m, :n] = z[r]
                moved[r - m, n:] = p


@loop
def moved(
    offsets: np.ndarray,
    by: np.ndarray,
    y: np.ndarray,
    v: np.ndarray,
    p: np.ndarray,
    step_y: np.ndarray,
    step_v: np.ndarray,
    step_p: np.ndarray,
    new_y: np.ndarray,
    new_v: np.ndarray,
    new_p: np.ndarray,
) -> None:
    """States (rows, q, D), v (E, k, D) and parameters (B, P) plus by (B,) times a step."""
    for m in range(len(by)):
        for n in range(offsets[m], offsets[m + 1]):
            for d in range(y.shape[1]):
                for i in range(y.shape[2]):
                    new_y[n, d, i] = y[n, d, i] + by[m] * step_y[n, d, i]
        for e in range(offsets[m] - m, offsets[m + 1] - m - 1):
            for j in range(v.shape[1]):
                for i in range(v.shape[2]):
                    new_v[e, j, i] = v[e, j, i] + by[m] * step_v[e, j, i]
        for a in range(p.shape[1]):
            new_p[m, a] = p[m, a] + by[m] * step_p[m, a]


@loop
def largest_of_parts(offsets: np.ndarray, y: np.ndarray, p: np.ndarray, sizes: np.ndarray) -> None:
    """Raise sizes (B, q + P) to those of derivatives (rows, q, D) and parameters (B, P)."""
    q = y.shape[1]
    for m in range(len(sizes)):
        for n in range(offsets[m], offsets[m + 1]):
            for d in range(q):
                for i in range(y.shape[2]):
                    size = abs(y[n, d, i])
                    if not size <= sizes[m, d] and sizes[m, d] == sizes[m, d]:  # NaN stays
                        sizes[m, d] = size
        for a in range(p.shape[1]):
            size = abs(p[m, a])
            if not size <= sizes[m, q + a] and sizes[m, q + a] == sizes[m, q + a]:
                sizes[m, q + a] = size
