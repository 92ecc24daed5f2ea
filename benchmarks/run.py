"""Measure, and write the Benchmarks page.

    python benchmarks/run.py [--only bvps,ivps] [--scale page|trial|long] [--jobs 2] [--page-only]

Each section runs in a process and on a core of its own and is stored when it is done, in
benchmarks/results/page; the page is made of what is stored there. A section that breaks keeps what
it had before. A trial is stored apart and leaves the page alone.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import SimpleQueue
from threading import Timer

HERE = Path(__file__).parent
ROOT = HERE.parent
LIMIT = 30 * 60.0  # seconds a section; the long ones take what they take
ONE_THREAD = {
    "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1",
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "PROBGEO_THREADS": "1",
}
# the longest first, each on a core of its own; then those that have all cores
PINNED = ("dimensions", "ivps", "bvps", "geodesics", "means", "calibration", "maps", "scaling",
          "charts", "alone")  # fmt: skip
UNPINNED = ("first", "resources")
PACKAGES = ("probgeo", "numba", "jax", "numpy", "scipy", "diffrax", "probdiffeq", "geomstats")


def main() -> int:
    from report.page import SECTIONS, write

    parser = argparse.ArgumentParser(description="Benchmarks, and the page about them.")
    parser.add_argument("--only", default=",".join(SECTIONS), help="sections, commas between")
    parser.add_argument("--scale", choices=("page", "trial", "long"), default="page")
    parser.add_argument("--jobs", type=int, default=2, help="sections at a time, one a core")
    parser.add_argument("--page-only", action="store_true", help="measure nothing")
    options = parser.parse_args()
    chosen = [] if options.page_only else options.only.split(",")
    if unknown := [name for name in chosen if name not in SECTIONS]:
        parser.error(f"no section {unknown[0]!r}; there are {', '.join(SECTIONS)}")
    broken = measured(chosen, options.scale, options.jobs)
    if options.scale != "trial":
        write()
        print("docs/benchmarks.md is written", flush=True)
    if broken:
        print(f"broken: {', '.join(broken)}; they keep what they had before", flush=True)
    return 1 if broken else 0


def measured(names: list[str], scale: str, jobs: int) -> list[str]:
    """Measure sections, each in a process on a core of its own; which of them broke.

    First use, and what threads bring, is for an idle machine: they come last and have all cores.
    """
    cores: SimpleQueue[int] = SimpleQueue()
    for core in available()[-jobs:]:
        cores.put(core)

    def on_a_core(name: str) -> bool:
        core = cores.get()
        try:
            return succeeds(name, scale, core)
        finally:
            cores.put(core)

    pinned = [name for name in PINNED if name in names]
    with ThreadPoolExecutor(max(1, cores.qsize())) as pool:
        good = dict(zip(pinned, pool.map(on_a_core, pinned), strict=True))
    for name in UNPINNED:
        if name in names:
            good[name] = succeeds(name, scale, None)
    return [name for name in names if not good[name]]


def available() -> list[int]:
    if hasattr(os, "sched_getaffinity"):
        return sorted(os.sched_getaffinity(0))
    return list(range(os.cpu_count() or 1))


def succeeds(name: str, scale: str, core: int | None) -> bool:
    """Whether a section could be measured; what it says is passed on as it comes."""
    start = time.perf_counter()
    threads = {} if core is None else ONE_THREAD
    command = [sys.executable, str(HERE / "run.py"), "--section", name, scale, str(core)]
    process = subprocess.Popen(
        command, env=dict(os.environ) | threads, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    timer = Timer(LIMIT, process.kill)
    if scale != "long":
        timer.start()
    for line in process.stdout or ():
        print(f"{name}: {line.strip()}", flush=True)
    code = process.wait()
    timer.cancel()
    spent = time.perf_counter() - start
    print(f"{name}: {'done' if code == 0 else 'broken'}, {spent:.0f} s", flush=True)
    return code == 0


def section(name: str, scale: str, core: str) -> None:
    """Measure one section in this process, and store it."""
    import json
    import warnings

    if core != "None" and hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {int(core)})

    from report.page import SECTIONS, STORE
    from report.scale import SCALES

    from probgeo import ConvergenceWarning
    from probgeo._json import plain

    warnings.simplefilter("ignore", ConvergenceWarning)  # the tables count them
    result = plain(SECTIONS[name].run(SCALES[scale]))
    folder = ROOT / ".cache" / "bench" / "trial" if scale == "trial" else STORE
    folder.mkdir(parents=True, exist_ok=True)
    entry = {"scale": scale, "machine": machine(), "result": result}
    (folder / f"{name}.json").write_text(json.dumps(entry, indent=1) + "\n")


def machine() -> str:
    import platform
    from importlib.metadata import PackageNotFoundError, version

    def known(package: str) -> str:
        try:
            return f"{package} {version(package)}"
        except PackageNotFoundError:
            return f"{package} not installed"

    return (
        f"{os.cpu_count()} CPUs, {platform.system()}, {platform.machine()}, "
        f"Python {platform.python_version()}, {', '.join(map(known, PACKAGES))}"
    )


if __name__ == "__main__":
    sys.path[:0] = [str(HERE), str(ROOT)]
    if sys.argv[1:2] == ["--section"]:
        section(*sys.argv[2:5])
    else:
        sys.exit(main())
