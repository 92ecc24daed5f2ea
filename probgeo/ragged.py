"""Curves of different lengths in flat arrays, and work spread over them.

The rows of all members of a batch stand one after the other; member m has the rows
`offsets[m] : offsets[m + 1]`. There is no padding, so that nobody pays for the longest curve.

`in_chunks` is the one place that divides work: to bound memory, to use all cores (compiled loops
release the GIL), and to show progress. Members are independent, so that results do not depend on
how they are divided.
"""

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar
from threading import Lock
from typing import Any, TypeVar

import numpy as np

from probgeo._checks import as_whole_number

Result = TypeVar("Result")

_threads: ContextVar[int | None] = ContextVar("threads", default=None)


def offsets_of(counts: Any) -> np.ndarray:
    """Offsets (members + 1,) of members with so many rows each.

    >>> offsets_of([2, 3]).tolist()
    [0, 2, 5]
    """
    counts = np.asarray(counts, dtype=np.int64)
    offsets = np.zeros(len(counts) + 1, dtype=np.int64)
    np.cumsum(counts, out=offsets[1:])
    return offsets


def members_of(offsets: np.ndarray) -> np.ndarray:
    """The member of every row.

    >>> members_of(np.array([0, 2, 5])).tolist()
    [0, 0, 1, 1, 1]
    """
    return np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))


def rows_of(offsets: np.ndarray, members: np.ndarray) -> np.ndarray:
    """The rows of some members, in the order of these.

    >>> rows_of(np.array([0, 2, 5]), np.array([1, 0])).tolist()
    [2, 3, 4, 0, 1]
    """
    members = np.asarray(members, dtype=np.int64)
    counts = np.diff(offsets)[members]
    begin = np.repeat(offsets[members] - offsets_of(counts)[:-1], counts)
    return begin + np.arange(len(begin))


def elements_of(offsets: np.ndarray) -> np.ndarray:
    """Offsets of the elements between consecutive rows: one fewer than rows, for every member."""
    return offsets - np.arange(len(offsets))


def take(offsets: np.ndarray, members: np.ndarray, *arrays: np.ndarray) -> tuple[np.ndarray, ...]:
    """Some members: their offsets, and their rows of every array."""
    rows = rows_of(offsets, members)
    own = offsets_of(np.diff(offsets)[members])
    return own, *(array[rows] for array in arrays)


def joined(parts: Sequence[tuple[np.ndarray, ...]]) -> tuple[np.ndarray, ...]:
    """Batches (offsets, array, ...) one after the other as one batch."""
    counts = np.concatenate([np.diff(offsets) for offsets, *_ in parts])
    columns = zip(*(arrays for _, *arrays in parts), strict=True)
    return offsets_of(counts), *(np.concatenate(column) for column in columns)


def in_chunks(
    work: Callable[[np.ndarray], Result],
    count: int,
    *,
    most: int = 1024,
    least: int = 32,
    progress: bool | None = None,
    unit: str = "curves",
) -> list[Result]:
    """`work(members)` for all of `count` members, a chunk at a time: results in order.

    Parameters
    ----------
    work : function of member numbers (n,)
    most : int
        Most members of a chunk, which bounds the memory.
    least : int
        Fewest members that are worth a thread of their own.
    progress : bool, optional
        Whether to show a progress bar. By default in a terminal, if it takes long.
    unit : str
        What the bar counts.
    """
    threads = min(thread_count(), max(1, count // least))
    chunks = max(1, -(-count // most), threads)
    parts = np.array_split(np.arange(count), -(-chunks // threads) * threads)
    with blas_on_one_thread, progress_bar(count, progress, unit) as bar:

        def one(members: np.ndarray) -> Result:
            with one_thread():  # whatever `work` divides further stays on this thread
                result = work(members)
            bar.update(len(members))
            return result

        if threads == 1:
            return [one(part) for part in parts]
        with ThreadPoolExecutor(threads) as pool:
            return list(pool.map(one, parts))


def members_at_a_time(bytes_each: float, memory: int = 2**28) -> int:
    """How many members fit into memory together.

    >>> members_at_a_time(2**18), members_at_a_time(1e12)
    (1024, 1)
    """
    return max(1, int(memory // max(1.0, bytes_each)))


def thread_count() -> int:
    """Threads that work is spread over: `PROBGEO_THREADS`, or one for every core at hand."""
    within = _threads.get()
    if within is not None:
        return within
    wanted = os.environ.get("PROBGEO_THREADS")
    if wanted:
        return as_whole_number("PROBGEO_THREADS", int(wanted) if wanted.isdigit() else wanted, 1)
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class _BlasOnOneThread:
    """Within, matrix products use one thread: those of curves are too small to be shared.

    OpenBLAS on two threads took up to a hundred times as long for products of 50 x 50 matrices.
    Entered by many threads at a time, the first sets the number and the last restores it.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._entered = 0
        self._controller: Any = None
        self._limit: Any = None

    def __enter__(self) -> None:
        with self._lock:
            self._entered += 1
            if self._entered > 1:
                return
            if self._controller is None:
                import scipy.linalg.cython_blas  # noqa: F401  (the BLAS of compiled loops)
                from threadpoolctl import ThreadpoolController

                self._controller = ThreadpoolController()
            self._limit = self._controller.limit(limits=1, user_api="blas")

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._entered -= 1
            if not self._entered:
                self._limit.restore_original_limits()


blas_on_one_thread = _BlasOnOneThread()


@contextmanager
def one_thread() -> Iterator[None]:
    """Within, nothing is divided among threads."""
    token = _threads.set(1)
    try:
        yield
    finally:
        _threads.reset(token)


def progress_bar(total: int, wanted: bool | None, unit: str) -> Any:
    """On request, or in a terminal for work that takes longer than three seconds."""
    from tqdm.auto import tqdm

    if wanted is None:
        return tqdm(total=total, unit=f" {unit}", disable=None, delay=3.0, leave=False)
    return tqdm(total=total, unit=f" {unit}", disable=not wanted)
