"""Compiled loops that solve chains of elements, linearised, for all members of a batch.

Two chains: of positions, where y'' = f has its curve given at both ends and nothing else, a block-tridiagonal matrix of
D x D blocks; and of states of size n = q D, with any conditions, by orthogonal elimination between the kept nodes.
"""

import numpy as np

from probgeo._loops import loop


@loop
def slopes_by_ends(h: np.ndarray, responses: np.ndarray, slope_at_ends: np.ndarray, ends: np.ndarray) -> None:
    """How slopes at both ends of an element move with its two ends: (E, 2, 2, D, D).

    p'(end) = (y_right - y_left)/h + h sum_j G_j'(end) v_j, with v moving by `responses`
    (E, k D, 2 D): ends[e, end, side] is its derivative by the left or the right end.
    """
    E, _, width = responses.shape
    D = width // 2
    k = slope_at_ends.shape[1]
    for e in range(E):
        for end in range(2):
            for side in range(2):
                block = ends[e, end, side]
                for i in range(D):
                    for c in range(D):
                        total = 0.0
                        for j in range(k):
                            total += slope_at_ends[end, j] * responses[e, j * D + i, side * D + c]
                        block[i, c] = h[e] * total
                    block[i, i] += (2 * side - 1) / h[e]


@loop
def factorise_positions(
    offsets: np.ndarray, h: np.ndarray, ends: np.ndarray, upper: np.ndarray, lower: np.ndarray, pivots: np.ndarray
) -> None:
    """LU factors, with row pivoting, of the equations that slopes are continuous at inner nodes.

    Row n says p'(right element, 0) - p'(left element, 1) = 0, scaled by about h: a block-
    tridiagonal matrix of D x D blocks. Two block rows are eliminated at a time: upper
    (rows, D, 3 D) are the pivot rows, lower (rows, 2 D, D) their multipliers, pivots (rows, D) the
    rows exchanged. O(D^3) a node.
    """
    D = ends.shape[3]
    work = np.zeros((2 * D, 3 * D))
    for m in range(len(offsets) - 1):
        first, last = offsets[m] + 1, offsets[m + 1] - 2  # inner nodes
        for n in range(first, last + 1):
            if n == first:
                work[:, :] = 0.0
                scale = 1.0 / (1.0 / h[n - m - 1] + 1.0 / h[n - m])
                for i in range(D):
                    for c in range(D):
                        work[i, c] = scale * (ends[n - m, 0, 0, i, c] - ends[n - m - 1, 1, 1, i, c])
                        if n < last:
                            work[i, D + c] = scale * ends[n - m, 0, 1, i, c]
            else:  # what is left of the former rows moves up and to the left
                for i in range(D):
                    for c in range(2 * D):
                        work[i, c] = work[D + i, D + c]
                    for c in range(D):
                        work[i, 2 * D + c] = 0.0
            height = D
            if n < last:
                height = 2 * D
                e = n + 1 - m
                scale = 1.0 / (1.0 / h[e - 1] + 1.0 / h[e])
                for i in range(D):
                    for c in range(D):
                        work[D + i, c] = -scale * ends[e - 1, 1, 0, i, c]
                        work[D + i, D + c] = scale * (ends[e, 0, 0, i, c] - ends[e - 1, 1, 1, i, c])
                        work[D + i, 2 * D + c] = 0.0
                        if n + 1 < last:
                            work[D + i, 2 * D + c] = scale * ends[e, 0, 1, i, c]
            for c in range(D):
                best = c
                for r in range(c + 1, height):
                    if abs(work[r, c]) > abs(work[best, c]):
                        best = r
                pivots[n, c] = best
                if best != c:
                    for j in range(c, 3 * D):
                        work[c, j], work[best, j] = work[best, j], work[c, j]
                pivot = 1.0 / work[c, c]
                for r in range(c + 1, height):
                    factor = work[r, c] * pivot
                    lower[n, r, c] = factor
                    if factor != 0.0:
                        for j in range(c + 1, 3 * D):
                            work[r, j] -= factor * work[c, j]
            for i in range(D):
                for c in range(3 * D):
                    upper[n, i, c] = work[i, c]


@loop
def substitute_positions(
    offsets: np.ndarray,
    h: np.ndarray,
    ends: np.ndarray,
    slope_at_ends: np.ndarray,
    upper: np.ndarray,
    lower: np.ndarray,
    pivots: np.ndarray,
    local: np.ndarray,
    gaps: np.ndarray,
    z: np.ndarray,
    moved: np.ndarray,
) -> None:
    """Changes of states z (rows, 2, D, C) that make slopes continuous, given those of the positions at both ends.

    On the elements accelerations are `local` (E, k D, C) plus their response to positions; elements end off the next
    node by `gaps` (E, 2 D, C). moved (E, 2 D, C): changes of positions at both ends of an element. Factors as
    `factorise_positions` left them.
    """
    D, C = z.shape[2], z.shape[3]
    k = slope_at_ends.shape[1]
    for m in range(len(offsets) - 1):
        first, last = offsets[m] + 1, offsets[m + 1] - 2
        for n in range(offsets[m], last + 1):  # slopes that `local` alone has at the ends of elements
            e = n - m
            for i in range(D):
                for c in range(C):
                    left, right = 0.0, 0.0
                    for j in range(k):
                        left += slope_at_ends[0, j] * local[e, j * D + i, c]
                        right += slope_at_ends[1, j] * local[e, j * D + i, c]
                    z[n, 1, i, c] = h[e] * left
                    moved[e, D + i, c] = h[e] * right
        for i in range(D):
            for c in range(C):
                z[last + 1, 1, i, c] = moved[last - m, D + i, c] + gaps[last - m, D + i, c]
        for n in range(first, last + 1):
            e = n - m
            scale = 1.0 / (1.0 / h[e - 1] + 1.0 / h[e])
            for i in range(D):
                for c in range(C):
                    total = z[n, 1, i, c] - moved[e - 1, D + i, c] - gaps[e - 1, D + i, c]
                    for d in range(D):
                        total -= ends[e, 0, 1, i, d] * gaps[e, d, c]
                        total += ends[e - 1, 1, 1, i, d] * gaps[e - 1, d, c]
                    if n == first:
                        for d in range(D):
                            total -= ends[e - 1, 1, 0, i, d] * z[n - 1, 0, d, c]
                    if n == last:
                        for d in range(D):
                            total += ends[e, 0, 1, i, d] * z[n + 1, 0, d, c]
                    z[n, 0, i, c] = -scale * total
        for n in range(first, last + 1):
            height = 2 * D if n < last else D
            for r in range(D):
                best = pivots[n, r]
                if best != r:
                    a, b = n + best // D, best % D
                    for c in range(C):
                        z[n, 0, r, c], z[a, 0, b, c] = z[a, 0, b, c], z[n, 0, r, c]
                for q in range(r + 1, height):
                    factor = lower[n, q, r]
                    if factor != 0.0:
                        for c in range(C):
                            z[n + q // D, 0, q % D, c] -= factor * z[n, 0, r, c]
        for n in range(last, first - 1, -1):
            width = D * min(3, last - n + 1)
            for r in range(D - 1, -1, -1):
                for q in range(r + 1, width):
                    factor = upper[n, r, q]
                    for c in range(C):
                        z[n, 0, r, c] -= factor * z[n + q // D, 0, q % D, c]
                for c in range(C):
                    z[n, 0, r, c] /= upper[n, r, r]
        for n in range(offsets[m], last + 1):
            e = n - m
            for i in range(D):
                for c in range(C):
                    moved[e, i, c] = z[n, 0, i, c]
                    moved[e, D + i, c] = z[n + 1, 0, i, c] - gaps[e, i, c]
            for i in range(D):
                for c in range(C):
                    for d in range(2 * D):
                        z[n, 1, i, c] += ends[e, 0, d // D, i, d % D] * moved[e, d, c]
                        if n == last:
                            z[n + 1, 1, i, c] += ends[e, 1, d // D, i, d % D] * moved[e, d, c]


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
def factorise_states(
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
    """The right-hand sides c (E, n, C) turned as `factorise_states` turned the rows, in place.

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
def substitute_states(
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
