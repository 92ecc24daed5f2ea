"""How long programs are compiled, and how long they are kept.

Most of what users wait for the first time is the compiler, so that it pays to know it. XLA's fusion
emitters for processors take most of its time without optimisation and a third of it with; the older
ones, used here, make programs that are as fast. Optimisation takes three times as long as what is
left, for programs that are twice as fast: that is for large jobs.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache, wraps
from pathlib import Path
from typing import Any

import equinox as eqx
import jax

from probgeo._old._checks import is_concrete

THOROUGHLY: Any = {"xla_cpu_use_fusion_emitters": False}
QUICKLY: Any = {**THOROUGHLY, "xla_backend_optimization_level": 0}
LITTLE = 2**15  # members of a batch times their dimensions squared that are over quickly
EFFORTS = ("auto", "quick", "thorough")

_hurried: ContextVar[bool] = ContextVar("hurried", default=False)
_effort: ContextVar[str | None] = ContextVar("effort", default=None)


@contextmanager
def hurried(wanted: bool = True) -> Iterator[None]:
    """For small jobs, whose work is over sooner than an optimising compiler would be.

    The environment variable `PROBGEO_COMPILE` overrides it: "quick" or "thorough" for all jobs.
    """
    effort = _effort.get() or os.environ.get("PROBGEO_COMPILE", "auto")
    if effort not in EFFORTS:
        raise ValueError(f"PROBGEO_COMPILE must be one of {EFFORTS}, got {effort!r}")
    with _set(_hurried, wanted if effort == "auto" else effort == "quick"):
        yield


@contextmanager
def thoroughly(wanted: bool = True) -> Iterator[None]:
    """For jobs whose run time is measured without compilation: all is optimised, if it is `wanted`.

    Whatever `PROBGEO_COMPILE` says.
    """
    with _set(_effort, "thorough" if wanted else _effort.get()), hurried(_hurried.get()):
        yield


@contextmanager
def _set(variable: ContextVar, value: Any) -> Iterator[None]:
    token = variable.set(value)
    try:
        yield
    finally:
        variable.reset(token)


def is_little(members: int, dimension: int) -> bool:
    """Whether so many curves are solved sooner than an optimising compiler would be done."""
    return members * dimension**2 <= LITTLE


def compiled(function: Callable) -> Callable:
    """Like `eqx.filter_jit`; where it is `hurried`, without XLA's optimisation."""
    plain, thorough, quick = _compilers(function)

    @wraps(function)
    def call(*args: Any) -> Any:
        if not is_concrete(args):
            return plain(*args)
        return (quick if _hurried.get() else thorough)(*args)

    return call


def compiled_quickly(function: Callable) -> Callable:
    """The same, but always in a hurry.

    For what users ask of a result: there is a program for every shape they think of, and each is
    over at once.
    """
    plain, _, quick = _compilers(function)

    @wraps(function)
    def call(*args: Any) -> Any:
        return (quick if is_concrete(args) else plain)(*args)

    return call


def _compilers(function: Callable) -> tuple[Callable, Callable, Callable]:
    """The function as part of another program, which may have no options, thoroughly, quickly."""

    def compiler(wanted: Any) -> Callable:
        @cache  # not before it is called: options are looked up by compiling something
        def made() -> Callable:
            options: Any = {"compiler_options": _known(wanted)}
            return eqx.filter_jit(function, **options)

        return lambda *args: made()(*args)

    return eqx.filter_jit(function), compiler(THOROUGHLY), compiler(QUICKLY)


def _known(options: dict[str, Any]) -> Any:
    """Those of some options that this version of XLA has."""
    return {name: value for name, value in options.items() if _is_known(name, value)}


@cache
def _is_known(name: str, value: Any) -> bool:
    try:
        jax.jit(lambda: 0, compiler_options={name: value}).lower().compile()
    except jax.errors.JaxRuntimeError:
        return False
    return True


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
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
