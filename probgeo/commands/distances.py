"""The command `distances`: run a job in shards, gather it, or estimate its cost."""

import argparse
from pathlib import Path

import numpy as np

from probgeo import storage
from probgeo._repr import duration
from probgeo.cluster import Cost, estimate, gather
from probgeo.cluster.job import Job
from probgeo.cluster.workers import complete, distances_between
from probgeo.commands.learned import Space
from probgeo.commands.tables import InputError, Table, check_there, read_table
from probgeo.geometry import Manifold
from probgeo.metrics import Metric
from probgeo.ragged import jobs, who_works


def answer(arguments: argparse.Namespace, bar: bool) -> list[str]:
    """Do what was asked for; return lines that say what came of it."""
    if arguments.gather is not None:
        if arguments.data is not None:
            raise InputError("--gather needs no DATA: its folder knows the points")
        return gathered_lines(Path(arguments.gather))
    if arguments.data is None or arguments.metric is None:
        raise InputError("give DATA and --metric FILE, or --gather DIR")
    manifold, X = space_of(Path(arguments.metric), read_table(arguments.data, arguments.header))
    with jobs(arguments.jobs):
        if arguments.estimate:
            return cost_lines(estimate(manifold, X, chunk=arguments.chunk), cores=who_works()[0])
        job, out = Job.of(manifold, X, chunk=arguments.chunk), Path(arguments.out)
        complete(job, out, manifold, distances_between, progress=bar, share=arguments.shard or (1, 1))
    if arguments.shard is None:
        return gathered_lines(out)
    i, n = arguments.shard
    done = f"shard {i}/{n} is done, {len(job.done(out))} of {job.chunks} chunks are there"
    return [f"{done}; in the end: probgeo distances --gather {out}"]


def space_of(path: Path, table: Table) -> tuple[Manifold, np.ndarray]:
    """The manifold in a file, of `fit` or of `probgeo.save`, and the points of a table on it."""
    check_there(path)
    found = storage.load(path)
    if isinstance(found, Space):  # learned without constant columns
        return Manifold(found.metric), found.coordinates(table.without_constants()).values
    if isinstance(found, Metric):
        found = Manifold(found)
    if not isinstance(found, Manifold):
        raise InputError(f"{path} must hold a metric or a manifold, got a {type(found).__name__}")
    return found, table.values


def gathered_lines(out: Path) -> list[str]:
    """Gather the shards in a folder; return lines that say what is there."""
    if (what := Job.read(out).what) != "distances":
        raise InputError(f"{out} is a job of {what}: in Python, probgeo.cluster.gather gathers it")
    found = gather(out)
    (n, m), good = found["mean"].shape, np.mean(found["converged"])
    return [f"{n} x {m} distances, {good:.2%} converged", *(f"  {name}.npy" for name in found)]


def cost_lines(cost: Cost, cores: int) -> list[str]:
    """Lines that say how long it takes on one core, here, and on more."""
    times = (f"{duration(cost.seconds(n))} on {n} core{'s' * (n > 1)}" for n in sorted({1, cores, 16, 128}))
    return [
        f"{cost.pairs} geodesics in chunks of {cost.chunk}",
        f"{1e3 * cost.each:.3g} +- {2e3 * cost.each_std:.1g} ms each on one core (2 standard errors)",
        "about " + ", ".join(times),
        f"{cost.bytes / 1e6:.3g} MB when gathered, about as much in shards; "
        f"{cost.unconverged:.2%} of the sample did not converge",
    ]
