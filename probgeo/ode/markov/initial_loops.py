"""Compiled loops of initial value problems: Runge-Kutta stages, step control, the error equation.

States of a problem of order q in D dimensions are flat: n = q D numbers, y first and then y'.
"""

import numpy as np

from probgeo._loops import loop
from probgeo.ode.markov.collocation import BLAS


@loop
def next_stage(
    k: np.ndarray,
    stage: int,
    rates: np.ndarray,
    point: np.ndarray,
    start: np.ndarray,
    h: np.ndarray,
    weights: np.ndarray,
) -> None:
    """Keep the slopes of a stage and move to the point of the next one, for all members.

    k_stage = (y', f) at `point`;  point = start + h sum_j weights_j k_j,  j = 0..stage.

    k (A, S, n), rates (A, D) values of f, point and start (A, n), h (A,), weights (S,).
    """
    members, n = start.shape
    lower = n - rates.shape[1]
    dimension = rates.shape[1]
    for a in range(members):
        for i in range(lower):
            k[a, stage, i] = point[a, dimension + i]
        for i in range(dimension):
            k[a, stage, lower + i] = rates[a, i]
        for i in range(n):
            total = 0.0
            for j in range(stage + 1):
                total += weights[j] * k[a, j, i]
            point[a, i] = start[a, i] + h[a] * total


@loop
def judge_steps(
    k: np.ndarray,
    weights: np.ndarray,
    start: np.ndarray,
    h: np.ndarray,
    size: np.ndarray,
    rtol: np.ndarray,
    atol: np.ndarray,
    e5: np.ndarray,
    e3: np.ndarray,
    point: np.ndarray,
    error: np.ndarray,
    stiffness: np.ndarray,
) -> None:
    """Where steps lead to, their errors over their tolerances, h times the dominant eigenvalue.

    The estimates e5 and e3 of orders 5 and 3 are combined as h e5^2 / (e5^2 + e3^2 / 100)^(1/2).
    Components of y are measured by atol + rtol max|y|, the largest so far or at the new point,
    those of y' by the same share of max|y'|, and averaged.

    k (A, S + 1, n), weights (2, S) that lead to the points of the last stage and of the step,
    start (A, n), h, rtol and atol (A,), size (A, q) largest entries of y^(m) so far; point (A, n),
    error and stiffness (A,) are written to.
    """
    members, n = start.shape
    order, stages = size.shape[1], k.shape[1]
    dimension = n // order
    for a in range(members):
        sum5, sum3, above, below, tolerance = 0.0, 0.0, 0.0, 0.0, 1.0
        for m in range(order):
            largest = size[a, m]
            for i in range(m * dimension, (m + 1) * dimension):
                last, total = 0.0, 0.0
                for j in range(stages - 1):
                    last += weights[0, j] * k[a, j, i]
                    total += weights[1, j] * k[a, j, i]
                point[a, i] = start[a, i] + h[a] * total
                largest = max(largest, abs(point[a, i]))
                above += (k[a, stages - 1, i] - k[a, stages - 2, i]) ** 2
                below += (h[a] * (total - last)) ** 2
            if m == 0:
                tolerance = rtol[a] + (atol[a] / largest if largest > 0.0 else 1.0)
            unit = max(tolerance * largest, 1e-300)
            for i in range(m * dimension, (m + 1) * dimension):
                five, three = 0.0, 0.0
                for j in range(stages):
                    five += e5[j] * k[a, j, i]
                    three += e3[j] * k[a, j, i]
                sum5 += (five / unit) ** 2
                sum3 += (three / unit) ** 2
        total = sum5 + 0.01 * sum3
        error[a] = 0.0 if total == 0.0 else h[a] * sum5 / np.sqrt(total * n)
        stiffness[a] = 0.0 if below == 0.0 else h[a] * np.sqrt(above / below)


@loop
def take_steps(
    active: np.ndarray,
    h: np.ndarray,
    point: np.ndarray,
    rates: np.ndarray,
    error: np.ndarray,
    limits: np.ndarray,
    t: np.ndarray,
    y: np.ndarray,
    slopes: np.ndarray,
    size: np.ndarray,
    following: np.ndarray,
    retried: np.ndarray,
    taken: np.ndarray,
    accepted: np.ndarray,
    ended: np.ndarray,
) -> None:
    """Take the steps that are good enough, and choose the next ones.

    A step is taken if its error is at most one, unless it is a first one and much too short; with `equal` steps,
    whenever it is finite. The next is as long as its error allows. `limits` = (t0, t1, exponent, longest step, number
    of equal steps or 0, most steps).

    active (A,), h (A,), point (A, n), rates (A, D), error (A,); t, y, slopes, size, following (next lengths) and
    retried (A, ...) of active members, taken (B,) of all are brought up to date; accepted (A,) and ended (A,) (0: on
    the way, 1: arrived, 2: lost, 3: too many steps) written to.
    """
    t0, t1, exponent, longest, equal, most = limits[0], limits[1], limits[2], limits[3], limits[4], limits[5]
    safety, most_growth = 0.9, 4.0  # of the step that would just meet the tolerance
    timid = 1e-3  # error of a first step over its tolerance, below which it is taken again
    n, D, order = y.shape[1], slopes.shape[1], size.shape[1]
    for a in range(len(active)):
        m = active[a]
        finite = np.isfinite(error[a])
        for i in range(n):
            finite = finite and np.isfinite(point[a, i])
        for i in range(D):
            finite = finite and np.isfinite(rates[a, i])
        good = finite and error[a] <= 1.0
        short = taken[m] == 0 and error[a] < timid and h[a] < longest
        accepted[a] = good and (retried[a] or not short)  # or else it might alternate for ever
        if equal > 0:
            accepted[a] = finite
        factor = 1.0 / most_growth
        if finite:
            factor = safety * max(error[a], 1e-20) ** -exponent
            factor = min(max(factor, 1.0 / most_growth), most_growth)
        # no growth right after a failed step
        following[a] = h[a] * (min(factor, 1.0) if retried[a] else factor)
        retried[a] = not good
        ended[a] = 0
        if accepted[a]:
            taken[m] += 1
            arrived = taken[m] == equal if equal > 0 else h[a] >= t1 - t[a]
            t[a] = t1 if arrived else t[a] + h[a]
            for i in range(n):
                y[a, i] = point[a, i]
                size[a, i // (n // order)] = max(size[a, i // (n // order)], abs(point[a, i]))
            for i in range(D):
                slopes[a, i] = rates[a, i]
            if arrived:
                ended[a] = 1
            elif taken[m] >= most:
                ended[a] = 3
        elif equal > 0 or h[a] <= 1e-14 * max(abs(t[a]), t1 - t0):
            ended[a] = 2  # a step that cannot be told from zero: the solution ends here


@loop
def eliminate(matrix: np.ndarray, right: np.ndarray) -> None:
    """Gauss's elimination with partial pivoting: matrix (N, N) is lost, right (N, K) the solution.

    For N up to forty or so, where a call of LAPACK takes longer.
    """
    N, K = right.shape
    for k in range(N):
        pivot = k
        for i in range(k + 1, N):
            if abs(matrix[i, k]) > abs(matrix[pivot, k]):
                pivot = i
        if pivot != k:
            for j in range(k, N):
                matrix[k, j], matrix[pivot, j] = matrix[pivot, j], matrix[k, j]
            for c in range(K):
                right[k, c], right[pivot, c] = right[pivot, c], right[k, c]
        inverse = 1.0 / matrix[k, k]
        for i in range(k + 1, N):
            factor = matrix[i, k] * inverse
            for j in range(k + 1, N):
                matrix[i, j] -= factor * matrix[k, j]
            for c in range(K):
                right[i, c] -= factor * right[k, c]
    for k in range(N - 1, -1, -1):
        for c in range(K):
            right[k, c] /= matrix[k, k]
        for i in range(k):
            for c in range(K):
                right[i, c] -= matrix[i, k] * right[k, c]


@loop
def error_equation(
    offsets: np.ndarray,
    h: np.ndarray,
    jacobians: np.ndarray,
    defect: np.ndarray,
    signs: np.ndarray,
    forcing: np.ndarray,
    start: np.ndarray,
    collocation: np.ndarray,
    iterations: int,
    tolerance: float,
    solution: np.ndarray,
) -> None:
    """Solve x^(q) = sum_m J_m x^(m) + F along the steps of every member, C columns at once.

    The first columns are forced by the defect times a sign of each step, the last P by `forcing`.
    On a step the values at S Radau points c_1..c_S = 1 obey X = x0 + h A slope(X), A the
    `collocation` matrix. They are found by elimination; many of them by iterating this map until it
    changes less than a share `tolerance`, which contracts where |h J| is below six or so, if
    `iterations` of it suffice (not where steps are stiff). If C is above n + 1 + P, it is done for
    n unit vectors, the defect and `forcing` instead, of which all columns are combinations.

    offsets (B + 1,) of the steps, h (E,), jacobians (E, S, q, D, D), defect (E, S, D),
    signs (E, C_1), forcing (E, S, D, P), start (B, n, C) at t0, solution (E, S, n, C) written to.
    """
    S = collocation.shape[0]
    order, D = jacobians.shape[2], jacobians.shape[3]
    n, C, P = start.shape[1], start.shape[2], forcing.shape[3]
    top, forced = n - D, signs.shape[1]
    units = n + 1 + P < C
    K = n + 1 + P if units else C
    x0 = np.zeros((n, K))
    if units:
        for i in range(n):
            x0[i, i] = 1.0
    X, slope, F = np.empty((S, n, K)), np.empty((S, n, K)), np.zeros((S, D, K))
    moved, change, largest = np.empty((S, n * K)), np.empty(K), np.empty(K)
    matrix, right = np.empty((S * D, S * D)), np.empty((S * D, K))
    powers = np.empty((order + 1, S, S))  # of A
    powers[0] = np.eye(S)
    for p in range(order):
        powers[p + 1] = np.dot(collocation, powers[p])
    for b in range(offsets.shape[0] - 1):
        at_node = start[b].copy()
        for e in range(offsets[b], offsets[b + 1]):
            for i in range(n):
                for c in range(K):
                    if not units:
                        x0[i, c] = at_node[i, c]
                    for s in range(S):
                        X[s, i, c] = x0[i, c]
            for s in range(S):
                for i in range(D):
                    if units:
                        F[s, i, n] = defect[e, s, i]
                    else:
                        for c in range(forced):
                            F[s, i, c] = signs[e, c] * defect[e, s, i]
                    for p in range(P):
                        F[s, i, K - P + p] = forcing[e, s, i, p]
            done = False
            for _ in range(iterations):
                for s in range(S):
                    for i in range(top):
                        for c in range(K):
                            slope[s, i, c] = X[s, D + i, c]
                    for i in range(D):
                        for c in range(K):
                            slope[s, top + i, c] = F[s, i, c]
                        for m in range(order):
                            for j in range(D):
                                J = jacobians[e, s, m, i, j]
                                for c in range(K):
                                    slope[s, top + i, c] += J * X[s, m * D + j, c]
                np.dot(collocation, slope.reshape(S, n * K), moved)
                change.fill(0.0)
                largest.fill(0.0)
                for s in range(S):
                    for i in range(n):
                        for c in range(K):
                            new = x0[i, c] + h[e] * moved[s, i * K + c]
                            change[c] = max(change[c], abs(new - X[s, i, c]))
                            largest[c] = max(largest[c], abs(new))
                            X[s, i, c] = new
                done = True
                for c in range(K):
                    done = done and not change[c] > tolerance * largest[c]
                if done:
                    break
            if not done:
                # of the highest derivative V, with B = h A and Y_m = sum_l (h c)^l / l! x0_(m+l)
                # + B^p V, p = q-1-m: (I - sum_m B J_m B^p) V = v0 + B (F + sum_m J_m (Y_m - B^p V))
                for s in range(S):
                    for i in range(D):
                        row = s * D + i
                        for c in range(K):
                            right[row, c] = x0[top + i, c]
                        for column in range(S * D):
                            matrix[row, column] = 0.0
                        matrix[row, row] = 1.0
                        for r in range(S):
                            weight = h[e] * collocation[s, r]
                            for j in range(D):
                                matrix[row, r * D + j] -= weight * jacobians[e, r, order - 1, i, j]
                            for c in range(K):
                                right[row, c] += weight * F[r, i, c]
                            for m in range(order - 1):
                                for j in range(D):
                                    J = weight * jacobians[e, r, m, i, j]
                                    p = order - 1 - m
                                    for q in range(S):
                                        matrix[row, q * D + j] -= J * h[e] ** p * powers[p, r, q]
                                    for k in range(p):
                                        for c in range(K):
                                            right[row, c] += J * x0[(m + k) * D + j, c]
                                        J *= h[e] * powers[1, r].sum() / (k + 1)
                if D < BLAS:
                    eliminate(matrix, right)
                elif np.isfinite(matrix).all():
                    right = np.dot(np.linalg.inv(matrix), right)
                else:
                    right.fill(np.nan)
                for s in range(S):
                    for i in range(D):
                        for c in range(K):
                            X[s, top + i, c] = right[s * D + i, c]
                for i in range(top - 1, -1, -1):
                    for s in range(S):
                        for c in range(K):
                            X[s, i, c] = x0[i, c]
                        for r in range(S):
                            weight = h[e] * collocation[s, r]
                            for c in range(K):
                                X[s, i, c] += weight * X[r, D + i, c]
            for s in range(S):
                for i in range(n):
                    if not units:
                        for c in range(C):
                            solution[e, s, i, c] = X[s, i, c]
                        continue
                    for c in range(C):
                        solution[e, s, i, c] = 0.0
                    for j in range(n):
                        for c in range(C):
                            solution[e, s, i, c] += X[s, i, j] * at_node[j, c]
                    for c in range(forced):
                        solution[e, s, i, c] += signs[e, c] * X[s, i, n]
                    for p in range(P):
                        solution[e, s, i, C - P + p] += X[s, i, n + 1 + p]
            for i in range(n):
                for c in range(C):
                    at_node[i, c] = solution[e, S - 1, i, c]


@loop
def error_scales(offsets: np.ndarray, ratio: np.ndarray) -> np.ndarray:
    """Factors s^2 (B,) by which the variance of drawn errors fits the estimated one.

    ratio (E, D) = estimated squared error over drawn variance, at the ends of the steps. The factor is such that two
    standard deviations hold .954 of it, as they do of a Gaussian, but at least .8 times the mean: where errors grow
    steadily, all are alike, and one standard deviation. From few errors it is known less well, and a share 4 / number
    larger. Over 16 kinds of problems and six tolerances coverage is .95, .97 and .98 with .6, .8 and 1.0, and least
    with few steps. The mean alone is too much: coverage is .99 to 1 at tolerances of 1e-6 and 1e-8.
    """
    factors = np.zeros(offsets.shape[0] - 1)
    for b in range(len(factors)):
        own = np.sort(ratio[offsets[b] : offsets[b + 1]].ravel())
        own = own[own > 0.0]
        if own.size == 0:
            continue
        place = 0.954 * (own.size - 1)
        low = int(place)
        high = min(low + 1, own.size - 1)
        quantile = own[low] + (place - low) * (own[high] - own[low])
        factors[b] = max(quantile / 4.0, 0.8 * own.mean()) * (1.0 + 4.0 / own.size)
    return factors


@loop
def newton_inverses(
    jacobians: np.ndarray, h: np.ndarray, integrals: np.ndarray, gamma: float, inverses: np.ndarray, filters: np.ndarray
) -> None:
    """(I - h A x J)^-1 and (I - h gamma J)^-1 of every member; NaN where they do not exist.

    J is the Jacobian of the state's slope, (0, I; J_0, J_1) for second order. jacobians
    (A, q, D, D), h (A,), integrals (S, S); inverses (A, S n, S n), filters (A, n, n) written to.
    """
    members, order, D = jacobians.shape[0], jacobians.shape[1], jacobians.shape[2]
    S, n = integrals.shape[0], order * D
    J = np.zeros((n, n))
    for i in range(n - D):
        J[i, D + i] = 1.0
    for a in range(members):
        for m in range(order):
            J[n - D :, m * D : (m + 1) * D] = jacobians[a, m]
        if not np.isfinite(J).all():
            inverses[a] = np.nan
            filters[a] = np.nan
            continue
        for s in range(S):
            for r in range(S):
                weight = h[a] * integrals[s, r]
                inverses[a, s * n : (s + 1) * n, r * n : (r + 1) * n] = -weight * J
        for i in range(S * n):
            inverses[a, i, i] += 1.0
        inverses[a] = np.linalg.inv(inverses[a])
        filters[a] = np.linalg.inv(np.eye(n) - h[a] * gamma * J)


@loop
def newton_update(
    pending: np.ndarray,
    slopes: np.ndarray,
    h: np.ndarray,
    unit: np.ndarray,
    integrals: np.ndarray,
    inverses: np.ndarray,
    Z: np.ndarray,
    norm: np.ndarray,
) -> None:
    """Z += (I - h A x J)^-1 (h A F - Z) for the members that are pending, and rms of the change.

    pending (P,), slopes (P, S, n) F at the stages, h (A,), unit (A, n) what counts as one,
    inverses (A, S n, S n), Z (A, S, n) and norm (A,) written to.
    """
    S, n = slopes.shape[1], slopes.shape[2]
    right = np.empty(S * n)
    for p in range(len(pending)):
        a = pending[p]
        for s in range(S):
            for i in range(n):
                total = 0.0
                for r in range(S):
                    total += integrals[s, r] * slopes[p, r, i]
                right[s * n + i] = h[a] * total - Z[a, s, i]
        square = 0.0
        for s in range(S):
            for i in range(n):
                change = 0.0
                for j in range(S * n):
                    change += inverses[a, s * n + i, j] * right[j]
                Z[a, s, i] += change
                square += (change / unit[a, i]) ** 2
        norm[a] = np.sqrt(square / (S * n))
