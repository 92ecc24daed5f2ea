"""The figures of the commands `fit` and `geodesic`, drawn without a display."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from probgeo import plot
from probgeo.commands.fitting import TIMES
from probgeo.commands.learned import Space
from probgeo.commands.tables import Table
from probgeo.gaussian import Gaussian
from probgeo.geometry import Geodesic
from probgeo.paper.experiment import STYLE


def draw_fit(path: Path, pga: Any, results: dict[str, Any], scores: np.ndarray, X: Table) -> None:
    """In the plane the metric and the principal geodesics, otherwise scores and explained variance."""
    with _figure(path, width=7.0) as figure:
        left, right = figure.subplots(1, 2)
        if len(X.columns) == 2:
            draw_modes(right, X, pga, scores[..., 0])
            _draw_metric(left, X, pga.manifold, like=right)
        else:
            _draw_scores(left, scores)
            _draw_variances(right, results)


def draw_geodesic(path: Path, curve: Geodesic, space: Space, X: Table) -> None:
    """The path in the plane, or its coordinates against time."""
    with _figure(path, width=3.4) as figure:
        ax = figure.subplots()
        if len(X.columns) != 2:
            _draw_coordinates(ax, curve, X.columns)
            return
        plot.points(X.values, ax)
        ends = curve.mean(TIMES[[0, -1]])
        ax.plot(*ends.T, ":", color=plot.COLOURS["ends"], label="straight line")
        plot.curve(curve, ax, nodes=False, label="geodesic")
        ax.plot(*ends.T, "o", color=plot.COLOURS["mean"], markeredgecolor="white", markersize=7, zorder=7)
        _draw_metric(ax, X, space.metric, like=ax)
        _add_legend(ax)


@contextmanager
def _figure(path: Path, width: float) -> Iterator[Figure]:
    """A figure that is written at the end, as .png and .pdf."""
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(width, 3.0))
        yield figure
        for suffix in (".png", ".pdf"):
            figure.savefig(path.with_suffix(suffix), dpi=200, bbox_inches="tight", pad_inches=0.03)


def _draw_metric(ax: Axes, X: Table, metric: Any, like: Axes) -> None:
    """The metric and the data, with the limits of other axes."""
    extent = (*like.get_xlim(), *like.get_ylim())
    ellipses = 9 if _comparable(X.values) else 0  # balls on another scale would mislead
    plot.metric(metric, ax, data=X.values, extent=extent, resolution=160, ellipses=ellipses)
    ax.set_title("learned metric; dark: ways are long")
    _label(ax, X)


def draw_modes(ax: Axes, X: Table, pga: Any, scores: np.ndarray) -> None:
    """Principal geodesics as far as there are data: beyond, they would go anywhere."""
    plot.points(X.values, ax)
    for k, reaches in enumerate(np.quantile(scores, (0.05, 0.95), axis=0).T):
        colour = plot.COLOURS[("mean", "second")[min(k, 1)]]
        for reach, label in zip(reaches, (None, f"mode {k + 1}"), strict=True):
            plot.curve(pga.geodesic(k, reach), ax, nodes=False, label=label, colour=colour)
    error = Gaussian.unchecked(pga.mean_.mean, pga.statistical_cov_)
    plot.ellipse(error, ax, label="mean, 2 standard errors")
    ax.plot(*pga.mean_.mean, "D", color=plot.COLOURS["ends"], markersize=2.5, zorder=6)
    ax.set_title("principal geodesics, where 90% of the scores are")
    _label(ax, X)
    _add_legend(ax)


def _draw_scores(ax: Axes, scores: np.ndarray) -> None:
    ax.set_xlabel("score on mode 1")
    if scores.shape[1] == 1:
        ax.hist(scores[:, 0, 0], bins="auto", color=plot.COLOURS["second"])
        ax.set_ylabel("points")
        return
    mean, std = np.moveaxis(scores[:, :2], -1, 0)
    bars: dict[str, Any] = {"ecolor": plot.COLOURS["nodes"], "elinewidth": 0.8}
    size = 4 if len(mean) <= 500 else 1.5
    (x, y), (dx, dy) = mean.T, 2 * std.T
    ax.errorbar(x, y, dy, dx, fmt=".", color=plot.COLOURS["second"], markersize=size, **bars)
    ax.set_ylabel("score on mode 2")
    ax.set_title(_with_bars("scores", std, np.ptp(mean)))
    ax.set_aspect("equal", adjustable="datalim")  # both are lengths on the manifold


def _draw_variances(ax: Axes, results: dict[str, Any]) -> None:
    variance, std, ratio = (np.asarray(results[f"explained_variance{end}"]) for end in ("", "_std", "_ratio"))
    share = np.divide(ratio, variance, out=np.zeros_like(ratio), where=variance > 0)
    modes = np.arange(1, len(ratio) + 1)
    ax.bar(modes, 100 * ratio, 0.6, color=plot.COLOURS["data"])
    ax.errorbar(modes, 100 * ratio, 200 * std * share, fmt="none", color=plot.COLOURS["ends"])
    ax.set(xticks=modes, xlabel="mode", ylabel="explained variance (%)")
    ax.set_title(_with_bars("explained variance", std, variance.max()))


def _draw_coordinates(ax: Axes, curve: Geodesic, columns: tuple[str, ...]) -> None:
    """The six coordinates that change most, against time."""
    widest = np.argsort(-np.ptp(curve.mean(TIMES), axis=0), kind="stable")[:6].tolist()
    for k, d in enumerate(sorted(widest)):
        colour = mpl.colormaps["viridis"](0.85 * k / max(len(widest) - 1, 1))
        plot.curve(curve, ax, component=d, nodes=False, label=_literal(columns[d]), colour=colour)
    ax.set(xlabel="$t$", ylabel="coordinate" if len(columns) > 1 else _literal(columns[0]))
    if len(widest) < len(columns):
        ax.set_title(f"the {len(widest)} of {len(columns)} coordinates that change most")
    if len(columns) > 1 or not curve.converged:
        _add_legend(ax)


def _with_bars(what: str, std: np.ndarray, size: float) -> str:
    """What error bars mean, or why there are none to be seen: thinner than a line."""
    if 2.0 * np.max(std) < 0.005 * size:
        return f"{what}; numerical errors too small to be seen"
    return f"{what}, 2 numerical standard deviations"


def _comparable(X: np.ndarray) -> bool:
    """Whether both axes can have one scale: no side is five times as long as the other."""
    sides = np.ptp(X, axis=0)
    return bool(sides.max() <= 5.0 * sides.min())


def _label(ax: Axes, X: Table) -> None:
    ax.set(xlabel=_literal(X.columns[0]), ylabel=_literal(X.columns[1]))
    ax.set_aspect("equal" if _comparable(X.values) else "auto", adjustable="box")


def _add_legend(ax: Axes) -> None:
    """Put a legend below the label of the x-axis, where it hides nothing; explain dashes if there are any."""
    if any(line.get_linestyle() == "--" for line in ax.lines):
        ax.plot([], [], "--", color="black", label="dashed: not converged")
    place: dict[str, Any] = {"loc": "upper center", "bbox_to_anchor": (0.5, 0.0), "borderaxespad": 4.5}
    ax.legend(**place, handlelength=1.2, columnspacing=1.2, ncols=3, frameon=False)


def _literal(name: str) -> str:
    """A name that matplotlib shows literally: a dollar sign would begin a formula."""
    return name.replace("$", r"\$")
