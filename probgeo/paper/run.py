"""Run experiments, keep what is finished, write figures, numbers and the report."""

import json
import platform
import sys
import time
import traceback
import warnings
from collections.abc import Sequence
from dataclasses import asdict
from importlib import import_module
from importlib.metadata import version
from multiprocessing import get_context
from multiprocessing.pool import ThreadPool
from pathlib import Path
from typing import Any

from threadpoolctl import threadpool_limits
from tqdm.auto import tqdm

import probgeo
from probgeo._json import write_json
from probgeo.ode.curve import ConvergenceWarning
from probgeo.paper.experiment import STYLE, Outcome, Settings

# by the name on the command line
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

Task = tuple[Path, Settings, dict[str, str]]  # the folder, names with what they are called on the screen, if at all


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
    out : folder, made if needed. What is finished there, with the same settings, is not run again, unless `again`
        asks for it.
    quick : smaller experiments.
    seed : of everything random.
    jobs : processes that run experiments at a time. By default two if it is to be quick; else one, because they would
        slow down each other, and run times are measured.
    tiny : the smallest experiments that make sense, for tests.

    Returns
    -------
    dict
        The content of `results.json`: for each experiment its numbers, settings, claims, seconds, or the error that
        ended it.
    """
    from probgeo.paper.report import write_report

    unknown = [name for name in names if name not in EXPERIMENTS]
    if unknown:
        raise ValueError(f"unknown figure {unknown[0]!r}; there are {', '.join(EXPERIMENTS)}")
    folder, settings = Path(out), Settings(quick, seed, tiny)
    folder.mkdir(parents=True, exist_ok=True)
    wanted = [name for group in GROUPS for name in group if name in (names or EXPERIMENTS)]
    order = [name for name in wanted if again or not _finished(folder, name, settings)]
    labels = {name: f"{name} ({k} of {len(order)})" if progress else "" for k, name in enumerate(order, start=1)}
    groups = [{name: labels[name] for name in group if name in labels} for group in GROUPS]
    tasks: list[Task] = [(folder, settings, group) for group in groups if group]
    jobs = min((2 if quick else 1) if jobs is None else jobs, len(tasks))
    start = time.perf_counter()
    write_report(folder, records_in(folder))
    with ThreadPool(max(1, jobs)) as pool:
        for _ in pool.imap_unordered(_in_a_process, tasks) if jobs > 1 else map(_run_group, tasks):
            write_report(folder, records_in(folder))
    if progress and tasks:
        _tell("all", f"{len(order)} done, {time.perf_counter() - start:.0f} s")
    return records_in(folder)


def records_in(folder: Path) -> dict[str, Any]:
    found = {}
    for name in EXPERIMENTS:
        try:
            found[name] = json.loads((folder / f"{name}.json").read_text(encoding="utf-8"))
        except (OSError, json.JSONDecodeError):
            continue
    return found


def title_and_caption(name: str) -> tuple[str, list[str]]:
    """The first line of the docstring of an experiment, and the paragraphs of the rest."""
    title, _, caption = str(_module(name).__doc__).strip().partition("\n")
    return title.rstrip("."), [" ".join(part.split()) for part in caption.split("\n\n") if part.strip()]


def _module(name: str) -> Any:
    return import_module(f"probgeo.paper.{EXPERIMENTS[name]}")


def _finished(folder: Path, name: str, settings: Settings) -> bool:
    record = records_in(folder).get(name, {"error": "not run"})
    same = record.items() >= _fingerprint(settings).items()
    return "error" not in record and same and all((folder / file).exists() for file in record["files"])


def _fingerprint(settings: Settings) -> dict[str, Any]:
    return {**asdict(settings), "version": probgeo.__version__}


def _in_a_process(task: Task) -> None:
    """Run a group; if its process is killed, say so in the records that it did not write."""
    folder, settings, names = task
    process = get_context("spawn").Process(target=_run_group, args=(task,))
    begun = time.time()
    process.start()
    process.join()
    for name in names if process.exitcode else ():
        record = folder / f"{name}.json"
        if not record.exists() or record.stat().st_mtime < begun:
            _write(folder, name, settings, {"error": f"its process ended with {process.exitcode}"})


def _run_group(task: Task) -> None:
    import matplotlib as mpl
    from matplotlib import pyplot as plt

    mpl.use("Agg")  # there may be no display
    folder, settings, names = task
    for name, label in names.items():
        start = time.perf_counter()
        _tell(label, "begun")
        # one thread of linear algebra: several spin while they wait, and CPU times are compared
        one_thread = threadpool_limits(1, user_api="blas")
        with one_thread, mpl.rc_context(STYLE), warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # what is lost is counted and shown
            try:
                record = _saved(folder, _module(name).run(settings))
            except Exception as error:  # noqa: BLE001  one figure must not cost the others
                record = {"error": f"{type(error).__name__}: {error}", "traceback": traceback.format_exc()}
            finally:
                plt.close("all")
        seconds = round(time.perf_counter() - start, 1)
        _write(folder, name, settings, record | {"seconds": seconds})
        _tell(label, f"{record.get('error', 'done')}, {seconds:.0f} s")


def _tell(label: str, what: str) -> None:
    if label:
        tqdm.write(f"{label}: {what}", file=sys.stderr)


def _saved(folder: Path, outcome: Outcome) -> dict[str, Any]:
    for stem, figure in outcome.figures.items():
        for suffix in ("png", "pdf"):
            figure.savefig(folder / f"{stem}.{suffix}", dpi=200)
    for stem, write in outcome.movies.items():
        write(folder / f"{stem}.gif")
    return {
        "files": [*(f"{stem}.png" for stem in outcome.figures), *(f"{stem}.gif" for stem in outcome.movies)],
        "settings": outcome.settings,
        "numbers": outcome.numbers,
        "claims": [asdict(claim) for claim in outcome.claims],
    }


def _write(folder: Path, name: str, settings: Settings, record: dict[str, Any]) -> None:
    whole = {
        **_fingerprint(settings),
        "title": title_and_caption(name)[0],
        "machine": f"{platform.machine()}, Python {platform.python_version()}",
        "versions": {"probgeo": probgeo.__version__, "numba": version("numba")},
        "seconds": 0.0,
        **record,
    }
    write_json(folder / f"{name}.json", whole)
