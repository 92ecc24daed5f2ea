"""What a start is, and the plainest one."""

from typing import NamedTuple

import equinox as eqx
import numpy as np

from probgeo._old._checks import as_whole_number
from probgeo._old._repr import described
from probgeo._old._rows import replace_rows
from probgeo._old.geometry.equation import Metric
from probgeo._old.geometry.polyline import measure, refined, straight
from probgeo._old.geometry.rows import padded

TIE = 1e-4  # relative difference of lengths that is none: the earlier start wins


class Starts(NamedTuple):
    """First curves for a batch of geodesics.

    Attributes
    ----------
    points : array (B, T + 1, D)
        Along each curve, at equal steps of time.
    energy, length : array (B,)
        Of the smooth curves through the points; infinite where the metric is not finite on them.
    segments : array of int (B,)
        How many it takes to resolve each curve; there may be more points.
    which : array of int (B,)
        Which of `names` each comes from.
    names : tuple of str
    """

    points: np.ndarray
    energy: np.ndarray
    length: np.ndarray
    segments: np.ndarray
    which: np.ndarray
    names: tuple[str, ...]

    def members(self, index: np.ndarray) -> "Starts":
        points, energy, length, segments, which = (x[index] for x in self[:-1])
        return Starts(points, energy, length, segments, which, self.names)

    def shorter(self, index: np.ndarray, new: "Starts") -> "Starts":
        """The same, but for those members, numbered by `index`, whose new start is shorter.

        By length, not by energy: polygons may be coarse, and then their speed is uneven.
        """
        better = new.length < (1.0 - TIE) * self.length[index]
        new = new._replace(which=new.which + len(self.names))
        found = self.replaced(index[better], new.members(better))
        return found._replace(names=self.names + new.names)

    def replaced(self, index: np.ndarray, new: "Starts") -> "Starts":
        """The same, but for some members; both count the same names."""
        old, new = equally_fine(self, new)
        points, energy, length, segments, which = replace_rows(
            tuple(old[:-1]), index, tuple(new[:-1])
        )
        return Starts(points, energy, length, segments, which, old.names)


def equally_fine(*found: Starts) -> list[Starts]:
    """All with the number of points of the finest."""
    most = max(starts.points.shape[1] for starts in found)
    return [starts._replace(points=refined(starts.points, most)) for starts in found]


class Start(eqx.Module):
    """A way to find first curves: one method, `start`."""

    def __repr__(self) -> str:
        return described(self)

    def start(self, metric: Metric, a: np.ndarray, b: np.ndarray) -> Starts:
        """First curves from a to b, both (B, D)."""
        raise NotImplementedError(f"{type(self).__name__} must define start(metric, a, b)")


def measured(
    metric: Metric, points: np.ndarray, name: str, segments: np.ndarray | None = None
) -> Starts:
    """Starts of one name with their energies and lengths."""
    count, size, _ = points.shape
    energy, length = padded(measure, metric, points)
    energy, length = (np.where(np.isfinite(x), x, np.inf) for x in (energy, length))
    needed = np.full(count, size - 1) if segments is None else segments
    return Starts(points, energy, length, needed, np.zeros(count, dtype=int), (name,))


class StraightLine(Start):
    """The straight line in the coordinates.

    Examples
    --------
    >>> from probgeo import metrics
    >>> line = StraightLine(segments=2).start(metrics.Flat(), np.zeros((1, 2)), np.ones((1, 2)))
    >>> line.points[0].tolist(), float(line.energy[0].round(12))
    ([[0.0, 0.0], [0.5, 0.5], [1.0, 1.0]], 2.0)
    """

    segments: int = eqx.field(static=True)

    def __init__(self, segments: int = 16) -> None:
        self.segments = as_whole_number("segments", segments, 1)

    def start(self, metric: Metric, a: np.ndarray, b: np.ndarray) -> Starts:
        points = straight(a, b, self.segments)
        return measured(metric, points, "straight line")
