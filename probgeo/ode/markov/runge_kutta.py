"""Explicit steps of order eight for a batch of initial value problems, each with its own steps.

Dormand and Prince's method of order 8(5, 3) with its interpolant of order seven (Hairer, Nørsett &
Wanner, Solving Ordinary Differential Equations I, sections II.5 and II.6). All members that have not
arrived yet take a step of their own size in one pass: twelve evaluations of f for the whole batch.
"""

from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

import numpy as np

from probgeo.functions import Field
from probgeo.ode.curve import NOT_FINITE, OK, STIFF, TOO_COARSE
from probgeo.ode.markov.initial_loops import judge_steps, next_stage
from probgeo.ragged import elements_of, offsets_of

STAGES = 12
SAFETY = 0.9  # of the step that would just meet the tolerance
SMALLEST, LARGEST = 0.2, 4.0  # factors by which a step changes
TIMID = 1e-3  # error of a first step over its tolerance, below which it is taken again
UNSTABLE = 6.1  # h |eigenvalue| at the edge of the region of stability (Hairer's DOP853)


@dataclass(frozen=True)
class Steps:
    """The steps of a batch of members, as polynomials.

    Attributes
    ----------
    t (rows,), offsets (B + 1,) : ends of the steps of every member
    h (elements,) : their lengths, which differences of t only round
    pieces (elements, degree + 1, D) : y along each step, a polynomial in s from 0 to 1
    status (B,) : OK, or why a member did not arrive
    evaluations (B,) : of f
    """

    t: np.ndarray
    offsets: np.ndarray
    h: np.ndarray
    pieces: np.ndarray
    status: np.ndarray
    evaluations: np.ndarray

    @property
    def elements(self) -> np.ndarray:
        """Offsets (B + 1,) of the steps."""
        return elements_of(self.offsets)

    @property
    def starts(self) -> np.ndarray:
        """Where the steps start (elements,)."""
        return np.delete(self.t, self.offsets[1:] - 1)


class Demand(NamedTuple):
    """What is asked of the steps of every member: local tolerances (B,), most steps.

    With `equal`, there are that many steps of equal length, whatever their errors.
    """

    rtol: np.ndarray
    atol: np.ndarray
    most: int
    equal: int | None = None


class Tableau(NamedTuple):
    """Coefficients of the method; weights[s] leads from the slopes of stages 0..s to a point."""

    nodes: np.ndarray  # (13,) c of the point that follows stage s
    weights: np.ndarray  # (12, 12)
    e5: np.ndarray  # (13,)
    e3: np.ndarray  # (13,)
    extra_nodes: np.ndarray  # (3,)
    extra: np.ndarray  # (3, 16) stages that only the interpolant needs
    interpolant: np.ndarray  # (8, 18) monomials from (y1 - y0, 0, h k_0 .. h k_15)


@cache
def tableau() -> Tableau:
    """Dormand and Prince's coefficients, as SciPy has them."""
    from scipy.integrate import DOP853

    weights = np.zeros((STAGES, STAGES))
    weights[: STAGES - 1] = DOP853.A[1:STAGES]
    weights[STAGES - 1] = DOP853.B
    nodes = np.concatenate([DOP853.C[1:STAGES], [1.0]])
    return Tableau(
        nodes=nodes,
        weights=weights,
        e5=np.array(DOP853.E5),
        e3=np.array(DOP853.E3),
        extra_nodes=np.array(DOP853.C_EXTRA),
        extra=np.array(DOP853.A_EXTRA),
        interpolant=_interpolant(np.array(DOP853.D)),
    )


def _interpolant(D: np.ndarray) -> np.ndarray:
    """Matrix (8, 17) from (y1 - y0, h k_0, .., h k_15) to the monomials of y(s) - y0.

    y(s) - y0 = s (F0 + (1-s)(F1 + s (F2 + (1-s)(F3 + s (F4 + (1-s)(F5 + s F6)))))), with
    F0 = y1 - y0, F1 = h k_0 - F0, F2 = 2 F0 - h (k_0 + k_12), F3..F6 = h D k.
    """
    F = np.zeros((7, 17))
    F[0, 0] = 1.0
    F[1, 0], F[1, 1] = -1.0, 1.0
    F[2, 0], F[2, 1], F[2, 13] = 2.0, -1.0, -1.0
    F[3:, 1:] = D
    s, rest = np.polynomial.Polynomial([0.0, 1.0]), np.polynomial.Polynomial([1.0, -1.0])
    monomials = np.zeros((8, 17))
    basis = np.polynomial.Polynomial([1.0])
    for level in range(7):
        basis = basis * (s if level % 2 == 0 else rest)
        monomials[: level + 2] += np.outer(basis.coef, F[level])
    return monomials


def explicit_steps(
    field: Field, t0: float, t1: float, start: np.ndarray, members: np.ndarray, demand: Demand
) -> Steps:
    """Steps from t0 to t1 for some members of a batch, from the states `start` (B, q, D)."""
    walk = _Walk(field, t0, t1, start, members, demand)
    while len(walk.active):
        walk.step()
    return walk.steps()


class _Walk:
    """Members on their way: those that have not arrived yet, and the steps taken so far."""

    def __init__(
        self,
        field: Field,
        t0: float,
        t1: float,
        start: np.ndarray,
        members: np.ndarray,
        demand: Demand,
    ) -> None:
        self.field, self.t0, self.t1, self.demand = field, t0, t1, demand
        self.members = members
        count, self.order, self.dimension = start.shape
        self.active = np.arange(count)
        self.t = np.full(count, t0)
        self.y = np.array(start.reshape(count, -1))
        self.size = np.abs(start).max(axis=2)
        self.status = np.full(count, OK)
        self.evaluations = np.zeros(count, dtype=np.int64)
        self.reached = np.full(count, t0)
        self.taken = np.zeros(count, dtype=np.int64)
        self.unstable = np.zeros(count, dtype=np.int64)
        self.retried = np.zeros(count, dtype=bool)
        self.slopes = self._values(self.t, self.y)
        self.h = self._first_steps()
        self.history: list[tuple[np.ndarray, ...]] = []
        self._leave(~np.isfinite(self.slopes).all(axis=1), NOT_FINITE)

    def _values(self, t: np.ndarray, y: np.ndarray) -> np.ndarray:
        """f (A, D) at one point of every active member."""
        state = y.reshape(len(y), self.order, self.dimension)
        self.evaluations[self.active] += 1
        return self.field.values(t, state, self.members[self.active])

    def _first_steps(self) -> np.ndarray:
        """Hairer's guess: a step over which neither y nor y' changes much."""
        span = self.t1 - self.t0
        if self.demand.equal is not None:
            return np.full(len(self.t), span / self.demand.equal)
        slopes = self._state_slopes(self.y, self.slopes)
        unit = self._units(self.y)
        with np.errstate(all="ignore"):
            d0, d1 = _rms(self.y / unit), _rms(slopes / unit)
            h0 = np.where((d0 < 1e-5) | (d1 < 1e-5), 1e-6 * span, 0.01 * d0 / d1)
            h0 = np.clip(np.nan_to_num(h0, nan=1e-6 * span), 1e-12 * span, span)
            ahead = self.y + h0[:, None] * slopes
            there = self._state_slopes(ahead, self._values(self.t + h0, ahead))
            d2 = _rms((there - slopes) / unit) / h0
            steepest = np.maximum(d1, d2)
            h1 = np.where(steepest <= 1e-15, np.maximum(1e-6 * span, 1e-3 * h0), 0.0)
            h1 = np.where(steepest > 1e-15, (0.01 / steepest) ** 0.125, h1)
            h = np.minimum(100.0 * h0, h1)
        return np.clip(np.nan_to_num(h, nan=1e-6 * span), 1e-12 * span, span)

    def _state_slopes(self, y: np.ndarray, values: np.ndarray) -> np.ndarray:
        return np.concatenate([y[:, self.dimension :], values], axis=1)

    def _units(self, y: np.ndarray) -> np.ndarray:
        """Local tolerance (A, n) of every component of the state, at the start."""
        unit = self.demand.rtol[:, None] * self.size
        unit[:, 0] += self.demand.atol
        if self.order == 2:  # at rest: as fast as f would make it over the interval
            fall = np.abs(self.slopes).max(axis=1) * (self.t1 - self.t0)
            unit[:, 1] += np.where(unit[:, 1] == 0, self.demand.rtol * fall, 0.0)
        return np.repeat(np.maximum(unit, 1e-300), self.dimension, axis=1)

    def step(self) -> None:
        """One step of every active member."""
        coefficients = tableau()
        count, n = self.y.shape
        h = self._next_steps()
        k = np.empty((STAGES + 4, count, n))
        point = self.y.copy()
        rates = self.slopes
        for stage in range(STAGES):
            if stage == STAGES - 1:
                last_stage = point.copy()
            next_stage(k, stage, rates, point, self.y, h, coefficients.weights[stage])
            rates = self._values(self.t + coefficients.nodes[stage] * h, point)
        k[STAGES] = self._state_slopes(point, rates)
        error, stiffness = np.empty(count), np.empty(count)
        demand, active = self.demand, self.active
        judge_steps(
            k[: STAGES + 1],
            point,
            last_stage,
            self.y,
            h,
            self.size,
            demand.rtol[active],
            demand.atol[active],
            coefficients.e5,
            coefficients.e3,
            error,
            stiffness,
        )
        finite = np.isfinite(error) & np.isfinite(point).all(axis=1)
        finite &= np.isfinite(rates).all(axis=1)
        accepted = finite & (error <= 1.0)
        # a first step that could be much longer is taken again
        timid = (self.taken[active] == 0) & (error < TIMID) & (h < self.t1 - self.t0)
        accepted &= ~timid
        if demand.equal is not None:
            accepted = finite
        self._change_steps(h, error, finite, accepted)
        self.unstable[active] += accepted & (stiffness > UNSTABLE)
        self.history.append(
            (
                active[accepted],
                self.t[accepted],
                h[accepted],
                self.y[accepted],
                point[accepted],
                np.ascontiguousarray(k[:, accepted].swapaxes(0, 1)),
            )
        )
        self._advance(h, point, rates, finite, accepted)

    def _next_steps(self) -> np.ndarray:
        """Steps that end at t1 without a very short last one."""
        if self.demand.equal is not None:
            done = (self.taken[self.active] + 1) / self.demand.equal
            return self.t0 + done * (self.t1 - self.t0) - self.t
        left = self.t1 - self.t
        return np.where(self.h >= 0.999 * left, left, np.minimum(self.h, 0.5 * left))

    def _change_steps(
        self, h: np.ndarray, error: np.ndarray, finite: np.ndarray, accepted: np.ndarray
    ) -> None:
        factor = SAFETY * np.maximum(np.where(finite, error, 1.0), 1e-20) ** -0.125
        factor = np.where(finite, np.clip(factor, SMALLEST, LARGEST), SMALLEST)
        failed = ~(error <= 1.0)
        # growth waits after a step that failed
        self.h = h * np.where(self.retried, np.minimum(factor, 1.0), factor)
        self.retried = failed

    def _advance(
        self,
        h: np.ndarray,
        point: np.ndarray,
        rates: np.ndarray,
        finite: np.ndarray,
        accepted: np.ndarray,
    ) -> None:
        active, equal = self.active, self.demand.equal
        self.taken[active] += accepted
        arrived = accepted & (h >= self.t1 - self.t)
        if equal is not None:
            arrived = accepted & (self.taken[active] == equal)
        self.t = np.where(accepted, np.where(arrived, self.t1, self.t + h), self.t)
        self.reached[active] = self.t
        self.y = np.where(accepted[:, None], point, self.y)
        self.slopes = np.where(accepted[:, None], rates, self.slopes)
        here = np.abs(self.y).reshape(len(h), self.order, -1).max(axis=2)
        self.size = np.maximum(self.size, here)
        # a step that cannot be told from zero: the solution ends here
        lost = ~accepted & (h <= 1e-14 * np.maximum(np.abs(self.t), self.t1 - self.t0))
        if equal is not None:
            lost = ~accepted
        long = self.taken[active] >= self.demand.most
        self.status[active[long & ~arrived]] = TOO_COARSE
        stiff = long & ~arrived & (self.unstable[active] > 0.25 * self.demand.most)
        self.status[active[stiff]] = STIFF
        self.status[active[lost]] = NOT_FINITE
        self._keep(~(arrived | lost | long))

    def _leave(self, gone: np.ndarray, status: int) -> None:
        self.status[self.active[gone]] = status
        self._keep(~gone)

    def _keep(self, keep: np.ndarray) -> None:
        if keep.all():
            return
        self.active, self.t, self.y, self.h = (
            x[keep] for x in (self.active, self.t, self.y, self.h)
        )
        self.slopes, self.size, self.retried = (
            x[keep] for x in (self.slopes, self.size, self.retried)
        )

    def steps(self) -> Steps:
        """All that was walked, as polynomials; a member that was lost ends with NaN."""
        n = self.order * self.dimension
        empty = (
            np.zeros(0, dtype=np.int64),
            np.zeros(0),
            np.zeros(0),
            np.zeros((0, n)),
            np.zeros((0, n)),
            np.zeros((0, STAGES + 4, n)),
        )
        columns = zip(*(self.history or [empty]), strict=True)
        member, t, h, y, end, k = (np.concatenate(column) for column in columns)
        pieces = self._pieces(member, t, h, y, end, k)
        return in_order(
            member, t, h, pieces, self.reached, self.t1, self.status, self.evaluations
        )

    def _pieces(
        self,
        member: np.ndarray,
        t: np.ndarray,
        h: np.ndarray,
        y: np.ndarray,
        end: np.ndarray,
        k: np.ndarray,
    ) -> np.ndarray:
        """The interpolant of every step (elements, 8 or 9, D), from three more evaluations."""
        coefficients, D = tableau(), self.dimension
        for extra in range(3):
            before = STAGES + 1 + extra
            moved = np.einsum("j,ejn->en", coefficients.extra[extra, :before], k[:, :before])
            point = y + h[:, None] * moved
            state = point.reshape(len(y), self.order, D)
            at = t + coefficients.extra_nodes[extra] * h
            values = self.field.values(at, state, self.members[member])
            k[:, before] = self._state_slopes(point, values)
        self.evaluations += 3 * np.bincount(member, minlength=len(self.status))
        # of the highest derivative that is integrated: y, or y' of second order
        top = slice((self.order - 1) * D, self.order * D)
        # from the slopes: the difference of the ends is full of rounding where steps are small
        rise = h[:, None] * np.einsum("j,ejn->en", coefficients.weights[-1], k[:, :STAGES])
        slopes = np.concatenate([rise[:, None, top], h[:, None, None] * k[:, :, top]], axis=1)
        pieces = np.einsum("ds,esn->edn", coefficients.interpolant, slopes)
        pieces[:, 0] = y[:, top]
        if self.order == 2:
            return integrated(pieces, h, y[:, :D], rise[:, :D])
        return pieces


def integrated(velocity: np.ndarray, h: np.ndarray, y: np.ndarray, rise: np.ndarray) -> np.ndarray:
    """Positions (E, degree + 2, D) from velocities (E, degree + 1, D), starts and rises (E, D).

    The integral of the velocity misses the end by an error of one order more, which is spread over
    the step with slopes and curvatures of zero at its ends, by 10 s^3 - 15 s^4 + 6 s^5.
    """
    size = velocity.shape[1] + 1
    pieces = np.zeros((len(h), max(size, 6), velocity.shape[2]))
    powers = np.arange(1, size)
    pieces[:, 1:size] = h[:, None, None] * velocity / powers[:, None]
    missing = rise - pieces.sum(axis=1)
    pieces[:, 0] = y
    for power, weight in ((3, 10.0), (4, -15.0), (5, 6.0)):
        pieces[:, power] += weight * missing
    return pieces


def in_order(
    member: np.ndarray,
    t: np.ndarray,
    h: np.ndarray,
    pieces: np.ndarray,
    reached: np.ndarray,
    t1: float,
    status: np.ndarray,
    evaluations: np.ndarray,
) -> Steps:
    """Steps (member, where they start, lengths, pieces) as a ragged batch.

    Members that did not get further than `reached` (B,) go on from there to t1 with NaN.
    """
    lost = np.flatnonzero(reached < t1)
    member = np.concatenate([member, lost])
    order = np.argsort(member, kind="stable")
    t = np.concatenate([t, reached[lost]])[order]
    h = np.concatenate([h, t1 - reached[lost]])[order]
    nothing = np.full((len(lost), *pieces.shape[1:]), np.nan)
    pieces = np.concatenate([pieces, nothing])[order]
    elements = offsets_of(np.bincount(member, minlength=len(status)))
    t = np.insert(t, elements[1:], t1)
    return Steps(t, elements + np.arange(len(elements)), h, pieces, status, evaluations)


def _rms(x: np.ndarray) -> np.ndarray:
    return np.sqrt(np.mean(x**2, axis=1))
