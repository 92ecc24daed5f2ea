"""Curves as chains of nodes, and Newton's method on their energy: every chain at its own pace.

The energy of a curve c is the integral of c' M(c) c' / 2; geodesics minimise it. A step that does
not lower it is not taken, so that a chain cannot get lost.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np

from probgeo.geometry import loops
from probgeo.geometry.race import Race
from probgeo.metrics import EnergyTerms, Metric
from probgeo.ragged import joined, rows_of, take


@dataclass(frozen=True)
class Element:
    """What a curve is between two nodes, and where its energy is taken: see `loops`."""

    shape: np.ndarray
    slope: np.ndarray
    weight: np.ndarray

    @property
    def points(self) -> int:
        """Points an element."""
        return len(self.weight)


@cache
def gauss_points(count: int) -> tuple[np.ndarray, np.ndarray]:
    """Points and weights of Gauss' rule on [0, 1]."""
    x, w = np.polynomial.legendre.leggauss(count)
    return 0.5 * (x + 1.0), 0.5 * w


def cubic_element(points: int) -> Element:
    """Cubic Hermite elements with Gauss' points."""
    s, w = gauss_points(points)
    shape = [2 * s**3 - 3 * s**2 + 1, s**3 - 2 * s**2 + s, -2 * s**3 + 3 * s**2, s**3 - s**2]
    slope = [6 * s**2 - 6 * s, 3 * s**2 - 4 * s + 1, -6 * s**2 + 6 * s, 3 * s**2 - 2 * s]
    return Element(np.ascontiguousarray(np.stack(shape, axis=1)), np.ascontiguousarray(np.stack(slope, axis=1)), w)


def straight_element(points: int) -> Element:
    """Straight segments with Gauss' points."""
    s, w = gauss_points(points)
    shape = np.ascontiguousarray(np.stack([1.0 - s, s], axis=1))
    return Element(shape, np.tile([-1.0, 1.0], (points, 1)), w)


STRAIGHT = straight_element(2)  # with one point, coarse polygons have twice as many local minima
CUBIC = cubic_element(4)
ELEMENTS = (STRAIGHT, CUBIC)  # by J - 1


@dataclass(frozen=True)
class Chains:
    """Nodes (rows, J, D) at times t (rows,), chain m in the rows offsets[m] : offsets[m + 1]."""

    nodes: np.ndarray
    t: np.ndarray
    offsets: np.ndarray

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @property
    def element(self) -> Element:
        return ELEMENTS[self.nodes.shape[1] - 1]

    @property
    def hessian_bytes(self) -> float:
        """Of one chain on average: blocks on and above the diagonal, and what they are made of."""
        rows, J, D = self.nodes.shape
        return 8.0 * 2.5 * 2.0 * (J * D) ** 2 * rows / max(1, len(self))

    def take(self, members: np.ndarray) -> "Chains":
        offsets, nodes, t = take(self.offsets, members, self.nodes, self.t)
        return Chains(nodes, t, offsets)

    @classmethod
    def joined(cls, parts: Sequence["Chains"]) -> "Chains":
        if len(parts) == 1:
            return parts[0]
        offsets, nodes, t = joined([(part.offsets, part.nodes, part.t) for part in parts])
        return cls(nodes, t, offsets)

    def points(self) -> tuple[np.ndarray, np.ndarray]:
        """Positions and velocities at all points of all elements."""
        D = self.nodes.shape[2]
        count = self.element.points * (len(self.t) - len(self))
        x, v = np.empty((count, D)), np.empty((count, D))
        loops.chain_points(self.nodes, self.t, self.offsets, self.element.shape, self.element.slope, x, v)
        return x, v

    def terms(self, metric: Metric) -> EnergyTerms:
        """Energy and its derivatives there."""
        return metric.newton_terms(*self.points())

    def integrals(self, density: np.ndarray) -> np.ndarray:
        """Integral (members,) of a density that is known at all points."""
        out = np.empty(len(self))
        loops.chain_integrals(self.t, self.offsets, self.element.weight, density, out)
        return out


@dataclass
class NewtonStep:
    """Newton's steps (rows, J D) of chains, and what they promise.

    decrement (members,): g' H^-1 g, twice the expected decrease of the energy. diagonal and upper
    hold the factors of the Hessian.
    """

    step: np.ndarray
    decrement: np.ndarray
    diagonal: np.ndarray
    upper: np.ndarray

    @classmethod
    def of(cls, chains: Chains) -> "NewtonStep":
        """Room for those of chains."""
        rows, J, D = chains.nodes.shape
        blocks = rows, J * D, J * D
        return cls(np.empty(blocks[:2]), np.zeros(len(chains)), np.empty(blocks), np.empty(blocks))

    def assemble(self, chains: Chains, terms: EnergyTerms, which: np.ndarray, damping: np.ndarray) -> None:
        """Write down Hessians, and negative gradients where steps will be: see `loops.assemble_hessian`."""
        element, blocks = chains.element, (self.diagonal, self.upper, self.step)
        shapes = element.shape, element.slope, element.weight
        loops.assemble_hessian(chains.t, chains.offsets, which, damping, *shapes, *terms[1:], *blocks)


def newton_step(chains: Chains, terms: EnergyTerms, which: np.ndarray, damping: np.ndarray) -> NewtonStep:
    """Steps of the members `which`; damping is raised where the Hessian is not positive definite.

    At infinite damping it always is. `damping` (members,) is written to.
    """
    D, offsets, made = chains.nodes.shape[2], chains.offsets, NewtonStep.of(chains)
    good = np.ones(len(chains), dtype=bool)
    while which.any():
        made.assemble(chains, terms, which, damping)
        loops.fix_ends(offsets, which, D, made.diagonal, made.upper, made.step)
        loops.solve_chains(offsets, which, made.diagonal, made.upper, made.step, made.decrement, good)
        which = which & ~good & (damping < 1e12)
        if which.any():
            damping[which] = np.maximum(4.0 * damping[which], 0.5)
    made.decrement[~good] = np.nan
    return made


@dataclass(frozen=True)
class Minimised:
    """Chains of (locally) least energy.

    energy (members,), infinite where there was no finite one; settled (members,): whether the last
    decrement was below the tolerance; steps (members,): how many it took.
    """

    chains: Chains
    energy: np.ndarray
    settled: np.ndarray
    steps: np.ndarray


def minimise(
    metric: Metric, chains: Chains, tolerance: float, most: int | None = None, race: Race | None = None
) -> Minimised:
    """Newton's method until the energy is expected to fall by less than `tolerance`, relatively.

    In at most `most` rounds, by default 30; the last step is taken without checking the energy. A chain
    of which not even a share of 1e-4 of Newton's step is accepted is given up. Chains that are
    done leave the batch, and so do those that have lost a race: of these nothing is known but where
    they were.
    """
    count, most = len(chains), 30 if most is None else most
    nodes = chains.nodes.copy()
    energies, settled = np.full(count, np.inf), np.zeros(count, dtype=bool)
    steps = np.zeros(count, dtype=np.int64)
    active, at = np.arange(count), Chains(chains.nodes.copy(), chains.t, chains.offsets)
    trial, step = chains.nodes.copy(), np.zeros((len(nodes), nodes.shape[1] * nodes.shape[2]))
    energy, decrement = np.full(count, np.inf), np.zeros(count)
    size, damping = np.ones(count), np.zeros(count)
    for round_ in range(most + 1):
        tried = Chains(trial, at.t, at.offsets)
        terms = tried.terms(metric)
        accepted = np.empty(len(at), dtype=bool)
        loops.line_search(
            at.offsets, tried.integrals(terms.energy), trial, at.nodes, energy, decrement, size, damping, accepted
        )
        steps[active] += accepted
        made = newton_step(at, terms, accepted, damping)
        if accepted.all():
            step, decrement = made.step, made.decrement
        elif accepted.any():
            rows = np.repeat(accepted, np.diff(at.offsets))
            step[rows] = made.step[rows]
            decrement[accepted] = made.decrement[accepted]
        done = accepted & (decrement <= tolerance * energy)
        stuck = (size < 1e-4) | ~(decrement < np.inf) | ~(energy < np.inf)
        leave = done | stuck if round_ < most else np.ones(len(at), dtype=bool)
        size[~done & leave] = 0.0
        loops.propose(at.offsets, at.nodes, step, size, trial)
        if race is not None:
            leave |= race.lost(round_, active, trial, energy, decrement, leave)
        if leave.any():
            left = active[leave]
            _, final = take(at.offsets, np.flatnonzero(leave), trial)
            nodes[rows_of(chains.offsets, left)] = final
            energies[left] = np.where(done, energy - 0.5 * decrement, energy)[leave]
            settled[left] = done[leave]
            if len(left) == len(at):
                break
            stay = np.flatnonzero(~leave)
            offsets, kept, t, trial, step = take(at.offsets, stay, at.nodes, at.t, trial, step)
            at = Chains(kept, t, offsets)
            active, energy, decrement = active[stay], energy[stay], decrement[stay]
            size, damping = size[stay], damping[stay]
    return Minimised(Chains(nodes, chains.t, chains.offsets), energies, settled, steps)
