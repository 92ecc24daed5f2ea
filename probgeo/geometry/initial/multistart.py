"""Several starts, of which each geodesic gets the best."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from probgeo.geometry.equation import Metric
from probgeo.geometry.initial.base import Start, Starts
from probgeo.geometry.initial.continuation import Continuation
from probgeo.geometry.initial.descent import EnergyDescent
from probgeo.geometry.initial.graph import DataGraph
from probgeo.geometry.polyline import doubled


class MultiStart(Start):
    """For each geodesic the one of several starts with the lowest energy."""

    starts: tuple[Start, ...]

    def __init__(self, starts: Sequence[Start]) -> None:
        self.starts = tuple(starts)
        if not self.starts or not all(isinstance(s, Start) for s in self.starts):
            raise TypeError(f"starts must be one or more starts, got {starts!r}")

    def start(self, metric: Metric, a: np.ndarray, b: np.ndarray) -> Starts:
        return lowest([start.start(metric, a, b) for start in self.starts])


def lowest(found: Sequence[Starts]) -> Starts:
    """The curve of lowest energy for each geodesic; earlier ones win ties."""
    found = equally_fine(found)
    energies = np.stack([starts.energy for starts in found])
    best = np.argmin(energies * (1.0 + 1e-9 * np.arange(len(found)))[:, None], axis=0)
    rows = np.arange(len(best))
    offsets = np.cumsum([0, *(len(starts.names) for starts in found)])
    which = np.stack([s.which + o for s, o in zip(found, offsets, strict=False)])
    return Starts(
        points=np.stack([starts.points for starts in found])[best, rows],
        energy=energies[best, rows],
        length=np.stack([starts.length for starts in found])[best, rows],
        segments=np.stack([starts.segments for starts in found])[best, rows],
        which=which[best, rows],
        names=tuple(name for starts in found for name in starts.names),
    )


def equally_fine(found: Sequence[Starts]) -> list[Starts]:
    """All with the number of points of the finest."""
    most = max(starts.points.shape[1] for starts in found)
    out = []
    for starts in found:
        points = starts.points
        while points.shape[1] < most:
            points = doubled(points)
        if points.shape[1] > most:
            raise ValueError("the numbers of segments of the starts must differ by powers of two")
        out.append(starts._replace(points=points))
    return out


def default_start(metric: Any) -> Start:
    """What `Manifold` uses: energy descent, and for local metrics the others too.

    Where tensors change quickly the energy has many local minima: straight lines, smooth metrics
    and paths over the centres lead to different ones, and the lowest is kept.
    """
    if hasattr(metric, "with_rho") and hasattr(metric, "centers"):
        return MultiStart([EnergyDescent(), Continuation(), DataGraph(metric.centers)])
    return EnergyDescent()
