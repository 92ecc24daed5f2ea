"""Constants of the q-times integrated Wiener process, computed once in exact arithmetic.

Its noise over a unit step has, in the coordinates c^(i) / i! and but for 1 / q!^2, the covariance
Q_ij = C(q,i) C(q,j) / (2q + 1 - i - j): as badly conditioned as Hilbert's matrix. Matrices are
NumPy arrays of fractions, or of whole numbers with a common denominator, which are far quicker;
polynomials in the time theta are lists of matrices, lowest power first.
"""

import functools
import math
from fractions import Fraction

import numpy as np

Polynomial = list[np.ndarray]


@functools.cache
def wiener_whitening(q: int) -> np.ndarray:
    """Lower triangular W with W Q W' = 1."""
    Q = _noise(q)
    s = q + 1
    # Gaussian elimination: L^-1 Q = D L', so that W = D^-1/2 L^-1
    rows = np.concatenate([Q, _identity(s)], axis=1)
    for j in range(s):
        for i in range(j + 1, s):
            rows[i] = rows[i] - rows[i, j] / rows[j, j] * rows[j]
    pivots = np.sqrt(np.diag(rows[:, :s]).astype(float))
    return rows[:, s:].astype(float) / pivots[:, None]


@functools.cache
def wiener_bridge(q: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The state at theta, given those at 0 and 1: what multiplies either, and the covariance.

    Coefficients (powers, s, s) of polynomials in theta. With transitions A1 to theta, A2 from
    there on and A in all: x = A1 left + gain (right - A left), gain = Q1 A2' Q^-1.
    """
    s = q + 1
    Q, of_Q = _whole(_noise(q))
    inverse, of_inverse = _whole(_inverse(_noise(q)))
    pascal = np.array([[math.comb(j, i) for j in range(s)] for i in range(s)], dtype=object)
    orders = np.arange(s)
    rise = orders[None, :] - orders[:, None]
    A1 = [pascal * (rise == p) for p in range(s)]
    # (1 - theta)^r in powers of theta
    A2 = [
        np.array(
            [[pascal[i, j] * (-1) ** p * math.comb(max(j - i, 0), p) for j in range(s)]
             for i in range(s)]
        )
        for p in range(s)
    ]  # fmt: skip
    total = 2 * q + 1 - orders[None, :] - orders[:, None]
    Q1 = [Q * (total == p) for p in range(2 * q + 2)]
    common = of_Q * of_inverse
    gain = _product(_product(Q1, [a.T for a in A2]), [inverse])
    left = _difference([common * a for a in A1], _product(gain, [pascal]))
    cov = _difference([common * a for a in Q1], _product(gain, _product(A2, Q1)))
    return _floats(left, common), _floats(gain, common), _floats(cov, common * of_Q)


def _whole(matrix: np.ndarray) -> tuple[np.ndarray, int]:
    """Whole numbers, and what they are to be divided by."""
    common = math.lcm(*(x.denominator for x in matrix.flat))
    return np.vectorize(lambda x: int(x * common), otypes=[object])(matrix), common


def _noise(q: int) -> np.ndarray:
    s = q + 1
    c = [math.comb(q, i) for i in range(s)]
    return np.array(
        [[Fraction(c[i] * c[j], 2 * q + 1 - i - j) for j in range(s)] for i in range(s)]
    )


def _identity(s: int) -> np.ndarray:
    return np.array([[Fraction(int(i == j)) for j in range(s)] for i in range(s)])


def _inverse(matrix: np.ndarray) -> np.ndarray:
    """Gauss-Jordan elimination."""
    s = len(matrix)
    rows = np.concatenate([matrix, _identity(s)], axis=1)
    for j in range(s):
        rows[j] = rows[j] / rows[j, j]
        for i in range(s):
            if i != j:
                rows[i] = rows[i] - rows[i, j] * rows[j]
    return rows[:, s:]


def _product(a: Polynomial, b: Polynomial) -> Polynomial:
    zero = 0 * a[0]
    out = [zero for _ in range(len(a) + len(b) - 1)]
    for i, x in enumerate(a):
        for j, y in enumerate(b):
            if np.any(x) and np.any(y):
                out[i + j] = out[i + j] + x @ y
    return out


def _difference(a: Polynomial, b: Polynomial) -> Polynomial:
    zero = 0 * a[0]
    size = max(len(a), len(b))
    a, b = (p + [zero] * (size - len(p)) for p in (a, b))
    return [x - y for x, y in zip(a, b, strict=True)]


def _floats(polynomial: Polynomial, common: int) -> np.ndarray:
    array = (np.array(polynomial) / common).astype(float)
    degree = np.flatnonzero(np.abs(array).sum(axis=(1, 2)))[-1]
    return array[: degree + 1]
