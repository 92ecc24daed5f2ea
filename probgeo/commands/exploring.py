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
    if arguments.example is None:
        return _of_table(arguments, tell)
    for name in ("colour", "header", "components", "rho", "dimensions"):
        if getattr(arguments, name) is not None:
            raise InputError(f"--{name} is for a table: leave out --example")
    return EXAMPLES[arguments.example]()


def _of_table(arguments: argparse.Namespace, tell: Callable[[str], None]) -> Scene:
    table = read_table(arguments.data, arguments.header)
    rows = sampled(len(table.values), arguments.sample, arguments.seed)
    table, colours = _without(table.take(rows), arguments.colour)
    table = table.without_constants()
    for note in table.notes:
        tell(note)
    if len(rows) < 3 or table.values.shape[1] < 2 or arguments.dimensions == 1:
        raise InputError(
            f"{arguments.data} must leave at least three points of two columns that vary, got "
            f"{len(rows)} of {arguments.dimensions or table.values.shape[1]}"
        )
    tell(f"learning a metric from {len(rows)} points")
    options = (arguments.components, arguments.rho, arguments.dimensions, arguments.seed)
    with heard() as warned:
        space = Space.learn(table, *options)
    for line in warned:
        tell(f"warning: {line}")
    points = space.coordinates(table)
    learning = "metrics.from_mixture(X, {components}, rho={rho}, seed=SEED)"
    return Scene(
        np.ascontiguousarray(points.values),
        points.columns,
        Path(arguments.data).stem,
        components=len(space.metric.centers),
        rho=float(space.metric.rho),
        colours=colours,
        recipe=_recipe(arguments, table, rows),
        learning=learning.replace("SEED", str(arguments.seed)),
        view="coordinates" if points.values.shape[1] == 2 else "principal",
    )


def _without(table: Table, column: str | None) -> tuple[Table, dict[str, np.ndarray]]:
    """The table without the column that is a colour only."""
    if column is None:
        return table, {}
    if column not in table.columns:
        raise InputError(f"--colour must be one of {', '.join(table.columns)}, got {column!r}")
    k = table.columns.index(column)
    rest = (*table.columns[:k], *table.columns[k + 1 :])
    return (Table(np.delete(table.values, k, axis=1), rest, table.notes), {column: table.values[:, k]})


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
            "X = X - X.mean(axis=0)",
            f"basis = np.linalg.svd(X, full_matrices=False)[2][:{arguments.dimensions}]",
            "basis *= np.sign(basis[range(len(basis)), np.argmax(np.abs(basis), axis=1)])[:, None]",
            "X = X @ basis.T",
        ]
    return "\n".join(lines)
