"""Curves that users know already, as chains of cubic elements between the ends asked for."""

from typing import Any

import numpy as np

from probgeo.geometry.chains import Chains
from probgeo.geometry.elements import from_polygons
from probgeo.ode.curve import Curve
from probgeo.ode.guess import guess_samples, sample_states
from probgeo.ode.piecewise import PiecewisePosterior
from probgeo.ragged import members_of, offsets_of


def guessed(guess: Any, shape: tuple[int, ...], a: np.ndarray, b: np.ndarray) -> Chains | None:
    """A guess as chains from a to b (B, D): a curve on its own mesh, others of 16 elements.

    Curves are bent by straight lines so that they begin in a and end in b. Where a guess is not
    finite a straight line takes its place.
    """
    if guess is None:
        return None
    if isinstance(guess, Curve) and (*guess.batch_shape, guess.dimension) == shape:
        chains = chains_of(guess)
    else:
        samples = guess_samples(guess, (0.0, 1.0), shape)
        chains = from_polygons(sample_states(samples, np.linspace(0.0, 1.0, 17))[0])
    return bent(chains, a, b)


def chains_of(curve: Curve) -> Chains:
    """The nodes of a curve, with its velocities there."""
    t0, t1 = curve.t_span
    posterior = curve.posterior
    if isinstance(posterior, PiecewisePosterior):
        offsets, t = posterior.offsets, posterior.t
    else:
        meshes = [posterior.nodes(m) for m in range(posterior.count)]
        offsets, t = offsets_of([len(mesh) for mesh in meshes]), np.concatenate(meshes)
    c, dc = (posterior.mean_at(members_of(offsets), t, d) for d in (0, 1))
    return Chains(np.stack([c, (t1 - t0) * dc], axis=1), (t - t0) / (t1 - t0), offsets)


def bent(chains: Chains, a: np.ndarray, b: np.ndarray) -> Chains:
    """The same curves, bent so that they begin in a and end in b (members, D)."""
    member = members_of(chains.offsets)
    s = chains.t[:, None]
    first, last = chains.offsets[:-1], chains.offsets[1:] - 1
    at_first, at_last = a - chains.nodes[first, 0], b - chains.nodes[last, 0]
    nodes = np.empty_like(chains.nodes)
    nodes[:, 0] = chains.nodes[:, 0] + (1.0 - s) * at_first[member] + s * at_last[member]
    nodes[:, 1] = chains.nodes[:, 1] + (at_last - at_first)[member]
    nodes[first, 0], nodes[last, 0] = a, b
    lost = ~np.logical_and.reduceat(np.isfinite(nodes).all(axis=(1, 2)), first)[member]
    nodes[lost, 0] = ((1.0 - s) * a[member] + s * b[member])[lost]
    nodes[lost, 1] = (b - a)[member[lost]]
    return Chains(nodes, chains.t, chains.offsets)
