"""Problems whose numbers come later, and their curves at times that come later, too."""

import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from probgeo._checks import as_float_array
from probgeo.functions import as_field
from probgeo.ode.curve import Curve, warn
from probgeo.ode.problem import Kind, Problem


class Statement:
    """All of a problem but its numbers, and the solutions for numbers that it had lately."""

    def __init__(
        self,
        f: Callable,
        t_span: tuple[float, float],
        kind: Kind,
        order: int,
        solver: Any,
        guess: Any,
        args: tuple[Callable, tuple[int, ...]],
    ) -> None:
        self.f, self.t_span, self.kind, self.order = f, t_span, kind, order
        self.solver, self.guess = solver, guess
        self.as_args, self.leaf_axes = args  # puts leaves together; axes of leaves of one member
        self._solved: OrderedDict = OrderedDict()
        self._lock = threading.Lock()

    def lead(self, means: Sequence[np.ndarray], leaves: Sequence[np.ndarray]) -> tuple[int, ...]:
        """The axes of the batch that data and parameters have together."""
        shapes = [mean.shape[:-1] for mean in means]
        shapes += [x.shape[: x.ndim - k] for x, k in zip(leaves, self.leaf_axes, strict=True)]
        return np.broadcast_shapes(*shapes)

    def solve(self, means: Sequence[np.ndarray], leaves: Sequence[np.ndarray], by_data: bool, by_args: bool) -> Curve:
        """The solution, with columns S by data and parameters if they are wanted."""
        key = tuple((x.shape, x.tobytes()) for x in (*means, *leaves))
        with self._lock:
            for known in ((by_data, by_args), (True, False), (True, True)):
                if known >= (by_data, by_args) and (known, key) in self._solved:
                    return self._solved[known, key]
        curve = self.solver.solve(self.problem(means, leaves, by_data, by_args), self.guess)
        warn(curve, "solutions")
        with self._lock:
            self._solved[(by_data, by_args), key] = curve
            while len(self._solved) > 4:  # a program asks for few numbers in turn
                self._solved.popitem(last=False)
        return curve

    def problem(
        self, means: Sequence[np.ndarray], leaves: Sequence[np.ndarray], by_data: bool, by_args: bool
    ) -> Problem:
        batch, D = self.lead(means, leaves), means[0].shape[-1]
        rows = [np.broadcast_to(mean, (*batch, D)).reshape(-1, D) for mean in means]
        values = np.stack(rows, axis=1).astype(float)
        every = [np.broadcast_to(x, batch + x.shape[x.ndim - k :]) for x, k in zip(leaves, self.leaf_axes, strict=True)]
        args = self.as_args(every)
        field = as_field(self.f, self.order, D, args=args, batch_shape=batch)
        unit = np.broadcast_to(np.eye(D), (len(values), len(means), D, D)).copy()
        return Problem(
            field,
            *self.t_span,
            self.order,
            self.kind,
            values,
            unit if by_data else None,
            batch,
            with_args=by_args and field.n_parameters > 0,
        )


class Solved(Statement):
    """A problem that is solved already: only times are to come."""

    def __init__(self, curve: Curve) -> None:
        self.curve, self.t_span, self.leaf_axes = curve, curve.t_span, ()

    def solve(self, *_: Any, **__: Any) -> Curve:
        return self.curve


def as_times(name: str, t: Any, t_span: tuple[float, float], slack: float = 1e-9) -> np.ndarray:
    """Times of the interval, which rounding may have moved a little outside."""
    times, (t0, t1) = as_float_array(name, t), t_span
    allowed = slack * (t1 - t0)
    if np.any(times < t0 - allowed) or np.any(times > t1 + allowed):
        raise ValueError(f"{name} must lie in [{t0:g}, {t1:g}], got {times}")
    return np.clip(times, t0, t1)


def at_times(curve: Curve, times: tuple[np.ndarray, ...], evaluate: Callable) -> np.ndarray:
    """evaluate(posterior, *times (T,)) -> (B, T, ...) in the axes that curve and times share."""
    # single precision may have moved them
    times = tuple(as_times("t", t, curve.t_span, slack=1e-6) for t in times)
    shared = np.broadcast_shapes(curve.batch_shape, *[t.shape[:-1] for t in times])
    everyone = np.arange(curve.posterior.count).reshape(curve.batch_shape)
    members = np.broadcast_to(everyone, shared).ravel()
    if all(t.size == t.shape[-1] for t in times):
        values = evaluate(curve.posterior, *[t.ravel() for t in times])[members]
    else:
        rows = [np.broadcast_to(t, shared + t.shape[-1:]).reshape(-1, t.shape[-1]) for t in times]
        own = [curve.posterior.take(np.array([m])) for m in members]
        values = np.concatenate([evaluate(p, *t) for p, *t in zip(own, *rows, strict=True)])
    return values.reshape(*shared, *values.shape[1:])
