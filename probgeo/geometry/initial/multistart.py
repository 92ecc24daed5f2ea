"""Several starts, of which each geodesic gets the best."""

from collections.abc import Sequence
from typing import Any

import equinox as eqx
import numpy as np

from probgeo._checks import as_positive
from probgeo.geometry.equation import Metric
from probgeo.geometry.initial.base import Start, Starts
from probgeo.geometry.initial.continuation import Continuation
from probgeo.geometry.initial.descent import EnergyDescent
from probgeo.geometry.initial.graph import DataGraph

AGREEMENT = 1e-3  # relative difference of lengths
NEIGHBOURS = 12
MOST_AXES = 8  # principal axes of a tensor, long ones first, along which vertices are put
DRAWS = 1500  # random vertices about the centres,
LARGEST_BOX = 3  # and as many all over the place in at most so many dimensions,
WIDER = 1.5  # where those about the centres are spread wider than the tensors say


class MultiStart(Start):
    """For each geodesic the shortest of several starts.

    Parameters
    ----------
    starts : sequence of Start
    agreement : float
        Starts are tried in their order until two of them agree: a geodesic is done when the two
        shortest lengths differ by this part at most. With zero all are tried, but for ties.
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
            shortest, second = np.sort(lengths, axis=0)[:2]
            undecided = ~(second <= (1.0 + self.agreement) * shortest)
            left, lengths = left[undecided], [x[undecided] for x in lengths]
            if not left.size:
                break
        return best


def default_start(metric: Any) -> Start:
    """What `Manifold` uses: energy descent, and for local metrics the others too.

    Where tensors change quickly the energy has many local minima: straight lines, smooth metrics
    and paths over different graphs lead to different ones, and the shortest is kept.
    """
    if not (hasattr(metric, "with_rho") and hasattr(metric, "centers")):
        return EnergyDescent()
    few, many = (DataGraph(points, NEIGHBOURS) for points in vertices_of(metric))
    return MultiStart([EnergyDescent(), few, Continuation(), many])


def vertices_of(metric: Any) -> tuple[np.ndarray, np.ndarray]:
    """Points (N, D) for graphs: few along the axes of the tensors, and many.

    Many are draws from the Gaussians that the tensors are inverse covariances of, which look like
    the data, and if D is small as many all over the place.
    """
    centers, tensors = np.asarray(metric.centers), np.asarray(metric.tensors)
    dimension = centers.shape[1]
    if tensors.ndim == 2:
        tensors = np.eye(dimension) * tensors[:, :, None]
    eigenvalues, axes = np.linalg.eigh(tensors)
    steps = (axes / np.sqrt(eigenvalues)[:, None, :]).swapaxes(1, 2)
    about = [centers[:, None] + r * steps[:, :MOST_AXES] for r in (-2.0, -1.0, 1.0, 2.0)]
    few = np.concatenate([centers, *(x.reshape(-1, dimension) for x in about)])

    rng = np.random.default_rng(0)
    k = rng.integers(len(centers), size=DRAWS)
    everywhere = dimension <= LARGEST_BOX
    noise = (WIDER if everywhere else 1.0) * rng.normal(size=(DRAWS, dimension))
    many = [centers, centers[k] + np.einsum("nji,nj->ni", steps[k], noise)]
    if everywhere:
        low, high = few.min(axis=0), few.max(axis=0)
        from scipy.stats import qmc  # slow to import

        many.append(low + (high - low) * qmc.Halton(dimension, scramble=False).random(DRAWS))
    return few, np.concatenate(many)
