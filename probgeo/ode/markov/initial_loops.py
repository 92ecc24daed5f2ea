"""Compiled loops of initial value problems: Runge-Kutta stages, step control, the error equation.

States of a problem of order q in D dimensions are flat: n = q D numbers, y first and then y'.
"""

import numpy as np

from probgeo._loops import loop

# Bounds of the factor that fits error bars, over the mean: with .6, .8 and 1.0 below, coverage over
# 16 kinds of problems and six tolerances is .95, .97 and .98, and least with few steps.
LOW, HIGH = 0.8, 1.5


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

    k (S, A, n), rates (A, D) values of f, point and start (A, n), h (A,), weights (S,).
    """
    members, n = start.shape
    lower = n - rates.shape[1]
    dimension = rates.shape[1]
    for a in range(members):
        for i in range(lower):
            k[stage, a, i] = point[a, dimension + i]
        for i in range(dimension):
            k[stage, a, lower + i] = rates[a, i]
        for i in range(n):
            total = 0.0
            for j in range(stage + 1):
                total += weights[j] * k[j, a, i]
            point[a, i] = start[a, i] + h[a] * total


@loop
def judge_steps(
    k: np.ndarray,
    point: np.ndarray,
    last_stage: np.ndarray,
    start: np.ndarray,
    h: np.ndarray,
    size: np.ndarray,
    rtol: np.ndarray,
    atol: np.ndarray,
    e5: np.ndarray,
    e3: np.ndarray,
    error: np.ndarray,
    stiffness: np.ndarray,
) -> None:
    """Error of every step over its tolerance, and h times the dominant eigenvalue.

    The estimates e5 and e3 of orders 5 and 3 are combined as h e5^2 / (e5^2 + e3^2 / 100)^(1/2).
    Components of y are measured by atol + rtol max|y|, the largest so far or at the new point,
    those of y' by the same share of max|y'|, and averaged.

    k (13, A, n), point, last_stage and start (A, n), h, rtol and atol (A,), size (A, q) largest
    entries of y^(m) so far; error and stiffness (A,) are written to.
    """
    members, n = start.shape
    order = size.shape[1]
    dimension = n // order
    stages = k.shape[0]
    for a in range(members):
        sum5, sum3, above, below, tolerance = 0.0, 0.0, 0.0, 0.0, 1.0
        for m in range(order):
            largest = size[a, m]
            for i in range(m * dimension, (m + 1) * dimension):
                largest = max(largest, abs(point[a, i]))
            if m == 0:
                tolerance = rtol[a] + (atol[a] / largest if largest > 0.0 else 1.0)
            unit = max(tolerance * largest, 1e-300)
            for i in range(m * dimension, (m + 1) * dimension):
                five = 0.0
                three = 0.0
                for j in range(stages):
                    five += e5[j] * k[j, a, i]
                    three += e3[j] * k[j, a, i]
                sum5 += (five / unit) ** 2
                sum3 += (three / unit) ** 2
                above += (k[stages - 1, a, i] - k[stages - 2, a, i]) ** 2
                below += (point[a, i] - last_stage[a, i]) ** 2
        total = sum5 + 0.01 * sum3
        error[a] = 0.0 if total == 0.0 else h[a] * sum5 / np.sqrt(total * n)
        stiffness[a] = 0.0 if below == 0.0 else h[a] * np.sqrt(above / below)


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
    `collocation` matrix. They are found by iterating this map until it changes less than a share
    `tolerance`, which contracts where |h J| is below six or so; where `iterations` of it do not
    suffice (stiff steps), by elimination.

    offsets (B + 1,) of the steps, h (E,), jacobians (E, S, q, D, D), defect (E, S, D),
    signs (E, C_1), forcing (E, S, D, P), start (B, n, C) at t0, solution (E, S, n, C) written to.
    """
    S = collocation.shape[0]
    order, D = jacobians.shape[2], jacobians.shape[3]
    n, C = start.shape[1], start.shape[2]
    top = n - D
    forced, given = signs.shape[1], C - forcing.shape[3]
    slope, new = np.empty((S, n, C)), np.empty((n, C))
    F = np.zeros((S, D, C))
    for b in range(offsets.shape[0] - 1):
        x0 = start[b].copy()
        for e in range(offsets[b], offsets[b + 1]):
            X = solution[e]
            for s in range(S):
                X[s] = x0
                for i in range(D):
                    for c in range(forced):
                        F[s, i, c] = signs[e, c] * defect[e, s, i]
                    for c in range(given, C):
                        F[s, i, c] = forcing[e, s, i, c - given]
            done = False
            for _ in range(iterations):
                for s in range(S):
                    for i in range(top):
                        for c in range(C):
                            slope[s, i, c] = X[s, D + i, c]
                    for i in range(D):
                        for c in range(C):
                            slope[s, top + i, c] = F[s, i, c]
                        for m in range(order):
                            for j in range(D):
                                J = jacobians[e, s, m, i, j]
                                for c in range(C):
                                    slope[s, top + i, c] += J * X[s, m * D + j, c]
                change, largest = 0.0, 0.0
                for s in range(S):
                    new[:] = x0
                    for r in range(S):
                        weight = h[e] * collocation[s, r]
                        for i in range(n):
                            for c in range(C):
                                new[i, c] += weight * slope[r, i, c]
                    for i in range(n):
                        for c in range(C):
                            change = max(change, abs(new[i, c] - X[s, i, c]))
                            largest = max(largest, abs(new[i, c]))
                            X[s, i, c] = new[i, c]
                if not change > tolerance * largest:
                    done = True
                    break
            if not done:
                matrix = np.zeros((S * n, S * n))
                right = np.empty((S * n, C))
                for s in range(S):
                    for i in range(n):
                        row = s * n + i
                        right[row] = x0[i]
                        for r in range(S):
                            weight = h[e] * collocation[s, r]
                            if i < top:
                                matrix[row, r * n + D + i] = -weight
                                continue
                            for m in range(order):
                                for j in range(D):
                                    J = jacobians[e, r, m, i - top, j]
                                    matrix[row, r * n + m * D + j] = -weight * J
                            for c in range(C):
                                right[row, c] += weight * F[r, i - top, c]
                        matrix[row, row] += 1.0
                if np.isfinite(matrix).all() and np.isfinite(right).all():
                    solved = np.linalg.solve(matrix, right)
                    for s in range(S):
                        X[s] = solved[s * n : (s + 1) * n]
                else:
                    X[:] = np.nan
            x0[:] = X[S - 1]


@loop
def error_scales(offsets: np.ndarray, ratio: np.ndarray) -> np.ndarray:
    """Factors s^2 (B,) by which the variance of drawn errors fits the estimated one.

    ratio (E, D) = estimated squared error over drawn variance, at the ends of the steps. The factor
    is such that two standard deviations hold .954 of it, as they do of a Gaussian, but not far from
    the mean: where errors grow steadily, all are alike, and one standard deviation.
    """
    members = offsets.shape[0] - 1
    factors = np.zeros(members)
    for b in range(members):
        own = np.sort(ratio[offsets[b] : offsets[b + 1]].ravel())
        own = own[own > 0.0]
        if own.size == 0:
            continue
        mean = own.mean()
        place = 0.954 * (own.size - 1)
        low = int(place)
        high = min(low + 1, own.size - 1)
        quantile = own[low] + (place - low) * (own[high] - own[low])
        factors[b] = min(max(quantile / 4.0, LOW * mean), HIGH * mean)
    return factors


@loop
def newton_inverses(
    jacobians: np.ndarray,
    h: np.ndarray,
    integrals: np.ndarray,
    gamma: float,
    inverses: np.ndarray,
    filters: np.ndarray,
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
