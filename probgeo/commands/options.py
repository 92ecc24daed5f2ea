"""The options of the commands, and which values they accept."""

import argparse
import math
from collections.abc import Callable

import probgeo


def parser() -> argparse.ArgumentParser:
    command_line = argparse.ArgumentParser(
        prog="probgeo",
        description="Statistics on learned Riemannian manifolds, with error bars.",
        epilog="A first run compiles for some seconds. What is compiled is kept for the next one.",
    )
    command_line.add_argument("--version", action="version", version=f"probgeo {probgeo.__version__}")
    commands = command_line.add_subparsers(dest="command", required=True, metavar="COMMAND")
    seed = _whole(0, 2**32 - 1)  # what scikit-learn takes

    paper = commands.add_parser("reproduce", help="the figures of the paper, with a report")
    add = paper.add_argument
    add("figures", nargs="*", type=_figure, metavar="FIGURE", help="default: all")
    add("--out", default="figures", metavar="DIR", help="default: figures")
    add("--quick", action="store_true", help="smaller experiments")
    add("--seed", type=seed, default=0, metavar="S")
    add("--again", action="store_true", help="also what is finished in DIR")
    jobs = "processes at a time; default: two if quick, else one, since run times are measured"
    add("--jobs", type=_whole(1, 64), metavar="N", help=jobs)

    header = argparse.ArgumentParser(add_help=False)
    named = "whether the first line of a .csv names the columns, default: found out, and told"
    header.add_argument("--header", action=argparse.BooleanOptionalAction, help=named)
    quiet = argparse.ArgumentParser(add_help=False)
    quiet.add_argument("--quiet", action="store_true", help="no progress, only results")
    learned = argparse.ArgumentParser(add_help=False, parents=[header])
    add = learned.add_argument
    # 14 ms each on a Swiss roll (28 Gaussians), on one core
    sample = "use N points, drawn with --seed, if there are more, or `all`; default: %(default)s"
    add("--sample", type=_sample, default=2000, metavar="N", help=sample)
    components = "Gaussians from which the metric is learned, default: as many as BIC prefers"
    add("--components", type=_whole(1), metavar="K", help=components)
    add("--rho", type=_not_negative, help="sharpness of the metric, default: 0.3; paper: 1")
    add("--dimensions", type=_whole(1), metavar="D", help="project on the first D principal components first")
    add("--seed", type=seed, default=0, metavar="S")
    shared = argparse.ArgumentParser(add_help=False, parents=[learned, quiet])
    data = ".csv (with a header or without) or .npy, one point a row; columns of comparable size"
    shared.add_argument("data", metavar="DATA", help=data)
    shared.add_argument("--out", default="results", metavar="DIR", help="default: results")

    fit = commands.add_parser("fit", parents=[shared], help="mean and principal geodesics of data")
    fit.add_argument("--modes", type=_whole(1), metavar="M", help="principal geodesics, default: 2")

    path = commands.add_parser("geodesic", parents=[shared], help="shortest path between two rows")
    for name, end in (("--from", "start"), ("--to", "end")):
        path.add_argument(name, dest=end, type=int, required=True, metavar="ROW", help="counted from 0")
    path.add_argument("--metric", metavar="FILE", help="metric.npz of a `fit`, not learned again")

    about = "all distances, in shards that can be continued"
    pairs = commands.add_parser("distances", parents=[header, quiet], help=about)
    add = pairs.add_argument
    add("data", nargs="?", metavar="DATA", help=".csv or .npy, one point a row")
    add("--metric", metavar="FILE", help="metric.npz of a `fit` or `probgeo.save`")
    add("--out", default="distances", metavar="DIR", help="default: distances")
    add("--chunk", type=_whole(1), metavar="P", help="pairs of a file")
    add("--jobs", type=_whole(1), metavar="N", help="threads, default: all cores")
    what = pairs.add_mutually_exclusive_group()
    what.add_argument("--shard", type=_share, metavar="I/N", help="only the I-th of N shares")
    what.add_argument("--gather", metavar="DIR", help="arrays of the shards in DIR")
    what.add_argument("--estimate", action="store_true", help="how long it takes, from a sample")

    page = commands.add_parser("explore", parents=[learned], help="a page on which ends of geodesics can be dragged")
    what = page.add_mutually_exclusive_group(required=True)
    what.add_argument("data", nargs="?", metavar="DATA", help=".csv or .npy, one point a row")
    what.add_argument("--example", choices=("moons", "digits", "ones", "bodies"))
    page.add_argument("--colour", metavar="COLUMN", help="colour by this column, which the metric does not see")
    page.add_argument("--port", type=_whole(0, 65535), default=0, help="default: any that is free")
    page.add_argument("--browser", action=argparse.BooleanOptionalAction, default=True, help="open one, default")
    return command_line


def _share(text: str) -> tuple[int, int]:
    i, _, n = text.partition("/")
    if i.isdecimal() and n.isdecimal() and 1 <= int(i) <= int(n):
        return int(i), int(n)
    raise argparse.ArgumentTypeError(f"must be I/N, from 1/N to N/N, got {text!r}")


def _sample(text: str) -> int | None:
    try:
        return None if text == "all" else _whole(1)(text)
    except argparse.ArgumentTypeError as error:
        raise argparse.ArgumentTypeError(f"{error}; or `all`") from error


def _whole(least: int, most: int | None = None) -> Callable[[str], int]:
    def parse(text: str) -> int:
        try:
            number = int(text)
        except ValueError:
            number = least - 1
        if number < least or (most is not None and number > most):
            limit = f">= {least}" if most is None else f"from {least} to {most}"
            raise argparse.ArgumentTypeError(f"must be a whole number {limit}, got {text!r}")
        return number

    return parse


def _not_negative(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not 0 <= number < math.inf:
        raise argparse.ArgumentTypeError(f"must be a number >= 0, got {text!r}")
    return number


def _figure(name: str) -> str:
    from probgeo.paper import EXPERIMENTS

    if name not in EXPERIMENTS:
        raise argparse.ArgumentTypeError(f"unknown figure {name!r}; there are {', '.join(EXPERIMENTS)}")
    return name
