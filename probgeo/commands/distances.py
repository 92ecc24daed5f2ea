"""What the command `distances` does: a job in shards, its gathered arrays, or what it will cost."""

from pathlib import Path

import numpy as np

from probgeo import storage
from probgeo.cluster import Cost, gather
from probgeo.cluster.job import Job
from probgeo.cluster.run import complete, lengths
from probgeo.commands.learned import Space
from probgeo.commands.tables import InputError, Table, check_there
from probgeo.geometry import Manifold
from probgeo.metrics import Metric


def space_of(path: Path, table: Table) -> tuple[Manifold, np.ndarray]:
    """The manifold in a file, of `fit` or of `probgeo.save`, and the points of a table on it."""
    check_there(path)
    found = storage.load(path)
    if isinstance(found, Space):  # which was learned from columns that vary
        return Manifold(found.metric), found.coordinates(table.without_constants()).values
    if isinstance(found, Metric):
        found = Manifold(found)
    if not isinstance(found, Manifold):
        raise InputError(f"{path} must hold a metric or a manifold, got a {type(found).__name__}")
    return found, table.values


def solve(job: Job, manifold: Manifold, out: Path, share: tuple[int, int] | None, bar: bool) -> list[str]:
    """All distances, or a share of them; in lines what there is then."""
    complete(job, out, manifold, lengths, progress=bar, share=share or (1, 1))
    if share is None:
        return gathered(out)
    there = sum(job.shard(out, k).exists() for k in range(job.chunks))
    return [
        f"shard {share[0]}/{share[1]} is done, {there} of {job.chunks} chunks are there; "
        f"in the end: probgeo distances --gather {out}"
    ]


def gathered(out: Path) -> list[str]:
    """Gather, and say what there is."""
    if (what := Job.read(out).what) != "distances":
        raise InputError(f"{out} is a job of {what}: in Python, probgeo.cluster.gather gathers it")
    found = gather(out)
    good, sizes = int(np.count_nonzero(found["converged"])), found["mean"].shape
    return [
        f"{sizes[0]} x {sizes[1]} distances, {good / found['mean'].size:.2%} converged",
        *(f"  {name}.npy" for name in found),
    ]


def cost_lines(cost: Cost, cores: int) -> list[str]:
    """How long it takes here, and on more cores."""
    several = sorted({1, cores, 16, 128})
    times = (f"{_told(cost.seconds(n))} on {n} core{'s' * (n > 1)}" for n in several)
    return [
        f"{cost.pairs} geodesics in chunks of {cost.chunk}",
        f"{1e3 * cost.each:.3g} +- {2e3 * cost.each_std:.1g} ms each on one core (2 standard errors)",
        "about " + ", ".join(times),
        f"{cost.bytes / 1e6:.3g} MB when gathered, about as much in shards; "
        f"{cost.unconverged:.2%} of the sample did not converge",
    ]


def _told(seconds: float) -> str:
    for unit, size in (("days", 86400.0), ("hours", 3600.0), ("minutes", 60.0)):
        if seconds >= 2.0 * size:
            return f"{seconds / size:.1f} {unit}"
    return f"{seconds:.2g} seconds"
