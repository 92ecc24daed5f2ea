"""Curves that obey an ODE of order q at Gauss points, and their linearised equations.

As `collocation`, for y^(q) = f(t, y, ..., y^(q-1), p) with any conditions: unknowns are states at
the nodes, highest derivatives v at the Gauss points, and parameters p. Within an element v depends
on the state at its left and on p alone; what remains is a chain of states, whose inner nodes are
eliminated by orthogonal transformations, and a small dense system of the states at the times of the
conditions and of p. Time runs from 0 to 1, derivatives are by that time.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import NamedTuple

import numpy as np
from numpy.polynomial import Polynomial, legendre

from probgeo.ode.markov import general_loops as loops
from probgeo.ode.markov.collocation import Chains, inverted, is_everyone, times
from probgeo.ode.markov.mesh import GRADING, distribute, graded
from probgeo.ode.piecewise import evaluate
from probgeo.ode.shape import find_rows
from probgeo.ragged import members_of, offsets_of, rows_of, take

SINGULAR_FROM = 1e12  # condition number: fewer than four digits are left of a double


class Rule(NamedTuple):
    """G^m_j of k Gauss points and order q, at places of an element.

    gauss (k,); within (q, k, k) at these; at_end (q, k) at 1; middle (1,) with at_middle
    (q, 1, k); look (P,) with at_look (q, P, k); coefficients (k + q, k) of G^0_j by powers of s;
    halves (2 k, k): from values at the Gauss points to those at the ones of both halves
    """

    gauss: np.ndarray
    within: np.ndarray
    at_end: np.ndarray
    middle: np.ndarray
    at_middle: np.ndarray
    look: np.ndarray
    at_look: np.ndarray
    coefficients: np.ndarray
    halves: np.ndarray


@lru_cache
def rule(k: int, q: int) -> Rule:
    """The rule of k Gauss points for an ODE of order q; errors are looked at in quarters."""
    x = legendre.leggauss(k)[0]
    unit = np.linalg.inv(legendre.legvander(x, k - 1))
    integrated = [legendre.legint(unit, q - m, lbnd=-1) / 2.0 ** (q - m) for m in range(q)]
    look, middle = (np.arange(4) + 0.5) / 4, np.full(1, 0.5)

    def at(s: np.ndarray) -> np.ndarray:
        return np.stack([legendre.legval(2 * s - 1, series).T for series in integrated])

    line = Polynomial([-1.0, 2.0])
    powers = [Polynomial(legendre.leg2poly(column))(line).coef for column in integrated[0].T]
    return Rule(
        (x + 1) / 2,
        at((x + 1) / 2),
        np.ascontiguousarray(at(np.ones(1))[:, 0]),
        middle,
        at(middle),
        look,
        at(look),
        np.stack([np.pad(c, (0, k + q - len(c))) for c in powers], axis=1),
        legendre.legvander(np.concatenate([x - 1, x + 1]) / 2, k - 1) @ unit,
    )


@dataclass(frozen=True)
class Orbits(Chains):
    """Curves of a batch, each on a mesh of its own: y are states here.

    t (rows,), offsets (B + 1,), y (rows, q, D), v (elements, k, D), p (B, P), kept (B, J): rows of
    the times that conditions speak of
    """

    p: np.ndarray
    kept: np.ndarray

    @property
    def order(self) -> int:
        return self.y.shape[1]

    @property
    def rule(self) -> Rule:
        return rule(self.v.shape[1], self.order)

    def take(self, members: np.ndarray) -> "Orbits":
        if is_everyone(members, self.count):
            return self
        offsets, t, y = take(self.offsets, members, self.t, self.y)
        v = self.v[rows_of(self.elements, members)]
        kept = self.kept[members] + (offsets[:-1] - self.offsets[members])[:, None]
        return Orbits(t, offsets, y, v, self.p[members], kept)

    @classmethod
    def joined(cls, parts: Sequence["Orbits"]) -> "Orbits":
        if len(parts) == 1:
            return parts[0]
        counts = np.concatenate([part.sizes for part in parts])
        offsets = offsets_of(counts)
        firsts = np.cumsum([0] + [len(part.t) for part in parts])
        kept = [part.kept + first for part, first in zip(parts, firsts[:-1], strict=True)]
        t, y, v, p = (np.concatenate([getattr(part, name) for part in parts]) for name in ("t", "y", "v", "p"))
        return cls(t, offsets, y, v, p, np.concatenate(kept))

    @cached_property
    def member_at_gauss(self) -> np.ndarray:
        """Of every Gauss point of every element."""
        return np.repeat(self.member, self.v.shape[1])

    def with_values(self, values: "Step") -> "Orbits":
        """Other curves on the same meshes, about which nothing is found out twice."""
        other = object.__new__(Orbits)
        other.__dict__.update(self.__dict__, y=values.z, v=values.v, p=values.p)
        return other

    def changed(self, step: "Step", by: np.ndarray) -> "Orbits":
        """The curves plus `by` (B,) times a step."""
        values = Step(*(np.empty_like(x) for x in (self.y, self.v, self.p)))
        loops.moved(self.offsets, by, self.y, self.v, self.p, *step, *values)
        return self.with_values(values)

    def states(self, gauss_only: bool = True) -> tuple[np.ndarray, np.ndarray]:
        """Times (E, P) and states (E, P, q, D) at the Gauss points, or where errors are seen."""
        r = self.rule
        points, integrals = (r.gauss, r.within) if gauss_only else (r.look, r.at_look)
        E, _, D = self.v.shape
        at, states = np.empty((E, len(points))), np.empty((E, len(points), self.order, D))
        loops.states_at(self.t, self.offsets, self.y, self.v, points, integrals, at, states)
        return at, states

    def gaps(self) -> np.ndarray:
        """States at the right of elements as these say, less those at the nodes: (E, n)."""
        out = np.empty((len(self.v), self.order * self.v.shape[2]))
        loops.gaps(self.t, self.offsets, self.y, self.v, self.rule.at_end, out)
        return out

    def at_kept(self) -> np.ndarray:
        """States (B, J, q, D) at the times of the conditions."""
        return self.y[self.kept]

    def pieces(self) -> np.ndarray:
        """Coefficients (E, k + q, D) by powers of s."""
        return pieces(self.rule, self.h, self.y[self.left], self.v)

    def size(self) -> np.ndarray:
        """max |y| of every member, at its nodes."""
        return np.maximum.reduceat(np.abs(self.y[:, 0]).max(axis=1), self.offsets[:-1])

    def split(self) -> "Orbits":
        """The same curves with every element in two."""
        (E, k, D), r = self.v.shape, self.rule
        nodes = 2 * np.arange(len(self.t)) - members_of(self.offsets)
        t, y = np.empty(len(nodes) + E), np.empty((len(nodes) + E, self.order, D))
        at, states = np.empty((E, 1)), np.empty((E, 1, self.order, D))
        loops.states_at(self.t, self.offsets, self.y, self.v, r.middle, r.at_middle, at, states)
        t[nodes], y[nodes] = self.t, self.y
        t[nodes[self.left] + 1], y[nodes[self.left] + 1] = at[:, 0], states[:, 0]
        v = np.matmul(r.halves, self.v).reshape(2 * E, k, D)
        offsets = 2 * self.offsets - np.arange(self.count + 1)
        return Orbits(t, offsets, y, v, self.p, nodes[self.kept])

    def remeshed(self, wanted: np.ndarray, most: int) -> "Orbits":
        """The same curves with about so many elements in the place of each, `most` nodes at most.

        Between two kept nodes elements are placed anew; kept nodes stay.
        """
        numbers = wanted.copy()
        graded(self.elements, self.h, numbers, GRADING)
        B, J = self.kept.shape
        # segments between kept nodes, each with both of them
        sizes = (np.diff(self.kept, axis=1) + 1).ravel()
        old = offsets_of(sizes)
        rows = np.arange(old[-1]) + np.repeat(self.kept[:, :-1].ravel() - old[:-1], sizes)
        total = np.add.reduceat(numbers, old[:-1] - np.arange(len(sizes)))
        share = np.minimum(1.0, (most - 1) / total.reshape(B, -1).sum(axis=1)).repeat(J - 1)
        counts = np.maximum(np.ceil(share * total - 1e-9).astype(np.int64), 1)
        new = offsets_of(counts + 1)
        t = np.empty(new[-1])
        distribute(self.t[rows], old, numbers, new, t)
        last = np.zeros(len(counts), dtype=bool)
        last[J - 2 :: J - 1] = True
        t = np.delete(t, new[1:][~last] - 1)
        offsets = offsets_of(counts.reshape(B, J - 1).sum(axis=1) + 1)
        steps = np.concatenate([np.zeros((B, 1), dtype=np.int64), counts.reshape(B, J - 1)], axis=1)
        kept = offsets[:-1, None] + np.cumsum(steps, axis=1)
        return self._on(t, offsets, kept)

    def _on(self, t: np.ndarray, offsets: np.ndarray, kept: np.ndarray) -> "Orbits":
        q, k, D = self.order, self.v.shape[1], self.v.shape[2]
        own = self.pieces()
        y, v = np.empty((len(t), q, D)), np.empty((len(t) - self.count, k, D))
        fresh = Orbits(t, offsets, y, v, self.p, kept)

        def along(member: np.ndarray, at: np.ndarray, d: int) -> np.ndarray:
            row = find_rows(self.t, self.offsets, member, at)
            h = self.t[row + 1] - self.t[row]
            out = np.empty((len(at), D))
            evaluate(own, row - member, (at - self.t[row]) / h, h, d, out)
            return out

        for d in range(q):
            y[:, d] = along(members_of(offsets), t, d)
        inside = t[fresh.left][:, None] + fresh.h[:, None] * self.rule.gauss
        v[:] = along(np.repeat(fresh.member, k), inside.ravel(), q).reshape(v.shape)
        return fresh


def pieces(r: Rule, h: np.ndarray, left: np.ndarray, v: np.ndarray) -> np.ndarray:
    """Coefficients (E, k + q, ...) from states (E, q, ...) at the left and v (E, k, ...)."""
    E, q = left.shape[:2]
    flat = np.matmul(r.coefficients, v.reshape(E, v.shape[1], -1))
    out = flat.reshape(E, len(r.coefficients), *left.shape[2:])
    column = h.reshape(E, *[1] * (left.ndim - 2))
    out = column[:, None] ** q * out
    factor = np.ones_like(column)
    for m in range(q):
        out[:, m] += factor * left[:, m]
        factor = factor * column / (m + 1)
    return out


class Step(NamedTuple):
    """A change of states (rows, q, D, ...), v (E, k, D, ...) and parameters (B, P, ...)."""

    z: np.ndarray
    v: np.ndarray
    p: np.ndarray

    def column(self, c: int) -> "Step":
        z, v, p = (np.ascontiguousarray(x[..., c]) for x in self)
        return Step(z, v, p)


@dataclass(frozen=True)
class LinearisedOrbits:
    """The factorised equations of small changes of a batch of curves.

    Attributes
    ----------
    curves : around which
    inverses (E, k D, k D), responses (E, k D, n + P) : v by what forces it, by state and parameters
    upper, reflectors : of the chains, see `loops.factorise`
    border (B, S, S) : of the states at kept nodes and the parameters, S = n J + P
    """

    curves: Orbits
    inverses: np.ndarray
    responses: np.ndarray
    upper: np.ndarray
    reflectors: np.ndarray
    border: np.ndarray

    @classmethod
    def around(
        cls, curves: Orbits, jacobians: np.ndarray, by_p: np.ndarray, conditions: np.ndarray
    ) -> "LinearisedOrbits":
        """From Jacobians (E, k, q, D, D), (E, k, D, P) and those of the conditions (B, M, S)."""
        r, h = curves.rule, curves.h
        E, k, q, D, _ = jacobians.shape
        P, n = by_p.shape[3], q * D
        B, J = curves.kept.shape
        matrices, columns = np.empty((E, k * D, k * D)), np.empty((E, k * D, n + P))
        loops.assemble(h, jacobians, by_p, r.gauss, r.within, matrices, columns)
        inverses = inverted(matrices, D)
        responses = times(inverses, columns, D)
        transfers = np.empty((E, n, n + P))
        loops.transfer(h, responses, r.at_end, q, n, transfers)
        rows = len(curves.t)
        upper, reflectors = np.zeros((rows, n, 3 * n + P)), np.zeros((rows, 2 * n, n))
        ends = np.zeros((B, J - 1, n, 2 * n + P))
        loops.factorise(curves.kept, transfers, upper, reflectors, ends)
        S = n * J + P
        border = np.zeros((B, S, S))
        for j in range(J - 1):
            border[:, j * n : (j + 1) * n, j * n : (j + 2) * n] = ends[:, j, :, : 2 * n]
            border[:, j * n : (j + 1) * n, n * J :] = ends[:, j, :, 2 * n :]
        border[:, (J - 1) * n :] = conditions
        return cls(curves, inverses, responses, upper, reflectors, border)

    def solve(self, forcing: np.ndarray, gaps: np.ndarray, missed: np.ndarray) -> Step:
        """Changes under forcings of v (E, k, D, C), gaps between elements (E, n, C), and changes of
        the values of the conditions (B, M, C).
        """
        c = self.curves
        E, k, D, C = forcing.shape
        n, P = c.order * D, c.p.shape[1]
        B, J = c.kept.shape
        local = times(self.inverses, forcing.reshape(E, k * D, C), D)
        columns = np.empty((E, n, C))
        loops.transfer(c.h, local, c.rule.at_end, c.order, 0, columns)
        columns += gaps
        right = np.empty((B, n * J + P, C))
        right[:, n * (J - 1) :] = missed
        loops.reduce_columns(c.kept, self.reflectors, columns, right)
        found = _solved(self.border, right)
        z, moved = np.empty((len(c.t), n, C)), np.empty((E, n + P, C))
        loops.substitute(c.kept, self.upper, columns, found, z, moved)
        v = times(self.responses, moved, D)
        v += local
        return Step(z.reshape(-1, c.order, D, C), v.reshape(E, k, D, C), found[:, n * J :])

    def is_singular(self) -> np.ndarray:
        """Whether the equations cannot be told from singular ones, by member."""
        scaled = self.border
        with np.errstate(invalid="ignore"):
            for axis in (2, 1):
                largest = np.abs(scaled).max(axis=axis, keepdims=True)
                largest[largest == 0.0] = 1.0
                scaled = scaled / largest
        if not np.isfinite(scaled).all():
            scaled[~np.isfinite(scaled).all(axis=(1, 2))] = 0.0
        values = np.linalg.svd(scaled, compute_uv=False)
        return ~(values[:, -1] * SINGULAR_FROM > values[:, 0])


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
