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
from probgeo.metrics.terms import EnergyTerms

ENERGY, FIRST, FORCE, SECOND = range(4)


def room_for(count: int, dimension: int, level: int) -> EnergyTerms:
    """Arrays for what a loop writes; those that it does not write are empty."""
    rows = np.empty((2, count if level > ENERGY else 0, dimension))
    blocks = np.empty((2, count if level == SECOND else 0, dimension, dimension))
    tensors = np.empty((count if level >= FORCE else 0, dimension, dimension))
    return EnergyTerms(np.empty(count), rows[0], rows[1], blocks[0], blocks[1], tensors)


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


def as_jacobians(columns: np.ndarray) -> np.ndarray:
    """Derivatives (n, D, 2 D), by x and then by v, as (n, 2, D, D)."""
    n, D, _ = columns.shape
    return np.ascontiguousarray(columns.reshape(n, D, 2, D).swapaxes(1, 2))
