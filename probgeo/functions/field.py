"""The right-hand side of an ODE for a batch of members."""

from abc import ABC, abstractmethod
from copy import copy
from typing import Any, Self

import numpy as np


class Field(ABC):
    """y^(order) = f(t, y, ...) at many rows (t, state, member).

    A row is a time, a state (y) or (y, dy) and the number of the member it belongs to, which may
    have parameters of its own. A subclass of one's own goes wherever a right-hand side does.

    Attributes
    ----------
    order : 1 or 2
    dimension : D
    n_parameters : P
        How many (real) parameters a member has.
    """

    order: int
    dimension: int
    n_parameters: int = 0
    _leaves: list[Any]  # the arrays of parameters, with one row a member

    @abstractmethod
    def values(self, t: np.ndarray, state: np.ndarray, member: np.ndarray) -> np.ndarray:
        """f at times (n,), states (n, order, D) of members (n,): (n, D)."""

    @abstractmethod
    def jacobians(self, t: np.ndarray, state: np.ndarray, member: np.ndarray) -> np.ndarray:
        """J[n, m, i, j] = d f_i / d y^(m)_j: (n, order, D, D)."""

    def values_and_jacobians(
        self, t: np.ndarray, state: np.ndarray, member: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Both."""
        return self.values(t, state, member), self.jacobians(t, state, member)

    def stages(
        self,
        t: np.ndarray,
        state: np.ndarray,
        member: np.ndarray,
        h: np.ndarray,
        first: np.ndarray,
        nodes: np.ndarray,
        weights: np.ndarray,
    ) -> np.ndarray | None:
        """All stages of explicit steps at once, or None: one call of `values` a stage is as good.

        Slopes k_0 .. k_S (n, S + 1, order D) of steps of length h (n,): k_0 = (y', first), and
        k_s+1 = (y', f) at t + nodes_s h and state + h sum_j weights_sj k_j.
        """
        return None

    def by_args(self, t: np.ndarray, state: np.ndarray, member: np.ndarray) -> list[np.ndarray]:
        """Derivatives by the parameters, array for array: d f_i / d args_k, (n, D, *shape_k)."""
        return []

    def linearised(
        self, t: np.ndarray, state: np.ndarray, member: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Values, Jacobians, and derivatives by the first array of parameters."""
        by_first = self.by_args(t, state, member)[0]
        return *self.values_and_jacobians(t, state, member), by_first

    def with_first(self, leaf: np.ndarray) -> Self:
        """The same field with other numbers in the place of the first array of parameters."""
        other = copy(self)
        other._leaves = [leaf, *self._leaves[1:]]
        return other

    def take(self, members: np.ndarray) -> Self:
        """The same field for some members, numbered anew."""
        other = copy(self)
        other._leaves = [np.asarray(leaf)[members] for leaf in self._leaves]
        return other
