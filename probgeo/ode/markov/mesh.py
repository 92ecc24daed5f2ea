"""Meshes of a batch of curves: where nodes go, and how many are needed.

An error that falls like h^q on every element is the same everywhere, and as large as allowed, if an
element with error e is replaced by (e / allowed)^(1/q) elements. Each member gets its own mesh.
"""

import numpy as np

from probgeo._loops import loop
from probgeo.ode.markov.collocation import Chains
from probgeo.ode.piecewise import evaluate
from probgeo.ode.shape import find_rows
from probgeo.ragged import members_of, offsets_of

MOST = 5.0  # elements that replace one, or that one replaces: more would trust estimates too far
GRADING = 1.0  # most by which the length of elements grows, per length


def wanted(local: np.ndarray, allowed: np.ndarray, order: int) -> np.ndarray:
    """How many elements should replace each of some, whose errors (E,) fall like h^order."""
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        excess = np.where(local == 0, 0.0, local / allowed)
    excess = np.nan_to_num(excess, nan=np.inf, posinf=np.inf)
    return np.clip(excess ** (1.0 / order), 1.0 / MOST, MOST)


@loop
def graded(offsets: np.ndarray, h: np.ndarray, wanted: np.ndarray, growth: float) -> None:
    """Raise the wanted numbers of elements (E,), in place, where lengths would grow too fast.

    New elements are h / wanted long; from one old element to the next that length grows by
    `growth` times their distance at most, in both directions. `offsets` are those of elements.
    """
    for m in range(len(offsets) - 1):
        for e in range(offsets[m] + 1, offsets[m + 1]):
            most = h[e - 1] / wanted[e - 1] + growth * (h[e - 1] + h[e]) / 2
            wanted[e] = max(wanted[e], h[e] / most)
        for e in range(offsets[m + 1] - 2, offsets[m] - 1, -1):
            most = h[e + 1] / wanted[e + 1] + growth * (h[e + 1] + h[e]) / 2
            wanted[e] = max(wanted[e], h[e] / most)


@loop
def distribute(
    t: np.ndarray, offsets: np.ndarray, wanted: np.ndarray, new_offsets: np.ndarray, new: np.ndarray
) -> None:
    """New nodes, as many as `new_offsets` says, at equal shares of the wanted elements (E,)."""
    for m in range(len(offsets) - 1):
        first, last = offsets[m], offsets[m + 1] - 1
        total = 0.0
        for n in range(first, last):
            total += wanted[n - m]
        begin, end = new_offsets[m], new_offsets[m + 1] - 1
        share = total / (end - begin)
        n, passed = first, 0.0
        new[begin], new[end] = t[first], t[last]
        for r in range(begin + 1, end):
            goal = (r - begin) * share
            while n < last - 1 and passed + wanted[n - m] < goal:
                passed += wanted[n - m]
                n += 1
            new[r] = t[n] + (t[n + 1] - t[n]) * (goal - passed) / wanted[n - m]


def remeshed(curves: Chains, wanted: np.ndarray, least: int, most: int) -> Chains:
    """The same curves on meshes with about so many elements in the place of each (E,).

    `least` and `most` nodes a member.
    """
    numbers = wanted.copy()
    graded(curves.elements, curves.h, numbers, GRADING)
    total = np.add.reduceat(numbers, curves.elements[:-1])
    counts = np.clip(np.ceil(total - 1e-9).astype(np.int64) + 1, least, most)
    offsets = offsets_of(counts)
    t = np.empty(offsets[-1])
    distribute(curves.t, curves.offsets, numbers, offsets, t)
    return on_mesh(curves, t, offsets)


def on_mesh(curves: Chains, t: np.ndarray, offsets: np.ndarray) -> Chains:
    """Positions and accelerations of curves on other meshes of the same intervals."""
    D, k = curves.y.shape[1], curves.basis.k
    pieces = curves.pieces()
    member = members_of(offsets)
    y = np.empty((len(t), D))
    _evaluate(curves, pieces, member, t, 0, y)
    E = len(t) - len(offsets) + 1
    fresh = Chains(t, offsets, y, np.empty((E, k, D)))
    times = t[fresh.left][:, None] + fresh.h[:, None] * curves.basis.gauss
    _evaluate(curves, pieces, np.repeat(fresh.member, k), times.ravel(), 2, fresh.v.reshape(E * k, D))
    return fresh


def _evaluate(curves: Chains, pieces: np.ndarray, member: np.ndarray, t: np.ndarray, d: int, out: np.ndarray) -> None:
    """The d-th derivative of the curves at rows (member, t), into out (n, D)."""
    row = find_rows(curves.t, curves.offsets, member, t)
    h = curves.t[row + 1] - curves.t[row]
    evaluate(pieces, row - member, (t - curves.t[row]) / h, h, d, out)
