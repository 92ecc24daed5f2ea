"""Linear algebra of many members at a time, in which one bad member does not harm the others."""

import numpy as np
from scipy.linalg.blas import dtrsm


def cholesky(matrices: np.ndarray) -> np.ndarray:
    """Lower Cholesky factors of (P, n, n), with NaN where one is not positive definite."""
    try:
        return np.linalg.cholesky(matrices)
    except np.linalg.LinAlgError:
        return np.stack([_cholesky_or_nan(matrix) for matrix in matrices])


def _cholesky_or_nan(matrix: np.ndarray) -> np.ndarray:
    try:
        return np.linalg.cholesky(matrix)
    except np.linalg.LinAlgError:
        return np.full(matrix.shape, np.nan)


def solve_lower(L: np.ndarray, b: np.ndarray) -> np.ndarray:
    """L^-1 b for lower triangular L (G, n, n) and b (P, n, r); G is P, or 1 for all alike."""
    return _solved(L, b, 0)


def solve_upper(L: np.ndarray, b: np.ndarray) -> np.ndarray:
    """L'^-1 b, for arrays as in `solve_lower`."""
    return _solved(L, b, 1)


def _solved(L: np.ndarray, b: np.ndarray, transpose: int) -> np.ndarray:
    if not b.size:
        return b
    if len(L) == 1:  # the right-hand sides of all members side by side
        P, n, r = b.shape
        x = _one(L[0], np.swapaxes(b, 0, 1).reshape(n, P * r), transpose)
        return np.swapaxes(x.reshape(n, P, r), 0, 1)
    b = np.broadcast_to(b, (len(L), *b.shape[1:]))
    return np.stack([_one(*member, transpose) for member in zip(L, b, strict=True)])


def _one(L: np.ndarray, b: np.ndarray, transpose: int) -> np.ndarray:
    # BLAS has columns first, in which x' L' = b' (or x' L = b') needs no copies
    return dtrsm(1.0, L.T, b.T, side=1, trans_a=transpose).T
