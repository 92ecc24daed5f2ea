"""The right-hand side of an ODE for a batch of members."""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from copy import copy
from typing import Any, Self

import numpy as np

from probgeo.functions.parameters import is_real, leaves_of


class Field(ABC):
    """y^(order) = f(t, y, ...) at many rows (t, state, member).

    A row is a time, a state (y) or (y, dy) and the number of the member it belongs to, which may
    have parameters of its own. Your own subclass can be used wherever a right-hand side can.

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

    @abstractmethod
    def values(self, t: np.ndarray, state: np.ndarray, member: np.ndarray) -> np.ndarray:
        """f at times (n,), states (n, order, D) of members (n,): (n, D)."""

    @abstractmethod
    def jacobians(self, t: np.ndarray, state: np.ndarray, member: np.ndarray) -> np.ndarray:
        """J[n, m, i, j] = d f_i / d y^(m)_j: (n, order, D, D)."""

    def values_and_jacobians(
        self, t: np.ndarray, state: np.ndarray, member: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """`values` and `jacobians` of the same rows."""
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

    def with_first(self, leaf: np.ndarray) -> "Field":
        """The same field with other numbers in the place of the first array of parameters."""
        raise TypeError(f"{type(self).__name__} has no parameters")

    def take(self, members: np.ndarray) -> "Field":
        """The same field for some members, numbered anew."""
        raise TypeError(f"{type(self).__name__} has no parameters")

    def linearised(
        self, t: np.ndarray, state: np.ndarray, member: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Values, Jacobians, and derivatives by the first array of parameters."""
        by_first = self.by_args(t, state, member)[0]
        return *self.values_and_jacobians(t, state, member), by_first


class FunctionField(Field):
    """A right-hand side f(t, y[, dy][, args]) of a user; `args` is a tree of arrays with one row a member."""

    def __init__(self, f: Callable, order: int, dimension: int, args: Any = None) -> None:
        self.f, self.order, self.dimension, self._tree = f, order, dimension, args
        self._leaves = leaves_of(args)
        self._real = tuple(is_real(leaf) for leaf in self._leaves)
        self.n_parameters = sum(math.prod(leaf.shape[1:]) for leaf in self._leaves if is_real(leaf))

    @abstractmethod
    def _run(self, what: str, t: np.ndarray, state: np.ndarray, member: np.ndarray) -> tuple[np.ndarray, ...]:
        """A formula, by its name in `formulas.of_field`, at rows: arrays (n, ...)."""

    def values(self, t: np.ndarray, state: np.ndarray, member: np.ndarray) -> np.ndarray:
        return self._run("values", t, state, member)[0]

    def jacobians(self, t: np.ndarray, state: np.ndarray, member: np.ndarray) -> np.ndarray:
        return self._run("jacobians", t, state, member)[0]

    def by_args(self, t: np.ndarray, state: np.ndarray, member: np.ndarray) -> list[np.ndarray]:
        return list(self._run("by_args", t, state, member)) if self.n_parameters else []

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
