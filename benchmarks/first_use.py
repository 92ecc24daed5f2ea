"""How long a newcomer waits: importing, the first geodesic, the first solution of an ODE.

    python benchmarks/first_use.py [--repeats 3]

Every measurement is a process of its own, on the clock, with all cores; processor seconds beside it
tell whether the machine was busy with something else. "empty" starts with an empty compilation
cache, "warm" with the one that the run before left behind. Prints JSON.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile

TASKS = {
    "import probgeo": "",
    "first geodesic": """
X = probgeo.data.two_moons()
manifold = probgeo.Manifold(probgeo.metrics.from_mixture(X, 3))
geodesic = manifold.geodesic(X[0], X[1])
assert geodesic.converged
float(geodesic.length.mean), float(geodesic.length.std)
""",
    "first boundary value problem": """
curve = probgeo.solve_bvp(lambda t, y, dy: -jnp.sin(y), (0.0, 3.0), [0.4], [2.0])
assert curve.converged
curve(1.5).std.block_until_ready()
""",
    "first initial value problem": """
curve = probgeo.solve_ivp(lambda t, y: y * (1 - y), (0.0, 10.0), [0.1])
assert curve.converged
curve(5.0).std.block_until_ready()
""",
}
PROGRAM = """
import time
start = time.perf_counter()
import probgeo
imported = time.perf_counter()
import jax.numpy as jnp
used = time.process_time()
{task}
print("seconds", imported - start, time.perf_counter() - imported, time.process_time() - used)
"""
UNSET = (
    "XLA_FLAGS",
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "PROBGEO_COMPILE",
    "JAX_COMPILATION_CACHE_DIR",
    "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS",
)


def seconds(task: str, cache: str) -> tuple[float, ...]:
    """For importing, for the task after that, and processor seconds of the task.

    In a new process, with a given cache folder.
    """
    environment = {k: v for k, v in os.environ.items() if k not in UNSET}
    environment |= {"PROBGEO_CACHE": cache, "TF_CPP_MIN_LOG_LEVEL": "3"}
    program = [sys.executable, "-c", PROGRAM.format(task=task)]
    out = subprocess.run(program, env=environment, capture_output=True, text=True, check=True)
    return tuple(map(float, out.stdout.strip().splitlines()[-1].split()[1:]))


def measure(repeats: int = 1) -> list[dict]:
    """One row a task and a state of the cache: medians of the repeats."""
    rows = []
    for name, task in TASKS.items():
        runs: dict[str, list[tuple[float, ...]]] = {"empty": [], "warm": []}
        for _ in range(repeats):
            with tempfile.TemporaryDirectory() as cache:
                for found in runs.values():
                    found.append(seconds(task, cache))
        for state, found in runs.items():
            importing, doing, cpu = (statistics.median(c) for c in zip(*found, strict=True))
            row = {"task": name, "cache": state, "import": importing, "seconds": doing, "cpu": cpu}
            print(f"{name}, {state} cache: {importing:.1f} s + {doing:.1f} s, {cpu:.1f} s CPU",
                  file=sys.stderr, flush=True)  # fmt: skip
            rows.append(row)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description="Times of first use.")
    parser.add_argument("--repeats", type=int, default=1)
    print(json.dumps(measure(parser.parse_args().repeats), indent=1))


if __name__ == "__main__":
    main()
