"""Damped Newton's method for a batch of boundary value problems, every member at its own pace.

A step is accepted if the next one, with the same Jacobians, would be shorter (the natural
monotonicity test: Deuflhard, Newton Methods for Nonlinear Problems, 2004). That next step is taken
as well while steps shrink fast, so that Jacobians are computed and factorised only where they
matter.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from probgeo.functions import Field
from probgeo.ode.curve import NOT_FINITE, OK, OUT_OF_SWEEPS, STALLED
from probgeo.ode.markov import boundary_loops as loops
from probgeo.ode.markov.collocation import BLAS, Chains, Linearised, largest_of
from probgeo.ragged import rows_of

FAST = 0.25  # contraction at which Jacobians are kept, or one more step is taken before new ones
ROUNDING = 500 * np.finfo(float).eps  # relative length of steps that mean nothing
SHORTEST = 1e-3  # share of a step below which it is given up


@dataclass(frozen=True)
class Equations:
    """y'' = share * f(t, y, y') for some members of a batch.

    `member` (B,) are their numbers in the user's batch. `share` (B,) is 1 except in continuation.
    """

    field: Field
    member: np.ndarray
    share: np.ndarray

    def take(self, chosen: np.ndarray) -> "Equations":
        return replace(self, member=self.member[chosen], share=self.share[chosen])

    def values(self, curves: Chains, gauss_only: bool = False) -> np.ndarray:
        """f at all points of all elements (E, K, D)."""
        rows, shape = self._rows(curves, gauss_only)
        return self._shared(curves, self.field.values(*rows).reshape(*shape, -1))

    def jacobians(self, curves: Chains) -> np.ndarray:
        """J0 and J1 at the Gauss points (E, k, 2, D, D)."""
        rows, shape = self._rows(curves, True)
        found = self.field.jacobians(*rows)
        return self._shared(curves, found.reshape(*shape, *found.shape[1:]))

    def values_and_jacobians(self, curves: Chains) -> tuple[np.ndarray, np.ndarray]:
        """Both at the Gauss points."""
        rows, shape = self._rows(curves, True)
        parts = self.field.values_and_jacobians(*rows)
        values, jacobians = (self._shared(curves, part.reshape(*shape, *part.shape[1:])) for part in parts)
        return values, jacobians

    def by_args(self, curves: Chains) -> np.ndarray:
        """Derivatives of f by its P parameters at the Gauss points (E, k, D, P)."""
        rows, (E, k) = self._rows(curves, True)
        D = curves.y.shape[1]
        leaves = [np.asarray(x).reshape(E, k, D, -1) for x in self.field.by_args(*rows)]
        return np.concatenate([np.zeros((E, k, D, 0)), *leaves], axis=-1)

    def _rows(self, curves: Chains, gauss_only: bool) -> tuple[tuple, tuple[int, int]]:
        times, states = curves.states(gauss_only)
        E, P, _, D = states.shape
        member = np.repeat(self.member[curves.member], P)
        return (times.ravel(), states.reshape(E * P, 2, D), member), (E, P)

    def _shared(self, curves: Chains, values: np.ndarray) -> np.ndarray:
        if np.all(self.share == 1.0):
            return values
        return self.share[curves.member].reshape(-1, *[1] * (values.ndim - 1)) * values


@dataclass(frozen=True)
class Settled:
    """Members with which Newton's method is through.

    Attributes
    ----------
    chosen (B,) : their numbers among those it was given
    curves, linear : where it ended, and the last linearisation
    defects (E, K, D) : p'' - f at all points of the elements, zero at the Gauss points
    left (B, D) : how far another step would still move each dimension
    status : OK or why not
    evaluations (B,) : of f, each
    """

    chosen: np.ndarray
    curves: Chains
    linear: Linearised
    defects: np.ndarray
    left: np.ndarray
    status: int
    evaluations: np.ndarray


def jumps_of(curves: Chains) -> np.ndarray:
    """Jumps of the slopes at the nodes (rows, D, 1)."""
    jumps = np.empty((*curves.y.shape, 1))
    loops.slope_jumps(curves.t, curves.offsets, curves.y, curves.v, curves.basis.slope_at_ends, jumps[..., 0])
    return jumps


class Iteration:
    """Newton's method on the members that are still under way."""

    def __init__(self, equations: Equations, curves: Chains) -> None:
        self.equations, self.curves = equations, curves
        self.chosen = np.arange(curves.count)
        self.evaluations = np.zeros(curves.count, dtype=np.int64)
        self.damping = np.ones(curves.count)
        self.kept = np.zeros(curves.count, dtype=bool)  # whether Jacobians are from before
        self.ever_finite = np.zeros(curves.count, dtype=bool)
        values, jacobians = equations.values_and_jacobians(curves)
        self._count(curves.basis.k)
        self.linear = Linearised.around(curves, jacobians)
        self.residual = curves.v - values
        self.step = self._correction(curves, self.residual)
        self.length = curves.norm(*self.step)

    def _count(self, points: int) -> None:
        self.evaluations += points * (self.curves.sizes - 1)

    def _correction(self, curves: Chains, residual: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The step that makes v = f + (linear terms) and slopes continuous."""
        y, v = self.linear.solve(-residual[..., None], jumps_of(curves))
        return y[..., 0], v[..., 0]

    def run(self, iterations: int) -> Iterator[Settled]:
        """Settled members as they come."""
        stuck = ~np.isfinite(self.length)
        if stuck.any():
            yield self._settled(stuck, NOT_FINITE)
            self._keep(~stuck)
        for _ in range(iterations):
            if not len(self.chosen):
                return
            yield from self._advance()
        if len(self.chosen):
            yield self._settled(np.ones(len(self.chosen), bool), OUT_OF_SWEEPS)

    def _advance(self) -> Iterator[Settled]:
        """One step of everyone: accepted and done, accepted and on, or shortened."""
        k = self.curves.basis.k
        trial = self.curves.moved(*self.step, self.damping)
        values = self.equations.values(trial)
        self._count(values.shape[1])
        defects = np.matmul(trial.basis.value, trial.v) - values
        residual = defects[:, :k]
        correction = self._correction(trial, residual)
        length = trial.norm(*correction)
        self.ever_finite |= np.isfinite(length)
        with np.errstate(invalid="ignore", divide="ignore"):
            contraction = np.where(length == 0, 0.0, length / self.length)
            accepted = length <= (1 - self.damping / 4) * self.length
            accepted |= length <= ROUNDING * trial.size()
        full = self.damping == 1.0
        # what remains between the Gauss points once the step has made it zero at them
        defects = defects - np.matmul(trial.basis.value, residual)
        goal = np.maximum(0.1 * discretisation(trial, defects), ROUNDING * trial.size())
        ahead = length * np.minimum(contraction, 1.0)  # how long the step after the next would be
        done = accepted & full & ((ahead <= goal) | (length <= goal))
        soon = ahead * contraction <= goal if trial.y.shape[1] < BLAS else True
        on = accepted & ~done & full & (contraction < FAST) & soon
        fresh = accepted & ~done & ~on
        shortened = self._shorten(~accepted, trial, correction)

        # the next step is known already, and good if it is much shorter
        further = done | (fresh & full & (contraction < FAST))
        self._move(accepted, trial.moved(*correction, further.astype(float)))
        self.residual = _where(self.curves, accepted, residual, self.residual)
        self._change_step(on, correction, length)
        self.kept[on] = True
        fresh |= ~accepted & self.kept  # old Jacobians, not the step, may be to blame
        self._relinearise(fresh)

        given_up = ~accepted & ~fresh & (shortened < SHORTEST)
        if done.any():
            left = np.minimum(contraction, 1.0)[:, None] * trial.norms(*correction)
            yield self._settled(done, OK, defects, left)
        if given_up.any():
            yield self._settled(given_up, STALLED)
        self._keep(~(done | given_up))

    def _shorten(self, which: np.ndarray, trial: Chains, correction: tuple) -> np.ndarray:
        """Shorter steps where the last was too long, from how far the next was from a shorter one.

        Along the way to the solution the next step is (1 - damping) times this one; what is on top
        grows with the square of the damping.
        """
        if not which.any() and np.all(self.damping == 1.0):
            return self.damping
        rest = 1 - self.damping
        y = correction[0] - np.repeat(rest, trial.sizes)[:, None] * self.step[0]
        v = correction[1] - rest[trial.member][:, None, None] * self.step[1]
        with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
            bend = trial.norm(y, v) / (self.damping**2 * self.length)
            best = np.where(np.isfinite(bend), 0.5 / bend, 0.0)
        lower = np.clip(best, 0.1 * self.damping, 0.5 * self.damping)
        higher = np.clip(best, self.damping, np.minimum(1.0, 10 * self.damping))
        higher = np.where(higher > 0.5, 1.0, higher)
        self.damping = np.where(which, np.where(self.kept, 1.0, lower), higher)
        return np.where(which, lower, 1.0)

    def _move(self, which: np.ndarray, trial: Chains) -> None:
        c = self.curves
        self.curves = replace(c, y=_at_nodes(c, which, trial.y, c.y), v=_where(c, which, trial.v, c.v))

    def _change_step(self, which: np.ndarray, step: tuple, length: np.ndarray) -> None:
        if not which.any():
            return
        c = self.curves
        self.step = (_at_nodes(c, which, step[0], self.step[0]), _where(c, which, step[1], self.step[1]))
        self.length = np.where(which, length, self.length)

    def _relinearise(self, which: np.ndarray) -> None:
        if not which.any():
            return
        members = np.flatnonzero(which)
        some = len(members) < len(which)
        curves = self.curves.take(members) if some else self.curves
        equations = self.equations.take(members) if some else self.equations
        values, jacobians = equations.values_and_jacobians(curves)
        self.evaluations[members] += curves.basis.k * (curves.sizes - 1)
        linear = Linearised.around(curves, jacobians)
        if some:
            self.residual[rows_of(self.curves.elements, members)] = curves.v - values
        else:
            self.residual = curves.v - values
        self.linear = self.linear.replaced(members, linear) if some else linear
        step = self._correction(self.curves, self.residual)
        self._change_step(which, step, self.curves.norm(*step))
        self.kept[which] = False

    def _settled(
        self, which: np.ndarray, status: int, defects: np.ndarray | None = None, left: np.ndarray | None = None
    ) -> Settled:
        curves, members = self.curves, np.flatnonzero(which)
        D = curves.y.shape[1]
        if status == STALLED and not self.ever_finite[members].all():
            status = NOT_FINITE
        if defects is None or left is None:
            defects = np.zeros((len(curves.v), len(curves.basis.points), D))
            left = np.zeros((curves.count, D))
        return Settled(
            self.chosen[members],
            curves.take(members),
            self.linear.take(members),
            defects if which.all() else defects[rows_of(curves.elements, members)],
            left[members],
            status,
            self.evaluations[members],
        )

    def _keep(self, which: np.ndarray) -> None:
        members = np.flatnonzero(which)
        if not len(members):
            self.chosen = members  # nobody is left, and nothing of them needed
        if len(members) in (0, len(which)):
            return
        rows, elements = (rows_of(x, members) for x in (self.curves.offsets, self.curves.elements))
        self.step = (self.step[0][rows], self.step[1][elements])
        self.residual = self.residual[elements]
        self.linear = self.linear.take(members)
        self.curves = self.curves.take(members)
        self.equations = self.equations.take(members)
        for name in ("chosen", "evaluations", "damping", "kept", "ever_finite", "length"):
            setattr(self, name, getattr(self, name)[members])


def discretisation(curves: Chains, defects: np.ndarray) -> np.ndarray:
    """About how far the curves are from the solution for lack of nodes, by member.

    To leading order a defect that vanishes at Gauss points is a multiple of Legendre's polynomial.
    """
    size = largest_of(defects, curves.basis.k)
    return curves.basis.bump * curves.largest(curves.h**2 * size)


def _where(curves: Chains, which: np.ndarray, new: np.ndarray, old: np.ndarray) -> np.ndarray:
    """New values of elements (E, ...) for some members, old ones for the others."""
    if which.all():
        return new
    return np.where(which[curves.member].reshape(-1, *[1] * (new.ndim - 1)), new, old)


def _at_nodes(curves: Chains, which: np.ndarray, new: np.ndarray, old: np.ndarray) -> np.ndarray:
    """New values of nodes (rows, D) for some members, old ones for the others."""
    if which.all():
        return new
    return np.where(np.repeat(which, curves.sizes)[:, None], new, old)
