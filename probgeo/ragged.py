"""Curves of different lengths in flat arrays, and work spread over them.

The rows of all members of a batch stand one after the other; member m has the rows
`offsets[m] : offsets[m + 1]`. There is no padding: no curve pays for the longest one.

`in_chunks` is the one place that divides work: to bound memory, to use all cores (compiled loops release the GIL) or
the machines that joblib knows of, and to show progress.
"""

import os
import pickle
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, contextmanager
from contextvars import ContextVar
from functools import cached_property
from hashlib import sha256
from threading import Lock
from typing import Any, ClassVar, TypeVar

import numpy as np

from probgeo._checks import as_whole_number
from probgeo._loops import loop

Result = TypeVar("Result")

_jobs: ContextVar[int | None] = ContextVar("jobs", default=None)  # what the caller asked for
_inside: ContextVar[bool] = ContextVar("inside", default=False)  # of a chunk

# Members of a chunk by the root of how many there are: 64 in one chunk, 2000 in six. A geodesic on
# moons takes 1.18 / 0.95 / 0.82 / 0.74 / 0.69 ms in chunks of 32 / 64 / 125 / 250 / 500.
WORTH_DIVIDING = 8.0


def offsets_of(counts: Any) -> np.ndarray:
    """Offsets (members + 1,) of members with these numbers of rows.

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
    return _chosen(offsets, np.asarray(members, dtype=np.int64))[1]


@loop
def _chosen(offsets: np.ndarray, members: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Offsets (n + 1,) of some members (n,), one after the other, and the rows they had."""
    own = np.zeros(len(members) + 1, dtype=np.int64)
    for k in range(len(members)):
        own[k + 1] = own[k] + offsets[members[k] + 1] - offsets[members[k]]
    rows = np.empty(own[-1], dtype=np.int64)
    for k in range(len(members)):
        for n in range(own[k], own[k + 1]):
            rows[n] = offsets[members[k]] + n - own[k]
    return own, rows


def elements_of(offsets: np.ndarray) -> np.ndarray:
    """Offsets of the elements between consecutive rows: one fewer than rows, for every member."""
    return offsets - np.arange(len(offsets))


def take(offsets: np.ndarray, members: np.ndarray, *arrays: np.ndarray) -> tuple[np.ndarray, ...]:
    """Some members: their offsets, and their rows of every array."""
    own, rows = _chosen(offsets, np.asarray(members, dtype=np.int64))
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
    travels: bool = False,
    progress: bool | None = None,
    unit: str = "curves",
) -> list[Result]:
    """`work(members)` for all of `count` members, a chunk at a time: results in order.

    Which members share a chunk depends on `count` alone, never on who works on it: users' functions may round
    differently in other company.

    most, least : members of a chunk: most, which bounds the memory, and fewest that are worth one of their own.
    travels : whether other processes may do it, where a back end of joblib says so. What `work` writes elsewhere than
        in its result would be lost.
    progress : whether to show a bar, which counts `unit`; by default in a terminal, if it takes long.
    """
    size = most if _inside.get() else min(most, max(least, int(WORTH_DIVIDING * count**0.5)))
    parts = np.array_split(np.arange(count), max(1, -(-count // size)))
    workers, processes = who_works()
    workers = min(workers, len(parts))

    def one(members: np.ndarray) -> Result:
        with undivided():
            return work(members)

    with blas_on_one_thread, progress_bar(count, progress, unit) as bar, ExitStack() as stack:
        if workers == 1:
            found: Iterable[Result] = map(one, parts)
        elif processes and travels:
            found = _elsewhere(work, parts)
        else:
            found = stack.enter_context(ThreadPoolExecutor(workers)).map(one, parts)
        results = []
        for part, result in zip(parts, found, strict=True):
            results.append(result)
            bar.update(len(part))
        return results


def _elsewhere(work: Callable, parts: list[np.ndarray]) -> Iterable[Any]:
    """Results from the active back end of joblib."""
    from joblib import Parallel, delayed
    from joblib.parallel import get_active_backend

    generates = getattr(get_active_backend()[0], "supports_return_generator", False)
    parallel = Parallel(_jobs.get(), return_as="generator" if generates else "list", batch_size=1)
    return parallel(map(delayed(_Packed(work)), parts))


class _Packed:
    """Work for other processes. Each unpacks it only once, because compiling it again would take long."""

    unpacked: ClassVar[dict[str, Callable]] = {}

    def __init__(self, work: Callable) -> None:
        from joblib import wrap_non_picklable_objects

        packed = pickle.dumps(wrap_non_picklable_objects(work))
        self.name = sha256(packed).hexdigest()
        self.packed = np.frombuffer(packed, dtype=np.uint8)  # joblib maps large arrays to memory

    def __call__(self, members: np.ndarray) -> Any:
        work = self.unpacked.get(self.name)
        if work is None:
            while len(self.unpacked) >= 4:  # a few, for calls within loops
                self.unpacked.pop(next(iter(self.unpacked)), None)
            work = self.unpacked[self.name] = pickle.loads(self.packed.tobytes())
        with blas_on_one_thread, undivided():
            return work(members)


def members_at_a_time(bytes_each: float, memory: int = 2**28) -> int:
    """How many members fit into `memory` at a time, in bytes.

    >>> members_at_a_time(2**18), members_at_a_time(1e12)
    (1024, 1)
    """
    return max(1, int(memory // max(1.0, bytes_each)))


def who_works() -> tuple[int, bool]:
    """How many workers there are, and whether they are other processes than this one.

    As `n_jobs` or an active `joblib.parallel_config` say. By default threads: `PROBGEO_THREADS`, or one for every core
    at hand, but one only where joblib runs several callers at a time.
    """
    if _inside.get():
        return 1, False
    wanted = _jobs.get()
    if wanted is None and "joblib" not in sys.modules:  # which takes a while to import
        return _default_threads(), False
    from joblib.parallel import get_active_backend

    backend, configured = get_active_backend()
    chosen = backend is get_active_backend()[0]  # the default one is made anew for every caller
    if wanted is None and not chosen and configured is None:
        return _default_threads(), False
    count = backend.effective_n_jobs(configured if wanted is None else wanted)
    return count, chosen and not getattr(backend, "uses_threads", False)


def _default_threads() -> int:
    wanted = os.environ.get("PROBGEO_THREADS")
    if wanted:
        return as_whole_number("PROBGEO_THREADS", int(wanted) if wanted.isdigit() else wanted, 1)
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class _BlasOnOneThread:
    """Within, matrix products use one thread: those of curves are too small to be shared.

    OpenBLAS on two threads took up to a hundred times as long for products of 50 x 50 matrices. Entered by many threads
    at a time, the first sets the number and the last restores it.
    """

    def __init__(self) -> None:
        self._lock, self._entered = Lock(), 0
        self._limit: Any = None

    @cached_property
    def _controller(self) -> Any:
        import scipy.linalg.cython_blas  # noqa: F401  (the BLAS of compiled loops)
        from threadpoolctl import ThreadpoolController

        return ThreadpoolController()

    def __enter__(self) -> None:
        with self._lock:
            if not self._entered:
                self._limit = self._controller.limit(limits=1, user_api="blas")
            self._entered += 1

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._entered -= 1
            if not self._entered:
                self._limit.restore_original_limits()


blas_on_one_thread = _BlasOnOneThread()


@contextmanager
def jobs(n_jobs: int | None) -> Iterator[None]:
    """Within, work is divided among `n_jobs` workers, as joblib counts them; None changes nothing."""
    if n_jobs is not None:
        whole = isinstance(n_jobs, int | np.integer) and not isinstance(n_jobs, bool)
        if not whole or n_jobs == 0:
            raise ValueError(f"n_jobs must be None or a whole number other than 0, got {n_jobs!r}")
    with _set(_jobs, _jobs.get() if n_jobs is None else int(n_jobs)):
        yield


def undivided() -> AbstractContextManager[None]:
    """Within, work is not divided among workers, and into chunks only to bound the memory."""
    return _set(_inside, True)


@contextmanager
def _set(variable: ContextVar, value: Any) -> Iterator[None]:
    token = variable.set(value)
    try:
        yield
    finally:
        variable.reset(token)


def progress_bar(total: int, wanted: bool | None, unit: str) -> Any:
    """A progress bar: if wanted, or by default in a terminal once the work has taken three seconds."""
    from tqdm.auto import tqdm

    shown: Any = {"disable": not wanted}
    if wanted is None:
        shown = {"disable": None, "delay": 3.0, "leave": False}
    return tqdm(total=total, unit=f" {unit}", **shown)
