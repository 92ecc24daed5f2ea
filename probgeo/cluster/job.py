"""A job in a folder: what is asked for, a shard for every chunk of pairs, and arrays in the end.

    job.npz             the points, and enough of the manifold to recognise it
    shard-000017.npz    the results of one chunk of pairs
    mean.npy, ...       all results, once they are gathered

Files appear only when they are complete, and have checksums. So a job can be continued by doing whatever is missing,
and a process that is killed loses no more than its current chunk.
"""

import hashlib
import os
import re
from dataclasses import dataclass, fields, replace
from functools import cached_property
from math import gcd
from pathlib import Path
from typing import Any

import numpy as np

from probgeo import __version__, storage
from probgeo._checks import as_whole_number
from probgeo.geometry import Manifold
from probgeo.geometry.arguments import check_dimensions
from probgeo.metrics.arguments import as_points

RECORD = "job.npz"
MEASURED = ("tensors", "landmarks")  # of which machines may differ in the last digits
Values = dict[str, np.ndarray]


@dataclass(frozen=True, eq=False)
class Job:
    """Something to be computed for pairs of points.

    X (n, D), Y (m, D) or None : without Y all pairs of different points of X
    matrix : whether all of X and Y are paired, or row with row
    chunk : pairs of a shard
    what : name of what is computed
    settings : version and tolerances
    tensors, landmarks : the metric at some of the points, and the landmarks, which tell one manifold from another
    """

    X: np.ndarray
    Y: np.ndarray | None
    matrix: bool
    chunk: int
    what: str
    settings: str
    tensors: np.ndarray
    landmarks: np.ndarray

    @classmethod
    def of(
        cls,
        manifold: Manifold,
        X: Any,
        Y: Any = None,
        *,
        matrix: bool = True,
        chunk: int | None = None,
        what: str = "distances",
    ) -> "Job":
        """A job on a manifold. Without `chunk`, chunks are sized to take a few seconds."""
        X, other = as_points("X", X), None if Y is None else as_points("Y", Y)
        second = X.shape if other is None else other.shape
        check_dimensions(manifold.metric, {"X": X.shape, "Y": second})
        if not matrix and len(X) != second[0]:
            raise ValueError(f"X and Y must have equally many rows, got {X.shape} and {second}")
        settings = stable_repr((__version__, manifold.thoroughness, manifold.accuracy, manifold.solver))
        tensors = np.asarray(manifold.metric.tensors_at(X[:: -(-len(X) // 16)]))
        size = 1 if chunk is None else as_whole_number("chunk", chunk, 1)
        job = cls(X, other, matrix, size, what, settings, tensors, manifold.known_landmarks.points)
        if not job.count:
            raise ValueError(f"X must have at least two points without Y, got {X.shape}")
        # 512 are solved at a time
        return job if chunk else replace(job, chunk=int(np.clip(job.count // 64, 512, 4096)))

    @property
    def shape(self) -> tuple[int, ...]:
        """(n, m) for matrices, else (n,)."""
        n = len(self.X)
        return (n, n if self.Y is None else len(self.Y)) if self.matrix else (n,)

    @property
    def count(self) -> int:
        n = len(self.X)
        return n * (n - 1) // 2 if self.Y is None else int(np.prod(self.shape))

    @property
    def chunks(self) -> int:
        return -(-self.count // self.chunk)

    @cached_property
    def name(self) -> str:
        """A hash that identifies the job."""
        digest = hashlib.sha256()
        for field in fields(self):
            value = getattr(self, field.name)
            if field.name in MEASURED:
                value = np.char.mod("%.4e", value).tolist()
            digest.update(value.tobytes() if isinstance(value, np.ndarray) else repr(value).encode())
        return digest.hexdigest()[:16]

    def pairs(self, number: int) -> tuple[np.ndarray, np.ndarray]:
        """Rows i, j of X and Y (of X without Y) of the pairs in a chunk.

        Chunks take pairs from everywhere, so that all cost about as much: steps of the golden ratio of their count lead
        through all of them.
        """
        step = max(1, round((5**0.5 - 1) / 2 * self.count))
        while gcd(step, self.count) > 1:
            step += 1
        first = number * self.chunk
        pair = np.arange(first, min(first + self.chunk, self.count), dtype=np.int64) * step % self.count
        if not self.matrix:
            return pair, pair
        if self.Y is not None:
            return np.divmod(pair, len(self.Y))
        j = ((1.0 + np.sqrt(1.0 + 8.0 * pair)) / 2.0).astype(np.int64)  # j (j - 1) / 2 come before
        j -= j * (j - 1) // 2 > pair
        j += j * (j + 1) // 2 <= pair
        return pair - j * (j - 1) // 2, j

    def ends(self, number: int) -> tuple[np.ndarray, np.ndarray]:
        """The points (n, D) of the pairs in a chunk."""
        i, j = self.pairs(number)
        return self.X[i], (self.X if self.Y is None else self.Y)[j]

    # --- in a folder -------------------------------------------------------------------------

    def entered(self, folder: Path) -> "Job":
        """The job recorded in a folder, after making sure that it is this one; a new folder is made."""
        folder.mkdir(parents=True, exist_ok=True)
        if not (folder / RECORD).exists():
            storage.save(self, folder / RECORD)
        found = Job.read(folder)
        for field in fields(self):
            mine, theirs = getattr(self, field.name), getattr(found, field.name)
            same, which = type(mine) is type(theirs), ""
            if same and isinstance(mine, np.ndarray):
                rtol = 1e-6 if field.name in MEASURED else 0.0
                same = mine.shape == theirs.shape and np.allclose(mine, theirs, rtol=rtol, atol=0.0, equal_nan=True)
            elif same:
                same, which = mine == theirs, f" ({theirs} there, {mine} here)"
            if not same:
                raise ValueError(
                    f"{folder} has another job: its {field.name} differs{which}; give another "
                    "folder, or the same arguments as before"
                )
        return found

    @classmethod
    def read(cls, folder: Path) -> "Job":
        path = folder / RECORD
        if not path.exists():
            raise ValueError(f"{folder} has no {RECORD}: no job was begun there")
        found = storage.load(path)
        if not isinstance(found, cls):
            raise ValueError(f"{path} is not a job, but a {type(found).__name__}")
        return found

    def shard(self, folder: Path, number: int) -> Path:
        return folder / f"shard-{number:06d}.npz"

    def done(self, folder: Path) -> list[int]:
        return [number for number in range(self.chunks) if self.shard(folder, number).exists()]

    def write(self, folder: Path, number: int, values: Values) -> None:
        path = self.shard(folder, number)
        try:
            storage.save({"job": self.name, "chunk": number, "values": values}, path)
        except OSError as error:
            raise OSError(
                error.errno,
                f"{path} could not be written ({error.strerror or error}); what is finished is "
                "kept: the same call goes on from there",
            ) from error

    def values(self, folder: Path, number: int) -> Values:
        """Read the shard of a chunk; damaged shards and those of other jobs are errors."""
        path = self.shard(folder, number)
        try:
            found = storage.load(path)
            if not isinstance(found, dict) or set(found) != {"job", "chunk", "values"}:
                raise ValueError(f"{path} is not a shard")
            job, chunk, values = found["job"], found["chunk"], found["values"]
            if (job, chunk) != (self.name, number):
                raise ValueError(f"{path} is chunk {chunk} of job {job}, not chunk {number} of {self.name}")
            size = len(self.pairs(number)[0])
            if any(len(value) != size for value in values.values()):
                raise ValueError(f"{path} is not of {size} pairs")
        except ValueError as error:
            raise ValueError(f"{error}; remove it, and run the job again") from error
        return values


def gather(out: str | Path) -> dict[str, np.ndarray]:
    """Join the shards of a job: one array for each value, in files that need not fit into memory.

    Parameters
    ----------
    out : str or Path
        The folder of the job. `mean.npy` and so on are written there.

    Returns
    -------
    dict
        Memory maps by name. "mean", "std" and "converged" of `distance_matrix` are (n, m).
    """
    folder = Path(out)
    job = Job.read(folder)
    lacking = sorted(set(range(job.chunks)) - set(job.done(folder)))
    if lacking:
        raise ValueError(
            f"{len(lacking)} of {job.chunks} shards are missing in {folder}, the first is "
            f"{job.shard(folder, lacking[0]).name}: run the job to its end, then gather"
        )
    first = job.values(folder, 0)
    with storage.staged(folder) as unfinished:
        arrays = {name: _room(unfinished / f"{name}.npy", job, value) for name, value in first.items()}
        for number in range(job.chunks):
            i, j = job.pairs(number)
            for name, value in job.values(folder, number).items():
                arrays[name][(i, j) if job.matrix else i] = value
                if job.Y is None:
                    arrays[name][j, i] = value
        for array in arrays.values():
            array.flush()
    return {name: np.load(folder / f"{name}.npy", mmap_mode="r") for name in first}


def _room(path: Path, job: Job, value: np.ndarray) -> np.memmap:
    """A file for one of the arrays. The distance of a point to itself is zero, and converged."""
    shape = (*job.shape, *value.shape[1:])
    array = np.lib.format.open_memmap(path, "w+", value.dtype, shape)
    if hasattr(os, "posix_fallocate"):  # a full disk is an error now, not a crash later
        with path.open("r+b") as file:
            os.posix_fallocate(file.fileno(), 0, path.stat().st_size)
    if job.Y is None and value.dtype == bool:
        np.einsum("ii...->i...", array)[...] = True
    return array


def stable_repr(value: Any) -> str:
    """Its `repr`, without the addresses in memory that differ from run to run."""
    return re.sub(" at 0x[0-9a-f]+", "", repr(value))
