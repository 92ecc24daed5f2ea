"""Trees of NumPy arrays whose leading axis is that of a batch."""

from typing import Any

import jax
import numpy as np


def replace_rows(old: Any, index: np.ndarray, new: Any) -> Any:
    """A tree of arrays with some of its rows replaced."""

    def replace(old: np.ndarray, new: np.ndarray) -> np.ndarray:
        out = np.array(old)
        out[index] = new
        return out

    return jax.tree.map(replace, old, new)
