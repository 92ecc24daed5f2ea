"""Polygons between the same ends compete: most need not be followed to the end."""

import numpy as np

from probgeo._loops import loop

BEHIND, MERGED, RUNNING, DONE = range(4)  # what becomes of a polygon


@loop
def runs_along(p: np.ndarray, q: np.ndarray, same: float) -> bool:
    """Whether polygons (S + 1, D) are nowhere further apart than `same` times the extent of p."""
    size, D = p.shape
    extent = 0.0
    for d in range(D):
        low = high = p[0, d]
        for s in range(size):
            low, high = min(low, p[s, d]), max(high, p[s, d])
        extent = max(extent, high - low)
    for s in range(size):
        middle_first = (s + size // 2) % size
        for d in range(D):
            if not abs(p[middle_first, d] - q[middle_first, d]) <= same * extent:
                return False
    return True


@loop
def give_up(
    offsets: np.ndarray,
    polygons: np.ndarray,
    energy: np.ndarray,
    promise: np.ndarray,
    highest: float,
    same: float,
    state: np.ndarray,
) -> None:
    """Change the `state` (runs,) of polygons (runs, S + 1, D) that will not win.

    Those of member m are in the rows offsets[m] : offsets[m + 1]. One whose energy, less what
    Newton's step promises, is more than `highest` times the lowest is BEHIND; one that runs along
    another that is done or lower has MERGED with that: it would end where that ends.
    """
    for m in range(len(offsets) - 1):
        first, last = offsets[m], offsets[m + 1]
        lowest = np.inf
        for n in range(first, last):
            lowest = min(lowest, energy[n])
        for n in range(first, last):
            if state[n] != RUNNING:
                continue
            if energy[n] - promise[n] > highest * lowest:
                state[n] = BEHIND
                continue
            for j in range(first, last):
                ahead = state[j] == DONE or (state[j] == RUNNING and (energy[j], j) < (energy[n], n))
                if j != n and ahead and runs_along(polygons[n], polygons[j], same):
                    state[n] = MERGED
                    break


class Race:
    """New polygons against each other and against those that are known, see `give_up`.

    Parameters
    ----------
    polygons, energy, offsets : arrays (runs, S + 1, D), (runs,), (members + 1,)
        All of them, sorted by member.
    new : array (runs,)
        Which of them are in the race.
    factor, same, patience : float, float, int
        After `patience` rounds a curve may be at most `factor` times as long as the shortest. Curves no further apart
        than `same` times their extent count as one.
    """

    def __init__(
        self,
        polygons: np.ndarray,
        energy: np.ndarray,
        offsets: np.ndarray,
        new: np.ndarray,
        factor: float,
        same: float,
        patience: int,
    ) -> None:
        self.polygons, self.energy, self.offsets = polygons, energy, offsets
        self.slots = np.flatnonzero(new)
        self.all = np.where(new, RUNNING, DONE)
        self.highest, self.same, self.patience = factor**2, same, patience

    def begin(self) -> np.ndarray:
        """Which of the new polygons run at all: those along known or earlier ones do not."""
        give_up(self.offsets, self.polygons, self.energy, np.zeros(len(self.energy)), np.inf, self.same, self.all)
        runs = np.flatnonzero(self.state == RUNNING)
        self.slots = self.slots[runs]
        return runs

    @property
    def state(self) -> np.ndarray:
        return self.all[self.slots]

    def lost(
        self,
        round_: int,
        members: np.ndarray,
        nodes: np.ndarray,
        energy: np.ndarray,
        decrement: np.ndarray,
        done: np.ndarray,
    ) -> np.ndarray:
        """Which of some members (runs,) are given up, from where their next step leads."""
        slots = self.slots[members]
        self.energy[slots] = energy
        self.polygons[slots] = nodes.reshape(len(slots), *self.polygons.shape[1:])
        promise = np.zeros(len(self.energy))
        promise[slots] = decrement
        highest = self.highest if round_ >= self.patience else np.inf
        give_up(self.offsets, self.polygons, self.energy, promise, highest, self.same, self.all)
        gone = self.all[slots] < RUNNING
        self.all[slots[done & ~gone]] = DONE
        return gone
