"""Right-hand sides with a singular term, y' = f(t, y) + S y / (t - a), at the start of time."""

import numpy as np

from probgeo.functions import Field
from probgeo.ode.conditions import Conditions


class WithSingularTerm(Field):
    """A field of order one with S y / (t - a) added; it is never evaluated at a itself."""

    def __init__(self, field: Field, S: np.ndarray, a: float) -> None:
        self.field, self.S, self.a = field, S, a
        self.order, self.dimension = field.order, field.dimension
        self.n_parameters = field.n_parameters

    def values(self, t: np.ndarray, state: np.ndarray, member: np.ndarray) -> np.ndarray:
        return self.field.values(t, state, member) + self._term(t, state)

    def jacobians(self, t: np.ndarray, state: np.ndarray, member: np.ndarray) -> np.ndarray:
        return self.field.jacobians(t, state, member) + self._by_y(t)

    def values_and_jacobians(
        self, t: np.ndarray, state: np.ndarray, member: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        values, jacobians = self.field.values_and_jacobians(t, state, member)
        return values + self._term(t, state), jacobians + self._by_y(t)

    def by_args(self, t: np.ndarray, state: np.ndarray, member: np.ndarray) -> list[np.ndarray]:
        return self.field.by_args(t, state, member)

    def with_first(self, leaf: np.ndarray) -> "WithSingularTerm":
        return WithSingularTerm(self.field.with_first(leaf), self.S, self.a)

    def take(self, members: np.ndarray) -> "WithSingularTerm":
        return WithSingularTerm(self.field.take(members), self.S, self.a)

    def _term(self, t: np.ndarray, state: np.ndarray) -> np.ndarray:
        return state[:, 0] @ self.S.T / (t - self.a)[:, None]

    def _by_y(self, t: np.ndarray) -> np.ndarray:
        return self.S / (t - self.a)[:, None, None, None]


def check_smooth_start(S: np.ndarray, conditions: Conditions) -> None:
    """That what linear conditions say of y at the start leaves room for S y = 0."""
    elsewhere = conditions.matrix[:, 1:].any(axis=(1, 2, 3))
    rows = np.concatenate([S, conditions.matrix[~elsewhere, 0, 0]])
    values = np.zeros((len(rows), len(conditions.values)))
    values[len(S) :] = conditions.values[:, ~elsewhere].T
    left = np.abs(rows @ np.linalg.lstsq(rows, values, rcond=None)[0] - values).max(axis=0)
    if (left > 1e-9 * np.abs(values).max(axis=0)).any():
        raise ValueError("the conditions at the start contradict S y = 0, which solutions that are smooth there obey")
