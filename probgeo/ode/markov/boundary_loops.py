"""Compiled loops over the elements of boundary value problems: leaves over flat, ragged arrays.

Member m has the nodes offsets[m] : offsets[m+1]; its elements are one fewer, and node n at the left of an element makes
it element n - m of the flat list. What an element is, says `collocation`; scales (E, q) are h^(q-m).
"""

import numpy as np

from probgeo._loops import loop


@loop
def states_at(
    t: np.ndarray,
    offsets: np.ndarray,
    scales: np.ndarray,
    z: np.ndarray,
    v: np.ndarray,
    points: np.ndarray,
    integrals: np.ndarray,
    begin: float,
    duration: float,
    times: np.ndarray,
    states: np.ndarray,
) -> None:
    """y, ..., y^(q-1) at points (P,) of every element: times (E, P), states (E, P, q, D).

    z (rows, q, D), v (E, k, D), integrals (q, P, k): G^m_j at the points. In time begin + duration t.
    """
    q, D = z.shape[1], z.shape[2]
    k = v.shape[1]
    units = np.ones(q)
    for d in range(1, q):
        units[d] = units[d - 1] / duration
    for m in range(len(offsets) - 1):
        for n in range(offsets[m], offsets[m + 1] - 1):
            e = n - m
            for p in range(len(points)):
                x = (t[n + 1] - t[n]) * points[p]
                times[e, p] = begin + duration * (t[n] + x)
                for d in range(q):
                    for i in range(D):
                        bend = 0.0
                        for j in range(k):
                            bend += integrals[d, p, j] * v[e, j, i]
                        taylor = z[n, q - 1, i]
                        for a in range(q - 1 - d, 0, -1):
                            taylor = z[n, d + a - 1, i] + x / a * taylor
                        states[e, p, d, i] = units[d] * (taylor + scales[e, d] * bend)


@loop
def move(
    offsets: np.ndarray,
    by: np.ndarray,
    z: np.ndarray,
    v: np.ndarray,
    p: np.ndarray,
    step_z: np.ndarray,
    step_v: np.ndarray,
    step_p: np.ndarray,
    new_z: np.ndarray,
    new_v: np.ndarray,
    new_p: np.ndarray,
) -> None:
    """States (rows, q, D), v (E, k, D) and parameters (B, P) plus by (B,) times a step."""
    for m in range(len(by)):
        for n in range(offsets[m], offsets[m + 1]):
            for d in range(z.shape[1]):
                for i in range(z.shape[2]):
                    new_z[n, d, i] = z[n, d, i] + by[m] * step_z[n, d, i]
        for e in range(offsets[m] - m, offsets[m + 1] - m - 1):
            for j in range(v.shape[1]):
                for i in range(v.shape[2]):
                    new_v[e, j, i] = v[e, j, i] + by[m] * step_v[e, j, i]
        for a in range(p.shape[1]):
            new_p[m, a] = p[m, a] + by[m] * step_p[m, a]


@loop
def assemble_elements(scales: np.ndarray, jacobians: np.ndarray, integrals: np.ndarray, matrices: np.ndarray) -> None:
    """I - sum_m h^(q-m) J_m G^m at k points of every element, (E, k D, k D): v by themselves.

    jacobians (E, k, q, D, D), integrals (q, k, k).
    """
    E, k, q, D, _ = jacobians.shape
    for e in range(E):
        for j in range(k):
            for i in range(D):
                row = matrices[e, j * D + i]
                for d in range(0, q, 2):  # two at a time, which takes half as long
                    after = min(d + 1, q - 1)
                    one, two = jacobians[e, j, d, i], jacobians[e, j, after, i]
                    for other in range(k):
                        by_one = -scales[e, d] * integrals[d, j, other]
                        by_two = -scales[e, after] * integrals[after, j, other] if after > d else 0.0
                        if d == 0:
                            for c in range(D):
                                row[other * D + c] = by_one * one[c] + by_two * two[c]
                        else:
                            for c in range(D):
                                row[other * D + c] += by_one * one[c] + by_two * two[c]
                row[j * D + i] += 1.0


@loop
def by_states(
    h: np.ndarray, jacobians: np.ndarray, by_parameters: np.ndarray, gauss: np.ndarray, columns: np.ndarray
) -> None:
    """Derivatives of f at the Gauss points by z at the left, then by p: columns (E, k D, q D + P).

    jacobians (E, k, q, D, D), by_parameters (E, k, D, P).
    """
    E, k, q, D, _ = jacobians.shape
    P = by_parameters.shape[3]
    for e in range(E):
        for j in range(k):
            x = h[e] * gauss[j]
            for i in range(D):
                right = columns[e, j * D + i]
                for c in range(q * D):
                    right[c] = 0.0
                for c in range(P):
                    right[q * D + c] = by_parameters[e, j, i, c]
                for d in range(q):
                    factor = 1.0
                    for a in range(q - d):
                        for c in range(D):
                            right[(d + a) * D + c] += factor * jacobians[e, j, d, i, c]
                        factor *= x / (a + 1)


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
    """Products of small matrices (E, a, b) with columns (E, b, C): (E, a, C)."""
    E, a, b = matrices.shape
    for e in range(E):
        for r in range(a):
            for c in range(columns.shape[2]):
                total = 0.0
                for j in range(b):
                    total += matrices[e, r, j] * columns[e, j, c]
                out[e, r, c] = total


@loop
def tested_forces(
    scales: np.ndarray, jacobians: np.ndarray, states: np.ndarray, out: np.ndarray, stiffness: np.ndarray
) -> None:
    """sum_m h^(q-m) sum_j J_mj y^(m)_ij at Gauss points i: (E, k, q, D, D), (E, q, k, k, D) -> (E, k, D).

    stiffness (E,): sum_m h^(q-m) |J_m|, the largest of these norms.
    """
    E, k, q, D, _ = jacobians.shape
    for e in range(E):
        stiffness[e] = 0.0
        for r in range(k):
            for i in range(D):
                total = 0.0
                for d in range(q):
                    for j in range(k):
                        own = 0.0
                        for c in range(D):
                            own += jacobians[e, j, d, i, c] * states[e, d, r, j, c]
                        total += scales[e, d] * own
                out[e, r, i] = total
        for d in range(q):
            largest = 0.0
            for j in range(k):
                for i in range(D):
                    size = 0.0
                    for c in range(D):
                        size += abs(jacobians[e, j, d, i, c])
                    largest = max(largest, size)
            stiffness[e] += scales[e, d] * largest


@loop
def largest_moves(offsets: np.ndarray, scales: np.ndarray, z: np.ndarray, v: np.ndarray, out: np.ndarray) -> None:
    """The largest |y| at nodes, z (rows, q, D), and h^q |v| / 8 (E, k, D) of every member: out (B,).

    If v is empty, nodes alone count.
    """
    k, D = v.shape[1], v.shape[2]
    for m in range(len(offsets) - 1):
        largest = 0.0
        for n in range(offsets[m], offsets[m + 1]):
            for i in range(D):
                size = abs(z[n, 0, i])
                if size > largest or size != size:  # NaN stays
                    largest = size
        if len(v) > 0:
            for e in range(offsets[m] - m, offsets[m + 1] - m - 1):
                bend = scales[e, 0] / 8.0
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
