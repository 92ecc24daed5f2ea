"""Several starts, of which each geodesic gets the best."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.stats import qmc

from probgeo.geometry.equation import Metric
from probgeo.geometry.initial.base import Start, Starts
from probgeo.geometry.initial.continuation import Continuation
from probgeo.geometry.initial.descent import EnergyDescent
from probgeo.geometry.initial.graph import DataGraph
from probgeo.geometry.polyline import doubled

NEIGHBOURS = 12
MOST_AXES = 8  # principal axes of a tensor, long ones first, along which vertices are put
BOX_POINTS, LARGEST_BOX = 1500, 3  # vertices all over the place, and dimensions where that helps
WIDER = 1.5  # than the tensors say, the spread of as many random vertices about the centres


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
    and paths over different graphs lead to different ones, and the lowest is kept.
    """
    if not (hasattr(metric, "with_rho") and hasattr(metric, "centers")):
        return EnergyDescent()
    graphs = [DataGraph(points, NEIGHBOURS) for points in vertices_of(metric)]
    return MultiStart([EnergyDescent(), Continuation(), *graphs])


def vertices_of(metric: Any) -> list[np.ndarray]:
    """Points (N, D) for graphs: about the centres, and all over the place if D is small."""
    centers, tensors = np.asarray(metric.centers), np.asarray(metric.tensors)
    if tensors.ndim == 2:
        tensors = np.eye(tensors.shape[1]) * tensors[:, :, None]
    eigenvalues, axes = np.linalg.eigh(tensors)
    steps = (axes / np.sqrt(eigenvalues)[:, None, :]).swapaxes(1, 2)[:, :MOST_AXES]
    about = [centers[:, None] + r * steps for r in (-2.0, -1.0, 1.0, 2.0)]
    dimension = centers.shape[1]
    found = [np.concatenate([centers, *(x.reshape(-1, dimension) for x in about)])]
    if dimension <= LARGEST_BOX:
        low, high = found[0].min(axis=0), found[0].max(axis=0)
        box = qmc.Halton(dimension, scramble=False).random(BOX_POINTS)
        rng = np.random.default_rng(0)
        k = rng.integers(len(centers), size=BOX_POINTS)
        noise = WIDER * rng.normal(size=(BOX_POINTS, dimension))
        near = centers[k] + np.einsum("nji,nj->ni", steps[k], noise)
        found.append(np.concatenate([centers, low + (high - low) * box, near]))
    return found
