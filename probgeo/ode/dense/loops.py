"""Triangular systems of many members, compiled."""

import numpy as np

from probgeo._loops import loop


@loop
def forward(L: np.ndarray, x: np.ndarray) -> None:
    """x <- L^-1 x, in place: L (G, n, n) lower triangular, x (P, n, r).

    G is P, or 1 if all members share one matrix. x_i <- (x_i - sum_{j<i} L_ij x_j) / L_ii, row by
    row: n^2 r / 2 multiplications a member.
    """
    P, n, r = x.shape
    for p in range(P):
        g = p if len(L) > 1 else 0
        for i in range(n):
            for j in range(i):
                factor = L[g, i, j]
                for k in range(r):
                    x[p, i, k] -= factor * x[p, j, k]
            for k in range(r):
                x[p, i, k] /= L[g, i, i]


@loop
def backward(L: np.ndarray, x: np.ndarray) -> None:
    """x <- L'^-1 x, in place: shapes as in `forward`.

    x_i <- x_i / L_ii, then x_j <- x_j - L_ij x_i for all j < i, from the last row to the first.
    """
    P, n, r = x.shape
    for p in range(P):
        g = p if len(L) > 1 else 0
        for i in range(n - 1, -1, -1):
            for k in range(r):
                x[p, i, k] /= L[g, i, i]
            for j in range(i):
                factor = L[g, i, j]
                for k in range(r):
                    x[p, j, k] -= factor * x[p, i, k]
