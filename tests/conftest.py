"""Shared set-up: one thread a worker, and sparing Hypothesis settings."""

import os
import signal

# shells that start the tests in the background have them ignore Ctrl-C, which some tests send
signal.signal(signal.SIGINT, signal.default_int_handler)

# the workers of pytest-xdist share the cores; more threads in each would only get in the way
for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "PROBGEO_THREADS"):
    os.environ.setdefault(name, "1")
# tests compile more functions than they evaluate
os.environ.setdefault("XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false --xla_backend_optimization_level=0")

from hypothesis import HealthCheck, settings  # noqa: E402

settings.register_profile(
    "probgeo",
    deadline=None,
    derandomize=bool(os.environ.get("CI")),
    max_examples=25,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("probgeo")
