"""How long programs are compiled, and how long they are kept."""

import os
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any

import equinox as eqx
import jax

from probgeo._checks import is_concrete


def compiled_quickly(function: Callable) -> Callable:
    """Like `eqx.filter_jit`, but without XLA's optimisation: half the wait, a slower program.

    For what users ask of a result: there is a program for every shape they think of, and each is
    over at once.
    """
    nested = eqx.filter_jit(function)
    options: Any = {"compiler_options": {"xla_backend_optimization_level": 0}}
    outermost = eqx.filter_jit(function, **options)

    @wraps(function)
    def call(*args: Any) -> Any:
        # a program within another one may not have options of its own
        return outermost(*args) if is_concrete(args) else nested(*args)

    return call


def keep_compiled() -> None:
    """Keep compiled programs in the user's cache folder, unless JAX has been told where.

    A second run then starts in a fraction of the time of the first. `PROBGEO_CACHE` names another
    folder; if it is empty, nothing is kept.
    """
    default = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "probgeo"
    folder = os.environ.get("PROBGEO_CACHE", str(default))
    if not folder or getattr(jax.config, "jax_compilation_cache_dir", None) is not None:
        return
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")  # XLA would announce what it finds there
    for name, value in {
        "jax_compilation_cache_dir": folder,
        "jax_persistent_cache_min_compile_time_secs": 0.2,
    }.items():
        jax.config.update(name, value)
        os.environ[name.upper()] = str(value)  # for processes that are started from here
