"""Run experiments, keep what is finished, write figures, numbers and the report."""

import json
import platform
import sys
import time
import traceback
import warnings
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from importlib import import_module
from importlib.metadata import version
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from threadpoolctl import threadpool_limits
from tqdm.auto import tqdm

import probgeo
from probgeo._json import plain
from probgeo.ode.curve import ConvergenceWarning
from probgeo.paper.experiment import STYLE, Outcome, Progress, Settings, T

# by the name on the command line; 3, 4 and 5 share the geodesics of the ones
EXPERIMENTS = {
    "fig1": "figure1",
    "fig2": "figure2",
    "fig3": "figure3",
    "fig4": "figure4",
    "fig5": "figure5",
    "fig3-right": "figure3_right",
    "fig6": "figure6",
    "errata": "errata",
}
# those that share what they compute, longest first: a process each, if there are several
GROUPS = (("fig3", "fig4", "fig5"), ("fig6",), ("fig3-right",), ("fig1",), ("fig2",), ("errata",))


def reproduce(
    names: Sequence[str] = (),
    out: str | Path = "figures",
    *,
    quick: bool = False,
    seed: int = 0,
    again: bool = False,
    jobs: int | None = None,
    progress: bool = True,
    tiny: bool = False,
) -> dict[str, Any]:
    """Run experiments of the paper; write figures, `results.json` and `index.html` to a folder.

    Parameters
    ----------
    names : of EXPERIMENTS; all by default.
    out : folder, made if needed. Experiments that are finished there, with the same settings, are
        not run again, unless `again` asks for it.
    quick : smaller experiments.
    seed : of everything random.
    jobs : processes that run experiments at a time. By default two if it is to be quick; else one,
        because they would slow down each other, and run times are measured.
    tiny : the smallest experiments that make sense, for tests.

    Returns
    -------
    dict
        The content of `results.json`: for each experiment its numbers, settings, claims, seconds,
        or the error that ended it.
    """
    from probgeo.paper.report import write_report

    unknown = [name for name in names if name not in EXPERIMENTS]
    if unknown:
        raise ValueError(f"unknown figure {unknown[0]!r}; there are {', '.join(EXPERIMENTS)}")
    folder = Path(out)
    folder.mkdir(parents=True, exist_ok=True)
    settings = Settings(quick, seed, tiny)
    left = {
        name
        for name in EXPERIMENTS
        if (not names or name in names) and (again or _finished(folder, name, settings) is None)
    }
    groups = [group for every in GROUPS if (group := [name for name in every if name in left])]
    count = min((2 if quick else 1) if jobs is None else jobs, len(groups))
    alone = count <= 1 and sys.stderr.isatty()
    shown = (Bar if alone else Lines) if progress else Progress
    order = [name for group in groups for name in group]
    labels = {name: f"{name} ({k} of {len(order)})" for k, name in enumerate(order, start=1)}
    tasks = [(folder, {name: labels[name] for name in group}, settings, shown) for group in groups]
    start = time.perf_counter()
    write_report(folder, records_in(folder))
    for _ in _in_processes(tasks, count) if count > 1 else map(_run_group, tasks):
        write_report(folder, records_in(folder))
    if progress and tasks:
        tqdm.write(f"{len(order)} done in {time.perf_counter() - start:.0f} s", file=sys.stderr)
    return records_in(folder)


def records_in(folder: Path) -> dict[str, Any]:
    """All records in a folder, whatever their settings."""
    found = {name: _load(folder, name) for name in EXPERIMENTS}
    return {name: record for name, record in found.items() if record is not None}


def module_of(name: str) -> Any:
    return import_module(f"probgeo.paper.{EXPERIMENTS[name]}")


Task = tuple[Path, dict[str, str], Settings, type[Progress]]  # names, and what to call them


def _in_processes(tasks: list[Task], count: int) -> Iterator[None]:
    """Groups of experiments, each in a process of its own, `count` at a time."""
    with ThreadPoolExecutor(count) as pool:
        for future in as_completed([pool.submit(_in_a_process, task) for task in tasks]):
            future.result()
            yield


def _in_a_process(task: Task) -> None:
    """Run a group; if its process is killed, say so in the records that it did not write."""
    folder, names, settings, _ = task
    process = get_context("spawn").Process(target=_run_group, args=(task,))
    begun = time.time()
    process.start()
    process.join()
    if process.exitcode == 0:
        return
    for name in names:
        record = _path(folder, name)
        if not record.exists() or record.stat().st_mtime < begun:
            _write(folder, name, settings, {"error": f"its process ended with {process.exitcode}"})


def _run_group(task: Task) -> None:
    folder, names, settings, shown = task
    import matplotlib as mpl

    mpl.use("Agg")  # there may be no display
    for name, label in names.items():
        _run(folder, name, settings, shown(label))


def _run(folder: Path, name: str, settings: Settings, bar: Progress) -> None:
    import matplotlib as mpl
    from matplotlib import pyplot as plt

    start = time.perf_counter()
    module = module_of(name)
    record: dict[str, Any] = {}
    # one thread of linear algebra: several spin while they wait, and CPU times are compared
    alone = threadpool_limits(1, user_api="blas")
    with alone, mpl.rc_context(STYLE), warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # what is lost is counted and shown
        try:
            outcome = module.run(settings, bar)
            bar.say("drawing")
            record |= _saved(folder, name, outcome)
        except Exception as error:  # noqa: BLE001  one figure must not cost the others
            record["error"] = f"{type(error).__name__}: {error}"
            record["traceback"] = traceback.format_exc()
        finally:
            plt.close("all")
    record["seconds"] = round(time.perf_counter() - start, 1)
    _write(folder, name, settings, record)
    bar.close(f"{record.get('error', 'done')}, {record['seconds']:.0f} s")


def _write(folder: Path, name: str, settings: Settings, record: dict[str, Any]) -> None:
    about = {
        "title": title_and_caption(module_of(name))[0],
        "machine": f"{platform.machine()}, Python {platform.python_version()}",
        "versions": {"probgeo": probgeo.__version__, "numba": version("numba")},
    }
    whole = _fingerprint(settings) | about | {"seconds": 0.0} | record
    _path(folder, name).write_text(json.dumps(plain(whole), indent=1, allow_nan=False))


def _saved(folder: Path, name: str, outcome: Outcome) -> dict[str, Any]:
    files = []
    for stem, figure in outcome.figures.items():
        for suffix in ("png", "pdf"):
            figure.savefig(folder / f"{stem}.{suffix}", dpi=200)
        files.append(f"{stem}.png")
    for stem, write in outcome.movies.items():
        write(folder / f"{stem}.gif")
        files.append(f"{stem}.gif")
    return {
        "files": files,
        "settings": outcome.settings,
        "numbers": outcome.numbers,
        "claims": [vars(claim) for claim in outcome.claims],
    }


def _finished(folder: Path, name: str, settings: Settings) -> dict[str, Any] | None:
    record = _load(folder, name)
    if record is None or "error" in record:
        return None
    same = all(record.get(key) == value for key, value in _fingerprint(settings).items())
    there = all((folder / file).exists() for file in record.get("files", []))
    return record if same and there else None


def _fingerprint(settings: Settings) -> dict[str, Any]:
    asked = {name: getattr(settings, name) for name in ("quick", "seed", "tiny")}
    return asked | {"version": probgeo.__version__}


def _path(folder: Path, name: str) -> Path:
    return folder / f"{name}.json"


def _load(folder: Path, name: str) -> dict[str, Any] | None:
    try:
        return json.loads(_path(folder, name).read_text())
    except (OSError, json.JSONDecodeError):
        return None


def title_and_caption(module: Any) -> tuple[str, str]:
    title, _, caption = module.__doc__.strip().partition("\n")
    return title.rstrip("."), caption.strip()


class Lines(Progress):
    """A line at the beginning, and one at the end: for several processes, or a file."""

    def __init__(self, label: str) -> None:
        super().__init__(label)
        self._print("begun")

    def close(self, how: str) -> None:
        self._print(how)

    def _print(self, what: str) -> None:
        tqdm.write(f"{self.label}: {what}", file=sys.stderr)


class Bar(Progress):
    """One line in the terminal, that says what is being done."""

    def __init__(self, label: str) -> None:
        super().__init__(label)
        self.bar = tqdm(desc=label, bar_format="{desc} [{elapsed}]")

    def over(self, steps: Iterable[T], what: str) -> Iterable[T]:
        items = list(steps)
        for k, item in enumerate(items):
            self.say(f"{what} {k + 1}/{len(items)}")
            yield item

    def say(self, what: str) -> None:
        self.bar.set_description_str(f"{self.label}: {what}")
        self.bar.refresh()

    def close(self, how: str) -> None:
        self.say(how)
        self.bar.close()
