"""Implicit steps for stiff problems: Radau IIA, five stages, order nine, L-stable.

The stages y0 + Z obey Z = h A F(y0 + Z) at Radau's points (collocation; Hairer & Wanner, Solving
Ordinary Differential Equations II, section IV.8), and are found by Newton's method with the
Jacobian at the start of the step.
"""

from functools import cache
from typing import NamedTuple

import numpy as np

from probgeo.ode.markov.defect import radau
from probgeo.ode.markov.initial_loops import newton_inverses, newton_update
from probgeo.ode.markov.steps import Attempt, Demand, Walk, integrated, rms
from probgeo.ode.problem import Problem

STAGES = 5


class ImplicitTableau(NamedTuple):
    """Coefficients of the method and of its error estimate.

    The embedded formula has the weight gamma at the start of the step, 1/gamma the real eigenvalue
    of A^-1, and order S; its difference to the step is h gamma f0 + sum_i error_i Z_i.
    """

    points: np.ndarray  # (S,)
    integrals: np.ndarray  # (S, S), A
    gamma: float
    error: np.ndarray  # (S,)


@cache
def implicit_tableau() -> ImplicitTableau:
    rule = radau(STAGES)
    inverse = np.linalg.inv(rule.integrals)
    eigenvalues = np.linalg.eigvals(inverse)
    gamma = 1.0 / float(eigenvalues[np.argmin(np.abs(eigenvalues.imag))].real)
    k = np.arange(1, STAGES + 1)
    moments = 1.0 / k
    moments[0] -= gamma
    weights = np.linalg.solve(rule.points ** (k[:, None] - 1.0), moments)
    error = (weights - rule.integrals[-1]) @ inverse
    return ImplicitTableau(rule.points, rule.integrals, gamma, error)


class ImplicitWalk(Walk):
    """Members that take implicit steps.

    `polynomials` (A, S + 1, n) are those of the last steps of active members, of length `before`:
    continued, they are where Newton's method starts.
    """

    exponent = 1 / (STAGES + 1)
    carried = (*Walk.carried, "polynomials", "before")

    def __init__(self, problem: Problem, members: np.ndarray, demand: Demand) -> None:
        super().__init__(problem, members, demand)
        self.polynomials = np.zeros((len(self.y), STAGES + 1, self.y.shape[1]))
        self.polynomials[:, 0] = self.y
        self.before = np.ones(len(self.y))

    def attempt(self, h: np.ndarray) -> Attempt:
        coefficients = implicit_tableau()
        count, n = self.y.shape
        state = self.y.reshape(count, self.order, self.dimension)
        jacobians = self.field.jacobians(self.t, state, self.members[self.active])
        inverses, filters = np.zeros((count, STAGES * n, STAGES * n)), np.zeros((count, n, n))
        newton_inverses(np.array(jacobians), h, coefficients.integrals, coefficients.gamma, inverses, filters)
        unit = self.units()
        Z = self._first_guess(h)
        solved = self._newton(Z, h, inverses, unit)
        point = self.y + Z[:, -1]
        rates = self.values(self.t + h, point)
        difference = np.matmul(coefficients.error, Z)
        slopes = self.state_slopes(self.y, self.slopes)
        error = np.matmul(filters, self._embedded(slopes, difference, h)[..., None])[..., 0]
        size = rms(error / unit)
        again = np.flatnonzero(size > 1.0)  # f at a better place, where that decides
        if len(again):
            moved = (self.y + error)[again]
            values = self.values(self.t[again], moved, self.active[again])
            slopes = self._embedded(self.state_slopes(moved, values), difference[again], h[again])
            error = np.matmul(filters[again], slopes[..., None])[..., 0]
            size[again] = rms(error / unit[again])
        size[~solved] = np.nan
        curve = np.concatenate([self.y[:, None], self.y[:, None] + Z], axis=1)
        return Attempt(point, rates, size, (curve,), np.zeros(count, dtype=bool))

    def _embedded(self, slopes: np.ndarray, difference: np.ndarray, h: np.ndarray) -> np.ndarray:
        return h[:, None] * implicit_tableau().gamma * slopes + difference

    def _first_guess(self, h: np.ndarray) -> np.ndarray:
        """Z (A, S, n) along the polynomials of the last steps."""
        s = 1.0 + implicit_tableau().points * (h / self.before)[:, None]
        powers = s[:, :, None] ** np.arange(STAGES + 1)
        ahead = np.matmul(powers, self.polynomials) - self.y[:, None]
        fresh = self.taken[self.active] == 0
        ahead[fresh | (h > 4.0 * self.before)] = 0.0
        return ahead

    def _newton(self, Z: np.ndarray, h: np.ndarray, inverses: np.ndarray, unit: np.ndarray) -> np.ndarray:
        """Solve for the stages Z (A, S, n) in place; which members (A,) succeeded."""
        coefficients, count = implicit_tableau(), len(h)
        rtol = self.demand.rtol[self.active]
        enough = np.maximum(10.0 * np.finfo(float).eps / rtol, np.minimum(0.03, rtol**0.5))
        solved = np.zeros(count, dtype=bool)
        pending = np.arange(count)
        last = np.full(count, np.nan)
        norm = np.empty(count)
        for _ in range(10):
            states = self.y[pending, None] + Z[pending]
            at = self.t[pending, None] + coefficients.points * h[pending, None]
            members = np.repeat(self.members[self.active[pending]], STAGES)
            self.evaluations[self.active[pending]] += STAGES
            rows = states.reshape(-1, self.order, self.dimension)
            values = self.field.values(at.ravel(), rows, members)
            slopes = self.state_slopes(states, values.reshape(len(pending), STAGES, -1))
            newton_update(pending, slopes, h, unit, coefficients.integrals, inverses, Z, norm)
            now = norm[pending]
            with np.errstate(all="ignore"):
                rate = now / last[pending]
                left = now * rate / (1.0 - rate)
            fine = (now <= 1e-3 * enough[pending]) | ((rate < 1.0) & (left < enough[pending]))
            hopeless = ~np.isfinite(now) | (rate >= 1.0) & ~fine
            solved[pending[fine]] = True
            last[pending] = now
            pending = pending[~(fine | hopeless)]
            if not len(pending):
                break
        return solved

    def accepted(self, accepted: np.ndarray, h: np.ndarray, record: tuple[np.ndarray, ...]) -> None:
        curves = np.matmul(radau(STAGES).to_pieces, record[0])
        self.polynomials = np.where(accepted[:, None, None], curves, self.polynomials)
        self.before = np.where(accepted, h, self.before)

    def pieces(self, member: np.ndarray, t: np.ndarray, h: np.ndarray, record: tuple[np.ndarray, ...]) -> np.ndarray:
        """RadauRule polynomials (elements, S + 1, D); of second order, integrals of y'."""
        (curve,) = record
        pieces = np.matmul(radau(STAGES).to_pieces, curve)
        top = np.ascontiguousarray(pieces[:, :, -self.dimension :])
        return integrated(top, h, curve[:, 0], curve[:, -1] - curve[:, 0])
