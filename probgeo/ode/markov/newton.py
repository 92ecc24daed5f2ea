"""Damped Newton's method for a batch of boundary value problems, every member at its own pace.

A step is accepted if the next one, with the same Jacobians, would be shorter (the natural
monotonicity test: Deuflhard, Newton Methods for Nonlinear Problems, 2004). That next step is taken
as well while steps shrink fast, so that Jacobians are computed and factorised only where they
matter.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from probgeo._loops import loop
from probgeo.functions import Field
from probgeo.ode.curve import NOT_FINITE, OK, OUT_OF_SWEEPS, STALLED
from probgeo.ode.markov.collocation import BLAS, Splines, Step, is_everyone, largest_of
from probgeo.ode.markov.linear import Linearised, linearised
from probgeo.ode.problem import ConditionedProblem
from probgeo.ragged import rows_of

FAST = 0.25  # contraction at which Jacobians are kept, or one more step is taken before new ones
ROUNDING = 500 * np.finfo(float).eps  # relative length of steps that are nothing but rounding
SHORTEST = 1e-3  # share of a step below which it is given up


@dataclass(frozen=True)
class Equations:
    """y^(q) = share * f(t, y, ..., p) and conditions for some members (B,) of a problem, in time from 0 to 1.

    Attributes
    ----------
    members, own (B,) : their numbers in the problem, and in the field
    first : all the unknown parameters that the field started with
    share (B,) : of f, in continuation; None if it is 1 for all
    """

    problem: ConditionedProblem
    field: Field
    members: np.ndarray
    own: np.ndarray
    first: np.ndarray
    share: np.ndarray | None = None

    @classmethod
    def of(cls, problem: ConditionedProblem, members: np.ndarray) -> "Equations":
        own, field, first = members, problem.field, problem.parameters[members]
        if first.shape[1]:
            own, field = np.arange(len(members)), problem.field_of(members)
        return cls(problem, field, members, own, first)

    def take(self, chosen: np.ndarray) -> "Equations":
        share = None if self.share is None else self.share[chosen]
        return replace(self, members=self.members[chosen], own=self.own[chosen], share=share)

    def values(self, curves: Splines) -> np.ndarray:
        """f at all points of all elements (E, K, D)."""
        field, rows, scale = self._rows(curves, False)
        return scale * field.values(*rows).reshape(len(curves.v), -1, curves.v.shape[2])

    def linearised(self, curves: Splines) -> tuple[np.ndarray, Linearised]:
        """f at the Gauss points (E, k, D), and the factorised equations."""
        (E, k, D), P = curves.v.shape, curves.p.shape[1]
        field, rows, scale = self._rows(curves, True)
        by_p = np.zeros((E, k, D, 0))
        if P:
            values, jacobians, by_p = field.linearised(*rows)
            by_p = scale[..., None] * by_p.reshape(E, k, D, P)
        else:
            values, jacobians = field.values_and_jacobians(*rows)
        jacobians = jacobians.reshape(E, k, curves.order, D, D) * (scale[..., None, None] / self._units[:, None, None])
        conditions = None if curves.given else self._conditions(curves)
        return scale * values.reshape(E, k, D), linearised(curves, jacobians, by_p, conditions)

    def by_args(self, curves: Splines) -> np.ndarray:
        """Derivatives of f by the parameters that the user gave at the Gauss points (E, k, D, A)."""
        field, rows, scale = self._rows(curves, True)
        E, k, D = curves.v.shape
        leaves = [np.asarray(x).reshape(E, k, D, -1) for x in field.by_args(*rows)]
        return scale[..., None] * np.concatenate([np.zeros((E, k, D, 0)), *leaves], axis=-1)

    def missed(self, curves: Splines) -> np.ndarray | None:
        """By how much values of conditions should change (B, M, 1); curves that are given at their ends keep these."""
        if curves.given:
            return None
        at_kept = curves.z[curves.kept] / self._units[:, None]
        return -self.problem.conditions.residuals(self.members, at_kept, curves.p)[..., None]

    @property
    def _units(self) -> np.ndarray:
        """(q,) powers of the duration, by which derivatives in the user's time are multiplied."""
        return self.problem.duration ** np.arange(self.problem.order, dtype=float)

    def _conditions(self, curves: Splines) -> np.ndarray:
        """Their derivatives by the states at their times and by p (B, M, n J + P)."""
        at_kept = curves.z[curves.kept] / self._units[:, None]
        out = self.problem.conditions.derivatives(at_kept, curves.p)
        by_states = out[:, :, : out.shape[2] - curves.p.shape[1]]
        by_states.reshape(*out.shape[:2], -1, *at_kept.shape[2:])[...] /= self._units[:, None]
        return out

    def _rows(self, curves: Splines, gauss_only: bool) -> tuple[Field, tuple, np.ndarray]:
        """The field, rows that it is asked for, and what its values are multiplied with to be v: (E or 1, 1, 1)."""
        problem, field = self.problem, self.field
        times, states = curves.states(gauss_only, problem.t0, problem.duration)
        if curves.p.shape[1]:
            p = self.first.copy()
            p[self.own] = curves.p
            field = field.with_first(p)
        member = np.repeat(self.own[curves.member], times.shape[1])
        scale = np.full((1, 1, 1), problem.duration**problem.order)
        if self.share is not None:
            scale = scale * self.share[curves.member][:, None, None]
        return field, (times.ravel(), states.reshape(-1, *states.shape[2:]), member), scale


@dataclass(frozen=True)
class Settled:
    """Members for which Newton's method has ended.

    Attributes
    ----------
    chosen (B,) : their numbers among those it was given
    curves, linear : where it ended, and the last linearisation
    defects (E, K, D) : v - f at all points of the elements, zero at the Gauss points
    left (B, D), left_p (B, P) : how far another step would still move each dimension and parameter
    status : OK or why not
    evaluations (B,) : of f, each
    """

    chosen: np.ndarray
    curves: Splines
    linear: Linearised
    defects: np.ndarray
    left: np.ndarray
    left_p: np.ndarray
    status: int
    evaluations: np.ndarray


DONE, ON, ANEW, BACK, SHORTER = range(5)


@loop
def judge(
    last: np.ndarray,
    length: np.ndarray,
    damping: np.ndarray,
    kept: np.ndarray,
    goal: np.ndarray,
    size: np.ndarray,
    dear: bool,
    verdict: np.ndarray,
    further: np.ndarray,
) -> None:
    """What to do after a step (`last` long, times its damping), when the next one would be of some `length`: all (B,).

    DONE, to go ON with the same Jacobians, or with some ANEW; if the step is not accepted, to go BACK for Jacobians, if
    these were kept, else to try a SHORTER one. `further`: whether, 0 or 1, the next step is taken at once. If Jacobians
    are dear, they are kept even if that takes more steps than two.
    """
    for m in range(len(last)):
        rounding = ROUNDING * size[m]
        contraction = 0.0 if length[m] == 0.0 else length[m] / last[m]
        further[m] = 0.0
        if not (length[m] <= (1.0 - damping[m] / 4.0) * last[m] or length[m] <= rounding):
            verdict[m] = BACK if kept[m] else SHORTER  # old Jacobians, not the step, may be to blame
            continue
        enough = max(goal[m], rounding)
        ahead = length[m] * min(contraction, 1.0)  # how long the step after the next would be
        fast = damping[m] == 1.0 and contraction < FAST
        if damping[m] == 1.0 and (ahead <= enough or length[m] <= enough):
            verdict[m], further[m] = DONE, 1.0
        elif fast and (dear or ahead * contraction <= enough):
            verdict[m] = ON
        else:
            verdict[m] = ANEW
            if fast:
                further[m] = 1.0


class Iteration:
    """Newton's method on the members that are still under way.

    `goal` is the largest relative length of a last step if there are parameters: at the nodes, and so in these, errors
    are smaller than along the curve.
    """

    linear: Linearised
    step: Step

    def __init__(self, equations: Equations, curves: Splines, goal: float) -> None:
        self.equations, self.curves, self.goal = equations, curves, goal
        count = curves.count
        self.chosen = np.arange(count)
        self.evaluations = np.zeros(count, dtype=np.int64)
        self.damping = np.ones(count)
        self.kept = np.zeros(count, dtype=bool)  # whether Jacobians are from before
        self.ever_finite = np.zeros(count, dtype=bool)
        self.length = np.empty(count)
        self.weights = np.empty_like(curves.p)  # of parameters in the length of steps
        self._relinearise(self.chosen)

    def run(self, iterations: int) -> Iterator[Settled]:
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
        trial = self.curves.moved(self.step, self.damping)
        b = trial.basis
        values = self.equations.values(trial)
        self.evaluations += values.shape[1] * (trial.sizes - 1)
        at_gauss = values[:, : b.k]
        correction = self._correction(trial, self.linear, self.equations, trial.v - at_gauss)
        length, size = self._length(trial, correction), trial.size()
        self.ever_finite |= np.isfinite(length)
        # what remains between the Gauss points once the step has made it zero at them
        defects = np.matmul(b.value, at_gauss)
        defects -= values
        goal = 0.1 * discretisation(trial, defects)
        if trial.p.shape[1]:
            goal = np.minimum(goal, self.goal * size)
        verdict, further = np.empty(len(length), dtype=np.int64), np.empty(len(length))
        judge(self.length, length, self.damping, self.kept, goal, size, trial.v.shape[2] >= BLAS, verdict, further)

        # the next step is known already, and good if it is much shorter
        accepted = verdict <= ANEW
        new = trial.moved(correction, further) if further.any() else trial
        given_up = verdict == SHORTER
        if not accepted.all() or self.damping.min() < 1.0:
            given_up &= self._shorten(accepted, trial, correction) < SHORTEST
        self.curves = self.curves.with_values(*_mixed(trial, accepted, new, self.curves))
        on = verdict == ON
        if on.any():
            self._change_step(on, correction, length)
            self.kept |= on
        anew = np.flatnonzero((verdict == ANEW) | (verdict == BACK))
        if len(anew):
            self._relinearise(anew)
        over = verdict == DONE
        if over.any():
            with np.errstate(invalid="ignore"):
                rest = np.where(length > 0.0, np.minimum(length / self.length, 1.0), 0.0)[:, None]
            yield self._settled(over, OK, defects, rest * trial.norms(correction), rest * np.abs(correction.p))
        if given_up.any():
            yield self._settled(given_up, STALLED)
            over |= given_up
        if over.any():
            self._keep(~over)

    def _correction(self, curves: Splines, linear: Linearised, equations: Equations, residual: np.ndarray) -> Step:
        """The step that makes v = f + (linear terms), closes gaps and fulfils the conditions."""
        step = linear.solve(curves, -residual[..., None], curves.gaps()[..., None], equations.missed(curves))
        return Step(*(x.reshape(x.shape[:-1]) for x in step))

    def _length(self, curves: Splines, step: Step | Splines) -> np.ndarray:
        """How far a step moves curves, parameters in proportion."""
        length = curves.norm(step)
        if step.p.shape[1]:
            length = np.maximum(length, (np.abs(step.p) * self.weights).max(axis=1))
        return length

    def _shorten(self, accepted: np.ndarray, trial: Splines, correction: Step) -> np.ndarray:
        """Shares of steps, by how far the next was from a shorter one: longer where the last was accepted.

        Along the way to the solution the next step is (1 - damping) times this one; what is on top
        grows with the square of the damping. The shorter ones are returned.
        """
        bend = trial.with_values(*correction).moved(self.step, self.damping - 1)
        with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
            excess = self._length(trial, bend) / (self.damping**2 * self.length)
            best = np.where(np.isfinite(excess), 0.5 / excess, 0.0)
        lower = np.clip(best, 0.1 * self.damping, 0.5 * self.damping)
        higher = np.clip(best, self.damping, np.minimum(1.0, 10 * self.damping))
        higher = np.where(higher > 0.5, 1.0, higher)
        self.damping = np.where(accepted, higher, np.where(self.kept, 1.0, lower))
        return lower

    def _change_step(self, which: np.ndarray, step: Step, length: np.ndarray) -> None:
        self.step = Step(*_mixed(self.curves, which, step, self.step))
        self.length = np.where(which, length, self.length)

    def _relinearise(self, members: np.ndarray) -> None:
        everyone = is_everyone(members, len(self.chosen))
        curves, equations = self.curves.take(members), self.equations
        if not everyone:
            equations = equations.take(members)
        values, linear = equations.linearised(curves)
        self.evaluations[members] += curves.basis.k * (curves.sizes - 1)
        step = self._correction(curves, linear, equations, curves.v - values)
        if everyone:
            self.linear, self.step = linear, step
        else:
            self.linear.put(self.curves, members, linear)
            rows, elements = (rows_of(x, members) for x in (self.curves.offsets, self.curves.elements))
            for target, place, source in zip(self.step, (rows, elements, members), step, strict=True):
                target[place] = source
        if curves.p.shape[1]:
            sizes = np.maximum(np.abs(curves.p), np.abs(step.p))
            size = np.maximum(curves.size(), curves.norm(step))
            self.weights[members] = size[:, None] / np.maximum(sizes, 1e-300)
        self.length[members] = self._length(self.curves, self.step)[members]
        self.kept[members] = False

    def _settled(
        self,
        which: np.ndarray,
        status: int,
        defects: np.ndarray | None = None,
        left: np.ndarray | None = None,
        left_p: np.ndarray | None = None,
    ) -> Settled:
        curves, members = self.curves, np.flatnonzero(which)
        if status == STALLED and not self.ever_finite[members].all():
            status = NOT_FINITE
        if defects is None or left is None or left_p is None:
            defects = np.zeros((len(curves.v), len(curves.basis.points), curves.v.shape[2]))
            left, left_p = np.zeros((curves.count, curves.v.shape[2])), np.zeros_like(curves.p)
        return Settled(
            self.chosen[members],
            curves.take(members),
            self.linear.take(curves, members),
            defects if which.all() else defects[rows_of(curves.elements, members)],
            left[members],
            left_p[members],
            status,
            self.evaluations[members],
        )

    def _keep(self, which: np.ndarray) -> None:
        members = np.flatnonzero(which)
        if not len(members):
            self.chosen = members  # all have settled, and nothing more of them is needed
            return
        rows, elements = (rows_of(x, members) for x in (self.curves.offsets, self.curves.elements))
        self.step = Step(self.step.z[rows], self.step.v[elements], self.step.p[members])
        self.linear = self.linear.take(self.curves, members)
        self.curves = self.curves.take(members)
        self.equations = self.equations.take(members)
        for name in ("chosen", "evaluations", "damping", "kept", "ever_finite", "length", "weights"):
            setattr(self, name, getattr(self, name)[members])


def discretisation(curves: Splines, defects: np.ndarray) -> np.ndarray:
    """About how far the curves are from the solution for lack of nodes, by member.

    To leading order a defect that vanishes at Gauss points is a multiple of Legendre's polynomial.
    """
    return curves.basis.bump * curves.largest(curves.scales[:, 0] * largest_of(defects, curves.basis.k))


def _mixed(curves: Splines, which: np.ndarray, new: Splines | Step, old: Splines | Step) -> tuple[np.ndarray, ...]:
    """New z, v and p for some members, old ones for the others."""
    if which.all():
        return new.z, new.v, new.p
    rows, elements = np.repeat(which, curves.sizes)[:, None, None], which[curves.member][:, None, None]
    places = (rows, elements, which[:, None])
    both = zip(places, (new.z, new.v, new.p), (old.z, old.v, old.p), strict=True)
    return tuple(np.where(place, one, other) for place, one, other in both)
