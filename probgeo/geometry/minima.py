"""The rivals of a shortest curve: each local minimum that a search meets, refined by itself."""

import numpy as np

from probgeo.gaussian import Gaussian
from probgeo.geometry.elements import on_equal_steps
from probgeo.geometry.geodesic import Geodesic
from probgeo.geometry.packing import Ends, packed
from probgeo.geometry.refine import Accuracy, refine
from probgeo.geometry.search import Effort, search
from probgeo.geometry.shortest import Shortest, rivals
from probgeo.geometry.starts import Landmarks
from probgeo.metrics import Metric


def local_minima(
    metric: Metric, landmarks: Landmarks, a: Gaussian, b: Gaussian, effort: Effort, accuracy: Accuracy
) -> Geodesic:
    """Distinct locally shortest curves between two points, shortest first, as a batch (n,)."""
    found, _ = search(metric, landmarks, a.mean[None], b.mean[None], effort)
    chains, owner, start = rivals(found, accuracy)
    count = len(owner)
    first, last = (np.repeat(end.mean[None], count, axis=0) for end in (a, b))
    covs = (np.repeat(end.cov[None], count, axis=0) if end.cov.any() else None for end in (a, b))
    if accuracy.fixed is not None:
        chains = on_equal_steps(chains, accuracy.fixed)
    alone = np.arange(count)  # each competes with nobody: none is given up for another
    made = refine(metric, chains, alone, count, accuracy, None)
    everyone, ones = np.ones(count, dtype=bool), np.ones(count, dtype=np.int64)
    least = Shortest(**vars(made), longer=~everyone, start=start, minima=ones)
    curves = packed(metric, least, everyone, Ends(first, last, *covs), (count,))
    order = np.argsort(np.where(curves.converged, curves.mean_length, np.inf), kind="stable")
    return curves[distinct(curves, order[: max(1, int(np.sum(curves.converged)))])]


def distinct(curves: Geodesic, order: np.ndarray, apart: float = 0.01, times: int = 16) -> np.ndarray:
    """Those of the numbers `order` whose curves differ from all before, by that share of extent.

    The share is that of `refine.same_as`.
    """
    x = curves.mean(np.linspace(0.0, 1.0, times))
    kept: list[int] = []
    for k in order:
        near = apart * np.max(np.ptp(x[k], axis=0))
        if all(np.max(np.abs(x[k] - x[j])) > near for j in kept):
            kept.append(int(k))
    return np.array(kept)
