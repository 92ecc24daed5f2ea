"""A constant metric: geodesics are straight lines."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from probgeo._checks import as_float_array
from probgeo.metrics.base import ClosedForm, array_module, constant
from probgeo.metrics.inputs import check_tensor
from probgeo.metrics.loops import EnergyTerms


@dataclass(frozen=True, init=False, repr=False, eq=False)
class Flat(ClosedForm):
    """M(x) = A everywhere, by default the identity in any dimension.

    Exponential map, logarithm and so on are in closed form for points (..., D) that broadcast.

    Parameters
    ----------
    A : array (D, D), optional
        Symmetric positive definite.

    Examples
    --------
    >>> float(Flat([[4.0, 0.0], [0.0, 1.0]]).distance([0.0, 0.0], [3.0, 0.0]))
    6.0
    """

    A: np.ndarray | None

    is_flat = True

    def __init__(self, A: Any = None) -> None:
        matrix = None
        if A is not None:
            matrix = as_float_array("A", A)
            if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or matrix.size == 0:
                raise ValueError(f"A must have shape (D, D), got {matrix.shape}")
            check_tensor("A", matrix)
            matrix = 0.5 * (matrix + matrix.T)
        vars(self).update(A=matrix)

    @property
    def dimension(self) -> int | None:
        return None if self.A is None else len(self.A)

    def _formula(self, x: Any, xp: Any) -> Any:
        A = np.eye(x.shape[-1]) if self.A is None else constant(self.A, x)
        return xp.zeros((*x.shape[:-1], 1, 1)) + A

    def floors(self, dimension: int) -> np.ndarray:
        return self.tensors_at(np.zeros((1, dimension)))

    def energies(self, x: np.ndarray, v: np.ndarray) -> np.ndarray:
        return 0.5 * np.sum(self._lowered(v) * v, axis=-1)

    def energy_terms(self, x: np.ndarray, v: np.ndarray, second: bool = True) -> EnergyTerms:
        n, D = x.shape
        p = self._lowered(v)
        xx, xv = np.zeros((2, n if second else 0, D, D))
        M = self.tensors_at(x[: n if second else 0])
        return EnergyTerms(0.5 * np.sum(p * v, axis=1), np.zeros((n, D)), p, xx, xv, M)

    def accelerations(self, x: np.ndarray, v: np.ndarray) -> np.ndarray:
        return np.zeros(v.shape)

    def acceleration_jacobians(self, x: np.ndarray, v: np.ndarray) -> np.ndarray:
        return np.zeros((len(x), 2, x.shape[1], x.shape[1]))

    def exp(self, a: Any, v: Any) -> Any:
        """Where the geodesic from a with velocity v is after unit time."""
        return as_float_array("a", a) + as_float_array("v", v)

    def log(self, a: Any, b: Any) -> Any:
        """The velocity at a of the geodesic that is at b after unit time."""
        return as_float_array("b", b) - as_float_array("a", a)

    def distance(self, a: Any, b: Any) -> Any:
        """Length of the shortest curve from a to b."""
        step = self.log(a, b)
        xp = array_module(step)
        return xp.sqrt(xp.sum(step * self._lowered(step), axis=-1))

    def transport(self, a: Any, b: Any, v: Any) -> Any:
        """v at a, carried parallel to itself along the geodesic to b."""
        return self.log(a, b) * 0.0 + as_float_array("v", v)

    def _lowered(self, v: Any) -> Any:
        return 1.0 * v if self.A is None else v @ constant(self.A, v)
