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

import math
from dataclasses import dataclass

import numpy as np

from probgeo._loops import loop
from probgeo.ragged import members_of

FACTORIAL = tuple(float(math.factorial(k)) for k in range(6))


@loop
def bisect(nodes: np.ndarray, offsets: np.ndarray, member: np.ndarray, t: np.ndarray, rows: np.ndarray) -> None:
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


@loop
def motion(i: int, j: int, s: float, t: float) -> float:
    """Covariance of Brownian motion integrated i times, at s, and j times, at t >= s.

    It is the integral over u of (s-u)^i/i! (t-u)^j/j! from 0 to s, with t - u = (t-s) + (s-u).
    """
    total = 0.0
    for k in range(j + 1):
        share = (t - s) ** (j - k) / (FACTORIAL[j - k] * FACTORIAL[k])
        total += share * s ** (i + k + 1) / ((i + k + 1) * FACTORIAL[i])
    return total


@loop
def free_covariance(t: np.ndarray, row: int, last: int, states: np.ndarray, s: float, r: float, C: np.ndarray) -> None:
    """Cov(x(s), x(r)) (q+1, q+1) of the process that is not pinned, for s <= r.

    s lies in the element after node `row`, r in the one after `last`. On its element a bridge b
    has E b(u) b(v) = min(u, v) - u v / h, so that the covariance of its integrals is that of
    Brownian motion less s^(i+1)/(i+1)! r^(j+1)/(j+1)! / h. Behind the element of s the state goes
    on as F says.
    """
    order = states.shape[1]
    start, h = t[row], t[row + 1] - t[row]
    until = r if last == row else t[row + 1]
    a, b = s - start, until - start
    for p in range(order + 1):
        for q in range(order + 1):
            i, j = order - p, order - q  # times that b is integrated
            C[p, q] = motion(i, j, a, b)
            C[p, q] -= a ** (i + 1) * b ** (j + 1) / (FACTORIAL[i + 1] * FACTORIAL[j + 1] * h)
            for k in range(p, order):
                for j in range(q, order):
                    by_a, by_b = a ** (k - p) / FACTORIAL[k - p], b ** (j - q) / FACTORIAL[j - q]
                    C[p, q] += by_a * by_b * states[row, k, j]
    if last != row:
        for p in range(order + 1):
            for q in range(order):
                for j in range(q + 1, order):
                    C[p, q] += (r - until) ** (j - q) / FACTORIAL[j - q] * C[p, j]
            C[p, order] = 0.0


@loop
def states_at_nodes(t: np.ndarray, offsets: np.ndarray, states: np.ndarray) -> None:
    """Covariances of (Z, ..., Z^(q-1)) at the nodes (rows, q, q): P' = F P F' + Q a step.

    F and Q as in `free_covariance`, at the end of an element.
    """
    order = states.shape[1]
    C = np.empty((order + 1, order + 1))
    for m in range(len(offsets) - 1):
        states[offsets[m]] = 0.0
        for n in range(offsets[m], offsets[m + 1] - 1):
            free_covariance(t, n, n, states, t[n + 1], t[n + 1], C)
            states[n + 1] = C[:order, :order]


@loop
def covariances(
    nodes: np.ndarray,
    offsets: np.ndarray,
    states: np.ndarray,
    pinned: bool,
    member: np.ndarray,
    s: np.ndarray,
    t: np.ndarray,
    rows_s: np.ndarray,
    rows_t: np.ndarray,
    out: np.ndarray,
) -> None:
    """Cov(x(s), x(t)) for rows (member, s, t) into out (n, q+1, q+1).

    If pinned, of X(t) - line(t) X(t1), with line(t) = (t - t0)/(t1 - t0).
    """
    size = states.shape[1] + 1
    C, to_end = np.empty((size, size)), np.empty((size, size))
    from_end, last = np.empty((size, size)), np.empty((size, size))
    line_s, line_t = np.zeros(size), np.zeros(size)
    for n in range(len(s)):
        early = s[n] <= t[n]
        if early:
            free_covariance(nodes, rows_s[n], rows_t[n], states, s[n], t[n], C)
        else:
            free_covariance(nodes, rows_t[n], rows_s[n], states, t[n], s[n], C)
        for p in range(size):
            for q in range(size):
                out[n, p, q] = C[p, q] if early else C[q, p]
        if pinned:
            begin, final = nodes[offsets[member[n]]], offsets[member[n] + 1] - 1
            end = nodes[final]
            free_covariance(nodes, rows_s[n], final - 1, states, s[n], end, to_end)
            free_covariance(nodes, rows_t[n], final - 1, states, t[n], end, from_end)
            free_covariance(nodes, final - 1, final - 1, states, end, end, last)
            line_s[0], line_t[0] = (s[n] - begin) / (end - begin), (t[n] - begin) / (end - begin)
            line_s[1] = line_t[1] = 1.0 / (end - begin)
            for p in range(size):
                for q in range(size):
                    out[n, p, q] -= line_s[p] * from_end[q, 0] + to_end[p, 0] * line_t[q]
                    out[n, p, q] += line_s[p] * last[0, 0] * line_t[q]


@dataclass(frozen=True)
class ErrorShape:
    """Covariances k(s, t) of the unit error process of every member, on its own mesh.

    Attributes
    ----------
    t (rows,), offsets (members + 1,) : the meshes
    order : of the ODE, up to 4
    pinned : whether Z vanishes at both ends
    states (rows, q, q) : covariances of (Z, ..., Z^(q-1)) at the nodes, not pinned
    """

    t: np.ndarray
    offsets: np.ndarray
    order: int
    pinned: bool
    states: np.ndarray

    @classmethod
    def on(cls, t: np.ndarray, offsets: np.ndarray, order: int, pinned: bool) -> "ErrorShape":
        """One pass over every mesh."""
        states = np.zeros((len(t), order, order))
        states_at_nodes(t, offsets, states)
        return cls(t, offsets, order, pinned, states)

    def cov(self, member: np.ndarray, s: np.ndarray, t: np.ndarray) -> np.ndarray:
        """Cov(x(s), x(t)) for rows (member, s, t), each (n,): (n, q+1, q+1)."""
        s, t = np.ascontiguousarray(s, dtype=float), np.ascontiguousarray(t, dtype=float)
        out = np.empty((len(s), self.order + 1, self.order + 1))
        at_s, at_t = (find_rows(self.t, self.offsets, member, x) for x in (s, t))
        covariances(self.t, self.offsets, self.states, self.pinned, member, s, t, at_s, at_t, out)
        return out

    def variances(self) -> np.ndarray:
        """k(t, t) at the nodes (rows,)."""
        return self.cov(members_of(self.offsets), self.t, self.t)[:, 0, 0]


def find_rows(nodes: np.ndarray, offsets: np.ndarray, member: np.ndarray, t: np.ndarray) -> np.ndarray:
    """For rows (member, t) the node at the left of t, the last but one at the end."""
    rows = np.empty(len(t), dtype=np.int64)
    bisect(nodes, offsets, member, np.ascontiguousarray(t), rows)
    return rows
