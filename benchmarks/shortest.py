"""The shortest curves that can be found with patience, to hold geodesics against.

None of this uses an ODE: polygons of many segments are brought to their least energy, from the
straight line, from paths over all of the data, and from the minima of smoother metrics. The lengths
are those of curves from a to b, so each of them is an upper bound of the distance.
"""

import numpy as np

from probgeo import initial
from probgeo.geometry.initial.descent import descend, descend_quadratically
from probgeo.geometry.polyline import measure, refined, straight
from probgeo.geometry.rows import padded

SEGMENTS = 64
FACTORS = (0.01, 0.1, 0.4)  # of the sharpness


def lowered(metric, points, steps, tolerance):
    """Polygons at (nearly) the least energy that can be reached from the given ones."""
    points = descend(metric, points, steps, tolerance)
    return descend_quadratically(metric, points, steps, tolerance)


def candidates(metric, data, a, b):
    """Curves (B, T + 1, D) from a to b: from the line, the data, and smoother metrics."""
    line = straight(a, b, SEGMENTS)
    graph = initial.DataGraph(data, 10, initial.EnergyDescent(segments=SEGMENTS))
    smooth = line
    for factor in FACTORS:
        smooth = lowered(metric.with_rho(factor * metric.rho), smooth, 10, 1e-3)
    starts = line, graph.paths(metric, a, b), smooth
    return [lowered(metric, points, 30, 1e-6) for points in starts]


def shortest_lengths(metric, data, a, b):
    """The lengths (B,) of the shortest of these curves."""
    found = [
        padded(measure, metric, refined(x, 8 * SEGMENTS + 1))[1]
        for x in candidates(metric, data, a, b)
    ]
    return np.min(np.where(np.isfinite(found), found, np.inf), axis=0)
