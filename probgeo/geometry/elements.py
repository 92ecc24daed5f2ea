"""Geodesics to tolerance: cubic elements, their error by splitting, refinement where it is large.

Splitting every element in two leaves a curve as it is. One step of Newton's method on the finer
mesh then *is* the error of the curve, with its sign and along all of it: in trials its size was
0.7 to 1.9 times the true one on the coarsest meshes, and 0.96 to 1.04 on fine ones.
"""

from dataclasses import dataclass

import numpy as np

from probgeo._loops import loop
from probgeo.geometry.chains import Chains, newton_step
from probgeo.metrics import Metric
from probgeo.ode.error_shape import find_rows
from probgeo.ode.piecewise import evaluate, hermite_pieces
from probgeo.ragged import elements_of, offsets_of


@loop
def split(nodes: np.ndarray, t: np.ndarray, offsets: np.ndarray, fine: np.ndarray, fine_t: np.ndarray) -> None:
    """Every element in two: fine (2 rows - members, 2, D), the curve stays what it is."""
    D = nodes.shape[2]
    k = 0
    for m in range(len(offsets) - 1):
        for n in range(offsets[m], offsets[m + 1]):
            fine_t[k] = t[n]
            for d in range(D):
                fine[k, 0, d] = nodes[n, 0, d]
                fine[k, 1, d] = nodes[n, 1, d]
            k += 1
            if n + 1 == offsets[m + 1]:
                continue
            h = t[n + 1] - t[n]
            fine_t[k] = t[n] + 0.5 * h
            for d in range(D):
                c0, v0, c1, v1 = (nodes[n, 0, d], nodes[n, 1, d], nodes[n + 1, 0, d], nodes[n + 1, 1, d])
                fine[k, 0, d] = 0.5 * (c0 + c1) + 0.125 * h * (v0 - v1)
                fine[k, 1, d] = 1.5 * (c1 - c0) / h - 0.25 * (v0 + v1)
            k += 1


@loop
def calibrate(
    t: np.ndarray,
    offsets: np.ndarray,
    error: np.ndarray,
    scale: np.ndarray,
    widest: np.ndarray,
    log_density: np.ndarray,
    local: np.ndarray,
) -> None:
    """Scale of the Wiener shape that fits estimated errors (fine rows, 2, D) of curves and slopes.

    The shape is that of `ode.error_shape` for a boundary value problem of second order: Z'' is a
    Brownian bridge on every element, Z = 0 at both ends. With k its variance at the nodes and
    half-way between them, scale^2 is the mean of e^2 / k over all of these and all dimensions.
    widest (members,): the largest standard deviation. local (elements,): the part of the error
    that is made in an element itself, half-way, beyond what its ends have.
    """
    D = error.shape[2]
    for m in range(len(offsets) - 1):
        first, last = offsets[m], offsets[m + 1] - 1
        zz, zv, vv = 0.0, 0.0, 0.0
        for n in range(first, last):  # variance of the process that is not pinned, at the end
            h = t[n + 1] - t[n]
            zz += 2.0 * h * zv + h * h * vv + h**5 / 45.0
            zv += h * vv + h**4 / 24.0
            vv += h**3 / 12.0
        at_end, begin, span = zz, t[first], t[last] - t[first]
        zz, zv, vv = 0.0, 0.0, 0.0
        total, logs, most = 0.0, 0.0, 0.0
        count = 0
        row = 2 * first - m
        for n in range(first, last):
            h = t[n + 1] - t[n]
            left = t[last] - t[n + 1]
            for d in range(D):
                e0, s0 = error[row, 0, d], error[row, 1, d]
                e1, s1 = error[row + 2, 0, d], error[row + 2, 1, d]
                inner = error[row + 1, 0, d] - 0.5 * (e0 + e1) - 0.125 * h * (s0 - s1)
                local[n - m] = abs(inner) if d == 0 else max(local[n - m], abs(inner))
            for half in range(2):
                if half == 0:
                    variance = zz + h * zv + 0.25 * h * h * vv + 13.0 / 11520.0 * h**5
                    ahead = zz + (1.5 * h + left) * zv + 0.5 * h * (h + left) * vv
                    ahead += 53.0 / 11520.0 * h**5 + left * h**4 / 128.0
                    line = (t[n] + 0.5 * h - begin) / span
                else:
                    zz += 2.0 * h * zv + h * h * vv + h**5 / 45.0
                    zv += h * vv + h**4 / 24.0
                    vv += h**3 / 12.0
                    if n + 1 == last:
                        break
                    variance, ahead = zz, zz + left * zv
                    line = (t[n + 1] - begin) / span
                k = variance - 2.0 * line * ahead + line * line * at_end
                most = max(most, k)
                logs += np.log(k)
                for d in range(D):
                    total += error[row + 1 + half, 0, d] ** 2 / k
                count += 1
            row += 2
        squared = total / (count * D)
        scale[m] = np.sqrt(squared)
        widest[m] = np.sqrt(squared * most)
        log_density[m] = -0.5 * D * (count * (np.log(2.0 * np.pi * squared) + 1.0) + logs)


@dataclass(frozen=True)
class Measured:
    """What splitting and one step of Newton's method say about curves.

    fine : Chains, the same curves on meshes of twice the elements
    error (fine rows, 2, D) : what to add to their positions and velocities
    length, excess (members,) : of the curves, and by how much that is too long
    energy (members,)
    scale, widest, log_density, local : see `calibrate`
    decrement (members,) : twice the expected decrease of the energy; NaN without a minimum nearby
    definite (members,) : whether the energy has a minimum nearby
    """

    fine: Chains
    error: np.ndarray
    length: np.ndarray
    excess: np.ndarray
    energy: np.ndarray
    scale: np.ndarray
    widest: np.ndarray
    log_density: np.ndarray
    local: np.ndarray
    decrement: np.ndarray
    definite: np.ndarray

    def corrected(self) -> Chains:
        """Curves without their errors; as they are where these are not known."""
        usable = self.definite & np.isfinite(self.decrement)
        counts = np.diff(self.fine.offsets)
        error = np.where(np.repeat(usable, counts)[:, None, None], self.error, 0.0)
        return Chains(self.fine.nodes + error, self.fine.t, self.fine.offsets)


def halved(chains: Chains) -> Chains:
    """Every element in two."""
    rows = 2 * len(chains.t) - len(chains)
    fine, t = np.empty((rows, *chains.nodes.shape[1:])), np.empty(rows)
    split(chains.nodes, chains.t, chains.offsets, fine, t)
    return Chains(fine, t, 2 * chains.offsets - np.arange(len(chains.offsets)))


def measured(metric: Metric, chains: Chains) -> Measured:
    """The errors of curves, from one step of Newton's method on meshes of twice the elements."""
    count = len(chains)
    fine = halved(chains)
    terms = fine.terms(metric)
    damping = np.zeros(count)
    made = newton_step(fine, terms, np.ones(count, dtype=bool), damping)
    error = made.step.reshape(fine.nodes.shape)
    scale, widest, log_density = np.empty(count), np.empty(count), np.empty(count)
    local = np.empty(len(chains.t) - count)
    calibrate(chains.t, chains.offsets, error, scale, widest, log_density, local)
    energy = fine.integrals(terms.energy)
    length = fine.integrals(np.sqrt(np.maximum(2.0 * terms.energy, 0.0)))
    # The corrected curve has a constant speed, so that its length is the root of twice its energy.
    # 2 E - L^2 is what the speed of this one varies.
    lower = np.sqrt(np.maximum(2.0 * energy - made.decrement, 0.0))
    with np.errstate(divide="ignore", invalid="ignore"):
        excess = (length**2 - 2.0 * energy + made.decrement) / (length + lower)
        part = made.decrement / (length + lower)
    # the difference of both may be small by chance, but Newton's step knows it to a tenth at best
    excess = np.where(length > 0, np.hypot(excess, 0.1 * part), 0.0)
    return Measured(
        fine, error, length, excess, energy, scale, widest, log_density, local, made.decrement, damping == 0.0
    )


def extents(chains: Chains) -> np.ndarray:
    """How far curves go: the longest side of the box around their nodes (members,)."""
    starts = chains.offsets[:-1]
    high = np.maximum.reduceat(chains.nodes[:, 0], starts, axis=0)
    low = np.minimum.reduceat(chains.nodes[:, 0], starts, axis=0)
    return np.max(high - low, axis=1)


def refined(chains: Chains, made: Measured, corrected: Chains, wanted: np.ndarray, sure: np.ndarray) -> Chains:
    """Corrected curves on meshes with new nodes where the error is made.

    Elements are split whose own error is above that `wanted` (members,), unless that is below a
    hundredth of the largest, or above a tenth of it. All of them are where it is not known: not
    `sure` (members,).
    """
    elements = elements_of(chains.offsets)
    largest = np.maximum.reduceat(made.local, elements[:-1])
    often = np.diff(elements)
    limit = np.minimum(0.1 * largest, np.maximum(0.01 * largest, wanted))
    limit = np.where(sure, limit, -np.inf)
    cut = ~(made.local < np.repeat(limit, often))  # NaN: everywhere
    keep = np.ones(len(made.fine.t), dtype=bool)
    middle = np.ones(len(keep), dtype=bool)
    coarse = 2 * np.arange(len(chains.t)) - np.repeat(np.arange(len(chains)), often + 1)
    middle[coarse] = False
    keep[middle] = cut
    counts = np.add.reduceat(keep, made.fine.offsets[:-1], dtype=np.int64)
    return Chains(corrected.nodes[keep], corrected.t[keep], offsets_of(counts))


def from_polygons(polygons: np.ndarray) -> Chains:
    """Cubic elements between all points of polygons (runs, S + 1, D), slopes by differences."""
    runs, size, D = polygons.shape
    nodes = np.stack([polygons, slopes(polygons)], axis=2)
    t = np.tile(np.linspace(0.0, 1.0, size), runs)
    return Chains(nodes.reshape(-1, 2, D), t, np.arange(runs + 1) * size)


def on_equal_steps(chains: Chains, count: int) -> Chains:
    """The curves interpolated at `count` nodes at equal steps."""
    members = len(chains)
    t, member = np.tile(np.linspace(0.0, 1.0, count), members), np.repeat(np.arange(members), count)
    row = find_rows(chains.t, chains.offsets, member, t)
    h = chains.t[row + 1] - chains.t[row]
    pieces = hermite_pieces(chains.t, chains.offsets, chains.nodes)
    nodes = np.empty((len(t), 2, chains.nodes.shape[2]))
    for d in (0, 1):
        values = np.empty((len(t), chains.nodes.shape[2]))
        evaluate(pieces, row - member, (t - chains.t[row]) / h, h, d, values)
        nodes[:, d] = values
    nodes[::count, 0] = chains.nodes[chains.offsets[:-1], 0]
    nodes[count - 1 :: count, 0] = chains.nodes[chains.offsets[1:] - 1, 0]
    return Chains(nodes, t, count * np.arange(members + 1))


def slopes(polygons: np.ndarray) -> np.ndarray:
    """Velocities at the points of polygons on [0, 1], differences of second order."""
    steps = polygons.shape[1] - 1
    out = np.empty_like(polygons)
    out[:, 1:-1] = 0.5 * steps * (polygons[:, 2:] - polygons[:, :-2])
    for end, one, two, sign in ((0, 1, 2, 1.0), (-1, -2, -3, -1.0)):
        # differences first: of a curve that stays where it is they are exactly zero
        rise = 4.0 * (polygons[:, one] - polygons[:, end]) - (polygons[:, two] - polygons[:, end])
        out[:, end] = 0.5 * steps * sign * rise
    return out


@loop
def choose_nodes(polygons: np.ndarray, wanted: np.ndarray, fewest: int, keep: np.ndarray) -> None:
    """Points of fine polygons (runs, S + 1, D) that are nodes of elements: keep (runs, S + 1).

    A cubic that meets a curve at both ends of an element of length h is off by h^4 |c''''| / 384.
    Elements are as long as keeps that below what is `wanted` (runs,), the largest coordinate
    counting, and at most 1 / fewest long.
    """
    runs, size, D = polygons.shape
    need = np.empty(size)
    for n in range(runs):
        for i in range(size - 1):
            j = min(max(i - 1, 0), size - 5)
            bend = 0.0
            for d in range(D):
                p = polygons[n, :, d]
                fourth = p[j] - 4.0 * p[j + 1] + 6.0 * p[j + 2] - 4.0 * p[j + 3] + p[j + 4]
                bend = max(bend, abs(fourth))
            need[i] = max((bend / (384.0 * wanted[n])) ** 0.25, fewest / (size - 1.0))
        total = 0.0
        for i in range(size - 1):
            need[i] = min(need[i], 1.0)  # elements a segment
            total += need[i]
        count = np.ceil(total)
        passed, nodes = 0.0, 0
        keep[n, 0] = True
        keep[n, size - 1] = True
        for i in range(size - 1):
            passed += need[i] * count / total
            if passed >= nodes + 1 - 1e-9 and i + 1 < size - 1:
                keep[n, i + 1] = True
                nodes += 1


def from_fine_polygons(polygons: np.ndarray, wanted: np.ndarray, fewest: int) -> Chains:
    """Cubic elements through some points of fine polygons, short where these bend most."""
    keep = np.zeros(polygons.shape[:2], dtype=bool)
    choose_nodes(polygons, wanted, fewest, keep)
    nodes = np.stack([polygons, slopes(polygons)], axis=2)[keep]
    t = np.broadcast_to(np.linspace(0.0, 1.0, polygons.shape[1]), keep.shape)[keep]
    return Chains(nodes, t, offsets_of(np.sum(keep, axis=1)))
