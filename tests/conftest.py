"""Shared set-up: a compilation cache that lasts between runs, and sparing Hypothesis settings."""

import os
from pathlib import Path

# the workers of pytest-xdist share the cores; more threads in each would only get in the way. Tests
# compile more than they compute: without optimisation that takes half the time
os.environ.setdefault(
    "XLA_FLAGS",
    "--xla_cpu_multi_thread_eigen=false --xla_backend_optimization_level=0"
    " --xla_cpu_use_fusion_emitters=false",
)

import jax
from hypothesis import HealthCheck, settings

import probgeo  # noqa: F401  (switches JAX to 64 bits)

CACHE = Path(__file__).parent.parent / ".cache" / "jax"
jax.config.update("jax_compilation_cache_dir", str(CACHE))
jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.1)

settings.register_profile(
    "probgeo",
    deadline=None,
    derandomize=bool(os.environ.get("CI")),
    max_examples=25,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("probgeo")

# workers take whole files: were the longest the last, one would wait for the other
LONGEST = (
    "test_examples",
    "test_mean",
    "test_cli",
    "test_blocks",
    "test_closed_forms",
    "test_robustness",
    "test_curves",
)
BETWEEN_CLEARINGS = 40
finished = 0


def pytest_collection_modifyitems(items):
    order = {name: k for k, name in enumerate(LONGEST)}
    items.sort(key=lambda item: order.get(item.path.stem, len(order)))


def pytest_runtest_teardown(item, nextitem):
    """Forget compiled programs now and then: thousands of them in one process make XLA crash.

    Not within a file, whose tests share them.
    """
    global finished
    finished += 1
    last = nextitem is None or nextitem.path != item.path
    if last and finished >= BETWEEN_CLEARINGS:
        finished = 0
        jax.clear_caches()
