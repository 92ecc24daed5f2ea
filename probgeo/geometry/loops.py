"""Compiled loops on chains: Newton's method on the energy of polygons and of cubic elements alike.

A chain is a curve given by nodes (rows, J, D) at times t (rows,); the rows of all chains stand one
after the other, chain m has the rows offsets[m] : offsets[m + 1]. With J = 1 a node is a position,
and the curve is straight in between (a polygon). With J = 2 it is a position and a velocity, and
the curve is cubic. On an element of length h, with s from 0 to 1,

    c = sum_i a_i u_i,    c' = sum_i b_i u_i,    a_i = shape_i(s) h^j,    b_i = slope_i(s) h^(j-1),

with u the 2 J vectors at its ends, of which the velocities have j = 1. The energy is taken at G
points of every element: `shape` and `slope` (G, 2 J), `weight` (G,). Points follow each other in
the order of the elements.
"""

import numpy as np

from probgeo._loops import loop

PANEL = 20  # rows that are eliminated by loops before BLAS takes those below
BLAS_FROM = 12  # size of blocks from which calls of BLAS are faster than loops


@loop
def chain_points(
    nodes: np.ndarray,
    t: np.ndarray,
    offsets: np.ndarray,
    shape: np.ndarray,
    slope: np.ndarray,
    x: np.ndarray,
    v: np.ndarray,
) -> None:
    """Positions and velocities x, v (points, D) at the points of all elements."""
    J, D = nodes.shape[1], nodes.shape[2]
    n = 0
    for m in range(len(offsets) - 1):
        for e in range(offsets[m], offsets[m + 1] - 1):
            h = t[e + 1] - t[e]
            for g in range(len(shape)):
                for d in range(D):
                    x[n, d] = 0.0
                    v[n, d] = 0.0
                for i in range(2 * J):
                    a = shape[g, i] * (h if i % J else 1.0)
                    b = slope[g, i] / (1.0 if i % J else h)
                    for d in range(D):
                        x[n, d] += a * nodes[e + i // J, i % J, d]
                        v[n, d] += b * nodes[e + i // J, i % J, d]
                n += 1


@loop
def chain_integrals(
    t: np.ndarray, offsets: np.ndarray, weight: np.ndarray, density: np.ndarray, out: np.ndarray
) -> None:
    """Integral of a density (points,) over every chain: sum of weight * h * density."""
    n = 0
    for m in range(len(offsets) - 1):
        total = 0.0
        for e in range(offsets[m], offsets[m + 1] - 1):
            h = t[e + 1] - t[e]
            for g in range(len(weight)):
                total += weight[g] * h * density[n]
                n += 1
        out[m] = total


@loop
def line_search(
    offsets: np.ndarray,
    tried: np.ndarray,
    trial: np.ndarray,
    nodes: np.ndarray,
    energy: np.ndarray,
    decrement: np.ndarray,
    size: np.ndarray,
    damping: np.ndarray,
    accepted: np.ndarray,
) -> None:
    """Accept trial nodes whose energy `tried` is low enough, or make the step of a chain shorter.

    A step of `size` along Newton's direction should lower the energy by size (1 - size/2) times
    the decrement. How much of that it did says how far to trust the quadratic model next time:
    the damping adds to its definite part, as in Levenberg's method. It is halved where the model is
    good: divided by five, 45 instead of 34 % of the rows of Hessians in a mean of digits (D = 30)
    are factorised in vain, and a seventh more in all.
    """
    for m in range(len(offsets) - 1):
        enough = energy[m] - 1e-4 * size[m] * decrement[m] + 1e-14 * abs(tried[m])
        accepted[m] = tried[m] <= enough
        if not accepted[m]:
            size[m] *= 0.4
            continue
        expected = size[m] * (1.0 - 0.5 * size[m]) * decrement[m]
        if energy[m] < np.inf:
            if size[m] < 1.0 or energy[m] - tried[m] < 0.25 * expected:
                damping[m] = max(4.0 * damping[m], 0.5)
            elif energy[m] - tried[m] > 0.7 * expected:
                damping[m] = 0.5 * damping[m] if damping[m] > 0.3 else 0.0
        energy[m] = tried[m]
        size[m] = 1.0
        for row in range(offsets[m], offsets[m + 1]):
            for j in range(nodes.shape[1]):
                for d in range(nodes.shape[2]):
                    nodes[row, j, d] = trial[row, j, d]


@loop
def propose(offsets: np.ndarray, nodes: np.ndarray, step: np.ndarray, size: np.ndarray, trial: np.ndarray) -> None:
    """trial = nodes + size * step, with steps (rows, J D), none further than the curve goes.

    A quadratic model says nothing about places that far away: without the limit, curves in a chart
    of the sphere slid over its pole.
    """
    D = nodes.shape[2]
    for m in range(len(offsets) - 1):
        extent, furthest = 0.0, 0.0
        for d in range(D):
            low = high = nodes[offsets[m], 0, d]
            for row in range(offsets[m], offsets[m + 1]):
                low, high = min(low, nodes[row, 0, d]), max(high, nodes[row, 0, d])
                furthest = max(furthest, abs(step[row, d]))
            extent = max(extent, high - low)
        share = size[m] * min(1.0, extent / furthest) if furthest > 0.0 else size[m]
        for row in range(offsets[m], offsets[m + 1]):
            for j in range(nodes.shape[1]):
                for d in range(D):
                    trial[row, j, d] = nodes[row, j, d] + share * step[row, j * D + d]


@loop
def assemble_hessian(
    t: np.ndarray,
    offsets: np.ndarray,
    which: np.ndarray,
    damping: np.ndarray,
    shape: np.ndarray,
    slope: np.ndarray,
    weight: np.ndarray,
    by_x: np.ndarray,
    by_v: np.ndarray,
    xx: np.ndarray,
    xv: np.ndarray,
    vv: np.ndarray,
    diagonal: np.ndarray,
    upper: np.ndarray,
    right: np.ndarray,
) -> None:
    """Hessian and negative gradient of the energy of the chains `which` (members,).

    The Hessian is block tridiagonal, with F = J D: `diagonal` (rows, F, F), of which only the
    upper triangles are right, `upper` (rows, F, F) from a node to the next, `right` (rows, F).
    A point adds, for any two functions of its element, a_i a_j xx + a_i b_j xv + b_i a_j xv' +
    b_i b_j vv, the last of which is positive definite and counts 1 + damping (members,) times.
    """
    points, D = by_x.shape
    G, functions = shape.shape
    J = functions // 2
    a, b = np.empty(functions), np.empty(functions)
    # blocks are rows of numbers here, and gathered over the points of an element: short loops cost
    turned, blocks = np.empty((D, D)), np.empty((functions, functions, D * D))
    flat_xx, flat_xv = xx.reshape(points, D * D), xv.reshape(points, D * D)
    flat_vv, flat_vx = vv.reshape(points, D * D), turned.reshape(D * D)
    n = 0
    for m in range(len(offsets) - 1):
        first, last = offsets[m], offsets[m + 1] - 1
        if not which[m]:
            n += G * (last - first)
            continue
        diagonal[first : last + 1] = 0.0
        right[first : last + 1] = 0.0
        for e in range(first, last):
            h = t[e + 1] - t[e]
            blocks[:] = 0.0
            for g in range(G):
                w = weight[g] * h
                for r in range(D):
                    for c in range(D):
                        turned[c, r] = xv[n, r, c]
                for i in range(functions):
                    a[i] = shape[g, i] * (h if i % J else 1.0)
                    b[i] = slope[g, i] / (1.0 if i % J else h)
                    for r in range(D):
                        slope_r = a[i] * by_x[n, r] + b[i] * by_v[n, r]
                        right[e + i // J, (i % J) * D + r] -= w * slope_r
                for i in range(functions):
                    for j in range(i, functions):
                        f_xx, f_xv = w * a[i] * a[j], w * a[i] * b[j]
                        f_vx, f_vv = w * b[i] * a[j], w * b[i] * b[j] * (1.0 + damping[m])
                        for k in range(D * D):
                            blocks[i, j, k] += (
                                f_xx * flat_xx[n, k] + f_xv * flat_xv[n, k] + f_vx * flat_vx[k] + f_vv * flat_vv[n, k]
                            )
                n += 1
            for i in range(functions):
                for j in range(i, functions):
                    row, column = (i % J) * D, (j % J) * D
                    for r in range(D):
                        for c in range(D):
                            if i // J != j // J:
                                upper[e, row + r, column + c] = blocks[i, j, r * D + c]
                            else:
                                diagonal[e + i // J, row + r, column + c] += blocks[i, j, r * D + c]


@loop
def end_columns(offsets: np.ndarray, D: int, diagonal: np.ndarray, upper: np.ndarray, columns: np.ndarray) -> None:
    """What moving the ends of a chain by unit vectors puts on the right: columns (rows, F, 2 D).

    The first D columns belong to the first end. Comes before `fix_ends`.
    """
    F = diagonal.shape[1]
    columns[:] = 0.0
    for m in range(len(offsets) - 1):
        first, last = offsets[m], offsets[m + 1] - 1
        for k in range(D):
            for r in range(F):
                columns[first + 1, r, k] -= upper[first, k, r]
                columns[last - 1, r, D + k] -= upper[last - 1, r, k]
            for r in range(D, F):
                columns[first, r, k] -= diagonal[first, k, r]
                columns[last, r, D + k] -= diagonal[last, k, r]
        columns[first, :D] = 0.0
        columns[last, :D] = 0.0
        for k in range(D):
            columns[first, k, k] = 1.0
            columns[last, k, D + k] = 1.0


@loop
def fix_ends(
    offsets: np.ndarray, which: np.ndarray, D: int, diagonal: np.ndarray, upper: np.ndarray, right: np.ndarray
) -> None:
    """Take the positions at both ends out of the equations: unit rows and columns, zero right."""
    F = right.shape[1]
    for m in range(len(offsets) - 1):
        if not which[m]:
            continue
        first, last = offsets[m], offsets[m + 1] - 1
        for r in range(D):
            for c in range(F):
                diagonal[first, r, c] = 0.0
                diagonal[last, r, c] = 0.0
                upper[first, r, c] = 0.0
                upper[last - 1, c, r] = 0.0
            diagonal[first, r, r] = 1.0
            diagonal[last, r, r] = 1.0
            right[first, r] = 0.0
            right[last, r] = 0.0


@loop
def solve_chains(
    offsets: np.ndarray,
    which: np.ndarray,
    diagonal: np.ndarray,
    upper: np.ndarray,
    right: np.ndarray,
    decrement: np.ndarray,
    good: np.ndarray,
) -> None:
    """Solve block-tridiagonal systems H u = right by Cholesky's method, in place, O(rows F^3).

    diagonal_i = R_i' R_i, upper_i <- R_i'^-1 upper_i, diagonal_i+1 -= upper_i' upper_i; `right`
    becomes u. decrement (members,) is right' H^-1 right. good (members,) says whether H is
    positive definite; if not, nothing that is left of a member is of use.
    """
    F = right.shape[1]
    panel, columns, product = np.empty(2 * PANEL * F), np.empty(PANEL * F), np.empty(2 * F * F)
    squares = product[: F * F].reshape(F, F)
    for m in range(len(offsets) - 1):
        if not which[m]:
            continue
        first, last = offsets[m], offsets[m + 1] - 1
        good[m] = True
        for b in range(first, last + 1):
            R, U = diagonal[b], upper[b]
            if b > first:
                before = upper[b - 1]
                if F >= BLAS_FROM:
                    np.dot(before.T, before, squares)
                    for r in range(F):
                        for c in range(r, F):
                            R[r, c] -= squares[r, c]
                else:
                    for k in range(F):
                        for r in range(F):
                            for c in range(r, F):
                                R[r, c] -= before[k, r] * before[k, c]
                for k in range(F):
                    for r in range(F):
                        right[b, r] -= right[b - 1, k] * before[k, r]
            width = F if b < last else 0
            for begin in range(0, F, PANEL):
                end = min(begin + PANEL, F)
                for k in range(begin, end):  # row k leaves the rows below it, on both sides
                    if not R[k, k] > 0.0:
                        good[m] = False
                        break
                    scale = 1.0 / np.sqrt(R[k, k])
                    for c in range(k, F):
                        R[k, c] *= scale
                    for c in range(width):
                        U[k, c] *= scale
                    right[b, k] *= scale
                    for r in range(k + 1, F):
                        right[b, r] -= R[k, r] * right[b, k]
                    for r in range(k + 1, end):
                        factor = R[k, r]
                        for c in range(r, F):
                            R[r, c] -= factor * R[k, c]
                        for c in range(width):
                            U[r, c] -= factor * U[k, c]
                left, rest = end - begin, F - end
                if not good[m] or rest == 0:
                    break
                # the rows below the panel, by one product of matrices
                rows = panel[: left * (rest + width)].reshape(left, rest + width)
                rows[:, :rest] = R[begin:end, end:]
                rows[:, rest:] = U[begin:end, :width]
                turned = columns[: rest * left].reshape(rest, left)
                turned[:] = R[begin:end, end:].T
                gone = product[: rest * (rest + width)].reshape(rest, rest + width)
                np.dot(turned, rows, gone)
                for r in range(rest):
                    for c in range(r, rest):
                        R[end + r, end + c] -= gone[r, c]
                    for c in range(width):
                        U[end + r, c] -= gone[r, rest + c]
            if not good[m]:
                break
        if not good[m]:
            continue
        total = 0.0
        for b in range(last, first - 1, -1):
            R, U = diagonal[b], upper[b]
            for r in range(F):
                total += right[b, r] ** 2
            for r in range(F - 1, -1, -1):
                s = right[b, r]
                if b < last:
                    for c in range(F):
                        s -= U[r, c] * right[b + 1, c]
                for c in range(r + 1, F):
                    s -= R[r, c] * right[b, c]
                right[b, r] = s / R[r, r]
        decrement[m] = total


@loop
def solve_columns(offsets: np.ndarray, diagonal: np.ndarray, upper: np.ndarray, columns: np.ndarray) -> None:
    """H u = columns (rows, F, C) in place, with the factors that `solve_chains` has left."""
    F, C = columns.shape[1], columns.shape[2]
    for m in range(len(offsets) - 1):
        first, last = offsets[m], offsets[m + 1] - 1
        for b in range(first, last + 1):
            for r in range(F):
                if b > first:
                    for k in range(F):
                        for c in range(C):
                            columns[b, r, c] -= upper[b - 1, k, r] * columns[b - 1, k, c]
                for k in range(r):
                    for c in range(C):
                        columns[b, r, c] -= diagonal[b, k, r] * columns[b, k, c]
                for c in range(C):
                    columns[b, r, c] /= diagonal[b, r, r]
        for b in range(last, first - 1, -1):
            for r in range(F - 1, -1, -1):
                if b < last:
                    for k in range(F):
                        for c in range(C):
                            columns[b, r, c] -= upper[b, r, k] * columns[b + 1, k, c]
                for k in range(r + 1, F):
                    for c in range(C):
                        columns[b, r, c] -= diagonal[b, r, k] * columns[b, k, c]
                for c in range(C):
                    columns[b, r, c] /= diagonal[b, r, r]
