"""Linear algebra of many members at a time, in which one bad member does not harm the others."""

import numpy as np

from probgeo.ode.dense.loops import backward, forward

# rows that a compiled loop takes on at a time, the rest is left to BLAS: 51 ms for 1000 rows and
# 2500 right-hand sides, as with 128; 360 ms by the loop alone


def transposed(x: np.ndarray) -> np.ndarray:
    """x', for the last two axes."""
    return np.swapaxes(x, -1, -2)


def cholesky(matrices: np.ndarray) -> np.ndarray:
    """Lower Cholesky factors of (P, n, n); NaN for those that are not positive definite."""
    finite = np.isfinite(matrices).all(axis=(-2, -1))
    good = matrices if finite.all() else matrices[finite]
    factors = np.full(matrices.shape, np.nan)
    try:
        factors[finite] = np.linalg.cholesky(good)
    except np.linalg.LinAlgError:
        for p in np.flatnonzero(finite):
            factors[p] = _cholesky_or_nan(matrices[p])
    return factors


def _cholesky_or_nan(matrix: np.ndarray) -> np.ndarray:
    try:
        return np.linalg.cholesky(matrix)
    except np.linalg.LinAlgError:
        return np.full(matrix.shape, np.nan)


def solve_lower(L: np.ndarray, b: np.ndarray, block: int = 64) -> np.ndarray:
    """L^-1 b for lower triangular L (G, n, n) and b (P, n, r); G is P, or 1 for all alike.

    Loops substitute within blocks of so many rows, products of matrices between them.
    """
    L, x = _prepared(L, b)
    for start in range(0, L.shape[-1], block):
        rows = slice(start, start + block)
        part = x[:, rows]
        if start:
            part = part - L[:, rows, :start] @ x[:, :start]
        x[:, rows] = _substituted(forward, L[:, rows, rows], part)
    return x


def solve_upper(L: np.ndarray, b: np.ndarray, block: int = 64) -> np.ndarray:
    """L'^-1 b, for arrays as in `solve_lower`."""
    L, x = _prepared(L, b)
    n = L.shape[-1]
    for start in reversed(range(0, n, block)):
        rows, end = slice(start, start + block), start + block
        part = x[:, rows]
        if end < n:
            part = part - transposed(L[:, end:, rows]) @ x[:, end:]
        x[:, rows] = _substituted(backward, L[:, rows, rows], part)
    return x


def _prepared(L: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Both with members in front, b a copy with as many members as there are in either."""
    count = len(L) if len(b) == 1 else len(b)
    return L, np.array(np.broadcast_to(b, (count, *b.shape[1:])), dtype=float, order="C")


def _substituted(substitute: object, L: np.ndarray, x: np.ndarray) -> np.ndarray:
    """The solution of one block; loops are compiled for contiguous arrays only."""
    x = np.ascontiguousarray(x)
    substitute(np.ascontiguousarray(L), x)  # type: ignore[operator]
    return x
