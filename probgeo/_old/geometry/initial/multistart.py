"""Several starts, of which each geodesic gets the best."""

from collections.abc import Sequence
from typing import Any

import equinox as eqx
import numpy as np

from probgeo._old._checks import as_positive
from probgeo._old.geometry.equation import Metric
from probgeo._old.geometry.initial.base import Start, Starts
from probgeo._old.geometry.initial.continuation import Continuation
from probgeo._old.geometry.initial.descent import EnergyDescent
from probgeo._old.geometry.initial.graph import DataGraph

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
    return MultiStart([EnergyDescent(), MetricGraph(), Continuation(), MetricGraph(many=True)])


class MetricGraph(Start):
    """`DataGraph` over points about the centres of a local metric.

    Parameters
    ----------
    many : bool
        Whether these are draws from the Gaussians that the tensors are inverse covariances of,
        which look like the data, and not only a few points along the axes of the tensors.
    descent : EnergyDescent
        What is done to the path.

    Examples
    --------
    >>> from probgeo import metrics
    >>> metric = metrics.LocalMetrics([[0.0, 0.0], [4.0, 0.0]], [[1.0, 9.0], [9.0, 1.0]])
    >>> found = MetricGraph().start(metric, np.array([[-1.0, 0.0]]), np.array([[4.0, 2.0]]))
    >>> found.points[0, -1].tolist(), found.names
    ([4.0, 2.0], ('graph',))
    """

    many: bool = eqx.field(static=True)
    descent: EnergyDescent

    def __init__(self, many: bool = False, descent: EnergyDescent | None = None) -> None:
        self.many = bool(many)
        self.descent = EnergyDescent() if descent is None else descent

    def start(self, metric: Any, a: np.ndarray, b: np.ndarray) -> Starts:
        if not (hasattr(metric, "centers") and hasattr(metric, "tensors")):
            raise ValueError(
                f"MetricGraph needs a metric with centres, such as LocalMetrics, got "
                f"{type(metric).__name__}; DataGraph takes points of your own"
            )
        points = many_vertices(metric) if self.many else few_vertices(metric)
        return DataGraph(points, NEIGHBOURS, self.descent).start(metric, a, b)


def _axes(metric: Any) -> np.ndarray:
    """Half axes (K, D, D) of the ellipsoids that the tensors are, one a row, long ones first."""
    tensors = np.asarray(metric.tensors)
    if tensors.ndim == 2:
        tensors = np.eye(tensors.shape[1]) * tensors[:, :, None]
    eigenvalues, axes = np.linalg.eigh(tensors)
    return (axes / np.sqrt(eigenvalues)[:, None, :]).swapaxes(1, 2)


def few_vertices(metric: Any) -> np.ndarray:
    """Points (N, D) along the axes of the tensors."""
    centers, steps = np.asarray(metric.centers), _axes(metric)
    about = [centers[:, None] + r * steps[:, :MOST_AXES] for r in (-2.0, -1.0, 1.0, 2.0)]
    return np.concatenate([centers, *(x.reshape(-1, centers.shape[1]) for x in about)])


def many_vertices(metric: Any) -> np.ndarray:
    """Draws (N, D) from the Gaussians, and if D is small as many all over the place."""
    centers, steps = np.asarray(metric.centers), _axes(metric)
    dimension = centers.shape[1]
    rng = np.random.default_rng(0)
    k = rng.integers(len(centers), size=DRAWS)
    everywhere = dimension <= LARGEST_BOX
    noise = (WIDER if everywhere else 1.0) * rng.normal(size=(DRAWS, dimension))
    many = [centers, centers[k] + np.einsum("nji,nj->ni", steps[k], noise)]
    if everywhere:
        few = few_vertices(metric)
        low, high = few.min(axis=0), few.max(axis=0)
        from scipy.stats import qmc  # slow to import

        many.append(low + (high - low) * qmc.Halton(dimension, scramble=False).random(DRAWS))
    return np.concatenate(many)
