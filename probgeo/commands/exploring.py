"""What `probgeo explore` shows: an example, or a table."""

import argparse
from collections.abc import Callable
from pathlib import Path

import numpy as np

from probgeo.commands.fitting import heard, sampled
from probgeo.commands.learned import Space
from probgeo.commands.tables import InputError, Table, read_table
from probgeo.explorer.examples import EXAMPLES
from probgeo.explorer.scene import Scene


def scene_of(arguments: argparse.Namespace, tell: Callable[[str], None]) -> Scene:
    """The scene that was asked for."""
    if arguments.example is not None:
        for name in ("colour", "header", "components", "rho", "dimensions"):
            if getattr(arguments, name) is not None:
                raise InputError(f"--{name} is for a table: leave out --example")
        return EXAMPLES[arguments.example]()
    table = read_table(arguments.data, arguments.header)
    rows = sampled(len(table.values), arguments.sample, arguments.seed)
    table, colours = table.take(rows), {}
    if (colour := arguments.colour) is not None:
        if colour not in table.columns:
            raise InputError(f"--colour must be one of {', '.join(table.columns)}, got {colour!r}")
        k = table.columns.index(colour)
        colours[colour] = table.values[:, k]
        rest = np.delete(np.arange(len(table.columns)), k)
        table = table.only(rest)
    table = table.without_constants()
    for note in table.notes:
        tell(note)
    if len(rows) < 3 or table.values.shape[1] < 2 or arguments.dimensions == 1:
        raise InputError(
            f"{arguments.data} must leave at least three points of two columns that vary, got "
            f"{len(rows)} of {arguments.dimensions or table.values.shape[1]}"
        )
    tell(f"learning a metric from {len(rows)} points")
    with heard() as warned:
        space = Space.learn(table, arguments.components, arguments.rho, arguments.dimensions, arguments.seed)
    for line in warned:
        tell(f"warning: {line}")
    points = space.coordinates(table)
    return Scene(
        np.ascontiguousarray(points.values),
        points.columns,
        Path(arguments.data).stem,
        components=len(space.metric.centers),
        rho=float(space.metric.rho),
        colours=colours,
        recipe=_recipe(arguments, table, rows),
        learning=f"metrics.from_mixture(X, {{components}}, rho={{rho}}, seed={arguments.seed})",
        view="coordinates" if points.values.shape[1] == 2 else "principal",
    )


def _recipe(arguments: argparse.Namespace, table: Table, rows: np.ndarray) -> str:
    """Python that reads the same points."""
    lines = [
        "from probgeo.commands.tables import read_table",
        "",
        f"table = read_table({str(arguments.data)!r}, {arguments.header!r})",
        f"X = table.values[:, [table.columns.index(name) for name in {table.columns!r}]]",
    ]
    if arguments.sample is not None:
        chosen = f"np.random.default_rng({arguments.seed}).choice(len(X), {len(rows)}, replace=False)"
        lines.append(f"if len(X) > {len(rows)}:\n    X = X[np.sort({chosen})]")
    if arguments.dimensions is not None:
        lines += [
            "from sklearn.decomposition import PCA",
            "",
            f'X = PCA({arguments.dimensions}, svd_solver="full").fit_transform(X)',
        ]
    return "\n".join(lines)
