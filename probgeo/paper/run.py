"""Run experiments, keep what is finished, write figures, numbers and the report."""

import json
import platform
import time
import traceback
import warnings
from collections.abc import Iterable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, TypeVar

import jax
import numpy as np
from tqdm.auto import tqdm

import probgeo
from probgeo.ode.curve import ConvergenceWarning
from probgeo.paper.experiment import STYLE, Outcome, Progress, Settings

T = TypeVar("T")

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
ALONE = ("fig3-right", "fig6")  # these compile much, after which others are not needed any more


def reproduce(
    names: Sequence[str] = (),
    out: str | Path = "figures",
    *,
    quick: bool = False,
    seed: int = 0,
    again: bool = False,
    progress: bool = True,
    tiny: bool = False,
) -> dict[str, Any]:
    """Run experiments of the paper; write figures, `results.json` and `index.html` to a folder.

    Parameters
    ----------
    names : of EXPERIMENTS; all by default.
    out : folder, made if needed. Experiments that are finished there, with the same settings, are
        not run again, unless `again` asks for it.
    quick : smaller experiments, about two minutes for all of them.
    seed : of everything random.
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
    wanted = [name for name in EXPERIMENTS if not names or name in names]
    for name in wanted:
        if again or _finished(folder, name, settings) is None:
            _run(folder, name, settings, progress)
        write_report(folder, collected(folder))
    return collected(folder)


def collected(folder: Path) -> dict[str, Any]:
    """What is in a folder, of all settings."""
    found = {name: _load(folder, name) for name in EXPERIMENTS}
    return {name: record for name, record in found.items() if record is not None}


def module_of(name: str) -> Any:
    return import_module(f"probgeo.paper.{EXPERIMENTS[name]}")


def _run(folder: Path, name: str, settings: Settings, progress: bool) -> None:
    import matplotlib as mpl
    from matplotlib import pyplot as plt

    start = time.perf_counter()
    bar = Bar(name) if progress else Progress()
    module = module_of(name)
    if name in ALONE:
        jax.clear_caches()  # a process may not hold that many programs
    record: dict[str, Any] = _fingerprint(settings) | {"title": title_and_caption(module)[0]}
    with mpl.rc_context(STYLE), warnings.catch_warnings():
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
    record["machine"] = f"{platform.machine()}, Python {platform.python_version()}"
    record["versions"] = {"probgeo": probgeo.__version__, "jax": jax.__version__}
    _path(folder, name).write_text(json.dumps(record, indent=1, default=_plain))
    if isinstance(bar, Bar):
        bar.close(record.get("error"), record["seconds"])


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
    return {**vars(settings), "version": probgeo.__version__}


def _path(folder: Path, name: str) -> Path:
    return folder / f"{name}.json"


def _load(folder: Path, name: str) -> dict[str, Any] | None:
    try:
        return json.loads(_path(folder, name).read_text())
    except (OSError, json.JSONDecodeError):
        return None


def _plain(value: Any) -> Any:
    """NumPy and JAX values for JSON."""
    return np.asarray(value).tolist()


def title_and_caption(module: Any) -> tuple[str, str]:
    title, _, caption = module.__doc__.strip().partition("\n")
    return title.rstrip("."), caption.strip()


class Bar(Progress):
    """One line in the terminal."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.bar = tqdm(desc=name, bar_format="{desc} [{elapsed}]", leave=True)

    def over(self, steps: Iterable[T], what: str) -> Iterable[T]:
        items = list(steps)
        for k, item in enumerate(items):
            self.say(f"{what} {k + 1}/{len(items)}")
            yield item

    def say(self, what: str) -> None:
        self.bar.set_description_str(f"{self.name}: {what}")
        self.bar.refresh()

    def close(self, error: str | None, seconds: float) -> None:
        self.bar.set_description_str(f"{self.name}: {error or 'done'}, {seconds:.0f} s")
        self.bar.close()
