"""What an object says of itself: its settings, numbers spelled out, arrays by their shape; and durations."""

import dataclasses
from typing import Any

from probgeo._checks import is_traced


def described(thing: Any) -> str:
    """`LocalMetrics(centers=(3, 2), tensors=(3, 2, 2), rho=1)`; what is None is left out."""
    if dataclasses.is_dataclass(thing):
        names = [field.name for field in dataclasses.fields(thing)]
    else:
        names = [name for name in getattr(thing, "__dict__", ()) if not name.startswith("_")]
    parts = {name: getattr(thing, name, None) for name in names}
    listed = ", ".join(f"{name}={_short(x)}" for name, x in parts.items() if x is not None)
    return f"{type(thing).__name__}({listed})"


def _short(value: Any) -> str:
    if is_traced(value):
        return "traced"
    if isinstance(value, float):
        return f"{value:g}"
    if hasattr(value, "shape") and hasattr(value, "ndim"):
        return f"{float(value):g}" if value.ndim == 0 else str(tuple(value.shape))
    return getattr(value, "__qualname__", None) or repr(value)


def duration(seconds: float) -> str:
    """
    >>> duration(7.26), duration(200), duration(7384), duration(1e6)
    ('7.3 s', '3 min 20 s', '2 h 3 min', '11 days 13 h')
    """
    if seconds < 60:
        return f"{seconds:.2g} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest} s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours < 48 else f"{hours // 24} days {hours % 24} h"
