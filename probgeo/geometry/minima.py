"""The rivals of a shortest curve: each local minimum that a search meets, refined by itself."""

import numpy as np

from probgeo.gaussian import Gaussian
from probgeo.geometry.elements import on_equal_steps
from probgeo.geometry.geodesic import Geodesic
from probgeo.geometry.packing import Ends, packed
from probgeo.geometry.refine import Accuracy, refine
from probgeo.geometry.search import Effort, pick_distinct, search
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
    alone = np.arange(count)  # without rivals: none is given up for another
    made = refine(metric, chains, alone, count, accuracy, None)
    everyone, ones = np.ones(count, dtype=bool), np.ones(count, dtype=np.int64)
    least = Shortest(**vars(made), longer=~everyone, start=start, minima=ones)
    curves = packed(metric, least, everyone, Ends(first, last, *covs), (count,))
    lengths = np.where(curves.converged, curves.mean_length, np.inf)
    keep, met = np.zeros(count, dtype=bool), np.empty(1, dtype=np.int64)
    points = np.ascontiguousarray(curves.mean(np.linspace(0.0, 1.0, 16)))
    # as `refine.same_as` tells curves apart
    pick_distinct(points, lengths, np.array([0, count]), 0.01, np.inf, count, keep, met)
    order = np.argsort(lengths, kind="stable")
    return curves[order[keep[order]]]
