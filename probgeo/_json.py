"""Values for JSON."""

import json
from pathlib import Path
from typing import Any

import numpy as np


def plain(value: Any) -> Any:
    """Arrays as lists; null for what is not finite, for which JSON has no word.

    >>> plain({"a": np.array([1.0, np.nan]), "b": (True, "c")})
    {'a': [1.0, None], 'b': [True, 'c']}
    """
    if isinstance(value, dict):
        return {name: plain(item) for name, item in value.items()}
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return None if isinstance(value, float) and not np.isfinite(value) else value


def write_json(path: Path, value: Any) -> None:
    """A file for programs, that people can read."""
    path.write_text(json.dumps(plain(value), indent=1, allow_nan=False) + "\n", encoding="utf-8")
