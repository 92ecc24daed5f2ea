"""How numerical errors are correlated along a curve: a function of the mesh alone.

The error is modelled as a Wiener process Z whose highest derivative is known at the nodes, which is
the paper's posterior (Eq. 15) with evaluations of f as its data. With a prior of the order q of the
ODE the process falls apart: on every element of the mesh Z^(q) is a Brownian bridge, independent of
all others, and Z follows by integration,

    x(t) = F(t - t_n) x(t_n) + w_n(t),   x = (Z, Z', ..., Z^(q)),

with w_n the bridge and its integrals. Initial value problems have Z = Z' = 0 at t0. In boundary
value problems Z' is free there and Z(t1) = 0, so that Z(t) = X(t) - (t - t0)/(t1 - t0) X(t1) in
terms of the process X of the initial value problem. All covariances are polynomials on elements.
"""

from dataclasses import dataclass

import numpy as np

from probgeo._loops import loop
from probgeo.ragged import elements_of, members_of


@loop
def states_at_nodes(t: np.ndarray, offsets: np.ndarray, states: np.ndarray) -> None:
    """Covariances of (Z, ..., Z^(q-1)) at the nodes (rows, q, q): P' = F P F' + Q a step.

    Q has the variances of the integrals of a bridge: h^3/12 of the first, h^5/45 of the second,
    h^4/24 between them.
    """
    order = states.shape[1]
    for m in range(len(offsets) - 1):
        states[offsets[m]] = 0.0
        for n in range(offsets[m], offsets[m + 1] - 1):
            h = t[n + 1] - t[n]
            if order == 1:
                states[n + 1, 0, 0] = states[n, 0, 0] + h**3 / 12.0
                continue
            zz, zv, vv = states[n, 0, 0], states[n, 0, 1], states[n, 1, 1]
            states[n + 1, 0, 0] = zz + 2.0 * h * zv + h * h * vv + h**5 / 45.0
            states[n + 1, 0, 1] = zv + h * vv + h**4 / 24.0
            states[n + 1, 1, 0] = states[n + 1, 0, 1]
            states[n + 1, 1, 1] = vv + h**3 / 12.0


@loop
def search(
    nodes: np.ndarray, offsets: np.ndarray, member: np.ndarray, t: np.ndarray, rows: np.ndarray
) -> None:
    """The node at the left of every time t[n] of member[n], by bisection."""
    for n in range(len(t)):
        low, high = offsets[member[n]], offsets[member[n] + 1] - 1
        while high - low > 1:
            middle = (low + high) // 2
            if nodes[middle] <= t[n]:
                low = middle
            else:
                high = middle
        rows[n] = low


def bridge_covariance(order: int, s: np.ndarray, t: np.ndarray, h: np.ndarray) -> np.ndarray:
    """Covariance of w(s) with w(t) on an element of length h, 0 <= s, t <= h: (..., q+1, q+1).

    The bridge b has E b(u) b(v) = min(u, v) - u v / h; its first and second integrals from 0 are
    the other components, the last of which is b itself.
    """
    early = (s <= t)[..., None, None]
    forward = _ordered(order, s, t, h)
    backward = np.swapaxes(_ordered(order, t, s, h), -1, -2)
    return np.where(early, forward, backward)


def _ordered(order: int, s: np.ndarray, t: np.ndarray, h: np.ndarray) -> np.ndarray:
    """The same for s <= t, in terms of integrals of min(u, v) and of u v.

    With A_j(s) = int_0^s (s-u)^(j-1)/(j-1)! u du = s^(j+1)/(j+1)!, the second part is
    A_i(s) A_j(t) / h. The first is the covariance of integrated Brownian motion.
    """
    size = order + 1
    out = np.empty((*np.broadcast_shapes(s.shape, t.shape, h.shape), size, size))
    for row in range(size):
        for column in range(size):
            i, j = order - row, order - column  # times that b is integrated
            drift = s ** (i + 1) * t ** (j + 1) / (_FACTORIAL[i + 1] * _FACTORIAL[j + 1] * h)
            out[..., row, column] = _motion(i, j, s, t) - drift
    return out


_FACTORIAL = (1.0, 1.0, 2.0, 6.0)


def _motion(i: int, j: int, s: np.ndarray, t: np.ndarray) -> np.ndarray:
    """Covariance of Brownian motion integrated i times, at s, and j times, at t >= s.

    It is the integral over u of (s-u)^i/i! (t-u)^j/j! from 0 to s, with t - u = (t-s) + (s-u).
    """
    gap = t - s
    total = np.zeros(np.broadcast_shapes(s.shape, t.shape))
    for k in range(j + 1):
        share = gap ** (j - k) / (_FACTORIAL[j - k] * _FACTORIAL[k])
        total = total + share * s ** (i + k + 1) / ((i + k + 1) * _FACTORIAL[i])
    return total


def transition(order: int, dt: np.ndarray) -> np.ndarray:
    """F(dt) (..., q+1, q): what the states (Z, ..., Z^(q-1)) at a node are after dt.

    The highest derivative is zero at nodes, and has no part in it.
    """
    F = np.zeros((*dt.shape, order + 1, order))
    F[..., 0, 0] = 1.0
    if order == 2:
        F[..., 0, 1] = dt
        F[..., 1, 1] = 1.0
    return F


@dataclass(frozen=True)
class Shape:
    """Covariances k(s, t) of the unit error process of every member, on its own mesh.

    Attributes
    ----------
    t (rows,), offsets (members + 1,) : the meshes
    order : 1 or 2, of the ODE
    pinned : whether Z vanishes at both ends
    states (rows, q, q) : covariances of (Z, ..., Z^(q-1)) at the nodes, not pinned
    """

    t: np.ndarray
    offsets: np.ndarray
    order: int
    pinned: bool
    states: np.ndarray

    @classmethod
    def on(cls, t: np.ndarray, offsets: np.ndarray, order: int, pinned: bool) -> "Shape":
        """One pass over every mesh."""
        states = np.zeros((len(t), order, order))
        states_at_nodes(t, offsets, states)
        return cls(t, offsets, order, pinned, states)

    def cov(self, member: np.ndarray, s: np.ndarray, t: np.ndarray) -> np.ndarray:
        """Cov(x(s), x(t)) for rows (member, s, t), each (n,): (n, q+1, q+1)."""
        free = self._free(member, s, t)
        if not self.pinned:
            return free
        begin, end = self.t[self.offsets[member]], self.t[self.offsets[member + 1] - 1]
        line_s, line_t = self._line(s, begin, end), self._line(t, begin, end)
        with_end = self._free(member, end, t)[:, :1, :]  # Cov(X(t1), x(t))
        at_end = self._free(member, s, end)[:, :, :1]
        last = self._free(member, end, end)[:, :1, :1]
        left, right = line_s[:, :, None], line_t[:, None, :]
        return free - left * with_end - at_end * right + left * last * right

    def _line(self, t: np.ndarray, begin: np.ndarray, end: np.ndarray) -> np.ndarray:
        """(t - t0)/(t1 - t0) and its derivatives: (n, q+1)."""
        line = np.zeros((len(t), self.order + 1))
        line[:, 0], line[:, 1] = (t - begin) / (end - begin), 1.0 / (end - begin)
        return line

    def _free(self, member: np.ndarray, s: np.ndarray, t: np.ndarray) -> np.ndarray:
        """The same for the process that is not pinned."""
        early, late = np.minimum(s, t), np.maximum(s, t)
        row, last = self.row(member, early), self.row(member, late)
        start, stop = self.t[row], self.t[row + 1]
        together = row == last
        # up to the end of the earlier time's element, then on with what is known there
        until = np.where(together, late, stop)
        P = self.states[row]
        here = transition(self.order, early - start) @ P
        h = stop - start
        C = here @ np.swapaxes(transition(self.order, until - start), -1, -2)
        C = C + bridge_covariance(self.order, early - start, until - start, h)
        onward = transition(self.order, np.where(together, 0.0, late - stop))
        beyond = C[..., : self.order] @ np.swapaxes(onward, -1, -2)
        C = np.where(together[:, None, None], C, beyond)
        return np.where((s <= t)[:, None, None], C, np.swapaxes(C, -1, -2))

    def row(self, member: np.ndarray, t: np.ndarray) -> np.ndarray:
        """The node at the left of every time, the last but one at the end."""
        return find_rows(self.t, self.offsets, member, t)

    def variances(self) -> np.ndarray:
        """k(t, t) at the nodes (rows,)."""
        return self.cov(members_of(self.offsets), self.t, self.t)[:, 0, 0]

    def variances_between(self) -> np.ndarray:
        """k(t, t) half-way between the nodes (elements,)."""
        left = np.delete(np.arange(len(self.t)), self.offsets[1:] - 1)
        middle = 0.5 * (self.t[left] + self.t[left + 1])
        return self.cov(members_of(elements_of(self.offsets)), middle, middle)[:, 0, 0]


def shape_variance(t: np.ndarray, offsets: np.ndarray, order: int, pinned: bool) -> np.ndarray:
    """k(t, t) at the nodes of every member (rows,)."""
    return Shape.on(t, offsets, order, pinned).variances()


def shape_variance_between(
    t: np.ndarray, offsets: np.ndarray, order: int, pinned: bool
) -> np.ndarray:
    """k(t, t) half-way between the nodes of every member (elements,)."""
    return Shape.on(t, offsets, order, pinned).variances_between()


def find_rows(
    nodes: np.ndarray, offsets: np.ndarray, member: np.ndarray, t: np.ndarray
) -> np.ndarray:
    """For rows (member, t) the node at the left of t, the last but one at the end."""
    rows = np.empty(len(t), dtype=np.int64)
    search(nodes, offsets, member, np.ascontiguousarray(t), rows)
    return rows
