"""Explicit steps of order eight.

Dormand and Prince's method of order 8(5, 3) with its interpolant of order seven (Hairer, Nørsett &
Wanner, Solving Ordinary Differential Equations I, sections II.5 and II.6): twelve evaluations a
step, and three more for the interpolant, for all steps at once in the end.
"""

from functools import cache
from typing import NamedTuple

import numpy as np

from probgeo.ode.markov.initial_loops import judge_steps, next_stage
from probgeo.ode.markov.steps import Attempt, Walk, integrated

STAGES = 12


class Tableau(NamedTuple):
    """Coefficients of the method; weights[s] leads from the slopes of stages 0..s to a point."""

    nodes: np.ndarray  # (12,) where the point that follows stage s lies along the step
    weights: np.ndarray  # (12, 12)
    e5: np.ndarray  # (13,) error estimates of orders 5
    e3: np.ndarray  # (13,) and 3
    extra_nodes: np.ndarray  # (3,)
    extra: np.ndarray  # (3, 16) stages that only the interpolant needs
    interpolant: np.ndarray  # (8, 17)
    stable: float = 6.1  # h |eigenvalue| at the edge of the region of stability (Hairer)


@cache
def tableau() -> Tableau:
    """Dormand and Prince's coefficients, as SciPy has them."""
    from scipy.integrate import DOP853

    weights = np.zeros((STAGES, STAGES))
    weights[: STAGES - 1] = DOP853.A[1:STAGES]
    weights[STAGES - 1] = DOP853.B
    return Tableau(
        nodes=np.concatenate([DOP853.C[1:STAGES], [1.0]]),
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


class ExplicitWalk(Walk):
    """Members that take explicit steps."""

    exponent = 1 / 8

    def attempt(self, h: np.ndarray) -> Attempt:
        coefficients = tableau()
        k = self._stages(h)
        start, point = self.y.copy(), np.empty_like(self.y)
        error, stiffness = np.empty(len(h)), np.empty(len(h))
        tolerances = self.size, self.demand.rtol[self.active], self.demand.atol[self.active]
        estimates = coefficients.e5, coefficients.e3
        judge_steps(k, coefficients.weights[-2:], start, h, *tolerances, *estimates, point, error, stiffness)
        rates = np.ascontiguousarray(k[:, STAGES, -self.dimension :])
        return Attempt(point, rates, error, (start, k), stiffness > coefficients.stable)

    def _stages(self, h: np.ndarray) -> np.ndarray:
        """Slopes k (A, 13, n) of all stages, and at the point that they lead to."""
        coefficients, members = tableau(), self.members[self.active]
        state = self.y.reshape(len(h), self.order, self.dimension)
        k = self.field.stages(self.t, state, members, h, self.slopes, coefficients.nodes, coefficients.weights)
        if k is not None:
            self.evaluations[self.active] += STAGES
            return k
        k = np.empty((len(h), STAGES + 1, self.y.shape[1]))
        point, rates = self.y.copy(), self.slopes
        for stage in range(STAGES):
            next_stage(k, stage, rates, point, self.y, h, coefficients.weights[stage])
            rates = self.values(self.t + coefficients.nodes[stage] * h, point)
        k[:, STAGES] = self.state_slopes(point, rates)
        return k

    def pieces(self, member: np.ndarray, t: np.ndarray, h: np.ndarray, record: tuple[np.ndarray, ...]) -> np.ndarray:
        """The interpolant of every step (elements, 8 or 9, D), from three more evaluations."""
        y, first = record
        coefficients, D, length = tableau(), self.dimension, h[:, None]
        k = np.zeros((len(y), STAGES + 4, y.shape[1]))
        k[:, : STAGES + 1] = first
        for extra in range(3):
            before = STAGES + 1 + extra
            point = y + length * np.matmul(coefficients.extra[extra, :before], k[:, :before])
            at = t + coefficients.extra_nodes[extra] * h
            state = point.reshape(len(y), self.order, D)
            values = self.field.values(at, state, self.members[member])
            k[:, before] = self.state_slopes(point, values)
        self.evaluations += 3 * np.bincount(member, minlength=len(self.status))
        # from the slopes: the difference of the ends is full of rounding where steps are small
        rise = length * np.matmul(coefficients.weights[-1], k[:, :STAGES])
        # of the highest derivative in the state: y, or y' of second order
        top = slice((self.order - 1) * D, self.order * D)
        slopes = np.concatenate([rise[:, None, top], length[:, None] * k[:, :, top]], axis=1)
        pieces = np.matmul(coefficients.interpolant, slopes)
        pieces[:, 0] = y[:, top]
        return integrated(pieces, h, y, rise)
