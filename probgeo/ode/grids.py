"""Where the ODE is evaluated: points on the unit interval (Sec. 3.4 of the paper)."""

import math
from typing import Literal

import numpy as np

GridName = Literal["sigmoid", "linear", "chebyshev"]


def sigmoid(n: int) -> np.ndarray:
    """Points (n,) that crowd towards both ends, symmetric and strictly inside (erratum 7)."""
    if n == 1:
        return np.array([0.5])
    return np.array([0.5 * (1.0 + math.erf(-1.5 + 3.0 * i / (n - 1))) for i in range(n)])


def linear(n: int) -> np.ndarray:
    """Equal steps from 0 to 1, ends included: (n,)."""
    return np.linspace(0.0, 1.0, n)


def chebyshev(n: int) -> np.ndarray:
    """Chebyshev points (n,) of the first kind, strictly inside."""
    return 0.5 * (1.0 - np.cos(np.pi * (2 * np.arange(n) + 1) / (2 * n)))


GRIDS = {"sigmoid": sigmoid, "linear": linear, "chebyshev": chebyshev}
