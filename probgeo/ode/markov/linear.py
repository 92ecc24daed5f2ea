"""The linearised equations of chains of elements, factorised: for Newton's steps, errors and uncertain data.

A small change of a curve obeys e^(q) = sum_m J_m e^(m) + f_p p + r at the Gauss points. The v of an element depend on
its ends and on p alone, so that they are eliminated first. What remains is a chain, of which there are two: of
positions, if a second-order ODE has its curve given at both ends; else of states. Solved with a chain of states, the
same problems took 1.2 to 1.4 times as long in one dimension, 1.6 times in 5 and 2.3 times in 20.
"""

from dataclasses import dataclass, replace
from typing import ClassVar, Self

import numpy as np

from probgeo.ode.markov import boundary_loops, chain_loops
from probgeo.ode.markov.collocation import Splines, Step, inverted, is_everyone, products
from probgeo.ragged import rows_of

OfElements = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]  # the arrays of a `Linearised`

SINGULAR_FROM = 1e12  # condition number: fewer than four digits are left of a double


@dataclass(frozen=True)
class Linearised:
    """Linearised equations of a batch of curves, factorised.

    Attributes
    ----------
    jacobians (E, k, q, D, D), by_p (E, k, D, P) : J_m and f_p at the Gauss points
    inverses (E, k D, k D) : v by what forces it
    responses (E, k D, n + P) : v by the positions at both ends, or by the state at the left and p
    """

    jacobians: np.ndarray
    by_p: np.ndarray
    inverses: np.ndarray
    responses: np.ndarray

    OF_ELEMENTS: ClassVar[tuple[str, ...]] = ("jacobians", "by_p", "inverses", "responses")
    OF_ROWS: ClassVar[tuple[str, ...]] = ()
    OF_MEMBERS: ClassVar[tuple[str, ...]] = ()

    def _places(self, curves: Splines, members: np.ndarray) -> list[tuple[str, np.ndarray]]:
        """The rows of some members in each of the arrays, by its name."""
        rows, elements = rows_of(curves.offsets, members), rows_of(curves.elements, members)
        every = ((self.OF_ELEMENTS, elements), (self.OF_ROWS, rows), (self.OF_MEMBERS, members))
        return [(name, place) for names, place in every for name in names]

    def take(self, curves: Splines, members: np.ndarray) -> Self:
        """The equations of some members of these curves."""
        if is_everyone(members, curves.count):
            return self
        return replace(self, **{name: getattr(self, name)[at] for name, at in self._places(curves, members)})

    def put(self, curves: Splines, members: np.ndarray, other: Self) -> None:
        """Replace the equations of some members."""
        for name, at in self._places(curves, members):
            getattr(self, name)[at] = getattr(other, name)

    def solve(self, curves: Splines, forcing: np.ndarray, gaps: np.ndarray, missed: np.ndarray | None) -> Step:
        """Changes under forcings r (E, k, D, C) that close gaps between elements (E, n, C).

        The values of conditions change by `missed` (B, M, C), or not at all.
        """
        raise NotImplementedError


def linearised(
    curves: Splines, jacobians: np.ndarray, by_p: np.ndarray, conditions: np.ndarray | None
) -> "LinearPositions | LinearStates":
    """Factorised equations from J_m (E, k, q, D, D), f_p (E, k, D, P) and derivatives of conditions (B, M, n J + P)."""
    b, h = curves.basis, curves.h
    E, k, q, D, _ = jacobians.shape
    matrices, columns = np.empty((E, k * D, k * D)), np.empty((E, k * D, q * D + by_p.shape[3]))
    boundary_loops.assemble_elements(curves.scales, jacobians, b.own, matrices)
    boundary_loops.by_states(h, jacobians, by_p, b.gauss, columns)
    inverses = inverted(matrices, D)
    if curves.given:  # positions at both ends y, y' = (right - left) / h
        columns[:, :, D:] /= h[:, None, None]
        columns[:, :, :D] -= columns[:, :, D:]
    of_elements = jacobians, by_p, inverses, products(inverses, columns, D)
    if curves.given:
        return LinearPositions.chained(curves, of_elements)
    return LinearStates.chained(curves, of_elements, conditions)


@dataclass(frozen=True)
class LinearPositions(Linearised):
    """A chain of positions.

    Attributes
    ----------
    ends (E, 2, 2, D, D) : slopes at the ends of an element by positions at these
    upper, lower, pivots : factors, see `chain_loops.factorise_positions`
    """

    ends: np.ndarray
    upper: np.ndarray
    lower: np.ndarray
    pivots: np.ndarray

    OF_ELEMENTS: ClassVar[tuple[str, ...]] = (*Linearised.OF_ELEMENTS, "ends")
    OF_ROWS: ClassVar[tuple[str, ...]] = ("upper", "lower", "pivots")

    @classmethod
    def chained(cls, curves: Splines, of_elements: OfElements) -> "LinearPositions":
        E, _, _, D, _ = of_elements[0].shape
        rows = len(curves.t)
        ends = np.empty((E, 2, 2, D, D))
        chain_loops.slopes_by_ends(curves.h, of_elements[-1], curves.basis.own_slopes, ends)
        upper, lower = np.zeros((rows, D, 3 * D)), np.zeros((rows, 2 * D, D))
        pivots = np.zeros((rows, D), dtype=np.int64)
        chain_loops.factorise_positions(curves.offsets, curves.h, ends, upper, lower, pivots)
        return cls(*of_elements, ends, upper, lower, pivots)

    def solve(self, curves: Splines, forcing: np.ndarray, gaps: np.ndarray, missed: np.ndarray | None) -> Step:
        E, k, D, C = forcing.shape
        local = products(self.inverses, forcing.reshape(E, k * D, C), D)
        z, moved = np.zeros((len(curves.t), 2, D, C)), np.empty((E, 2 * D, C))
        if missed is not None:
            z[curves.kept, 0] = missed.reshape(-1, 2, D, C)
        chain_loops.substitute_positions(
            curves.offsets, curves.h, self.ends, curves.basis.own_slopes,
            self.upper, self.lower, self.pivots, local, gaps, z, moved,
        )  # fmt: skip
        v = products(self.responses, moved, D)
        v += local
        return Step(z, v.reshape(E, k, D, C), np.zeros((curves.count, 0, C)))


@dataclass(frozen=True)
class LinearStates(Linearised):
    """A chain of states, its inner nodes eliminated by orthogonal transformations.

    Attributes
    ----------
    upper, reflectors : see `chain_loops.factorise_states`
    border (B, S, S) : of the states at kept nodes and the parameters, S = n J + P
    """

    upper: np.ndarray
    reflectors: np.ndarray
    border: np.ndarray

    OF_ROWS: ClassVar[tuple[str, ...]] = ("upper", "reflectors")
    OF_MEMBERS: ClassVar[tuple[str, ...]] = ("border",)

    @classmethod
    def chained(cls, curves: Splines, of_elements: OfElements, conditions: np.ndarray | None) -> "LinearStates":
        jacobians, by_p, _, responses = of_elements
        E, _, q, D, _ = jacobians.shape
        P, n = by_p.shape[3], q * D
        B, J = curves.kept.shape
        transfers = np.empty((E, n, n + P))
        chain_loops.transfer(curves.h, responses, curves.basis.at_end, q, n, transfers)
        rows = len(curves.t)
        upper, reflectors = np.zeros((rows, n, 3 * n + P)), np.zeros((rows, 2 * n, n))
        ends = np.zeros((B, J - 1, n, 2 * n + P))
        chain_loops.factorise_states(curves.kept, transfers, upper, reflectors, ends)
        border = np.zeros((B, n * J + P, n * J + P))
        for j in range(J - 1):
            border[:, j * n : (j + 1) * n, j * n : (j + 2) * n] = ends[:, j, :, : 2 * n]
            border[:, j * n : (j + 1) * n, n * J :] = ends[:, j, :, 2 * n :]
        border[:, (J - 1) * n :] = conditions
        return cls(*of_elements, upper, reflectors, border)

    def solve(self, curves: Splines, forcing: np.ndarray, gaps: np.ndarray, missed: np.ndarray | None) -> Step:
        E, k, D, C = forcing.shape
        q, P = curves.order, curves.p.shape[1]
        n = q * D
        B, J = curves.kept.shape
        local = products(self.inverses, forcing.reshape(E, k * D, C), D)
        columns = np.empty((E, n, C))
        chain_loops.transfer(curves.h, local, curves.basis.at_end, q, 0, columns)
        columns += gaps
        right = np.zeros((B, n * J + P, C))
        if missed is not None:
            right[:, n * (J - 1) :] = missed
        chain_loops.reduce_columns(curves.kept, self.reflectors, columns, right)
        found = _solved(self.border, right)
        z, moved = np.empty((len(curves.t), n, C)), np.empty((E, n + P, C))
        chain_loops.substitute_states(curves.kept, self.upper, columns, found, z, moved)
        v = products(self.responses, moved, D)
        v += local
        return Step(z.reshape(-1, q, D, C), v.reshape(E, k, D, C), np.ascontiguousarray(found[:, n * J :]))

    def condition(self) -> np.ndarray:
        """Condition numbers (B,) of what is left of the chain, NaN where it is not finite."""
        scaled = self.border
        with np.errstate(invalid="ignore"):
            for axis in (2, 1):
                largest = np.abs(scaled).max(axis=axis, keepdims=True)
                largest[largest == 0.0] = 1.0
                scaled = scaled / largest
        finite = np.isfinite(scaled).all(axis=(1, 2))
        values = np.linalg.svd(np.where(finite[:, None, None], scaled, 0.0), compute_uv=False)
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(finite, values[:, 0] / values[:, -1], np.nan)


def _solved(matrices: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Solutions of small systems, NaN where there is none."""
    try:
        return np.linalg.solve(matrices, right)
    except np.linalg.LinAlgError:
        out = np.full(right.shape, np.nan)
        for b, matrix in enumerate(matrices):
            if len(matrices) > 1:
                out[b] = _solved(matrix[None], right[b][None])[0]
        return out
