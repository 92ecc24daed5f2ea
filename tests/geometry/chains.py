"""Random chains and metrics, and their energy written out in the plainest way."""

import numpy as np

from probgeo import metrics
from probgeo.geometry.chains import ELEMENTS, Chains
from probgeo.ragged import offsets_of


def random_tensors(rng, count, dimension, low=0.5):
    """Symmetric positive definite (K, D, D), with eigenvalues above `low`."""
    roots = rng.normal(size=(count, dimension, dimension))
    return roots @ roots.transpose(0, 2, 1) / dimension + low * np.eye(dimension)


def random_metric(rng, dimension=2, count=4, rho=0.5):
    """Some tensors around the origin, of conditions up to ten or so."""
    centers = rng.normal(size=(count, dimension))
    return metrics.LocalMetrics(centers, random_tensors(rng, count, dimension, low=0.3), rho)


def random_chains(rng, J, dimension, members=3):
    """Chains of different lengths on different meshes."""
    counts = rng.integers(3, 7, size=members)
    meshes = [np.linspace(0, 1, n) + 0.1 / n * rng.uniform(-1, 1, n) for n in counts]
    for mesh in meshes:
        mesh[0], mesh[-1] = 0.0, 1.0
    t = np.concatenate(meshes)
    return Chains(rng.normal(size=(len(t), J, dimension)), t, offsets_of(counts))


def plain_points(chains):
    """Positions and velocities at all points, one at a time."""
    element = ELEMENTS[chains.nodes.shape[1] - 1]
    x, v = [], []
    for m in range(len(chains)):
        for e in range(chains.offsets[m], chains.offsets[m + 1] - 1):
            h = chains.t[e + 1] - chains.t[e]
            (p, *dp), (q, *dq) = chains.nodes[e], chains.nodes[e + 1]
            ends = [p, h * dp[0], q, h * dq[0]] if dp else [p, q]
            for shape, slope in zip(element.shape, element.slope, strict=True):
                x.append(sum(a * u for a, u in zip(shape, ends, strict=True)))
                v.append(sum(b * u for b, u in zip(slope, ends, strict=True)) / h)
    return np.array(x), np.array(v)


def plain_energies(metric, chains):
    """The energy of every chain, by points that are computed one at a time."""
    density = metric.energies(*plain_points(chains))
    weight, energies, n = chains.element.weight, [], 0
    for m in range(len(chains)):
        total = 0.0
        for e in range(chains.offsets[m], chains.offsets[m + 1] - 1):
            total += (chains.t[e + 1] - chains.t[e]) * weight @ density[n : n + len(weight)]
            n += len(weight)
        energies.append(total)
    return np.array(energies)
