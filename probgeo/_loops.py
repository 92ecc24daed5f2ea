"""How the computing half of the library is compiled: small loops, once, kept in Numba's cache.

A loop is a leaf: flat float64 arrays in, arrays out, no options beyond numbers. Numba keeps what it compiles beside the
source, or in the user's cache folder where that cannot be written.
"""

import warnings
from collections.abc import Callable
from functools import cache
from typing import Any, TypeVar

from numba import njit

Function = TypeVar("Function", bound=Callable[..., Any])


def loop(function: Function) -> Function:
    """Compile a loop on its first call; the GIL is released while it runs."""
    options: Any = {"nogil": True, "error_model": "numpy"}
    try:
        return njit(cache=True, **options)(function)
    except RuntimeError:  # Numba has nowhere to keep it
        _tell_once()
        return njit(**options)(function)


@cache
def _tell_once() -> None:
    warnings.warn(
        "there is no folder where compiled loops could be kept, so that every process compiles them again; "
        "the environment variable NUMBA_CACHE_DIR may name one",
        RuntimeWarning,
        stacklevel=4,
    )
