"""Computing the chunks of a job, in threads of this process or on the workers of a Dask cluster."""

import re
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from probgeo._checks import as_whole_number
from probgeo.cluster.job import Job, Values, gather, stable_repr
from probgeo.geometry import Geodesic, Manifold
from probgeo.geometry.arguments import where_definite
from probgeo.geometry.ensembles import spread
from probgeo.ode.curve import ConvergenceWarning
from probgeo.ragged import blas_on_one_thread, in_chunks, jobs, progress_bar, undivided


class Distances(NamedTuple):
    """Memory maps (n, m): distances, their standard deviations, and whether they converged."""

    mean: np.ndarray
    std: np.ndarray
    converged: np.ndarray


def distance_matrix(
    manifold: Manifold,
    X: Any,
    Y: Any = None,
    *,
    out: str | Path,
    client: Any = None,
    chunk: int | None = None,
    retries: int = 3,
    progress: bool | None = None,
    n_jobs: int | None = None,
) -> Distances:
    """Distances (n, m) between all points X (n, D) and Y (m, D), or X with itself, in a folder.

    What was begun there is continued: the same call after a crash, an interruption or on a full disk does what is
    missing. The numbers do not depend on who computes them.

    Parameters
    ----------
    manifold : Manifold
    X, Y : array (n, D), (m, D)
    out : str or Path
        Folder for the job, its shards and, in the end, `mean.npy`, `std.npy` and `converged.npy`.
    client : dask.distributed.Client, optional
        Whose workers do it; by default threads of this process do. The folder need not be visible to the workers.
    chunk : int, optional
        Pairs of a shard.
    retries : int
        How often a chunk is repeated whose worker died or ran out of memory.
    progress : bool, optional
        Whether to show a progress bar. By default in a terminal, if it takes long.
    n_jobs : int, optional
        Threads without a client, see `Manifold.geodesic`.

    Examples
    --------
    >>> import tempfile
    >>> from probgeo import metrics
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     half_plane = Manifold(metrics.HalfPlane())
    ...     found = distance_matrix(half_plane, [[0.0, 1.0], [1.0, 2.0], [2.0, 1.0]], out=folder)
    ...     print(found.mean.round(3).tolist())
    [[0.0, 0.962, 1.763], [0.962, 0.0, 0.962], [1.763, 0.962, 0.0]]
    """
    job = Job.of(manifold, X, Y, chunk=chunk)
    with jobs(n_jobs):
        complete(job, Path(out), manifold, distances_between, client, retries, progress)
    found = Distances(**gather(out))
    lost = int(found.converged.size - np.count_nonzero(found.converged))
    if lost:
        warnings.warn(
            f"{lost} of {found.converged.size} distances did not converge, see `converged`",
            ConvergenceWarning,
            stacklevel=2,
        )
    return found


def map_pairs(
    function: Callable[[Geodesic], Any],
    manifold: Manifold,
    X: Any,
    Y: Any,
    *,
    out: str | Path,
    client: Any = None,
    chunk: int | None = None,
    retries: int = 3,
    progress: bool | None = None,
    n_jobs: int | None = None,
) -> dict[str, np.ndarray]:
    """What a function makes of the geodesics from X (n, D) to Y (n, D), row by row, in a folder.

    Parameters
    ----------
    function : function of a batch of geodesics
        It returns an array with a row for each of them, or several by name. Geodesics that did not converge are among
        them, as their `converged` says.

    The others are those of `distance_matrix`.

    Returns
    -------
    dict
        Memory maps (n, ...) by name, "values" if the function returns one array.

    Examples
    --------
    >>> import tempfile
    >>> from probgeo import metrics
    >>> X, Y = [[0.0, 1.0], [1.0, 2.0]], [[2.0, 1.0], [2.0, 2.0]]
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     middle = map_pairs(
    ...         lambda g: g.mean(0.5), Manifold(metrics.HalfPlane()), X, Y, out=folder
    ...     )
    ...     print(middle["values"].round(3).tolist())
    [[1.0, 1.414], [1.5, 2.062]]
    """
    name = f"{getattr(function, '__module__', '')}:{stable_repr(function)}"
    job = Job.of(manifold, X, Y, matrix=False, chunk=chunk, what=name)
    with jobs(n_jobs):
        complete(job, Path(out), manifold, partial(_applied, function), client, retries, progress)
    return gather(out)


# --- what a worker does ----------------------------------------------------------------------


Compute = Callable[[Manifold, np.ndarray, np.ndarray], Values]


@dataclass(frozen=True)
class Assignment:
    """Everything a worker needs, sent once; after that, chunks are referred to by number."""

    job: Job
    manifold: Manifold
    compute: Compute

    def __call__(self, number: int) -> Values:
        with warnings.catch_warnings(), blas_on_one_thread, undivided():
            warnings.simplefilter("ignore", ConvergenceWarning)
            return self.compute(self.manifold, *self.job.ends(number))


def distances_between(manifold: Manifold, a: np.ndarray, b: np.ndarray) -> Values:
    """Distances from a to b (n, D), NaN where there is no metric."""
    (mean, std), converged = np.full((2, len(a)), np.nan), np.zeros(len(a), dtype=bool)
    try:
        usable = where_definite(manifold.metric, {"a": a, "b": b})
    except ValueError:  # there is not one
        usable = converged
    if usable.any():
        found, error, each, good = manifold.lengths_between(a[usable], b[usable])
        mean[usable], std[usable] = found, np.sqrt(error**2 + spread(each))
        converged[usable] = good
    return {"mean": mean, "std": std, "converged": converged}


def _applied(function: Callable[[Geodesic], Any], manifold: Manifold, a: np.ndarray, b: np.ndarray) -> Values:
    """What a function returns, as arrays by name with a row for each geodesic."""
    values = function(manifold.geodesic(a, b, progress=False))
    named = values if isinstance(values, dict) else {"values": values}
    named = {str(name): np.asarray(value) for name, value in named.items()}
    for name, value in named.items():
        if value.ndim == 0 or len(value) != len(a) or value.dtype == object:
            raise ValueError(
                f"the function must return arrays with a row for each of {len(a)} geodesics, got "
                f"{name} of shape {value.shape} and type {value.dtype}"
            )
        if not re.fullmatch(r"\w+", name):
            raise ValueError(f"names of values become names of files, got {name!r}")
    return named


# --- who does it -----------------------------------------------------------------------------


def complete(
    job: Job,
    folder: Path,
    manifold: Manifold,
    compute: Compute,
    client: Any = None,
    retries: int = 3,
    progress: bool | None = None,
    share: tuple[int, int] = (1, 1),
) -> None:
    """Do the missing chunks of a job: all of them, or the i-th of n equal shares, (i, n)."""
    job = job.entered(folder)
    i, n = share
    mine, done = range(i - 1, job.chunks, n), job.done(folder)
    for number in set(mine).intersection(done):
        job.values(folder, number)  # damaged ones are refused before the work, not after
    missing, assignment = sorted(set(mine).difference(done)), Assignment(job, manifold, compute)
    if client is None:

        def alone(index: np.ndarray) -> None:
            for k in index:
                job.write(folder, missing[k], assignment(missing[k]))

        in_chunks(alone, len(missing), most=1, least=1, progress=progress, unit="chunks")
        return
    with progress_bar(len(missing), progress, "chunks") as bar:
        for number, values in by_dask(assignment, missing, client, retries):
            job.write(folder, number, values)
            bar.update()


def by_dask(assignment: Assignment, numbers: list[int], client: Any, retries: int) -> Iterator[tuple[int, Values]]:
    """Yield chunks as the workers of a Dask cluster finish them.

    Dask repeats what it knows was lost with a worker. We repeat what it gave up: when the last worker that held the
    assignment died, or when workers died of a chunk repeatedly.
    """
    from distributed import KilledWorker, as_completed

    as_whole_number("retries", retries, 0)
    tries: Counter[int] = Counter()
    number_of: dict[str, int] = {}

    def submitted(number: int) -> Any:
        future = client.submit(Assignment.__call__, there, number, pure=False)
        number_of[future.key] = number
        return future

    there = client.scatter(assignment, broadcast=True, hash=False)
    running = as_completed([submitted(number) for number in numbers])
    try:
        for future in running:
            number = number_of.pop(future.key)
            try:
                values = future.result()
            except (KilledWorker, CancelledError, MemoryError, OSError) as error:
                tries[number] += 1
                if tries[number] > retries:
                    raise RuntimeError(
                        f"chunk {number} of {assignment.job.chunks} failed {retries + 1} times "
                        f"({error!r}): do workers need more memory? What is finished is kept, the "
                        "same call goes on from there"
                    ) from error
                if there.status != "finished":
                    there = client.scatter(assignment, broadcast=True, hash=False)
                running.add(submitted(number))
            else:
                yield number, values
    finally:
        client.cancel(list(running.futures), force=True)
