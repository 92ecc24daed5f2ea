"""Curves of elements that obey a second-order ODE at Gauss points, and their linearised equations.

On an element of length h, with s from 0 to 1 along it, a curve is the polynomial

    p(s) = (1 - s) y_left + s y_right + h^2 sum_j G_j(s) v_j

with positions y at its ends and accelerations v_j at k Gauss points. It solves y'' = f(t, y, y') if
v_j = f there, and if slopes are continuous at the nodes. The accelerations of an element depend on
nothing but its two ends, so that they are eliminated first; what remains is a block-tridiagonal
system for the positions. Errors fall like h^(k+2) along the curve, like h^(2k) at the nodes.
"""

from dataclasses import dataclass, replace
from functools import cached_property, lru_cache

import numpy as np
from numpy.polynomial import Polynomial, legendre

from probgeo.ode.markov import boundary_loops as loops
from probgeo.ragged import elements_of, members_of, rows_of, take

OF_ELEMENTS = ("h", "jacobians", "inverses", "responses", "ends")
BLAS = 8  # dimensions from which on LAPACK inverts an element faster than the plain loop


@dataclass(frozen=True)
class Basis:
    """The functions G_j of k Gauss points, and Kronrod's points, where an element is looked at.

    Attributes
    ----------
    gauss (k,) : in (0, 1)
    points (K,) : the Gauss points, then Kronrod's k + 1 around and between them
    value, position, slope (K, k) : G_j'', G_j and G_j' at the points
    slope_at_ends (2, k) : G_j' at 0 and 1
    coefficients (k + 2, k) : of G_j, by powers of s
    richer_position, richer_slope, richer_slope_at_ends (K or 2, K) : the same for the polynomials
        through all K points
    bump : how far a defect of size 1 that vanishes at the Gauss points bends an element of length 1
    """

    gauss: np.ndarray
    points: np.ndarray
    value: np.ndarray
    position: np.ndarray
    slope: np.ndarray
    slope_at_ends: np.ndarray
    coefficients: np.ndarray
    richer_position: np.ndarray
    richer_slope: np.ndarray
    richer_slope_at_ends: np.ndarray
    bump: float

    @property
    def k(self) -> int:
        return len(self.gauss)


@lru_cache
def basis(k: int) -> Basis:
    """The basis of k Gauss points."""
    x = legendre.leggauss(k)[0]
    points = np.concatenate([x, kronrod(k)])
    everywhere = np.concatenate([points, [-1.0, 1.0]])
    value, slope, position, series = _integrated(x, everywhere)
    _, richer_slope, richer_position, _ = _integrated(points, everywhere)
    line = Polynomial([-1.0, 2.0])
    powers = [Polynomial(legendre.leg2poly(column))(line).coef for column in series.T]
    return Basis(
        gauss=(x + 1) / 2,
        points=(points + 1) / 2,
        value=np.ascontiguousarray(value[:-2]),
        position=np.ascontiguousarray(position[:-2]),
        slope=np.ascontiguousarray(slope[:-2]),
        slope_at_ends=np.ascontiguousarray(slope[-2:]),
        coefficients=np.stack([np.pad(p, (0, k + 2 - len(p))) for p in powers], axis=1),
        richer_position=np.ascontiguousarray(richer_position[:-2]),
        richer_slope=np.ascontiguousarray(richer_slope[:-2]),
        richer_slope_at_ends=np.ascontiguousarray(richer_slope[-2:]),
        bump=float(np.abs(richer_position[:-2] @ legendre.legval(points, np.eye(k + 1)[k])).max()),
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


@dataclass(frozen=True)
class Look:
    """Where errors are looked at: P points of an element, (P, k) and (P, K) matrices as above."""

    points: np.ndarray
    position: np.ndarray
    richer_position: np.ndarray


@lru_cache
def looking(k: int, count: int = 8) -> Look:
    """The middles of `count` equal parts of an element."""
    b = basis(k)
    s = (np.arange(count) + 0.5) / count
    matrices = [_integrated(2 * x - 1, 2 * s - 1)[2] for x in (b.gauss, b.points)]
    return Look(s, *map(np.ascontiguousarray, matrices))


def _integrated(x: np.ndarray, at: np.ndarray) -> tuple[np.ndarray, ...]:
    """Lagrange's polynomials of the points x of [-1, 1] integrated twice by s, zero at both ends.

    Their second and first derivatives by s and their values at `at`, and their Legendre series.
    """
    unit = np.linalg.inv(legendre.legvander(x, len(x) - 1))
    series = legendre.legint(unit, 2) / 4.0
    left, right = legendre.legval(np.array([-1.0, 1.0]), series).T
    series[0] -= (left + right) / 2
    series[1] -= (right - left) / 2
    derivative = 2.0 * legendre.legder(series)
    return *(legendre.legval(at, c).T for c in (unit, derivative, series)), series


@dataclass(frozen=True)
class Chains:
    """Curves of a batch, each on a mesh of its own.

    t (rows,), offsets (B + 1,), y (rows, D), v (elements, k, D)
    """

    t: np.ndarray
    offsets: np.ndarray
    y: np.ndarray
    v: np.ndarray

    @property
    def count(self) -> int:
        return len(self.offsets) - 1

    @property
    def sizes(self) -> np.ndarray:
        """Nodes of every member."""
        return np.diff(self.offsets)

    @cached_property
    def elements(self) -> np.ndarray:
        """Offsets of the elements."""
        return elements_of(self.offsets)

    @cached_property
    def left(self) -> np.ndarray:
        """The row at the left of every element."""
        return np.arange(len(self.v)) + self.member

    @cached_property
    def member(self) -> np.ndarray:
        """Of every element."""
        return members_of(self.elements)

    @cached_property
    def h(self) -> np.ndarray:
        return self.t[self.left + 1] - self.t[self.left]

    @property
    def basis(self) -> Basis:
        return basis(self.v.shape[1])

    def take(self, members: np.ndarray) -> "Chains":
        if is_everyone(members, self.count):
            return self
        offsets, t, y = take(self.offsets, members, self.t, self.y)
        return Chains(t, offsets, y, self.v[rows_of(self.elements, members)])

    def moved(self, y: np.ndarray, v: np.ndarray, by: np.ndarray) -> "Chains":
        """The curves plus `by` (B,) times a change (y, v)."""
        at_rows = np.repeat(by, self.sizes)[:, None]
        at_elements = by[self.member][:, None, None]
        return replace(self, y=self.y + at_rows * y, v=self.v + at_elements * v)

    def states(self, gauss_only: bool = False) -> tuple[np.ndarray, np.ndarray]:
        """Times (E, P) and states (E, P, 2, D) at the Gauss points, or at all points."""
        b = self.basis
        P = b.k if gauss_only else len(b.points)
        E, _, D = self.v.shape
        times, states = np.empty((E, P)), np.empty((E, P, 2, D))
        loops.states_at(self.t, self.offsets, self.y, self.v, b.points[:P], b.position, b.slope, times, states)
        return times, states

    def pieces(self) -> np.ndarray:
        """Coefficients (E, k + 2, D) by powers of s."""
        return pieces(self.basis, self.h, self.y[self.left], self.y[self.left + 1], self.v)

    def largest(self, per_element: np.ndarray) -> np.ndarray:
        """The largest of numbers (E,) in every member."""
        return np.maximum.reduceat(per_element, self.elements[:-1])

    def largest_at_nodes(self, per_row: np.ndarray) -> np.ndarray:
        """The largest of numbers (rows,) in every member."""
        return np.maximum.reduceat(per_row, self.offsets[:-1])

    def size(self) -> np.ndarray:
        """max |y| of every member, at its nodes."""
        out = np.empty(self.count)
        loops.lengths(self.offsets, self.h, self.y, self.v[:0], out)
        return out

    def norm(self, y: np.ndarray, v: np.ndarray) -> np.ndarray:
        """How far a change (y, v) moves every member, at most: at nodes, and by bends between."""
        out = np.empty(self.count)
        loops.lengths(self.offsets, self.h, y, v, out)
        return out

    def norms(self, y: np.ndarray, v: np.ndarray) -> np.ndarray:
        """The same for each dimension: (B, D)."""
        bends = np.square(self.h)[:, None] * np.abs(v).max(axis=1) / 8.0
        at_nodes = np.maximum.reduceat(np.abs(y), self.offsets[:-1])
        return np.maximum(at_nodes, np.maximum.reduceat(bends, self.elements[:-1]))


def pieces(b: Basis, h: np.ndarray, left: np.ndarray, right: np.ndarray, v: np.ndarray) -> np.ndarray:
    """Coefficients (E, k + 2, ...) by powers of s of elements with ends (E, ...), v (E, k, ...)."""
    E = len(h)
    shape = (E, b.k + 2, *left.shape[1:])
    bends = np.matmul(b.coefficients, v.reshape(E, b.k, -1)).reshape(shape)
    out = np.square(h).reshape(E, *[1] * (bends.ndim - 1)) * bends
    out[:, 0] += left
    out[:, 1] += right - left
    return out


@dataclass(frozen=True)
class Linearised:
    """The factorised equations e'' = J0 e + J1 e' + r of small changes of a batch of curves.

    Attributes
    ----------
    offsets, h : of the curves
    jacobians (E, k, 2, D, D) : J0 and J1 at the Gauss points
    inverses (E, k D, k D) : accelerations by what forces them
    responses (E, k D, 2 D) : accelerations by the two ends of their element
    ends (E, 2, 2, D, D) : slopes at the ends of an element by these
    upper, lower, pivots : factors of the equations at the nodes, see `loops.factorise`
    """

    offsets: np.ndarray
    h: np.ndarray
    jacobians: np.ndarray
    inverses: np.ndarray
    responses: np.ndarray
    ends: np.ndarray
    upper: np.ndarray
    lower: np.ndarray
    pivots: np.ndarray

    @classmethod
    def around(cls, curves: Chains, jacobians: np.ndarray) -> "Linearised":
        """Factorise, O((k D)^3) an element and O(D^3) a node."""
        b, h = curves.basis, curves.h
        E, k, _, D, _ = jacobians.shape
        inverses = np.empty((E, k * D, k * D))
        loops.assemble(h, jacobians, b.position[:k], b.slope[:k], inverses)
        inverses = inverted(inverses, D)
        by_ends = np.empty((E, k, D, 2, D))
        J0, J1 = jacobians[:, :, 0], jacobians[:, :, 1] / h[:, None, None, None]
        s = b.gauss[:, None, None]
        by_ends[:, :, :, 0] = J0 * (1 - s) - J1
        by_ends[:, :, :, 1] = J0 * s + J1
        responses = times(inverses, by_ends.reshape(E, k * D, 2 * D), D)
        ends = np.empty((E, 2, 2, D, D))
        loops.end_slopes(h, responses, b.slope_at_ends, ends)
        rows = len(curves.t)
        upper, lower = np.zeros((rows, D, 3 * D)), np.zeros((rows, 2 * D, D))
        pivots = np.zeros((rows, D), dtype=np.int64)
        loops.factorise(curves.offsets, h, ends, upper, lower, pivots)
        return cls(curves.offsets, h, jacobians, inverses, responses, ends, upper, lower, pivots)

    @property
    def dimension(self) -> int:
        return self.ends.shape[-1]

    def take(self, members: np.ndarray) -> "Linearised":
        if is_everyone(members, len(self.offsets) - 1):
            return self
        rows = rows_of(self.offsets, members)
        elements = rows_of(elements_of(self.offsets), members)
        offsets, upper = take(self.offsets, members, self.upper)
        of_elements = {name: getattr(self, name)[elements] for name in OF_ELEMENTS}
        return Linearised(offsets, **of_elements, upper=upper, lower=self.lower[rows], pivots=self.pivots[rows])

    def replaced(self, members: np.ndarray, other: "Linearised") -> "Linearised":
        """These with other equations for some members, on the same meshes."""
        rows = rows_of(self.offsets, members)
        elements = rows_of(elements_of(self.offsets), members)
        for name in OF_ELEMENTS:
            getattr(self, name)[elements] = getattr(other, name)
        for name in ("upper", "lower", "pivots"):
            getattr(self, name)[rows] = getattr(other, name)
        return self

    def solve(
        self, forcing: np.ndarray, jumps: np.ndarray | None = None, at_ends: np.ndarray | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Changes y (rows, D, C) and v (E, k, D, C) under forcings r (E, k, D, C).

        jumps (rows, D, C): by which slopes jump at the nodes, besides. at_ends (rows, D, C): the
        changes at the ends of every member, zero by default (all other rows are ignored).
        """
        E, k, D, C = forcing.shape
        rows = len(self.upper)
        local = times(self.inverses, forcing.reshape(E, k * D, C), D)
        y = np.zeros((rows, D, C)) if at_ends is None else at_ends.copy()
        jumps = np.zeros((rows, D, C)) if jumps is None else jumps
        loops.substitute(
            self.offsets, self.h, self.ends, basis(k).slope_at_ends,
            self.upper, self.lower, self.pivots, local, jumps, y,
        )  # fmt: skip
        left = np.arange(E) + members_of(elements_of(self.offsets))
        both = np.concatenate([y[left], y[left + 1]], axis=1)
        v = local + times(self.responses, both, D)
        return y, v.reshape(E, k, D, C)


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


def times(matrices: np.ndarray, columns: np.ndarray, dimension: int) -> np.ndarray:
    """Products of matrices (E, a, b) with columns (E, b, C)."""
    if dimension >= BLAS:
        return np.matmul(matrices, columns)
    out = np.empty((*matrices.shape[:2], columns.shape[2]))
    loops.multiply(matrices, columns, out)
    return out
