"""Curves that users know already, as chains of cubic elements between the ends asked for."""

from typing import Any

import numpy as np

from probgeo._checks import as_float_array
from probgeo.geometry.chains import Chains
from probgeo.geometry.elements import from_polygons
from probgeo.ode.curve import Curve
from probgeo.ode.piecewise import PiecewisePosterior
from probgeo.ragged import members_of, offsets_of


def guessed(guess: Any, shape: tuple[int, ...], a: np.ndarray, b: np.ndarray) -> Chains | None:
    """A guess as chains from a to b (B, D): a curve on its own mesh, or points (..., T, D).

    Curves are bent by straight lines so that they begin in a and end in b. Where a guess is not
    finite a straight line takes its place.
    """
    if guess is None:
        return None
    batch = shape[:-1]
    if isinstance(guess, Curve) and guess.batch_shape == batch and guess.dimension == shape[-1]:
        chains = chains_of(guess)
    else:
        chains = from_polygons(_points(guess, shape))
    return moved(chains, a, b)


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


def moved(chains: Chains, a: np.ndarray, b: np.ndarray) -> Chains:
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


def _points(guess: Any, shape: tuple[int, ...], elements: int = 16) -> np.ndarray:
    """Points (B, T, D) at equal steps along a guess, which may be a curve of many bends."""
    if isinstance(guess, Curve):
        points = guess.mean(np.linspace(*guess.t_span, elements + 1))
    else:
        points = as_float_array("guess", guess)
    if points.ndim < 2 or points.shape[-2] < 2 or points.shape[-1] != shape[-1]:
        raise ValueError(f"guess must be a Curve or have shape (..., T, D), got {points.shape}")
    wanted = (*shape[:-1], *points.shape[-2:])
    try:
        points = np.broadcast_to(points, wanted)
    except ValueError as error:
        raise ValueError(f"guess must broadcast to {wanted}, got {points.shape}") from error
    return resampled(points.reshape(-1, *points.shape[-2:]), elements)


def resampled(points: np.ndarray, elements: int) -> np.ndarray:
    """Polygons (B, T, D) with so many segments, by linear interpolation."""
    at = np.linspace(0.0, points.shape[1] - 1.0, elements + 1)
    left = np.minimum(at.astype(int), points.shape[1] - 2)
    share = (at - left)[:, None]
    return (1.0 - share) * points[:, left] + share * points[:, left + 1]
