"""How long programs are compiled, and how long they are kept."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import wraps
from pathlib import Path
from typing import Any

import equinox as eqx
import jax

from probgeo._checks import is_concrete

UNOPTIMISED: Any = {"xla_backend_optimization_level": 0}

_hurried: ContextVar[bool] = ContextVar("hurried", default=False)


@contextmanager
def hurried(wanted: bool = True) -> Iterator[None]:
    """For small jobs, whose work is over sooner than an optimising compiler would be."""
    token = _hurried.set(wanted)
    try:
        yield
    finally:
        _hurried.reset(token)


def compiled(function: Callable) -> Callable:
    """Like `eqx.filter_jit`; where it is `hurried`, without XLA's optimisation.

    That takes half the time, and the program is up to three times slower.
    """
    optimised, unoptimised = _compilers(function)

    @wraps(function)
    def call(*args: Any) -> Any:
        # a program within another one may not have options of its own
        quickly = _hurried.get() and is_concrete(args)
        return (unoptimised if quickly else optimised)(*args)

    return call


def compiled_quickly(function: Callable) -> Callable:
    """The same, but always in a hurry.

    For what users ask of a result: there is a program for every shape they think of, and each is
    over at once.
    """
    optimised, unoptimised = _compilers(function)

    @wraps(function)
    def call(*args: Any) -> Any:
        return (unoptimised if is_concrete(args) else optimised)(*args)

    return call


def _compilers(function: Callable) -> tuple[Callable, Callable]:
    options: Any = {"compiler_options": UNOPTIMISED}
    return eqx.filter_jit(function), eqx.filter_jit(function, **options)


def keep_compiled() -> None:
    """Keep compiled programs in the user's cache folder, unless JAX has been told where.

    A second run then starts in a fraction of the time of the first. `PROBGEO_CACHE` names another
    folder; if it is empty, nothing is kept.
    """
    default = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "probgeo"
    folder = os.environ.get("PROBGEO_CACHE", str(default))
    if not folder or getattr(jax.config, "jax_compilation_cache_dir", None) is not None:
        return
    jax.config.update("jax_compilation_cache_dir", folder)
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.1)
