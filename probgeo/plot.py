"""Pictures of curves, manifolds and statistics with matplotlib: axes in, axes out.

The colours can be told apart by colour-blind readers, and by their lightness in a grey print: means are dark, samples
lighter and thin, nodes light with a dark rim, bands and data pale.
"""

from typing import TYPE_CHECKING, Any

import numpy as np

from probgeo.gaussian import Gaussian, covariance_factor
from probgeo.metrics import as_metric
from probgeo.ode.curve import Curve

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["curve", "ellipse", "geodesics", "mean", "mesh", "metric", "points", "principal_geodesics"]

COLOURS = {
    "mean": "#8c1515",
    "samples": "#009e73",
    "nodes": "#f0a830",
    "data": "#b8b8b8",
    "ends": "#000000",
    "second": "#1f5f99",
}


def curve(
    curve: Curve,
    ax: "Axes | None" = None,
    *,
    component: int | None = None,
    n_samples: int = 0,
    seed: int = 0,
    n_times: int = 200,
    nodes: bool = True,
    band: bool = True,
    label: str | None = None,
    colour: Any = None,
) -> "Axes":
    """Draw a curve: one component against time, or a path in the plane.

    A curve in one dimension, or one `component` of a longer one, is drawn against time with a band of two standard
    deviations; a curve in the plane as a path, whose uncertainty shows in the samples only. The mean of a curve that
    did not converge is dashed.

    Parameters
    ----------
    curve : Curve
        Of a batch, every member is drawn.
    ax : Axes, optional
        Where to draw; a new, labelled figure by default.
    component : int, optional
        Which of the D components to draw against time; needed if D > 2.
    n_samples, seed : int
        How many joint samples to draw as thin lines, and their seed.
    n_times : int
        Number of times, at equal steps over the interval, that make up each line.
    nodes, band : bool
        Whether to mark where f was evaluated, and to draw the band.
    label : str, optional
        Name of the mean in a legend.
    colour : optional
        Colour of the mean and the band.

    Returns
    -------
    Axes

    Examples
    --------
    >>> from probgeo import plot, solve_bvp
    >>> c = solve_bvp(lambda t, y, dy: -y, (0.0, 1.0), [0.0], [1.0])
    >>> ax = plot.curve(c, n_samples=5)
    >>> len(ax.lines)  # mean, nodes and samples
    7
    """
    shown = _shown(curve.dimension, component)
    if n_times < 2:
        raise ValueError(f"n_times must be at least 2, got {n_times}")
    if n_samples < 0:
        raise ValueError(f"n_samples must not be negative, got {n_samples}")
    in_plane = len(shown) == 2
    name = "$y$" if curve.dimension == 1 else f"$y_{{{shown[0] + 1}}}$"
    ax = _axes(ax, ("$y_1$", "$y_2$") if in_plane else ("$t$", name))
    colour = COLOURS["mean"] if colour is None else colour
    t0, t1 = np.asarray(curve.t_span)
    t = np.linspace(t0, t1, n_times)
    means, converged = curve.mean(t), np.asarray(curve.converged)
    stds = curve.std(t) if band and not in_plane else None
    samples: Any = curve.sample(seed, n_samples, t) if n_samples else ()
    thin: dict[str, Any] = {"color": COLOURS["samples"], "linewidth": 0.5, "alpha": 0.7}
    rim: dict[str, Any] = {"markersize": 3, "markeredgecolor": colour, "markeredgewidth": 0.5}

    def points(times: np.ndarray, values: Any) -> tuple[np.ndarray, ...]:
        """What to plot: the two coordinates of the path, or time and the component."""
        columns = tuple(values[..., i] for i in shown)
        return columns if in_plane else (times, *columns)

    for index in np.ndindex(curve.batch_shape):
        if stds is not None:
            (_, mean), (_, std) = points(t, means[index]), points(t, stds[index])
            ax.fill_between(t, mean - 2 * std, mean + 2 * std, color=colour, alpha=0.18, linewidth=0, zorder=1)
        for sample in samples:
            ax.plot(*points(t, sample[index]), **thin, zorder=2)
        style = "-" if converged[index] else "--"
        ax.plot(*points(t, means[index]), style, color=colour, linewidth=1.5, zorder=3, label=label)
        label = None  # one entry in the legend for the whole batch
        if nodes:
            member = curve[index] if index else curve
            at = points(member.nodes, member.mean(member.nodes))
            ax.plot(*at, "o", color=COLOURS["nodes"], **rim, zorder=4)
    return ax


def ellipse(
    gaussian: Gaussian, ax: "Axes | None" = None, n_std: float = 2.0, *, label: str | None = None, colour: Any = None
) -> "Axes":
    """Draw the ellipse `n_std` standard deviations around the mean of a Gaussian in the plane.

    Of a batch, every member is drawn; a singular covariance shows as a line or a point.

    Examples
    --------
    >>> from probgeo import plot
    >>> ax = plot.ellipse(Gaussian([1.0, 2.0], [[0.04, 0.01], [0.01, 0.02]]))
    """
    dimension = gaussian.mean.shape[-1]
    if dimension != 2:
        raise ValueError(f"gaussian must be two-dimensional for an ellipse, got D = {dimension}")
    if not n_std > 0:
        raise ValueError(f"n_std must be positive, got {n_std}")
    ax = _axes(ax, ("$y_1$", "$y_2$"))
    colour = COLOURS["ends"] if colour is None else colour
    _outline(gaussian, ax, n_std, color=colour, label=label)
    return ax


def geodesics(
    geodesics: Curve,
    ax: "Axes | None" = None,
    *,
    data: Any = None,
    n_samples: int = 0,
    seed: int = 0,
    label: str | None = None,
    colour: Any = None,
) -> "Axes":
    """Draw geodesics in the plane with their ends, over the data; flagged ones are dashed.

    Examples
    --------
    >>> from probgeo import Manifold, metrics, plot
    >>> c = Manifold(metrics.HalfPlane()).geodesic([[0.0, 1.0]], [[1.0, 1.0], [2.0, 1.0]])
    >>> ax = plot.geodesics(c)
    >>> len(ax.lines)  # two means, two pairs of ends
    4
    """
    ax = _plane(geodesics.dimension, ax, data)
    curve(geodesics, ax, n_samples=n_samples, seed=seed, nodes=False, label=label, colour=colour)
    for pair in geodesics.mean(geodesics.t_span).reshape(-1, 2, 2):
        ax.plot(*pair.T, "o", color=COLOURS["ends"], markersize=3, zorder=5)
    return ax


def points(data: Any, ax: "Axes | None" = None, *, label: str | None = None, colour: Any = None) -> "Axes":
    """Draw data (P, 2) as dots, pale by default."""
    given = np.asarray(data, dtype=float)
    if given.ndim != 2 or given.shape[1] != 2:
        raise ValueError(f"data must have shape (P, 2), got {given.shape}")
    ax = _axes(ax, ("$x_1$", "$x_2$"))
    colour = COLOURS["data"] if colour is None else colour
    ax.plot(*given.T, ".", color=colour, markersize=4, zorder=1, label=label)
    return ax


def metric(
    metric: Any,
    ax: "Axes | None" = None,
    *,
    data: Any = None,
    extent: tuple[float, float, float, float] | None = None,
    resolution: int = 80,
    ellipses: int = 9,
    background: bool = True,
) -> "Axes":
    """Draw a metric in the plane: how it magnifies areas, and its unit balls.

    The darker the background, the larger sqrt(det M), and the longer the paths there. Each ellipse holds the points
    within the same small distance of its centre.

    Parameters
    ----------
    metric : metric or Manifold
    data : array (P, 2), optional
        Drawn too; without `extent` they say where to look.
    extent : (left, right, bottom, top), optional
    resolution : int
        Points of the background along each side.
    ellipses : int
        How many along each side; 0 for none.
    background : bool

    Examples
    --------
    >>> from probgeo import metrics, plot
    >>> ax = plot.metric(metrics.HalfPlane(), extent=(-1.0, 1.0, 0.2, 2.0), ellipses=3)
    >>> len(ax.images), len(ax.lines)
    (1, 9)
    """
    function = as_metric(getattr(metric, "metric", metric), dimension=2)
    if extent is None:
        if data is None:
            raise ValueError("give extent=(left, right, bottom, top), or data")
        low, high = np.min(data, axis=0), np.max(data, axis=0)
        room = 0.15 * np.max(high - low)
        extent = low[0] - room, high[0] + room, low[1] - room, high[1] + room
    left, right, bottom, top = extent
    ax = _axes(ax, ("$x_1$", "$x_2$"))
    if background:
        at = _grid(np.linspace(left, right, resolution), np.linspace(bottom, top, resolution))
        sign, log_volume = np.linalg.slogdet(function.tensors_at(at))
        image = np.where(sign > 0, 0.5 * log_volume, np.nan).reshape(resolution, resolution)
        look: Any = {"cmap": "Greys", "alpha": 0.6, "aspect": "auto", "zorder": 0}
        ax.imshow(image, origin="lower", extent=extent, **look)
    if ellipses:
        middles = (np.arange(ellipses) + 0.5) / ellipses
        at = _grid(left + (right - left) * middles, bottom + (top - bottom) * middles)
        usable, covs = balls(function.tensors_at(at), min(right - left, top - bottom) / ellipses)
        _outline(Gaussian.unchecked(at[usable], covs), ax, 1.0, color=COLOURS["second"], linewidth=0.7)
    if data is not None:
        points(data, ax, colour=COLOURS["ends"])  # pale ones would drown in the grey
    ax.set(xlim=(left, right), ylim=(bottom, top))
    ax.set_aspect("equal", adjustable="box")
    return ax


def mean(estimator: Any, ax: "Axes | None" = None, *, data: Any = None, label: str | None = None) -> "Axes":
    """Draw a mean or median in the plane with two ellipses of two standard deviations.

    The solid one is numerical, the dashed one statistical; the first may be too small to be seen.
    """
    centre, colour = getattr(estimator, "median_", None) or estimator.mean_, COLOURS["mean"]
    ax = _plane(centre.mean.shape[-1], ax, data)
    ax.plot(*centre.mean, "D", color=colour, markersize=5, zorder=6, label=label)
    ellipse(centre, ax, colour=colour)
    statistical = Gaussian.unchecked(centre.mean, estimator.statistical_cov_)
    _outline(statistical, ax, color=colour, linestyle="--")
    return ax


def principal_geodesics(
    pga: Any, ax: "Axes | None" = None, *, data: Any = None, deviations: float = 2.0, n_samples: int = 0, seed: int = 0
) -> "Axes":
    """Draw principal geodesics in the plane, so many standard deviations each way, and the mean.

    Samples show what is unknown of mean, direction and curve.
    """
    ax = _plane(len(pga.mean_.mean), ax, data)
    look: Any = {"nodes": False, "n_samples": n_samples, "seed": seed}
    for k, variance in enumerate(pga.explained_variance_):
        look["colour"] = (COLOURS["mean"], COLOURS["second"])[min(k, 1)]
        for reach, label in ((-deviations, None), (deviations, f"principal geodesic {k + 1}")):
            curve(pga.geodesic(k, reach * variance**0.5), ax, label=label, **look)
    ax.plot(*pga.mean_.mean, "D", color=COLOURS["ends"], markersize=5, zorder=6)
    return ax


def mesh(
    vertices: Any,
    faces: Any,
    ax: "Axes | None" = None,
    *,
    view: str = "front",
    colour: Any = "#b9a48c",
    shift: tuple[float, float] = (0.0, 0.0),
) -> "Axes":
    """Draw a triangle mesh as seen from the front (-y) or the side (+x), z up, shaded.

    Parameters
    ----------
    vertices : array (V, 3)
    faces : array of int (F, 3)
    view : "front" | "side"
    shift : (right, up)
        Where to put it, to have several side by side.
    """
    from matplotlib.collections import PolyCollection
    from matplotlib.colors import to_rgb

    if view not in VIEWS:
        raise ValueError(f"view must be one of {tuple(VIEWS)}, got {view!r}")
    right, towards = VIEWS[view]
    corners = np.asarray(vertices, dtype=float)[np.asarray(faces)]
    ax = _axes(ax, ("", ""))
    up = np.array([0.0, 0.0, 1.0])
    normals = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    normals /= np.maximum(np.linalg.norm(normals, axis=1, keepdims=True), 1e-300)
    light = 0.35 + 0.65 * np.clip(normals @ (0.8 * towards + 0.5 * up - 0.3 * right), 0.0, 1.0)
    order = np.argsort(corners.mean(axis=1) @ towards)  # far ones first
    order = order[normals[order] @ towards > 0]
    outlines = np.stack([corners @ right, corners @ up], axis=-1)[order] + np.asarray(shift)
    shades = light[order, None] * np.asarray(to_rgb(colour))
    ax.add_collection(PolyCollection(list(outlines), facecolors=shades, edgecolors=shades))
    ax.autoscale_view()
    ax.set_aspect("equal")
    return ax


VIEWS = {  # what is to the right, and what is towards the viewer
    "front": (np.array([1.0, 0.0, 0.0]), np.array([0.0, -1.0, 0.0])),
    "side": (np.array([0.0, 1.0, 0.0]), np.array([1.0, 0.0, 0.0])),
}


def _plane(dimension: int, ax: "Axes | None", data: Any) -> "Axes":
    if dimension != 2:
        raise ValueError(f"only what is in the plane can be drawn like this, got D = {dimension}")
    ax = _axes(ax, ("$x_1$", "$x_2$"))
    return ax if data is None else points(data, ax)


def _outline(gaussian: Gaussian, ax: "Axes", n_std: float = 2.0, **style: Any) -> None:
    """Draw ellipses of `n_std` standard deviations; only the first gets the label."""
    angle = np.linspace(0.0, 2 * np.pi, 101)
    circle = n_std * np.stack([np.cos(angle), np.sin(angle)])
    means = np.reshape(gaussian.mean, (-1, 2, 1))
    for x, y in means + covariance_factor(gaussian.cov).reshape(-1, 2, 2) @ circle:
        ax.plot(x, y, **{"linewidth": 1.0, "zorder": 5} | style)
        style["label"] = None


def balls(tensors: np.ndarray, room: float) -> tuple[np.ndarray, np.ndarray]:
    """Balls of one small radius by metrics (n, 2, 2) at points of a grid whose step is `room`: neighbours do not touch.

    Returns where the metric is positive definite (n,), and there covariances (m, 2, 2) whose ellipses of one standard
    deviation are the balls.
    """
    usable = np.linalg.eigvalsh(tensors)[:, 0] > 0
    shapes = np.linalg.inv(tensors[usable])
    widest = np.linalg.eigvalsh(shapes)[:, -1].max(initial=np.finfo(float).tiny)
    return usable, shapes * ((0.45 * room) ** 2 / widest)


def _grid(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Points (n, 2), row by row from the bottom."""
    return np.stack(np.meshgrid(x, y), axis=-1).reshape(-1, 2)


def _shown(dimension: int, component: int | None) -> tuple[int, ...]:
    """The components to draw: one against time or two against each other."""
    if component is None:
        if dimension > 2:
            raise ValueError(
                f"the curve has {dimension} components and only curves in the plane are drawn as "
                f"a path: give component=0..{dimension - 1} to draw one of them against time"
            )
        return tuple(range(dimension))
    if component not in range(dimension):
        raise ValueError(f"component must be a whole number from 0 to {dimension - 1}, got {component!r}")
    return (component,)


def _axes(ax: "Axes | None", labels: tuple[str, str]) -> "Axes":
    if ax is not None:
        return ax
    import matplotlib.pyplot as plt  # slow to import, and not needed if axes are given

    _, ax = plt.subplots()
    ax.set(xlabel=labels[0], ylabel=labels[1])
    if labels[0] != "$t$":
        ax.set_aspect("equal", adjustable="datalim")
    return ax
