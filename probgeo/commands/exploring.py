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
    if arguments.example is not None:
        for name in ("colour", "header", "components", "rho", "dimensions"):
            if getattr(arguments, name) is not None:
                raise InputError(f"--{name} is for a table: leave out --example")
        return EXAMPLES[arguments.example]()
    asked = {name: getattr(arguments, name) for name in ("data", "header", "colour", "sample", "seed")}
    table, colours = table_of(**asked)
    for note in table.notes:
        tell(note)
    points, columns = table.values.shape
    if points < 3 or columns < 2 or arguments.dimensions == 1:
        raise InputError(
            f"{arguments.data} must leave at least three points of two columns that vary, got "
            f"{points} of {arguments.dimensions or columns}"
        )
    tell(f"learning a metric from {points} points")
    with heard() as warned:
        space = Space.learn(table, arguments.components, arguments.rho, arguments.dimensions, arguments.seed)
    for line in warned:
        tell(f"warning: {line}")
    given = ", ".join(f"{name}={value!r}" for name, value in asked.items())
    recipe = f"from probgeo.commands.exploring import table_of\n\nX = table_of({given})[0].values"
    if arguments.dimensions is not None:
        project = f'X = PCA({arguments.dimensions}, svd_solver="full").fit_transform(X)'
        recipe = f"from sklearn.decomposition import PCA\n{recipe}\n{project}"
    projected = space.coordinates(table)
    return Scene(
        np.ascontiguousarray(projected.values),
        projected.columns,
        Path(arguments.data).stem,
        components=len(space.metric.centers),
        rho=float(space.metric.rho),
        colours=colours,
        recipe=recipe,
        learning=f"metrics.from_mixture(X, {{components}}, rho={{rho}}, seed={arguments.seed})",
        view="coordinates" if len(projected.columns) == 2 else "principal",
    )


def table_of(
    data: str, header: bool | None, colour: str | None, sample: int | None, seed: int
) -> tuple[Table, dict[str, np.ndarray]]:
    """The points to explore, perhaps a sample, and the column that is only their colour."""
    table = read_table(data, header)
    table = table.take(sampled(len(table.values), sample, seed))
    if colour is None:
        return table.without_constants(), {}
    if colour not in table.columns:
        raise InputError(f"--colour must be one of {', '.join(table.columns)}, got {colour!r}")
    k = table.columns.index(colour)
    others = np.delete(np.arange(len(table.columns)), k)
    return table.only(others).without_constants(), {colour: table.values[:, k]}
