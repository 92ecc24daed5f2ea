"""A problem as the paper's solver sees it: on the time interval [0, 1]."""

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from probgeo.ode.problem import Problem

# where the data of a problem sit: (time on the unit interval, derivative)
Places = tuple[tuple[float, int], ...]
BOUNDARY: Places = ((0.0, 0), (1.0, 0))
INITIAL: dict[int, Places] = {1: ((0.0, 0),), 2: ((0.0, 0), (0.0, 1))}


class Evaluations(NamedTuple):
    """f at R rows: the states (R, order, D) it was evaluated at, its values (R, D), and Jacobians
    J[r, m, i, j] = d f_i / d c^(m)_j (R, order, D, D) if they were asked for."""

    states: np.ndarray
    values: np.ndarray
    jacobians: np.ndarray | None


@dataclass(frozen=True)
class UnitProblem:
    """Some members of a problem, in the time tau = (t - t0) / (t1 - t0).

    A derivative by tau is the duration times a derivative by t. `members` (P,) are the numbers of
    the members in the problem, `values` (P, C, D) their data at the C `conditions`.
    """

    problem: Problem
    members: np.ndarray
    values: np.ndarray
    conditions: Places

    @classmethod
    def of(cls, problem: Problem, members: np.ndarray) -> "UnitProblem":
        conditions = BOUNDARY if problem.kind == "boundary" else INITIAL[problem.order]
        values = problem.values[members] * _units(conditions, problem.duration)
        return cls(problem, members, values, conditions)

    def take(self, members: np.ndarray) -> "UnitProblem":
        """Some of these members, by their place among them."""
        return replace(self, members=self.members[members], values=self.values[members])

    @property
    def order(self) -> int:
        return self.problem.order

    @property
    def dimension(self) -> int:
        return self.problem.dimension

    def evaluate(self, nodes: np.ndarray, states: np.ndarray, jacobians: bool = False) -> Evaluations:
        """f for every member at the times `nodes` (N,), states (P, N, order, D): R = P N rows."""
        field, duration = self.problem.field, self.problem.duration
        t, rows, member = self._rows(nodes, states)
        with np.errstate(all="ignore"):  # where f is not finite the solver says so itself
            if not jacobians:
                values, J = field.values(t, rows, member), None
            else:
                values, J = field.values_and_jacobians(t, rows, member)
                factors = duration ** (self.order - np.arange(self.order))
                J = factors[:, None, None] * J
        return Evaluations(states.reshape(rows.shape), duration**self.order * values, J)

    def lines(self) -> np.ndarray | None:
        """How the data move with R standard normal numbers behind them: (P, C, D, R)."""
        if self.problem.spread is None:
            return None
        columns = replace(self.problem, spread=self.problem.spread[self.members]).columns()
        return columns * _units(self.conditions, self.problem.duration)[..., None]

    def by_args(self, nodes: np.ndarray, states: np.ndarray) -> np.ndarray:
        """Derivatives of f by its parameters, one after the other: (P, N, D, A)."""
        t, rows, member = self._rows(nodes, states)
        leaves = self.problem.field.by_args(t, rows, member)
        shape = (*states.shape[:2], self.dimension, -1)
        flat = [leaf.reshape(shape) for leaf in leaves]
        empty = np.zeros((*shape[:3], 0))
        return self.problem.duration**self.order * np.concatenate([empty, *flat], axis=-1)

    def _rows(self, nodes: np.ndarray, states: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Times, states and members in the user's units, one row after the other."""
        P, N = states.shape[:2]
        units = self.problem.duration ** np.arange(self.order)
        rows = (states / units[:, None]).reshape(P * N, self.order, self.dimension)
        t = self.problem.t0 + nodes * self.problem.duration
        return np.tile(t, P), rows, np.repeat(self.members, N)


def _units(conditions: Places, duration: float) -> np.ndarray:
    """From derivatives by t to derivatives by tau, for every condition: (C, 1)."""
    return duration ** np.array([[derivative] for _, derivative in conditions], dtype=float)


def mean_basis(conditions: Places, derivative: int, tau: np.ndarray) -> np.ndarray:
    """The prior mean as a linear map (T, C) of the data: mu^(derivative)(tau) = basis @ values.

    The straight line through the boundary values, or through y0 with slope dy0 (Sec. 3.1).
    """
    one, zero = np.ones_like(tau), np.zeros_like(tau)
    line = {0: tau, 1: one}.get(derivative, zero)
    constant = one if derivative == 0 else zero
    if conditions == BOUNDARY:
        return np.stack([constant - line, line], axis=-1)
    return np.stack([constant, line][: len(conditions)], axis=-1)
