"""The command line: `probgeo reproduce`, `fit`, `geodesic`, `distances` and `explore`."""

import argparse
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
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
        kept = "what is finished is kept" if keeping else "nothing written"
        _complain(arguments, f"stopped, {kept}")
        return 130


def _reproduce(arguments: argparse.Namespace) -> int:
    from probgeo import paper

    out = Path(arguments.out)
    records = paper.reproduce(
        arguments.figures, out, quick=arguments.quick, seed=arguments.seed, again=arguments.again, jobs=arguments.jobs
    )
    # the folder may hold failures of other days, of figures that nobody asked for now
    asked = {name: r for name, r in records.items() if name in (arguments.figures or records)}
    failed = {name: record["error"] for name, record in asked.items() if "error" in record}
    for name, error in failed.items():
        _complain(arguments, f"{name} failed: {error}")
    print(f"report: {out / 'index.html'}")
    return 1 if failed else 0


def _fit(arguments: argparse.Namespace) -> int:
    from probgeo.commands import fitting
    from probgeo.commands.figures import draw_fit

    table = read_table(arguments.data, arguments.header).without_constants()
    rows = fitting.sampled(len(table.values), arguments.sample, arguments.seed)
    used = table.take(rows)
    with _staged(arguments.out) as folder:
        with fitting.heard() as lines:
            tell = _progress(arguments)
            tell(f"learning a metric from {len(rows)} points")
            space = _learned(arguments, used)
            bars = not arguments.quiet and sys.stderr.isatty()  # in a file they make no sense
            pga, results, scores = fitting.fit(used, space, arguments.modes, tell, bars)
            draw_fit(folder / "fit", pga, results, scores, space.coordinates(used))
        names = ("data", "dimensions", "seed")
        settings = {name: getattr(arguments, name) for name in names}
        settings |= {"points": len(table.values), "sample": len(rows), "modes": scores.shape[1]}
        settings |= {"components": len(space.metric.centers), "columns": table.columns}
        settings |= {"rho": float(space.metric.rho)}
        results |= {"settings": settings, "notes": table.notes, "warnings": lines}
        results["seconds"] = round(time.perf_counter() - arguments.began, 1)
        fitting.save_fit(folder, space, results, scores, rows)
    written = "results.json, scores.csv, metric.npz, fit.png, fit.pdf"
    return _done(arguments, lines, [*table.notes, *fitting.fit_summary(results)], written)


def _geodesic(arguments: argparse.Namespace) -> int:
    from probgeo.commands import fitting
    from probgeo.commands.figures import draw_geodesic

    table = read_table(arguments.data, arguments.header).without_constants()
    ends = (arguments.start, arguments.end)
    fitting.check_ends(table, ends)
    with _staged(arguments.out) as folder, fitting.heard() as lines:
        rows = fitting.sampled(len(table.values), arguments.sample, arguments.seed)
        space = _learned(arguments, table.take(rows))
        points = space.coordinates(table)
        curve = fitting.geodesic(space, points, ends)
        fitting.save_geodesic(folder, curve, points.columns)
        draw_geodesic(folder / "geodesic", curve, space, points.take(rows))
    written = "geodesic.csv, geodesic.png, geodesic.pdf"
    notes = list(table.notes)
    if arguments.metric is None:
        notes += fitting.sample_note(len(table.values), len(rows), arguments.seed)
    summary = [*notes, *fitting.geodesic_summary(curve, ends)]
    return _done(arguments, lines, summary, written)


def _distances(arguments: argparse.Namespace) -> int:
    from probgeo.cluster import estimate
    from probgeo.cluster.job import Job
    from probgeo.commands import distances, fitting
    from probgeo.ragged import jobs, who_works

    lines: list[str] = []
    try:
        if arguments.gather is not None:
            if arguments.data is not None:
                raise InputError("--gather needs no DATA: its folder knows the points")
            summary = distances.gathered(Path(arguments.gather))
        elif arguments.data is None or arguments.metric is None:
            raise InputError("give DATA and --metric FILE, or --gather DIR")
        else:
            table = read_table(arguments.data, arguments.header)
            manifold, X = distances.space_of(Path(arguments.metric), table)
            with fitting.heard() as lines, jobs(arguments.jobs):
                if arguments.estimate:
                    cost = estimate(manifold, X, chunk=arguments.chunk)
                    summary = distances.cost_lines(cost, cores=who_works()[0])
                else:
                    bar = not arguments.quiet and sys.stderr.isatty()
                    job, out = Job.of(manifold, X, chunk=arguments.chunk), Path(arguments.out)
                    summary = distances.solve(job, manifold, out, arguments.shard, bar)
    except ValueError as error:
        raise InputError(str(error)) from error
    for line in lines:
        _complain(arguments, f"warning: {line}")
    print(*summary, sep="\n")
    return 0


def _explore(arguments: argparse.Namespace) -> int:
    import webbrowser

    from probgeo.commands.exploring import scene_of
    from probgeo.explorer import Explorer

    page = Explorer(scene_of(arguments, _progress(arguments)), arguments.port)
    print(f"exploring at {page.address}", flush=True)
    print("it ends some seconds after the tab is closed, or with Ctrl-C", flush=True)
    if arguments.browser:
        webbrowser.open(page.address)
    page.wait()
    return 0


def _learned(arguments: argparse.Namespace, table: Table) -> "Space":
    """The metric of these data, or that of a file."""
    from probgeo.commands.learned import Space

    file = getattr(arguments, "metric", None)
    if file is None:
        options = (arguments.components, arguments.rho, arguments.dimensions, arguments.seed)
        return Space.learn(table, *options)
    for name in ("components", "rho", "dimensions"):
        if getattr(arguments, name) is not None:
            raise InputError(f"--{name} is for a metric yet to be learned: leave out --metric")
    return Space.load(Path(file))


@contextmanager
def _staged(name: str) -> Iterator[Path]:
    """Where to put files that appear in a folder once all of them are complete.

    The folder is made at once: it would be a pity to find out after the work that it cannot be.
    Where nothing comes of it, nothing is left behind.
    """
    folder = Path(name)
    new = [path for path in (folder, *folder.parents) if not path.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    try:
        with TemporaryDirectory(prefix=".unfinished-", dir=folder) as unfinished:
            yield Path(unfinished)
            for file in sorted(Path(unfinished).iterdir()):
                os.replace(file, folder / file.name)
    except BaseException:
        for path in new:
            if not any(path.iterdir()):
                path.rmdir()
        raise


def _progress(arguments: argparse.Namespace) -> Callable[[str], None]:
    """How to tell what is going on, if that is wanted."""

    def tell(line: str) -> None:
        if not getattr(arguments, "quiet", False):
            print(line, file=sys.stderr, flush=True)

    return tell


def _done(arguments: argparse.Namespace, warned: list[str], summary: list[str], files: str) -> int:
    for line in warned:
        _complain(arguments, f"warning: {line}")
    seconds = time.perf_counter() - arguments.began
    print(*summary, f"in {arguments.out} after {seconds:.1f} s: {files}", sep="\n")
    return 0


def _complain(arguments: argparse.Namespace, message: str) -> None:
    print(f"probgeo {arguments.command}: {message}", file=sys.stderr)


COMMANDS = {"reproduce": _reproduce, "fit": _fit, "geodesic": _geodesic, "distances": _distances, "explore": _explore}
