"""Pictures of curves and Gaussians with matplotlib: axes in, axes out.

The colours can be told apart by colour-blind readers, and by their lightness in a grey print:
means are dark, samples lighter and thin, nodes light with a dark rim, bands and data pale.
"""

from typing import TYPE_CHECKING, Any

import numpy as np

from probgeo.gaussian import Gaussian, covariance_factor
from probgeo.ode.curve import Curve

if TYPE_CHECKING:
    from matplotlib.axes import Axes

COLOURS = {
    "mean": "#8c1515",
    "samples": "#009e73",
    "nodes": "#f0a830",
    "data": "#b8b8b8",
    "ends": "#000000",
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

    A curve in one dimension, or one `component` of a longer one, is drawn against time with a
    band of two standard deviations; a curve in the plane as a path, whose uncertainty shows in the
    samples only. The mean of a curve that did not converge is dashed.

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
    ax = _axes(ax, ("$y_1$", "$y_2$") if in_plane else ("$t$", _name(curve.dimension, shown[0])))
    colour = COLOURS["mean"] if colour is None else colour
    t0, t1 = np.asarray(curve.t_span)
    t = np.linspace(t0, t1, n_times)
    samples = np.asarray(curve.sample(seed, n_samples, t))
    thin: dict[str, Any] = {"color": COLOURS["samples"], "linewidth": 0.5, "alpha": 0.7}
    rim: dict[str, Any] = {"markersize": 3, "markeredgecolor": colour, "markeredgewidth": 0.5}

    def points(times: np.ndarray, values: Any) -> tuple[np.ndarray, ...]:
        """What to plot: the two coordinates of the path, or time and the component."""
        columns = tuple(np.asarray(values)[..., i] for i in shown)
        return columns if in_plane else (times, *columns)

    for index in np.ndindex(curve.batch_shape):
        member = curve[index] if index else curve
        mean = points(t, member.mean(t))
        if band and not in_plane:
            _, std = points(t, member.std(t))
            lower, upper = mean[1] - 2 * std, mean[1] + 2 * std
            ax.fill_between(t, lower, upper, color=colour, alpha=0.18, linewidth=0, zorder=1)
        for sample in samples[(slice(None), *index)]:
            ax.plot(*points(t, sample), **thin, zorder=2)
        style = "-" if bool(member.converged) else "--"
        ax.plot(*mean, style, color=colour, linewidth=1.5, zorder=3, label=label)
        label = None  # one entry in the legend for the whole batch
        if nodes:
            times = np.asarray(member.nodes)
            at = points(times, member.mean(times))
            ax.plot(*at, "o", color=COLOURS["nodes"], **rim, zorder=4)
    return ax


def ellipse(
    gaussian: Gaussian,
    ax: "Axes | None" = None,
    n_std: float = 2.0,
    *,
    label: str | None = None,
    colour: Any = None,
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
    angle = np.linspace(0.0, 2 * np.pi, 101)
    circle = n_std * np.stack([np.cos(angle), np.sin(angle)])
    means = np.asarray(gaussian.mean).reshape(-1, 2, 1)
    outlines = means + np.asarray(covariance_factor(gaussian.cov)).reshape(-1, 2, 2) @ circle
    colour = COLOURS["ends"] if colour is None else colour
    for x, y in outlines:
        ax.plot(x, y, color=colour, linewidth=1.0, zorder=5, label=label)
        label = None
    return ax


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
        raise ValueError(
            f"component must be a whole number from 0 to {dimension - 1}, got {component!r}"
        )
    return (component,)


def _name(dimension: int, component: int) -> str:
    return "$y$" if dimension == 1 else f"$y_{{{component + 1}}}$"


def _axes(ax: "Axes | None", labels: tuple[str, str]) -> "Axes":
    """The axes given, or those of a new figure."""
    if ax is not None:
        return ax
    import matplotlib.pyplot as plt  # slow to import, and not needed if axes are given

    _, ax = plt.subplots()
    ax.set_xlabel(labels[0])
    ax.set_ylabel(labels[1])
    if labels[0] != "$t$":
        ax.set_aspect("equal", adjustable="datalim")
    return ax
