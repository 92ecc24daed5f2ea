"""Compiled loops of boundary value problems: leaves over flat, ragged arrays.

Member m has the nodes offsets[m] : offsets[m+1]; its elements are one fewer, and node n at the
left of an element makes it element n - m of the flat list. On an element of length h, with s from
0 to 1,

    p(s) = (1 - s) y_left + s y_right + h^2 sum_j G_j(s) v_j,

where G_j'' is 1 at the j-th of k Gauss points, 0 at the others, and G_j(0) = G_j(1) = 0: unknowns
are the positions y at the nodes and the accelerations v at the Gauss points.
"""

import numpy as np

from probgeo._loops import loop


@loop
def states_at(
    t: np.ndarray,
    offsets: np.ndarray,
    y: np.ndarray,
    v: np.ndarray,
    points: np.ndarray,
    position: np.ndarray,
    slope: np.ndarray,
    times: np.ndarray,
    states: np.ndarray,
) -> None:
    """p and p' at `points` (P,) of every element: times (E, P), states (E, P, 2, D).

    position, slope (P, k): G_j and G_j' there. v is (E, k, D).
    """
    k, D = v.shape[1], v.shape[2]
    for m in range(len(offsets) - 1):
        for n in range(offsets[m], offsets[m + 1] - 1):
            e = n - m
            h = t[n + 1] - t[n]
            for p in range(len(points)):
                s = points[p]
                times[e, p] = t[n] + s * h
                for i in range(D):
                    bend, turn = 0.0, 0.0
                    for j in range(k):
                        bend += position[p, j] * v[e, j, i]
                        turn += slope[p, j] * v[e, j, i]
                    states[e, p, 0, i] = (1.0 - s) * y[n, i] + s * y[n + 1, i] + h * h * bend
                    states[e, p, 1, i] = (y[n + 1, i] - y[n, i]) / h + h * turn


@loop
def assemble(
    h: np.ndarray, jacobians: np.ndarray, position: np.ndarray, slope: np.ndarray, matrices: np.ndarray
) -> None:
    """I - h^2 J0 G - h J1 G' at k points of every element, (E, k D, k D).

    jacobians (E, k, 2, D, D) by y and y', position and slope (k, k).
    """
    E, k, _, D, _ = jacobians.shape
    for e in range(E):
        for j in range(k):
            for i in range(D):
                row = matrices[e, j * D + i]
                for other in range(k):
                    by_y = -h[e] * h[e] * position[j, other]
                    by_slope = -h[e] * slope[j, other]
                    for c in range(D):
                        row[other * D + c] = by_y * jacobians[e, j, 0, i, c] + by_slope * jacobians[e, j, 1, i, c]
                row[j * D + i] += 1.0


@loop
def invert(matrices: np.ndarray) -> None:
    """Inverses of small matrices (E, n, n) in their place: Gauss-Jordan with row pivoting."""
    E, n, _ = matrices.shape
    swaps = np.empty(n, dtype=np.int64)
    for e in range(E):
        A = matrices[e]
        for c in range(n):
            best = c
            for r in range(c + 1, n):
                if abs(A[r, c]) > abs(A[best, c]):
                    best = r
            swaps[c] = best
            if best != c:
                for j in range(n):
                    A[c, j], A[best, j] = A[best, j], A[c, j]
            pivot = 1.0 / A[c, c]
            A[c, c] = 1.0
            for j in range(n):
                A[c, j] *= pivot
            for r in range(n):
                if r != c:
                    factor = A[r, c]
                    A[r, c] = 0.0
                    for j in range(n):
                        A[r, j] -= factor * A[c, j]
        for c in range(n - 1, -1, -1):
            other = swaps[c]
            if other != c:
                for r in range(n):
                    A[r, c], A[r, other] = A[r, other], A[r, c]


@loop
def multiply(matrices: np.ndarray, columns: np.ndarray, out: np.ndarray) -> None:
    """Products of small matrices (E, a, b) with columns (E, b, C): (E, a, C).

    One column is summed up in four parts, which a processor adds at the same time.
    """
    E, a, b = matrices.shape
    C = columns.shape[2]
    whole = b - b % 4
    for e in range(E):
        for r in range(a):
            if C == 1:
                one, two, three, four = 0.0, 0.0, 0.0, 0.0
                for j in range(0, whole, 4):
                    one += matrices[e, r, j] * columns[e, j, 0]
                    two += matrices[e, r, j + 1] * columns[e, j + 1, 0]
                    three += matrices[e, r, j + 2] * columns[e, j + 2, 0]
                    four += matrices[e, r, j + 3] * columns[e, j + 3, 0]
                for j in range(whole, b):
                    one += matrices[e, r, j] * columns[e, j, 0]
                out[e, r, 0] = (one + two) + (three + four)
                continue
            for c in range(C):
                out[e, r, c] = 0.0
            for j in range(b):
                factor = matrices[e, r, j]
                for c in range(C):
                    out[e, r, c] += factor * columns[e, j, c]


@loop
def end_slopes(h: np.ndarray, responses: np.ndarray, slope_at_ends: np.ndarray, ends: np.ndarray) -> None:
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
def factorise(
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
def substitute(
    offsets: np.ndarray,
    h: np.ndarray,
    ends: np.ndarray,
    slope_at_ends: np.ndarray,
    upper: np.ndarray,
    lower: np.ndarray,
    pivots: np.ndarray,
    local: np.ndarray,
    jumps: np.ndarray,
    y: np.ndarray,
) -> None:
    """Positions at the inner nodes at which slopes are continuous, given those at the ends.

    On the elements accelerations are `local` (E, k D, C) plus their response to the positions, and
    slopes jump by `jumps` (rows, D, C) besides. y (rows, D, C) holds the positions at the two ends
    of every member, and gets all others. Factors as `factorise` left them.
    """
    D, C = y.shape[1], y.shape[2]
    k = slope_at_ends.shape[1]
    for m in range(len(offsets) - 1):
        first, last = offsets[m] + 1, offsets[m + 1] - 2
        for n in range(first, last + 1):
            e = n - m
            scale = 1.0 / (1.0 / h[e - 1] + 1.0 / h[e])
            for i in range(D):
                for c in range(C):
                    right, left = 0.0, 0.0
                    for j in range(k):
                        right += slope_at_ends[0, j] * local[e, j * D + i, c]
                        left += slope_at_ends[1, j] * local[e - 1, j * D + i, c]
                    total = jumps[n, i, c] + h[e] * right - h[e - 1] * left
                    if n == first:
                        for d in range(D):
                            total -= ends[e - 1, 1, 0, i, d] * y[n - 1, d, c]
                    if n == last:
                        for d in range(D):
                            total += ends[e, 0, 1, i, d] * y[n + 1, d, c]
                    y[n, i, c] = -scale * total
        for n in range(first, last + 1):
            height = 2 * D if n < last else D
            for r in range(D):
                best = pivots[n, r]
                if best != r:
                    a, b = n + best // D, best % D
                    for c in range(C):
                        y[n, r, c], y[a, b, c] = y[a, b, c], y[n, r, c]
                for q in range(r + 1, height):
                    factor = lower[n, q, r]
                    if factor != 0.0:
                        for c in range(C):
                            y[n + q // D, q % D, c] -= factor * y[n, r, c]
        for n in range(last, first - 1, -1):
            width = D * min(3, last - n + 1)
            for r in range(D - 1, -1, -1):
                for q in range(r + 1, width):
                    factor = upper[n, r, q]
                    for c in range(C):
                        y[n, r, c] -= factor * y[n + q // D, q % D, c]
                for c in range(C):
                    y[n, r, c] /= upper[n, r, r]


@loop
def pinned_variances(t: np.ndarray, offsets: np.ndarray, points: np.ndarray, variances: np.ndarray) -> None:
    """k(t, t) of the pinned Wiener shape of order 2 at points (P,) of every element: (E, P).

    Z is a twice integrated chain of bridges X less the line through X(t1): with x the time since
    the node, T that until the end, l the share of the interval that has passed,
    k = Var X - 2 l Cov(X, X(t1)) + l^2 Var X(t1).
    """
    for m in range(len(offsets) - 1):
        begin, end = t[offsets[m]], t[offsets[m + 1] - 1]
        zz, zv, vv = 0.0, 0.0, 0.0
        for n in range(offsets[m], offsets[m + 1] - 1):
            h = t[n + 1] - t[n]
            zz += 2.0 * h * zv + h * h * vv + h**5 / 45.0
            zv += h * vv + h**4 / 24.0
            vv += h**3 / 12.0
        at_end = zz
        zz, zv, vv = 0.0, 0.0, 0.0
        for n in range(offsets[m], offsets[m + 1] - 1):
            h = t[n + 1] - t[n]
            rest = end - t[n + 1]
            for p in range(len(points)):
                x = points[p] * h
                gap = h - x
                # of the bridge: with itself, and with its integrals at the end of the element
                own = x**5 / 20.0 - x**6 / (36.0 * h)
                second = gap**2 * x**3 / 12.0 + gap * x**4 / 8.0 + x**5 / 20.0 - x**3 * h**2 / 36.0
                once = gap * x**3 / 6.0 + x**4 / 8.0 - x**3 * h / 12.0
                here = zz + 2.0 * x * zv + x * x * vv + own
                ahead = zz + (x + h) * zv + x * h * vv + second + rest * (zv + x * vv + once)
                line = (t[n] + x - begin) / (end - begin)
                variances[n - m, p] = max(here - 2.0 * line * ahead + line * line * at_end, 0.0)
            zz += 2.0 * h * zv + h * h * vv + h**5 / 45.0
            zv += h * vv + h**4 / 24.0
            vv += h**3 / 12.0


@loop
def slope_jumps(
    t: np.ndarray, offsets: np.ndarray, y: np.ndarray, v: np.ndarray, slope_at_ends: np.ndarray, jumps: np.ndarray
) -> None:
    """p'(right element, 0) - p'(left element, 1) at the nodes (rows, D), zero at the ends."""
    k, D = v.shape[1], v.shape[2]
    for m in range(len(offsets) - 1):
        for n in range(offsets[m], offsets[m + 1]):
            for i in range(D):
                jumps[n, i] = 0.0
        for n in range(offsets[m] + 1, offsets[m + 1] - 1):
            e = n - m
            before, after = t[n] - t[n - 1], t[n + 1] - t[n]
            for i in range(D):
                right, left = (y[n + 1, i] - y[n, i]) / after, (y[n, i] - y[n - 1, i]) / before
                for j in range(k):
                    right += after * slope_at_ends[0, j] * v[e, j, i]
                    left += before * slope_at_ends[1, j] * v[e - 1, j, i]
                jumps[n, i] = right - left


@loop
def smooth(offsets: np.ndarray, values: np.ndarray, decay: float, at_nodes: np.ndarray) -> None:
    """Averages (E, D), in place, over neighbours in the same member, with weights decay^distance.

    `offsets` are those of elements; at_nodes (rows, D) are means of the elements at both sides.
    """
    D = values.shape[1]
    forward, weight = np.empty(D), 0.0
    for m in range(len(offsets) - 1):
        first, last = offsets[m], offsets[m + 1] - 1
        behind = np.empty((last - first + 1, D))  # weighted sums from the left, without oneself
        weights = np.empty(last - first + 1)
        forward[:] = 0.0
        weight = 0.0
        for e in range(first, last + 1):
            weights[e - first] = weight
            for i in range(D):
                behind[e - first, i] = forward[i]
                forward[i] = decay * (forward[i] + values[e, i])
            weight = decay * (weight + 1.0)
        forward[:] = 0.0
        weight = 0.0
        for e in range(last, first - 1, -1):
            total = 1.0 + weight + weights[e - first]
            for i in range(D):
                own = values[e, i]
                values[e, i] = (own + behind[e - first, i] + forward[i]) / total
                forward[i] = decay * (forward[i] + own)
            weight = decay * (weight + 1.0)
        for e in range(first, last + 2):
            for i in range(D):
                left, right = values[max(e - 1, first), i], values[min(e, last), i]
                at_nodes[e + m, i] = 0.5 * (left + right)


@loop
def lengths(offsets: np.ndarray, h: np.ndarray, y: np.ndarray, v: np.ndarray, out: np.ndarray) -> None:
    """The largest |y| (rows, D) and h^2 |v| / 8 (E, k, D) of every member: out (B,).

    If v is empty, positions alone count.
    """
    k, D = v.shape[1], v.shape[2]
    for m in range(len(offsets) - 1):
        largest = 0.0
        for n in range(offsets[m], offsets[m + 1]):
            for i in range(D):
                size = abs(y[n, i])
                if size > largest or size != size:  # NaN stays
                    largest = size
        if len(v) == 0:
            out[m] = largest
            continue
        for e in range(offsets[m] - m, offsets[m + 1] - m - 1):
            bend = h[e] * h[e] / 8.0
            for j in range(k):
                for i in range(D):
                    size = bend * abs(v[e, j, i])
                    if size > largest or size != size:
                        largest = size
        out[m] = largest


@loop
def peaks(values: np.ndarray, first: int, out: np.ndarray) -> None:
    """The largest |values[e, p, i]| of (E, P, D) from p = first on, for every element: out (E,)."""
    E, P, D = values.shape
    for e in range(E):
        largest = 0.0
        for p in range(first, P):
            for i in range(D):
                size = abs(values[e, p, i])
                if size > largest or size != size:  # NaN stays
                    largest = size
        out[e] = largest


@loop
def forces(jacobians: np.ndarray, position: np.ndarray, slope: np.ndarray, out: np.ndarray) -> None:
    """J0 position + J1 slope at points of elements: (E, P, 2, D, D), (E, P, D) -> (E, P, D)."""
    E, P, _, D, _ = jacobians.shape
    for e in range(E):
        for p in range(P):
            for i in range(D):
                total = 0.0
                for j in range(D):
                    total += jacobians[e, p, 0, i, j] * position[e, p, j]
                    total += jacobians[e, p, 1, i, j] * slope[e, p, j]
                out[e, p, i] = total


@loop
def increments(
    t: np.ndarray, offsets: np.ndarray, v: np.ndarray, gauss: np.ndarray, squares: np.ndarray, logs: np.ndarray
) -> None:
    """Sums, by member, of |dv|^2 / dt and of log dt from Gauss point to Gauss point."""
    k = len(gauss)
    for m in range(len(offsets) - 1):
        squares[m] = logs[m] = 0.0
        for n in range(offsets[m], offsets[m + 1] - 1):
            for j in range(k):
                if n == offsets[m] and j == 0:
                    continue
                here, before = n - m, n - m if j > 0 else n - m - 1
                dt = (t[n + 1] - t[n]) * (gauss[j] - (gauss[j - 1] if j > 0 else 0.0))
                if j == 0:
                    dt += (t[n] - t[n - 1]) * (1.0 - gauss[k - 1])
                total = 0.0
                for i in range(v.shape[2]):
                    total += (v[here, j, i] - v[before, j - 1 if j > 0 else k - 1, i]) ** 2
                squares[m] += total / dt
                logs[m] += np.log(dt)
