"""Several starts, of which each geodesic gets the best."""

from collections.abc import Sequence
from typing import Any

import equinox as eqx
import numpy as np
from scipy.stats import qmc

from probgeo._checks import as_positive
from probgeo.geometry.equation import Metric
from probgeo.geometry.initial.base import Start, Starts
from probgeo.geometry.initial.continuation import Continuation
from probgeo.geometry.initial.descent import EnergyDescent
from probgeo.geometry.initial.graph import DataGraph

AGREEMENT = 1e-3
NEIGHBOURS = 12
MOST_AXES = 8  # principal axes of a tensor, long ones first, along which vertices are put
BOX_POINTS, LARGEST_BOX = 1500, 3  # vertices all over the place, and dimensions where that helps
WIDER = 1.5  # than the tensors say, the spread of as many random vertices about the centres


class MultiStart(Start):
    """For each geodesic the shortest of several starts.

    Parameters
    ----------
    starts : sequence of Start
    agreement : float
        Starts are tried in their order until two of them agree: a geodesic is done when two
        lengths differ from the shortest by this part at most. With zero all are tried.
    """

    starts: tuple[Start, ...]
    agreement: float = eqx.field(static=True)

    def __init__(self, starts: Sequence[Start], agreement: float = AGREEMENT) -> None:
        self.starts = tuple(starts)
        if not self.starts or not all(isinstance(s, Start) for s in self.starts):
            raise TypeError(f"starts must be one or more starts, got {starts!r}")
        self.agreement = float(as_positive("agreement", agreement, or_zero=True))

    def start(self, metric: Metric, a: np.ndarray, b: np.ndarray) -> Starts:
        first, *others = self.starts
        best = first.start(metric, a, b)
        left, lengths = np.arange(len(a)), [best.length]
        for other in others:
            new = other.start(metric, a[left], b[left])
            best = best.shorter(left, new)
            lengths.append(new.length)
            second = np.sort(lengths, axis=0)[1]
            undecided = ~(second <= (1.0 + self.agreement) * best.length[left])
            left, lengths = left[undecided], [x[undecided] for x in lengths]
            if not left.size:
                break
        return best


def default_start(metric: Any) -> Start:
    """What `Manifold` uses: energy descent, and for local metrics the others too.

    Where tensors change quickly the energy has many local minima: straight lines, smooth metrics
    and paths over different graphs lead to different ones, and the lowest is kept.
    """
    if not (hasattr(metric, "with_rho") and hasattr(metric, "centers")):
        return EnergyDescent()
    few, *many = (DataGraph(points, NEIGHBOURS) for points in vertices_of(metric))
    return MultiStart([EnergyDescent(), few, Continuation(), *many])


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
