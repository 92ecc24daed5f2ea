"""Lengths of curves, certain and uncertain ones."""

import numpy as np

from probgeo.geometry.chains import Chains
from probgeo.metrics import Metric
from probgeo.ode.curve import Posterior
from probgeo.ragged import offsets_of

ROUND_OFF = 16.0 * np.finfo(float).eps  # of lengths, relative


def chain_lengths(metric: Metric, chains: Chains) -> tuple[np.ndarray, np.ndarray]:
    """Lengths and energies, the integral of c' M c' / 2, of chains (members,)."""
    x, v = chains.points()
    density = metric.energies(x, v)
    return chains.integrals(np.sqrt(np.maximum(2.0 * density, 0.0))), chains.integrals(density)


def draw_lengths(metric: Metric, posterior: Posterior, seed: int, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Lengths (n, B) and logarithms (n, B, D) of `n` curves drawn from every posterior.

    Curves are drawn at the nodes and half-way between them, and cubic in between.
    """
    D = posterior.dimension
    lengths, logs = np.empty((n, posterior.count)), np.empty((n, posterior.count, D))
    for m, child in enumerate(np.random.SeedSequence(seed).spawn(posterior.count)):
        t = with_middles(posterior.nodes(m))
        one, rng = posterior.take(np.array([m])), np.random.default_rng(child)
        draws = one.sample([rng], n, t, (0, 1))[0]  # (n, 2, T, D)
        nodes = np.ascontiguousarray(np.swapaxes(draws, 1, 2)).reshape(-1, 2, D)
        chains = Chains(nodes, np.tile(t, n), offsets_of(np.full(n, len(t))))
        lengths[:, m], _ = chain_lengths(metric, chains)
        first = chains.offsets[:-1]
        logs[:, m] = scaled(metric, nodes[first, 0], nodes[first, 1], lengths[:, m])
    return lengths, logs


def with_middles(t: np.ndarray) -> np.ndarray:
    """A mesh on [0, 1] with its ends and the middles of all elements."""
    breaks = np.unique(np.concatenate([[0.0], np.clip(t, 0.0, 1.0), [1.0]]))
    return np.sort(np.concatenate([breaks, 0.5 * (breaks[1:] + breaks[:-1])]))


def scaled(metric: Metric, x: np.ndarray, v: np.ndarray, length: np.ndarray) -> np.ndarray:
    """Vectors v at x (n, D) scaled to a length (n,); zero where they are zero."""
    x, v = np.ascontiguousarray(x), np.ascontiguousarray(v)
    norm = np.sqrt(np.maximum(2.0 * metric.energies(x, v), 0.0))
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(norm[:, None] > 0, v * (length / norm)[:, None], 0.0 * length[:, None])


def first_variation(metric: Metric, posterior: Posterior, speed: np.ndarray) -> np.ndarray:
    """Standard deviations (B,) of lengths by uncertain ends, curves having a constant speed (B,).

    A length changes by <c'(1), db> - <c'(0), da> over the speed.
    """
    ends = np.array([0.0, 1.0])
    c, dc = (posterior.mean(ends, d) for d in (0, 1))
    columns = posterior.boundary_columns(ends, 0)  # (B, 2, D, R)
    change = np.zeros((posterior.count, columns.shape[-1]))
    for k, sign in enumerate((-1.0, 1.0)):
        M = metric.tensors_at(np.ascontiguousarray(c[:, k]))
        change += sign * np.einsum("bi,bij,bjr->br", dc[:, k], M, columns[:, k])
    with np.errstate(divide="ignore", invalid="ignore"):
        off = np.sqrt(np.sum(change**2, axis=1)) / speed
    # at zero distance the length is the norm of the difference of the ends
    return np.where(speed > 0, off, 0.0)
