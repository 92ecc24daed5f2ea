"""What an object says of itself: its settings, numbers spelled out, arrays by their shape."""

import dataclasses
from typing import Any

import jax
import numpy as np


def described(module: Any) -> str:
    """`LocalMetrics(centers=(3, 2), tensors=(3, 2, 2), rho=1)`; what is None is left out."""
    names = [field.name for field in dataclasses.fields(module)]
    parts = {name: getattr(module, name, None) for name in names}
    listed = ", ".join(f"{name}={_short(x)}" for name, x in parts.items() if x is not None)
    return f"{type(module).__name__}({listed})"


def _short(value: Any) -> str:
    if isinstance(value, jax.core.Tracer):
        return "traced"
    if isinstance(value, np.ndarray | jax.Array):
        return f"{float(value):g}" if value.ndim == 0 else str(tuple(value.shape))
    return getattr(value, "__qualname__", None) or repr(value)
