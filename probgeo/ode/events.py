"""Events of initial value problems: where a function of the state crosses zero, and how surely.

A walk of steps stops where a terminal event has changed its sign; afterwards crossings are sought
on the curve itself, between nodes and at points in between. With g(t, y(t)) = 0 an error e of the
state moves the time by dt = - grad g . e / g', and the state at the crossing by e + y' dt.
"""

import itertools
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np

from probgeo.functions import Field, as_field
from probgeo.functions.in_numpy import derivative
from probgeo.gaussian import Gaussian, ScalarGaussian
from probgeo.ode.curve import Curve, Source, as_source
from probgeo.ode.piecewise import PiecewisePosterior


@dataclass(frozen=True)
class Event:
    """A function g(t, y, ...) at many rows, its direction, the crossing that ends a member."""

    field: Field
    direction: float
    count: float  # inf if it is not terminal

    def values(self, t: np.ndarray, states: np.ndarray, member: np.ndarray) -> np.ndarray:
        """g (n,) at times (n,), states (n, q, D) of members (n,)."""
        return self.field.values(t, states, member)[:, 0]

    def crossed(self, before: np.ndarray, after: np.ndarray) -> np.ndarray:
        """Whether the sign changes in the right direction; a start at zero is no crossing."""
        up, down = (before < 0) & (after >= 0), (before > 0) & (after <= 0)
        return (up & (self.direction >= 0)) | (down & (self.direction <= 0))


def as_events(events: Any, order: int, dimension: int, args: Any, batch_shape: tuple[int, ...]) -> tuple[Event, ...]:
    """The `events` that users give: a function or a list of them, with the attributes that SciPy defines."""
    if events is None:
        return ()
    found = []
    for g in [events] if callable(events) else list(events):
        if not callable(g):
            raise TypeError(f"events must be functions, got {g!r}")
        direction = float(getattr(g, "direction", 0.0))
        terminal = getattr(g, "terminal", False)
        if not isinstance(terminal, bool | int) or terminal < 0:
            raise ValueError(f"terminal must be a truth value or a whole number, got {terminal!r}")
        field = as_field(_spread_out(g), order, dimension, args=args, batch_shape=batch_shape)
        found.append(Event(field, direction, float(terminal) if terminal else np.inf))
    return tuple(found)


@lru_cache(maxsize=64)
def _spread_out(g: Callable) -> Callable:
    """g as every component of a right-hand side, of one point or of rows."""

    def event(t: Any, y: Any, *others: Any) -> Any:
        value = g(t, y, *others)
        if not hasattr(value, "ndim") or value.ndim != y.ndim - 1:
            raise TypeError("an event must return one number at every point")
        return value[..., None] + 0.0 * y

    return event


@dataclass(frozen=True, repr=False, eq=False)
class CurveWithEvents(Curve):
    """A posterior over curves, and when K functions of their states cross zero.

    A member that a terminal event has stopped is NaN after its end.

    Attributes
    ----------
    t_end : ScalarGaussian (...)
        Where members end: t1, or the crossing of a terminal event.
    t_events : K ScalarGaussians (..., n)
        The crossings of every event, NaN for members with fewer than others.
    y_events : K Gaussians (..., n, q D)
        The state (y, y', ...) there, which is as uncertain as the event lets it be.
    """

    times: np.ndarray  # (..., K, n)
    time_variances: np.ndarray  # (..., K, n, 2): numerical, boundary
    states: np.ndarray  # (..., K, n, q D)
    state_covs: np.ndarray  # (..., K, n, q D, q D)
    ends: np.ndarray  # (..., 2): when, and its variance

    @property
    def t_end(self) -> ScalarGaussian:
        return ScalarGaussian.unchecked(self.ends[..., 0], self.ends[..., 1])

    @property
    def t_events(self) -> tuple[ScalarGaussian, ...]:
        variances = self.time_variances.sum(axis=-1)
        return tuple(
            ScalarGaussian.unchecked(self.times[..., k, :n], variances[..., k, :n]) for k, n in enumerate(self._most())
        )

    @property
    def y_events(self) -> tuple[Gaussian, ...]:
        return tuple(
            Gaussian.unchecked(self.states[..., k, :n, :], self.state_covs[..., k, :n, :, :])
            for k, n in enumerate(self._most())
        )

    def event_std(self, k: int = 0, source: Source = "total") -> np.ndarray:
        """Standard deviations (..., n) of the times of the k-th event, by their source."""
        parts = {"total": [0, 1], "numerical": [0], "boundary": [1]}[as_source(source)]
        own = self.time_variances[..., k, : self._most()[k], :]
        return np.sqrt(own[..., parts].sum(axis=-1))

    def _most(self) -> list[int]:
        """Most crossings of any member, by event."""
        K, n = self.times.shape[-2:]
        known = np.isfinite(self.times).reshape(int(np.prod(self.times.shape[:-2])), K, n)
        return [int(known[:, k].sum(axis=1).max(initial=0)) for k in range(K)]


class Stopped:
    """A class of earlier versions, which files name; like named tuples it is called with its parts."""

    _fields = ("posterior", "ends")

    def __new__(cls, posterior: PiecewisePosterior, ends: np.ndarray) -> Any:
        return replace(posterior, ends=ends)


def with_events(curve: Curve, events: tuple[Event, ...], order: int) -> CurveWithEvents:
    """The curve as far as terminal events let it go, with all crossings until then."""
    posterior: Any = curve.posterior
    B, K, n = posterior.count, len(events), order * posterior.dimension
    found = [_crossings(posterior, event, order) for event in events]
    ends, stopping = np.full(B, curve.t_span[1]), np.full(B, -1)
    for k, (event, (member, t)) in enumerate(zip(events, found, strict=True)):
        if np.isfinite(event.count):
            last = _nth(member, t, int(event.count), B)
            ends, stopping = np.minimum(ends, last), np.where(last < ends, k, stopping)
    kept = [(m[t <= ends[m]], t[t <= ends[m]]) for m, t in found]
    most = max((int(np.bincount(m).max(initial=0)) for m, _ in kept), default=0)
    times, variances = np.full((B, K, most), np.nan), np.full((B, K, most, 2), np.nan)
    states, covs = np.full((B, K, most, n), np.nan), np.full((B, K, most, n, n), np.nan)
    at_end = np.stack([ends, np.zeros(B)], axis=1)
    for k, (event, (member, t)) in enumerate(zip(events, kept, strict=True)):
        place = np.arange(len(t)) - np.searchsorted(member, member)
        where = member, np.full(len(t), k), place
        times[where] = t
        variances[where], states[where], covs[where] = _moved(posterior, event, order, member, t)
        final = (stopping[member] == k) & (t == ends[member])
        at_end[member[final], 1] = variances[where][final].sum(axis=1)
    shape = curve.batch_shape
    own = {name: getattr(curve, name) for name in Curve.__dataclass_fields__}
    own["posterior"] = replace(posterior, ends=ends)
    return CurveWithEvents(
        **own,
        times=times.reshape(*shape, K, most),
        time_variances=variances.reshape(*shape, K, most, 2),
        states=states.reshape(*shape, K, most, n),
        state_covs=covs.reshape(*shape, K, most, n, n),
        ends=at_end.reshape(*shape, 2),
    )


def _nth(member: np.ndarray, t: np.ndarray, n: int, B: int) -> np.ndarray:
    """The n-th time (B,) of every member, of rows in order; infinity if there is none."""
    out = np.full(B, np.inf)
    number = np.arange(len(t)) - np.searchsorted(member, member)
    chosen = number == n - 1
    out[member[chosen]] = t[chosen]
    return out


def _states(posterior: Any, order: int, member: np.ndarray, t: np.ndarray) -> np.ndarray:
    return np.stack([posterior.mean_at(member, t, m) for m in range(order)], axis=1)


def _crossings(posterior: PiecewisePosterior, event: Event, order: int) -> tuple[np.ndarray, np.ndarray]:
    """Members and times (n,) of all crossings, in order."""
    between = 4  # times in every step at which signs are checked
    s = np.arange(between) / between
    last = posterior.offsets[1:] - 1
    left = np.delete(np.arange(len(posterior.t)), last)
    inside = posterior.t[left][:, None] + np.diff(posterior.t)[left][:, None] * s
    sizes = np.diff(posterior.offsets) - 1
    t = np.insert(inside.ravel(), np.cumsum(sizes) * between, posterior.t[last])
    member = np.repeat(np.arange(len(sizes)), sizes * between + 1)

    def g(t: np.ndarray, member: np.ndarray) -> np.ndarray:
        return event.values(t, _states(posterior, order, member, t), member)

    value = g(t, member)
    hit = np.flatnonzero((member[1:] == member[:-1]) & event.crossed(value[:-1], value[1:]))
    own = member[hit]
    a, b, ga, gb = t[hit], t[hit + 1], value[hit], value[hit + 1]
    rounding = 2 * np.finfo(float).eps * np.maximum(np.maximum(np.abs(a), np.abs(b)), b - a)
    for k in itertools.count():
        if np.all((b - a <= rounding) | (gb == 0) | (ga == 0)):
            break
        with np.errstate(all="ignore"):
            secant = b - gb * (b - a) / (gb - ga)
        # every third step a bisection: brackets shrink at both sides
        middle = 0.5 * (a + b)
        inner = (secant > a) & (secant < b) & (k % 3 < 2)
        c = np.where(inner, secant, middle)
        gc = g(c, own)
        right = np.sign(gc) == np.sign(gb)
        a, ga = np.where(right, a, c), np.where(right, ga, gc)
        b, gb = np.where(right, c, b), np.where(right, gc, gb)
    return own, np.where(np.abs(ga) < np.abs(gb), a, b)


def _moved(
    posterior: PiecewisePosterior, event: Event, order: int, member: np.ndarray, t: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Of crossings (n,): variances of their times (n, 2) by source, and states with covariances."""
    D = posterior.dimension
    size = order * D
    states = _states(posterior, order, member, t)
    if not len(t):
        return np.zeros((0, 2)), states.reshape(0, size), np.zeros((0, size, size))
    gradient = event.field.jacobians(t, states, member)[:, :, 0].reshape(-1, size)
    by_time = derivative(lambda x: event.values(x[:, 0], states, member), t[:, None])[:, 0]
    rate = np.stack([posterior.mean_at(member, t, m + 1) for m in range(order)], axis=1)
    rate = rate.reshape(-1, size)
    parts = np.zeros((len(t), 2, size, size))
    for i, (m, time) in enumerate(zip(member, t, strict=True)):
        one, at = posterior.take(np.array([m])), np.array([time])
        for k, source in enumerate(("numerical", "boundary")):
            for d in range(order):
                for e in range(order):
                    block = one.cov(at, at, (d, e), source)[0, 0]  # type: ignore[arg-type]
                    parts[i, k, d * D : (d + 1) * D, e * D : (e + 1) * D] = block
    with np.errstate(all="ignore"):
        weights = -gradient / (by_time + np.sum(gradient * rate, axis=1))[:, None]
        variances = np.einsum("ni,nkij,nj->nk", weights, parts, weights)
    project = np.eye(size) + rate[:, :, None] * weights[:, None, :]
    covs = project @ parts.sum(axis=1) @ project.swapaxes(1, 2)
    return variances, states.reshape(-1, size), covs
