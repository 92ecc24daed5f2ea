"""Curves for other programs: tables of pandas, labelled arrays of xarray, pictures in notebooks.

Both packages are optional (`pip install "probgeo[frames]"`).
"""

import base64
import html
import io
from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import pandas
    import xarray

    from probgeo.ode.curve import Curve

COLUMNS = {"std": "total", "std_numerical": "numerical", "std_boundary": "boundary"}


def optional(name: str) -> Any:
    """An optional package, or an error that says how to install it."""
    try:
        return import_module(name)
    except ImportError as error:
        raise ImportError(f'this needs {name}, which is not installed: pip install "probgeo[frames]"') from error


def table(columns: dict[str, Any], batch_shape: tuple[int, ...]) -> "pandas.DataFrame":
    """One row for every member of a batch."""
    pandas = optional("pandas")
    index = None
    if len(batch_shape) > 1:
        names = [f"axis {k}" for k in range(len(batch_shape))]
        index = pandas.MultiIndex.from_product([range(n) for n in batch_shape], names=names)
    elif batch_shape:
        index = pandas.RangeIndex(batch_shape[0], name="member")
    flat = {name: np.asarray(column).reshape(-1) for name, column in columns.items()}
    return pandas.DataFrame(flat, index=index)


def dataset(curve: "Curve", t: Any, n_samples: int, seed: int) -> "xarray.Dataset":
    """Means, standard deviations and samples with named axes; see `Curve.to_xarray`."""
    xarray = optional("xarray")
    t0, t1 = np.asarray(curve.t_span)
    times = np.linspace(t0, t1, 101) if t is None else np.asarray(t, dtype=float)
    if times.ndim != 1:
        raise ValueError(f"t must be a vector of times, got shape {times.shape}")
    axes = curve.batch_shape
    batch = ("member",) if len(axes) == 1 else tuple(f"axis_{k}" for k in range(len(axes)))
    shared = (*batch, "t", "component")
    values: dict[str, Any] = {"mean": (shared, np.asarray(curve.mean(times)))}
    for name, source in COLUMNS.items():
        values[name] = (shared, np.asarray(curve.std(times, source=source)))  # type: ignore[arg-type]
    if n_samples:
        values["sample"] = (("draw", *shared), np.asarray(curve.sample(seed, n_samples, times)))
    members = {name: (batch, column) for name, column in curve._columns().items()}
    coordinates = {"t": times, "component": np.arange(curve.dimension), **members}
    return xarray.Dataset(values, coords=coordinates)


def as_html(curve: "Curve") -> str:
    """What a notebook shows: `repr`, and a picture of at most fifty members."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    from probgeo import plot  # only here: pictures are made from results, not the other way round

    figure = Figure(figsize=(3.6, 2.4), dpi=100, layout="constrained")
    FigureCanvasAgg(figure)
    ax = figure.add_subplot()
    shown = curve
    for _ in curve.batch_shape[1:]:
        shown = shown[0]
    if curve.batch_shape:
        shown = shown[: min(len(shown), 50)]
    in_plane = curve.dimension == 2
    if curve.dimension <= 2:
        plot.curve(shown, ax, nodes=False)
    else:
        for component in range(3):
            plot.curve(shown, ax, component=component, nodes=False, colour=f"C{component}")
    ax.set(xlabel="$y_1$" if in_plane else "$t$", ylabel="$y_2$" if in_plane else "$y$")
    if in_plane:
        ax.set_aspect("equal", "datalim")
    png, said = io.BytesIO(), html.escape(repr(curve))
    figure.savefig(png, format="png")
    picture = base64.b64encode(png.getvalue()).decode("ascii")
    return f'<div><code>{said}</code></div><img alt="{said}" src="data:image/png;base64,{picture}">'
