"""More than one core: threads, processes, a Dask cluster, and nearest neighbours without all pairs.

    OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 python benchmarks/cluster.py [--full]

Geodesics are those between points of two moons, on a metric of ten Gaussians. Everything is warm:
compiled, loaded, and workers are up. Speed-ups are medians of pairs of runs, one after the other.
With `--full` all 499,500 distances of 1000 points are solved, else a tenth of them.
"""

import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import dask
import joblib
import numpy as np
from distributed import Client, LocalCluster
from sklearn.datasets import make_blobs, make_moons

from probgeo import Manifold, cluster, metrics
from probgeo.cluster.job import Job
from probgeo.cluster.workers import complete, distances_between

PAGE = Path(__file__).parent / "results" / "cluster.md"
X, _ = make_moons(1000, noise=0.1, random_state=0)
MOONS = Manifold(metrics.from_mixture(X, n_components=10, seed=0))
REPEATS = 5


def seconds(work: Callable) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def pairs(count: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    i = rng.integers(0, len(X), count)
    return X[i], X[(i + rng.integers(1, len(X), count)) % len(X)]


# By default workers hand back all memory that is free at once, and geodesics take a quarter longer.
dask.config.set({"distributed.nanny.pre-spawn-environ": {"OMP_NUM_THREADS": 1}})


def timed(manifold: Manifold, a: np.ndarray, b: np.ndarray) -> dict[str, np.ndarray]:
    """Distances, with the seconds that each took, by the clock and of the processor."""
    clock, processor = time.perf_counter(), time.thread_time()
    found = distances_between(manifold, a, b)
    spent = (time.perf_counter() - clock) / len(a), (time.thread_time() - processor) / len(a)
    return found | {"clock": np.full(len(a), spent[0]), "processor": np.full(len(a), spent[1])}


def speed_ups(count: int = 2000) -> list[str]:
    """Two threads and two processes, against one thread."""
    ends = pairs(count)

    def by(n_jobs: int) -> float:
        return seconds(lambda: MOONS.geodesic(*ends, progress=False, n_jobs=n_jobs))

    by(2)
    threads = [(by(1), by(2)) for _ in range(REPEATS)]
    with joblib.parallel_config("loky", n_jobs=2):
        by(2)
        processes = [(by(1), by(2)) for _ in range(REPEATS)]
    rows = ["| way | seconds | of one thread | speed-up, median (least, most) |", "|-|-|-|-|"]
    for name, found in (("two threads", threads), ("two processes (loky)", processes)):
        ratio = [one / two for one, two in found]
        one, two = (statistics.median(column) for column in zip(*found, strict=True))
        spread = f"{statistics.median(ratio):.2f} ({min(ratio):.2f}, {max(ratio):.2f})"
        rows.append(f"| {name} | {two:.2f} | {one:.2f} | {spread} |")
    return [f"## {count:,} geodesics at a time", *rows, "", "Target: 1.8 by two threads."]


def dask(points: int = 142) -> list[str]:
    """What is lost between the chunks, by a cluster of two processes of one thread each."""
    some = X[:points]
    job = Job.of(MOONS, some)
    with (
        LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as workers,
        Client(workers) as client,
        tempfile.TemporaryDirectory() as folder,
    ):
        warm = Job.of(MOONS, some[:40], chunk=60)
        complete(warm, Path(folder, "warm"), MOONS, timed, client)
        found, losses = [], []
        for k in range(3):
            out = Path(folder, str(k))
            clock = seconds(lambda out=out: complete(job, out, MOONS, timed, client))
            values = [job.values(out, number) for number in range(job.chunks)]
            spent = {name: sum(v[name].sum() for v in values) for name in ("clock", "processor")}
            losses.append(1.0 - spent["clock"] / (2 * clock))
            found.append((clock, 1e3 * spent["processor"] / job.count))
        gathering = seconds(lambda: cluster.gather(out))
    alone = 1e3 * cluster.estimate(MOONS, some, chunk=job.chunk).each
    clock, each = (statistics.median(column) for column in zip(*found, strict=True))
    return [
        f"## {job.count:,} distances by Dask, two workers",
        f"{clock:.1f} s in {job.chunks} chunks, and {gathering:.2f} s to gather. Of the workers' "
        f"time {100 * statistics.median(losses):.1f} % is not spent in chunks: messages, shards, "
        f"and waiting for the last one (target: 10 %). A geodesic takes {each:.2f} ms of the "
        f"processor there, {alone:.2f} ms in this process; that alone is "
        f"{1e-3 * alone * job.count / 2:.1f} s on two cores of one's own.",
    ]


def matrix(full: bool) -> list[str]:
    """All distances of 1000 points, on two cores."""
    whole = len(X) * (len(X) - 1) // 2
    if full:
        clock = seconds(lambda: MOONS.distance_matrix(X, progress=False, n_jobs=2))
        told = f"{whole:,} distances by two threads: {clock:.0f} s."
    else:
        some = np.sort(np.random.default_rng(0).choice(len(X), 317, replace=False))
        count = len(some) * (len(some) - 1) // 2
        processor = time.process_time()
        clock = seconds(lambda: MOONS.distance_matrix(X[some], progress=False, n_jobs=2))
        each = (time.process_time() - processor) / count
        told = (
            f"{count:,} distances, a tenth, by two threads: {clock:.0f} s and {1e3 * each:.2f} ms "
            f"of the processor each. All {whole:,} on two cores of one's own would take "
            f"{each * whole / 2:.0f} s."
        )
    cost = cluster.estimate(MOONS, X)
    return [
        "## All distances of 1000 points",
        f"{told} The target is 300 s. `cluster.estimate` says {1e3 * cost.each:.2f} +- "
        f"{2e3 * cost.each_std:.2f} ms each, {cost.seconds(2):.0f} s on two cores.",
    ]


def neighbours(k: int = 5) -> list[str]:
    """Shares of pairs whose geodesics are solved for."""
    rows = ["| points | dimensions | clusters | pairs solved | seconds |", "|-|-|-|-|-|"]
    for count, D, clusters in ((1000, 2, 10), (1000, 2, 30), (500, 5, 30), (300, 10, 20)):
        data, _ = make_blobs(count, D, centers=clusters, center_box=(-8.0, 8.0), random_state=0)
        metric = metrics.from_mixture(data, n_components=clusters, rho=0.3, seed=0)
        clock = time.perf_counter()
        found = Manifold(metric).nearest(data, k, progress=False)
        clock = time.perf_counter() - clock
        share = f"{100 * found.solved:.1f} %"
        rows.append(f"| {count} | {D} | {clusters} | {share} | {clock:.0f} |")
    return [f"## The {k} nearest neighbours", *rows, "", "Target: less than 10 % of the pairs."]


def main() -> None:
    full = "--full" in sys.argv
    before = os.getloadavg()[0]
    parts = [speed_ups(), dask(), matrix(full), neighbours()]
    text = (__doc__ or "").partition("\n\n    OMP")[0].strip()
    how = (__doc__ or "").partition("[--full]\n\n")[2].strip()
    load = (
        f"{os.cpu_count()} cores, with {before:.1f} processes to run when this began (1-minute "
        f"load), and {os.getloadavg()[0]:.1f} when it ended. With more than two in all, the clock "
        "is too slow, and threads, which wait for each other, suffer more than processes."
    )
    sections = "\n\n".join("\n".join([part[0], "", *part[1:]]) for part in parts)
    PAGE.write_text(f"# More than one core\n\n{text}\n\n{how}\n\n{load}\n\n{sections}\n")
    print(PAGE.read_text())


if __name__ == "__main__":
    main()
