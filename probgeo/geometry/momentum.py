"""Logarithms in the weak form: far more precise than the slope of a curve at its end.

A geodesic from x_0 minimises its energy E, and E grows by -p' dx_0 when x_0 moves, with the
momentum p = M(x_0) c'(0). Of curves that are made of cubic elements, the energy is known to h^6,
and so is its derivative by the first node, if it is taken of the energy itself. Their slope at the
first node is known to h^3 only. (Finite elements know this as the recovery of fluxes.)
"""

import numpy as np

from probgeo.geometry.chains import Chains
from probgeo.metrics import Metric


def start_velocities(metric: Metric, chains: Chains) -> np.ndarray:
    """-M^-1 dE/dx_0 (members, D) of curves of least energy: their logarithms.

    Only the first element depends on the first node, so that this costs little.
    """
    element, first = chains.element, chains.offsets[:-1]
    rows, J, D = len(first), chains.nodes.shape[1], chains.nodes.shape[2]
    nodes = np.concatenate([chains.nodes[first], chains.nodes[first + 1]], axis=1)
    h = (chains.t[first + 1] - chains.t[first])[:, None, None]
    power = np.tile(np.arange(J), 2)  # of h: velocities are multiplied by it
    a, b = element.shape * h**power, element.slope * h ** (power - 1.0)  # (rows, points, 2 J)
    x, v = (np.ascontiguousarray((f @ nodes).reshape(-1, D)) for f in (a, b))
    terms = metric.energy_terms(x, v, second=False)
    by_x, by_v = (term.reshape(rows, -1, D) for term in (terms.by_x, terms.by_v))
    density = a[:, :, :1] * by_x + b[:, :, :1] * by_v
    momenta = -h[:, 0] * np.tensordot(density, element.weight, (1, 0))
    tensors = metric.tensors_at(np.ascontiguousarray(nodes[:, 0]))
    velocities = np.full((rows, D), np.nan)
    good = np.isfinite(tensors).all(axis=(1, 2)) & np.isfinite(momenta).all(axis=1)
    velocities[good] = np.linalg.solve(tensors[good], momenta[good][:, :, None])[:, :, 0]
    return velocities
