"""The command line: `probgeo reproduce`, `probgeo fit`, `probgeo geodesic`."""

import argparse
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from probgeo.commands.options import parser
from probgeo.commands.tables import InputError, Table, read_table

if TYPE_CHECKING:
    from probgeo.commands.learned import Space


def main(argv: list[str] | None = None) -> int:
    """Run a command; 0 if it worked, 1 if a figure failed, 2 if what was asked makes no sense."""
    try:
        arguments = parser().parse_args(argv)
    except SystemExit as stop:  # --help, or a complaint that argparse has printed
        return int(stop.code or 0)
    try:
        return COMMANDS[arguments.command](arguments)
    except (InputError, OSError) as error:
        _complain(arguments, f"error: {error}")
        return 2
    except KeyboardInterrupt:
        _complain(arguments, "stopped")
        return 130


def _reproduce(arguments: argparse.Namespace) -> int:
    from probgeo import paper

    out = Path(arguments.out)
    records = paper.reproduce(
        arguments.figures,
        out,
        quick=arguments.quick,
        seed=arguments.seed,
        again=arguments.again,
        jobs=arguments.jobs,
    )
    # the folder may hold failures of other days, of figures that nobody asked for now
    asked = {name: r for name, r in records.items() if name in (arguments.figures or records)}
    failed = {name: record["error"] for name, record in asked.items() if "error" in record}
    for name, error in failed.items():
        _complain(arguments, f"{name} failed: {error}")
    print(f"report: {out / 'index.html'}")
    if failed:
        return 1
    if arguments.publish is not None:
        from probgeo.paper.publish import publish

        try:
            publish(Path(arguments.publish), out)
        except ValueError as error:  # it names what is not fit to be published
            raise InputError(str(error)) from error
    return 0


def _fit(arguments: argparse.Namespace) -> int:
    from probgeo.commands import fitting
    from probgeo.commands.figures import draw_fit

    table = read_table(arguments.data)
    with _folder(arguments.out) as folder, fitting.heard() as lines:
        space = _learned(arguments, table)
        pga, results, scores = fitting.fit(table, space, arguments.modes, not arguments.quiet)
        draw_fit(folder / "fit", pga, results, scores, space.coordinates(table))
    names = ("data", "components", "rho", "dimensions", "seed")
    settings = {name: getattr(arguments, name) for name in names}
    settings |= {"points": len(table.values), "modes": scores.shape[1]}
    results |= {"settings": settings, "warnings": lines}
    fitting.save_fit(folder, space, results, scores)
    written = "results.json, scores.csv, metric.npz, fit.png, fit.pdf"
    return _done(arguments, lines, fitting.fit_summary(results), written)


def _geodesic(arguments: argparse.Namespace) -> int:
    from probgeo.commands import fitting
    from probgeo.commands.figures import draw_geodesic

    table = read_table(arguments.data)
    ends = (arguments.start, arguments.end)
    fitting.check_ends(table, ends)
    with _folder(arguments.out) as folder, fitting.heard() as lines:
        space = _learned(arguments, table)
        points = space.coordinates(table)
        curve = fitting.geodesic(space, points, ends, not arguments.quiet)
        fitting.save_geodesic(folder, curve, points.columns)
        draw_geodesic(folder / "geodesic", curve, space, points)
    written = "geodesic.csv, geodesic.png, geodesic.pdf"
    return _done(arguments, lines, fitting.geodesic_summary(curve, ends), written)


def _learned(arguments: argparse.Namespace, table: Table) -> "Space":
    """The metric of these data, or that of a file."""
    from probgeo.commands.learned import Space

    file = getattr(arguments, "metric", None)
    if file is None:
        if arguments.components is None:
            arguments.components = 10
        if arguments.rho is None:
            arguments.rho = 1.0
        options = (arguments.components, arguments.rho, arguments.dimensions, arguments.seed)
        return Space.learn(table, *options)
    for name in ("components", "rho", "dimensions"):
        if getattr(arguments, name) is not None:
            raise InputError(f"--{name} is for a metric yet to be learned: leave out --metric")
    return Space.load(Path(file))


@contextmanager
def _folder(name: str) -> Iterator[Path]:
    """Made at once: it would be a pity to find out after the work that it cannot be.

    Where nothing comes of it, nothing is left behind.
    """
    folder = Path(name)
    new = not folder.exists()
    folder.mkdir(parents=True, exist_ok=True)
    try:
        yield folder
    except BaseException:
        if new and not any(folder.iterdir()):
            folder.rmdir()
        raise


def _done(arguments: argparse.Namespace, warned: list[str], summary: list[str], files: str) -> int:
    for line in warned:
        _complain(arguments, f"warning: {line}")
    print(*summary, f"in {arguments.out}: {files}", sep="\n")
    return 0


def _complain(arguments: argparse.Namespace, message: str) -> None:
    print(f"probgeo {arguments.command}: {message}", file=sys.stderr)


COMMANDS = {"reproduce": _reproduce, "fit": _fit, "geodesic": _geodesic}
