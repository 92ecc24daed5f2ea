"""Meshes of a batch of curves: where nodes go, and how many are needed.

An error that falls like h^q on every element is the same everywhere, and as large as allowed, if an
element with error e is replaced by (e / allowed)^(1/q) elements. Each member gets its own mesh.
"""

import numpy as np

from probgeo._loops import loop
from probgeo.ode.error_shape import find_rows
from probgeo.ode.markov.collocation import Splines
from probgeo.ode.piecewise import evaluate
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
def distribute(t: np.ndarray, kept: np.ndarray, wanted: np.ndarray, new_kept: np.ndarray, new: np.ndarray) -> None:
    """New nodes at equal shares of the wanted elements (E,) between kept nodes, rows (B, J), which stay.

    `new_kept` are the rows that these have among the new ones.
    """
    for m in range(len(kept)):
        for j in range(kept.shape[1] - 1):
            first, last = kept[m, j], kept[m, j + 1]
            begin, end = new_kept[m, j], new_kept[m, j + 1]
            total = 0.0
            for n in range(first, last):
                total += wanted[n - m]
            share = total / (end - begin)
            n, passed = first, 0.0
            new[begin], new[end] = t[first], t[last]
            for r in range(begin + 1, end):
                goal = (r - begin) * share
                while n < last - 1 and passed + wanted[n - m] < goal:
                    passed += wanted[n - m]
                    n += 1
                new[r] = t[n] + (t[n + 1] - t[n]) * (goal - passed) / wanted[n - m]


def remeshed(curves: Splines, wanted: np.ndarray, least: int, most: int) -> Splines:
    """The curves on meshes where about `wanted` elements replace each (E,).

    `least` and `most` nodes a member, but one element at least between two kept nodes.
    """
    numbers = wanted.copy()
    graded(curves.elements, curves.h, numbers, GRADING)
    B, J = curves.kept.shape
    # elements between kept nodes: the first of them in each member follows the last of the one before
    firsts = curves.kept[:, :-1] - np.arange(B)[:, None]
    total = np.add.reduceat(numbers, firsts.ravel()).reshape(B, J - 1)
    share = np.clip(1.0, (least - 1) / total.sum(axis=1), (most - 1) / total.sum(axis=1))
    counts = np.maximum(np.ceil(share[:, None] * total - 1e-9).astype(np.int64), 1)
    offsets = offsets_of(counts.sum(axis=1) + 1)
    kept = offsets[:-1, None] + np.concatenate([np.zeros((B, 1), np.int64), np.cumsum(counts, axis=1)], axis=1)
    t = np.empty(offsets[-1])
    distribute(curves.t, curves.kept, numbers, kept, t)
    return on_mesh(curves, t, offsets, kept)


def on_mesh(curves: Splines, t: np.ndarray, offsets: np.ndarray, kept: np.ndarray) -> Splines:
    """States and highest derivatives of curves on other meshes of the same intervals."""
    q, (_, k, D) = curves.order, curves.v.shape
    z, v = np.empty((len(t), q, D)), np.empty((len(t) - curves.count, k, D))
    states = np.empty((q, len(t), D))
    fresh = Splines(t, offsets, z, v, curves.p, kept, curves.given)
    own = curves.pieces()

    def along(member: np.ndarray, at: np.ndarray, derivatives: list[tuple[int, np.ndarray]]) -> None:
        row = find_rows(curves.t, curves.offsets, member, at)
        h = curves.t[row + 1] - curves.t[row]
        element, s = row - member, (at - curves.t[row]) / h
        for d, out in derivatives:
            evaluate(own, element, s, h, d, out)

    along(members_of(offsets), t, list(enumerate(states)))
    inside = t[fresh.left][:, None] + fresh.h[:, None] * fresh.basis.gauss
    along(np.repeat(fresh.member, k), inside.ravel(), [(q, v.reshape(-1, D))])
    z[:] = states.swapaxes(0, 1)
    return fresh
