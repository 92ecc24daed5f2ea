"""The energy of a metric at many rows, with its derivatives."""

from typing import NamedTuple

import numpy as np


class EnergyTerms(NamedTuple):
    """L = v' M(x) v / 2 at n rows, with its derivatives.

    The second ones are empty, (0, D, D), where they were not asked for.
    """

    energy: np.ndarray  # (n,)
    by_x: np.ndarray  # (n, D)
    by_v: np.ndarray  # (n, D), M v
    xx: np.ndarray  # (n, D, D)
    xv: np.ndarray  # (n, D, D), [i, j] = d^2 L / dx_i dv_j
    vv: np.ndarray  # (n, D, D), M
