"""Steps of a batch of initial value problems, each member at its own pace.

All members that have not arrived yet take a step of their own size in one pass, so that f is
evaluated for the whole batch at once. What a step is, the subclasses of `Walk` say.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from probgeo.ode.curve import NOT_FINITE, OK, STIFF, TOO_COARSE
from probgeo.ode.markov.initial_loops import take_steps
from probgeo.ode.problem import Problem
from probgeo.ragged import elements_of, offsets_of

# how a member left: arrived, lost, after too many steps (all said by `take_steps`), or at a terminal event
ARRIVED, LOST, TOO_LONG, STOPPED = range(1, 5)


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


class Attempt(NamedTuple):
    """What came of one step of every active member: the states it leads to, f there, its error over the local tolerance
    (not finite if the step failed), arrays from which the polynomials are made in the end, and whether stability, not
    accuracy, may have kept the step short."""

    point: np.ndarray  # (A, n)
    rates: np.ndarray  # (A, D)
    error: np.ndarray  # (A,)
    record: tuple[np.ndarray, ...]  # (A, ...)
    stiff: np.ndarray  # (A,)


class Walk(ABC):
    """Members on their way: those that have not arrived yet, and the steps taken so far."""

    exponent: ClassVar[float]  # of the error estimate of a step, as a power of its length
    carried: ClassVar[tuple[str, ...]] = ("active", "t", "y", "h", "slopes", "size", "retried", "seen", "left")

    def __init__(self, problem: Problem, members: np.ndarray, demand: Demand) -> None:
        self.field, self.members, self.demand = problem.field, members, demand
        self.t0, self.t1 = t0, t1 = problem.t0, problem.t1
        self.longest = 0.25 * (t1 - t0)  # few evaluations may miss what lies between them
        self.limits = np.array([t0, t1, self.exponent, self.longest, demand.equal or 0, demand.most])
        start = problem.values[members]
        count, self.order, self.dimension = start.shape
        self.status = np.full(count, OK)
        self.evaluations = np.zeros(count, dtype=np.int64)
        self.reached = np.full(count, t0)
        self.taken = np.zeros(count, dtype=np.int64)
        self.unstable = np.zeros(count, dtype=np.int64)
        self.history: list[tuple[np.ndarray, ...]] = []
        # of the active members
        self.active = np.arange(count)
        self.t = np.full(count, t0)
        self.y = np.array(start.reshape(count, -1))
        self.size = np.abs(start).max(axis=2)
        self.retried = np.zeros(count, dtype=bool)
        self.terminal = [event for event in problem.events if np.isfinite(event.count)]
        self.stopped = np.zeros(count, dtype=bool)
        self.seen = np.zeros((count, len(self.terminal)))  # their values at the last node
        self.left = np.tile([event.count for event in self.terminal], (count, 1))
        self.slopes = np.array(self.values(self.t, self.y))
        self.h = np.where(np.isfinite(self.slopes).all(axis=1), self._first_steps(), 0.0)  # none: they are lost
        self.seen = self._events()

    @abstractmethod
    def attempt(self, h: np.ndarray) -> Attempt:
        """One step of length h (A,) of every active member."""

    @abstractmethod
    def pieces(self, member: np.ndarray, t: np.ndarray, h: np.ndarray, record: tuple[np.ndarray, ...]) -> np.ndarray:
        """Polynomials (elements, degree + 1, D) of all steps taken."""

    def walk(self) -> Steps:
        """To the end. Members that did not get there go on from where they were lost with NaN."""
        while len(self.active):
            self._step()
        *columns, accepted = (np.concatenate(column) for column in zip(*self.history, strict=True))
        member, t, h, *record = (column[accepted] for column in columns)
        pieces = self.pieces(member, t, h, tuple(record))
        ends = np.where(self.stopped, self.reached, self.t1)
        lost = np.flatnonzero(self.reached < ends)
        member = np.concatenate([member, lost])
        order = np.argsort(member, kind="stable")
        t = np.concatenate([t, self.reached[lost]])[order]
        h = np.concatenate([h, ends[lost] - self.reached[lost]])[order]
        nothing = np.full((len(lost), *pieces.shape[1:]), np.nan)
        pieces = np.concatenate([pieces, nothing])[order]
        elements = offsets_of(np.bincount(member, minlength=len(ends)))
        t, offsets = np.insert(t, elements[1:], ends), elements + np.arange(len(elements))
        return Steps(t, offsets, h, pieces, self.status, self.evaluations)

    def values(self, t: np.ndarray, y: np.ndarray, active: np.ndarray | None = None) -> np.ndarray:
        """f (A, D) at one point of every active member, or of these."""
        active = self.active if active is None else active
        self.evaluations[active] += 1
        state = y.reshape(len(y), self.order, self.dimension)
        return self.field.values(t, state, self.members[active])

    def state_slopes(self, y: np.ndarray, values: np.ndarray) -> np.ndarray:
        """(y', f) (..., n) from states and f there."""
        return np.concatenate([y[..., self.dimension :], values], axis=-1)

    def units(self) -> np.ndarray:
        """Local tolerance (A, n) of every component of the state."""
        rtol, atol = self.demand.rtol[self.active], self.demand.atol[self.active]
        size, ahead = self.size.copy(), np.abs(self.slopes).max(axis=1)
        for m in range(self.order - 1, -1, -1):  # of what is zero: as large as it would become
            size[:, m] = np.where(size[:, m] == 0, ahead * (self.t1 - self.t0), size[:, m])
            ahead = size[:, m]
        tolerance = rtol + np.where(ahead > 0, atol / np.where(ahead > 0, ahead, 1.0), 1.0)
        unit = tolerance[:, None] * size
        return np.repeat(np.maximum(unit, 1e-300), self.dimension, axis=1)

    def _first_steps(self) -> np.ndarray:
        """Hairer's guess: a step over which neither y nor y' changes much."""
        span = self.t1 - self.t0
        if self.demand.equal is not None:
            return np.full(len(self.t), span / self.demand.equal)
        slopes, unit = self.state_slopes(self.y, self.slopes), self.units()
        with np.errstate(all="ignore"):
            d0, d1 = rms(self.y / unit), rms(slopes / unit)
            h0 = np.where((d0 < 1e-5) | (d1 < 1e-5), 1e-6 * span, 0.01 * d0 / d1)
            h0 = np.clip(np.nan_to_num(h0, nan=1e-6 * span), 1e-12 * span, span)
            ahead = self.y + h0[:, None] * slopes
            there = self.state_slopes(ahead, self.values(self.t + h0, ahead))
            steepest = np.maximum(d1, rms((there - slopes) / unit) / h0)
            h1 = np.where(steepest > 1e-15, (0.01 / steepest) ** self.exponent, 1e-3 * h0)
            h = np.minimum(100.0 * h0, h1)
        return np.clip(np.nan_to_num(h, nan=1e-6 * span), 1e-12 * span, span)

    def _next_steps(self) -> np.ndarray:
        """Steps that end at t1 without a very short last one."""
        if self.demand.equal is not None:
            done = (self.taken[self.active] + 1) / self.demand.equal
            return self.t0 + done * (self.t1 - self.t0) - self.t
        left, h = self.t1 - self.t, np.minimum(self.h, self.longest)
        return np.where(h >= 0.999 * left, left, np.minimum(h, 0.5 * left))

    def _step(self) -> None:
        """One step of every active member; those that arrive, or are lost, leave."""
        h, active, demand = self._next_steps(), self.active, self.demand
        point, rates, error, record, stiff = self.attempt(h)
        accepted, ended = np.empty(len(h), dtype=bool), np.empty(len(h), dtype=np.int64)
        self.history.append((active, self.t.copy(), h, *record, accepted))
        carried = self.t, self.y, self.slopes, self.size, self.h, self.retried, self.taken
        take_steps(active, h, point, rates, error, self.limits, *carried, accepted, ended)
        self.unstable[active] += accepted & stiff
        self.accepted(accepted, h, record)
        if self.terminal:
            self._watch(ended)
        if ended.any():
            self.reached[active] = self.t
            limited = self.unstable[active] > 0.25 * demand.most
            self.status[active[ended == LOST]] = NOT_FINITE
            self.status[active[ended == TOO_LONG]] = TOO_COARSE
            self.status[active[(ended == TOO_LONG) & limited]] = STIFF
            for name in self.carried:
                setattr(self, name, getattr(self, name)[ended == 0])

    def _events(self) -> np.ndarray:
        """Values (A, events) of the terminal ones at the last node of every active member."""
        states = self.y.reshape(len(self.y), self.order, self.dimension)
        members = self.members[self.active]
        values = [event.values(self.t, states, members) for event in self.terminal]
        return np.stack(values, axis=1) if values else self.seen[: len(self.y)]

    def _watch(self, ended: np.ndarray) -> None:
        """Stop members (A,) that a terminal event has met often enough."""
        now = self._events()
        for k, event in enumerate(self.terminal):
            self.left[:, k] -= event.crossed(self.seen[:, k], now[:, k])
        self.seen = now
        met = (self.left <= 0).any(axis=1) & (ended != LOST)
        self.stopped[self.active[met]] = True
        ended[met] = STOPPED

    def accepted(  # noqa: B027 (most have nothing to remember)
        self, accepted: np.ndarray, h: np.ndarray, record: tuple[np.ndarray, ...]
    ) -> None:
        """What a method remembers of the steps of active members, before some of them leave."""


def integrated(top: np.ndarray, h: np.ndarray, y: np.ndarray, rise: np.ndarray) -> np.ndarray:
    """Polynomials of y from those of its highest derivative, top (E, degree + 1, D).

    States at the starts, and their rises, are (E, q D). The integral of a derivative misses the end
    by an error of one order more, which is spread over the step by the smallest polynomial with two
    (of y itself of order four: three) derivatives that vanish at its ends, so that none below the
    order jumps there.
    """
    pieces, D = top, top.shape[2]
    for m in range(y.shape[1] // D - 2, -1, -1):
        own = slice(m * D, (m + 1) * D)
        size = pieces.shape[1] + 1
        bump = (35.0, -84.0, 70.0, -20.0) if y.shape[1] // D - m > 3 else (10.0, -15.0, 6.0)
        rising = np.zeros((len(h), max(size, 2 * len(bump)), D))
        rising[:, 1:size] = h[:, None, None] * pieces / np.arange(1, size)[:, None]
        missing = rise[:, own] - rising.sum(axis=1)
        rising[:, 0] = y[:, own]
        for power, weight in enumerate(bump, start=len(bump)):
            rising[:, power] += weight * missing
        pieces = rising
    return pieces


def rms(x: np.ndarray) -> np.ndarray:
    """Root mean squares (A,) of rows (A, n)."""
    return np.sqrt(np.mean(x**2, axis=1))
