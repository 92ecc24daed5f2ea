"""How long a job will take, from a sample of its pairs."""

import time
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from probgeo.cluster.job import Job
from probgeo.cluster.workers import Assignment, distances_between
from probgeo.geometry import Manifold


@dataclass(frozen=True)
class Cost:
    """What all pairs of a job cost.

    Attributes
    ----------
    pairs : int
    each, each_std : float
        Seconds of one core for a pair, and the standard error of that.
    unconverged : float
        Share of the sample.
    chunk : int
        Pairs of a shard.
    bytes : int
        Of the gathered arrays.
    """

    pairs: int
    each: float
    each_std: float
    unconverged: float
    chunk: int
    bytes: int

    def seconds(self, cores: int = 1) -> float:
        """Estimated time on this many cores; a chunk uses one core."""
        rounds = -(-self.pairs // self.chunk) / cores
        return self.each * self.chunk * max(1.0, rounds)


def estimate(manifold: Manifold, X: Any, Y: Any = None, *, chunk: int | None = None, limit: float = 20.0) -> Cost:
    """What `distance_matrix` would cost for the same arguments.

    Up to eight parts of 256 pairs are solved, as many as `limit` seconds allow but two at least. It is CPU time that
    counts, so that other load on the machine hardly matters.

    Examples
    --------
    >>> from probgeo import metrics
    >>> cost = estimate(Manifold(metrics.HalfPlane()), [[0.0, 1.0], [1.0, 2.0], [2.0, 1.0]])
    >>> cost.pairs, bool(cost.seconds(cores=2) > 0)
    (3, True)
    """
    job = Job.of(manifold, X, Y, chunk=chunk)
    parts = replace(job, chunk=min(256, job.count))
    assignment = Assignment(parts, manifold, distances_between)
    distances_between(manifold, *(points[:2] for points in parts.ends(0)))  # loads what is compiled
    began, each, good = time.monotonic(), [], []
    for number in range(min(8, parts.chunks)):
        start = time.process_time()
        found = assignment(number)
        each.append((time.process_time() - start) / len(found["mean"]))
        good.append(found["converged"].mean())
        if number and time.monotonic() - began > limit:
            break
    error = np.std(each, ddof=1) / np.sqrt(len(each)) if len(each) > 1 else np.inf
    size = 17 * int(np.prod(job.shape))  # two numbers and a truth value a pair
    return Cost(job.count, float(np.mean(each)), float(error), 1.0 - float(np.mean(good)), job.chunk, size)
