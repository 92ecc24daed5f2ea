"""The command line: `probgeo reproduce`, `fit`, `geodesic`, `distances` and `explore`."""

import argparse
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from probgeo.commands.options import parser
from probgeo.commands.tables import InputError, Table, read_table

if TYPE_CHECKING:
    from probgeo.commands.learned import Space


def main(argv: list[str] | None = None) -> int:
    """Run a command.

    0 if it worked, 1 if a figure failed, 2 if what was asked makes no sense, 130 if interrupted.
    """
    began = time.perf_counter()
    try:
        arguments = parser().parse_args(argv)
    except SystemExit as stop:  # --help, or a complaint that argparse has printed
        return int(stop.code or 0)
    arguments.began = began
    try:
        return COMMANDS[arguments.command](arguments)
    except (InputError, OSError, ImportError) as error:
        _complain(arguments, f"error: {error}")
        return 2
    except KeyboardInterrupt:
        if arguments.command == "explore":
            return 0  # the way to end it
        keeping = arguments.command in ("reproduce", "distances")
        _complain(arguments, f"stopped, {'what is finished is kept' if keeping else 'nothing written'}")
        return 130


def _reproduce(arguments: argparse.Namespace) -> int:
    from probgeo import paper

    options = {name: getattr(arguments, name) for name in ("quick", "seed", "again", "jobs")}
    records = paper.reproduce(arguments.figures, arguments.out, **options)
    # the folder may hold failures of earlier runs, of figures not asked for now
    asked = arguments.figures or records
    failed = {name: record["error"] for name, record in records.items() if name in asked and "error" in record}
    for name, error in failed.items():
        _complain(arguments, f"{name} failed: {error}")
    print(f"report: {Path(arguments.out) / 'index.html'}")
    return 1 if failed else 0


def _fit(arguments: argparse.Namespace) -> int:
    from probgeo.commands import fitting
    from probgeo.commands.figures import draw_fit

    table = read_table(arguments.data, arguments.header).without_constants()
    rows = fitting.sampled(len(table.values), arguments.sample, arguments.seed)
    used = table.take(rows)
    with _results_in(arguments.out) as folder, fitting.heard() as warned:
        tell = _teller(arguments)
        tell(f"learning a metric from {len(rows)} points")
        space = _learned(arguments, used)
        pga, results, scores = fitting.fit(used, space, arguments.modes, tell, _bars(arguments))
        draw_fit(folder / "fit", pga, results, scores, space.coordinates(used))
        results["settings"] = {
            "data": arguments.data,
            "columns": table.columns,
            "points": len(table.values),
            "sample": len(rows),
            "dimensions": arguments.dimensions,
            "components": len(space.metric.centers),
            "rho": float(space.metric.rho),
            "modes": scores.shape[1],
            "seed": arguments.seed,
        }
        seconds = round(time.perf_counter() - arguments.began, 1)
        results |= {"notes": table.notes, "warnings": warned, "seconds": seconds}
        fitting.save_fit(folder, space, results, scores, rows)
    written = "results.json, scores.csv, metric.npz, fit.png, fit.pdf"
    return _done(arguments, warned, [*table.notes, *fitting.fit_summary(results)], written)


def _geodesic(arguments: argparse.Namespace) -> int:
    from probgeo.commands import fitting
    from probgeo.commands.figures import draw_geodesic
    from probgeo.geometry import Manifold

    table = read_table(arguments.data, arguments.header).without_constants()
    ends = (arguments.start, arguments.end)
    fitting.check_ends(table, ends)
    rows = fitting.sampled(len(table.values), arguments.sample, arguments.seed)
    with _results_in(arguments.out) as folder, fitting.heard() as warned:
        space = _learned(arguments, table.take(rows))
        points = space.coordinates(table)
        curve = Manifold(space.metric).geodesic(*points.values[list(ends)], progress=False)
        fitting.save_geodesic(folder, curve, points.columns)
        draw_geodesic(folder / "geodesic", curve, space, points.take(rows))
    notes = [] if arguments.metric else fitting.sample_note(len(table.values), len(rows), arguments.seed)
    summary = [*table.notes, *notes, *fitting.geodesic_summary(curve, ends)]
    return _done(arguments, warned, summary, "geodesic.csv, geodesic.png, geodesic.pdf")


def _distances(arguments: argparse.Namespace) -> int:
    from probgeo.commands import distances, fitting

    try:
        with fitting.heard() as warned:
            summary = distances.answer(arguments, _bars(arguments))
    except ValueError as error:
        raise InputError(str(error)) from error
    return _done(arguments, warned, summary)


def _explore(arguments: argparse.Namespace) -> int:
    import webbrowser

    from probgeo.commands.exploring import scene_of
    from probgeo.explorer import Explorer

    page = Explorer(scene_of(arguments, _teller(arguments)), arguments.port)
    print(f"exploring at {page.address}", flush=True)
    print("it ends some seconds after the tab is closed, or with Ctrl-C", flush=True)
    if arguments.browser:
        webbrowser.open(page.address)
    page.wait()
    return 0


def _learned(arguments: argparse.Namespace, table: Table) -> "Space":
    """A metric learned from the data, or the one in the file that was given."""
    from probgeo.commands.learned import Space

    file, asked = getattr(arguments, "metric", None), ("components", "rho", "dimensions")
    if file is None:
        return Space.learn(table, *(getattr(arguments, name) for name in (*asked, "seed")))
    for name in asked:
        if getattr(arguments, name) is not None:
            raise InputError(f"--{name} is for a metric yet to be learned: leave out --metric")
    return Space.load(Path(file))


@contextmanager
def _results_in(name: str) -> Iterator[Path]:
    """A place for result files, which move to the folder once all are complete.

    The folder is made first: better to fail now than after the work. If the work fails, nothing is left behind.
    """
    from probgeo.storage import staged

    folder = Path(name)
    new = [path for path in (folder, *folder.parents) if not path.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    try:
        with staged(folder) as unfinished:
            yield unfinished
    except BaseException:
        for path in new:
            if not any(path.iterdir()):
                path.rmdir()
        raise


def _bars(arguments: argparse.Namespace) -> bool:
    """Whether to show progress bars: only in a terminal."""
    return not arguments.quiet and sys.stderr.isatty()


def _teller(arguments: argparse.Namespace) -> Callable[[str], None]:
    """A function that reports progress on stderr, unless the user asked for quiet."""

    def tell(line: str) -> None:
        if not getattr(arguments, "quiet", False):
            print(line, file=sys.stderr, flush=True)

    return tell


def _done(arguments: argparse.Namespace, warned: list[str], summary: list[str], files: str = "") -> int:
    for line in warned:
        _complain(arguments, f"warning: {line}")
    seconds = time.perf_counter() - arguments.began
    print(*summary, *([f"in {arguments.out} after {seconds:.1f} s: {files}"] if files else []), sep="\n")
    return 0


def _complain(arguments: argparse.Namespace, message: str) -> None:
    print(f"probgeo {arguments.command}: {message}", file=sys.stderr)


COMMANDS = {"reproduce": _reproduce, "fit": _fit, "geodesic": _geodesic, "distances": _distances, "explore": _explore}
