"""Curves of elements that obey an ODE at Gauss points: y^(q) = f(t, y, ..., y^(q-1), p).

Unknowns are states z = (y, y', ..., y^(q-1)) at the nodes, highest derivatives v at k Gauss points of every element,
and parameters p. On an element of length h, with s from 0 to 1 along it,

    y^(m)(s) = sum_l (h s)^l / l! z_(m+l) + h^(q-m) sum_j G^m_j(s) v_j,

with G^m_j the j-th Lagrange polynomial of the Gauss points, integrated q - m times from 0. A curve solves the ODE if
v_j = f at these points, and if every element ends in the state of the next node. Errors fall like h^(k+q) along the
curve, like h^(2k) at the nodes. Time runs from 0 to 1, and derivatives are by that time.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import NamedTuple

import numpy as np
from numpy.polynomial import Polynomial, legendre

from probgeo.ode.markov import boundary_loops as loops
from probgeo.ragged import elements_of, members_of, offsets_of, rows_of, take

BLAS = 8  # dimensions from which on LAPACK inverts an element faster than the plain loop
LOOKS = 8  # equal parts of an element; errors are evaluated in their middles


class Basis(NamedTuple):
    """G^m_j of k Gauss points for an ODE of order q, and what else is known of an element.

    Attributes
    ----------
    gauss (k,) : in (0, 1)
    points (K,) : the Gauss points, then Kronrod's k + 1 around and between them
    value (K, k), integrals (q, K, k) : the Lagrange polynomials and G^m_j at the points
    within (q, k, k) : G^m_j at the Gauss points
    at_end (q, k) : G^m_j at 1
    coefficients (k + q, k) : of G^0_j, by powers of s
    look (P,), at_look (q, P, k) : where errors are looked at, and G^m_j there
    own (q, k, k) : G^m_j at the Gauss points; less a line, so that G^0_j vanish at 0 and 1, if the curve is given there
    own_slopes (2, k) : the slopes of these G^0_j at 0 and 1, if it is
    richer (q, K, K), richer_at_ends (2, q, K), richer_at_look (P, K) : the same for polynomials through all K points
    tested (q, k, k, K) : the part of G^m_l that is a polynomial of degree k - 1 after multiplication with the Lagrange
        polynomial of the j-th Gauss point, at the i-th: what is left of a force J_m y^(m) if it is tested with these
    bump : how far a defect of size 1 that vanishes at the Gauss points bends an element of length 1
    """

    gauss: np.ndarray
    points: np.ndarray
    value: np.ndarray
    integrals: np.ndarray
    within: np.ndarray
    at_end: np.ndarray
    coefficients: np.ndarray
    look: np.ndarray
    at_look: np.ndarray
    own: np.ndarray
    own_slopes: np.ndarray
    richer: np.ndarray
    richer_at_ends: np.ndarray
    richer_at_look: np.ndarray
    tested: np.ndarray
    bump: float

    @property
    def k(self) -> int:
        return len(self.gauss)


@lru_cache
def basis(k: int, q: int, given: bool) -> Basis:
    """The basis of k Gauss points; `given` says whether the curve is, at both ends of the interval (q = 2)."""
    x = legendre.leggauss(k)[0]
    points = np.concatenate([x, kronrod(k)])
    look = (2 * np.arange(LOOKS) + 1) / LOOKS - 1
    ends = np.array([-1.0, 1.0])
    unit, few = _integrated(x, q)
    _, many = _integrated(points, q)
    line = Polynomial([-1.0, 2.0])
    powers = [Polynomial(legendre.leg2poly(column))(line).coef for column in few[0].T]
    own, more = (_without_line(s) if given else s for s in (few, many))
    value, richer, seen = _at(points, [unit])[0], _at(points, more), _at(look, more)[0]
    projection = legendre.legvander(x, k - 1) @ np.linalg.inv(legendre.legvander(points, len(points) - 1))[:k]
    return Basis(
        gauss=(x + 1) / 2,
        points=(points + 1) / 2,
        value=value,
        integrals=_at(points, few),
        within=_at(x, few),
        at_end=_at(ends, few)[:, 1].copy(),
        coefficients=np.stack([np.pad(c, (0, k + q - len(c))) for c in powers], axis=1),
        look=(look + 1) / 2,
        at_look=_at(look, few),
        own=_at(x, own),
        own_slopes=_at(ends, own)[-1],
        richer=richer,
        richer_at_ends=np.ascontiguousarray(_at(ends, more).swapaxes(0, 1)),
        richer_at_look=seen,
        tested=np.einsum("ip,pj,mpl->mijl", projection, value, richer),
        bump=float(np.abs(seen @ legendre.legval(points, np.eye(k + 1)[k])).max()),
    )


def kronrod(k: int) -> np.ndarray:
    """Kronrod's k + 1 points in [-1, 1] for k Gauss points.

    The roots of Stieltjes' polynomial E of degree k + 1, with int P_k E x^j dx = 0 for j <= k:
    a defect that vanishes at the Gauss points is integrated well with them.
    """
    nodes, weights = legendre.leggauss(2 * k + 2)
    basis_functions = legendre.legvander(nodes, k + 1)
    tested = basis_functions[:, : k + 1] * (weights * basis_functions[:, k])[:, None]
    moments = tested.T @ basis_functions
    series = np.linalg.lstsq(moments[:, :-1], -moments[:, -1])[0]
    return np.sort(legendre.legroots(np.append(series, 1.0)).real)


def _integrated(x: np.ndarray, q: int) -> tuple[np.ndarray, list[np.ndarray]]:
    """Lagrange's polynomials of points x of [-1, 1], and these integrated q, ..., 1 times by s: Legendre series."""
    unit = np.linalg.inv(legendre.legvander(x, len(x) - 1))
    return unit, [legendre.legint(unit, q - m, lbnd=-1) / 2.0 ** (q - m) for m in range(q)]


def _without_line(series: list[np.ndarray]) -> list[np.ndarray]:
    """Series that vanish at -1, and their derivatives by s, less the line to the value at 1."""
    out = [one.copy() for one in series]
    end = legendre.legval(1.0, series[0])
    out[0][:2] -= end / 2
    if len(out) > 1:
        out[1][0] -= end
    return out


def _at(x: np.ndarray, series: Sequence[np.ndarray]) -> np.ndarray:
    return np.stack([legendre.legval(x, one).T for one in series])


class Step(NamedTuple):
    """A change of states (rows, q, D, ...), v (E, k, D, ...) and parameters (B, P, ...)."""

    z: np.ndarray
    v: np.ndarray
    p: np.ndarray

    def column(self, c: int) -> "Step":
        return Step(*(np.ascontiguousarray(x[..., c]) for x in self))


@dataclass(frozen=True)
class Splines:
    """Piecewise polynomial curves of a batch, each on a mesh of its own.

    t (rows,), offsets (B + 1,), z (rows, q, D), v (elements, k, D), p (B, P), kept (B, J): rows of the times that
    conditions speak of; given: whether they give the curve at both ends, and nothing else
    """

    t: np.ndarray
    offsets: np.ndarray
    z: np.ndarray
    v: np.ndarray
    p: np.ndarray
    kept: np.ndarray
    given: bool

    @property
    def count(self) -> int:
        return len(self.offsets) - 1

    @property
    def order(self) -> int:
        return self.z.shape[1]

    @cached_property
    def sizes(self) -> np.ndarray:
        return np.diff(self.offsets)

    @cached_property
    def elements(self) -> np.ndarray:
        """Offsets of the elements."""
        return elements_of(self.offsets)

    @cached_property
    def member(self) -> np.ndarray:
        """The member that every element belongs to."""
        return members_of(self.elements)

    @cached_property
    def left(self) -> np.ndarray:
        """The row at the left of every element."""
        return np.arange(len(self.v)) + self.member

    @cached_property
    def h(self) -> np.ndarray:
        return self.t[self.left + 1] - self.t[self.left]

    @cached_property
    def scales(self) -> np.ndarray:
        """h^(q-m) of every element (E, q)."""
        powers = np.cumprod(np.repeat(self.h[:, None], self.order, axis=1), axis=1)
        return np.ascontiguousarray(powers[:, ::-1])

    @cached_property
    def basis(self) -> Basis:
        return basis(self.v.shape[1], self.order, self.given)

    def take(self, members: np.ndarray) -> "Splines":
        if is_everyone(members, self.count):
            return self
        offsets, t, z = take(self.offsets, members, self.t, self.z)
        v = self.v[rows_of(self.elements, members)]
        kept = self.kept[members] + (offsets[:-1] - self.offsets[members])[:, None]
        return Splines(t, offsets, z, v, self.p[members], kept, self.given)

    @classmethod
    def joined(cls, parts: Sequence["Splines"]) -> "Splines":
        if len(parts) == 1:
            return parts[0]
        offsets = offsets_of(np.concatenate([part.sizes for part in parts]))
        firsts = np.cumsum([0] + [len(part.t) for part in parts])
        kept = [part.kept + first for part, first in zip(parts, firsts[:-1], strict=True)]
        t, z, v, p = (np.concatenate([getattr(part, name) for part in parts]) for name in ("t", "z", "v", "p"))
        return cls(t, offsets, z, v, p, np.concatenate(kept), parts[0].given)

    def with_values(self, z: np.ndarray, v: np.ndarray, p: np.ndarray) -> "Splines":
        """Other curves on the same meshes, which share what is cached about these."""
        other = object.__new__(Splines)
        other.__dict__.update(self.__dict__, z=z, v=v, p=p)
        return other

    def moved(self, step: Step, by: np.ndarray) -> "Splines":
        """The curves plus `by` (B,) times a step."""
        values = np.empty_like(self.z), np.empty_like(self.v), np.empty_like(self.p)
        loops.move(self.offsets, by, self.z, self.v, self.p, *step, *values)
        return self.with_values(*values)

    def states(
        self, gauss_only: bool = False, begin: float = 0.0, duration: float = 1.0
    ) -> tuple[np.ndarray, np.ndarray]:
        """Times (E, P) and states (E, P, q, D) at the Gauss points, or at all points, in time begin + duration t."""
        b = self.basis
        if gauss_only:
            return self._states(b.gauss, b.within, begin, duration)
        return self._states(b.points, b.integrals, begin, duration)

    def seen(self) -> np.ndarray:
        """The curve (E, P, D) where errors are looked at."""
        return self._states(self.basis.look, self.basis.at_look, 0.0, 1.0)[1][:, :, 0]

    def _states(
        self, points: np.ndarray, integrals: np.ndarray, begin: float, duration: float
    ) -> tuple[np.ndarray, np.ndarray]:
        E, _, D = self.v.shape
        times, states = np.empty((E, len(points))), np.empty((E, len(points), self.order, D))
        loops.states_at(
            self.t, self.offsets, self.scales, self.z, self.v, points, integrals, begin, duration, times, states
        )
        return times, states

    def gaps(self) -> np.ndarray:
        """States in which elements end, less those of the next nodes: (E, n)."""
        ends = self._states(np.ones(1), self.basis.at_end[:, None], 0.0, 1.0)[1][:, 0]
        ends -= self.z[self.left + 1]
        return ends.reshape(len(ends), -1)

    def pieces(self) -> np.ndarray:
        """Coefficients (E, k + q, D) by powers of s."""
        return pieces(self.basis, self.h, self.z[self.left], self.v)

    def largest(self, per_element: np.ndarray) -> np.ndarray:
        """The largest of numbers (E,) in every member."""
        return np.maximum.reduceat(per_element, self.elements[:-1])

    def size(self) -> np.ndarray:
        """max |y| of every member, at its nodes."""
        return self.norm(Step(self.z, self.v[:0], self.p))

    def norm(self, step: "Step | Splines") -> np.ndarray:
        """How far a step moves every member, at most: at nodes, and by bends h^q |v| / 8 between."""
        out = np.empty(self.count)
        loops.largest_moves(self.offsets, self.scales, step.z, step.v, out)
        return out

    def norms(self, step: Step) -> np.ndarray:
        """How far a step moves every member at most in each dimension: (B, D)."""
        bends = self.scales[:, :1] * np.abs(step.v).max(axis=1) / 8.0
        at_nodes = np.maximum.reduceat(np.abs(step.z[:, 0]), self.offsets[:-1])
        return np.maximum(at_nodes, np.maximum.reduceat(bends, self.elements[:-1]))


def pieces(b: Basis, h: np.ndarray, left: np.ndarray, v: np.ndarray) -> np.ndarray:
    """Coefficients (E, k + q, ...) from states (E, q, ...) at the left and v (E, k, ...)."""
    E, q = left.shape[:2]
    out = np.matmul(b.coefficients, v.reshape(E, b.k, -1)).reshape(E, -1, *left.shape[2:])
    column = h.reshape(E, *[1] * (left.ndim - 2))
    out *= column[:, None] ** q
    factor = np.ones_like(column)
    for m in range(q):
        out[:, m] += factor * left[:, m]
        factor = factor * column / (m + 1)
    return out


def largest_of(values: np.ndarray, first: int = 0) -> np.ndarray:
    """The largest |values[e, p, i]| of (E, P, D) from p = first on, for every element: (E,)."""
    out = np.empty(len(values))
    loops.peaks(values, first, out)
    return out


def is_everyone(members: np.ndarray, count: int) -> bool:
    """Whether some members are all of a batch, in order."""
    return len(members) == count and bool(np.all(members[1:] > members[:-1]))


def inverted(matrices: np.ndarray, dimension: int) -> np.ndarray:
    """Inverses of matrices (E, n, n), NaN where there is none."""
    if dimension < BLAS or not np.isfinite(matrices).all():
        loops.invert(matrices)
        return matrices
    try:
        return np.linalg.inv(matrices)
    except np.linalg.LinAlgError:
        loops.invert(matrices)
        return matrices


def products(matrices: np.ndarray, columns: np.ndarray, dimension: int) -> np.ndarray:
    """Products of matrices (E, a, b) with columns (E, b, C)."""
    if dimension >= BLAS:
        return np.matmul(matrices, columns)
    out = np.empty((*matrices.shape[:2], columns.shape[2]))
    loops.multiply(matrices, columns, out)
    return out
