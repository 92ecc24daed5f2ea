"""A constant metric: geodesics are straight lines."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from probgeo._checks import as_float_array
from probgeo.functions.composed import constant
from probgeo.metrics.arguments import check_tensor
from probgeo.metrics.loops import EnergyTerms
from probgeo.metrics.metric import OfPoints, array_module


@dataclass(frozen=True, init=False, repr=False, eq=False)
class Flat(OfPoints):
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

    def _in_jax(self, x: Any) -> Any:
        return self._everywhere(x, array_module(x))

    def _everywhere(self, x: Any, xp: Any) -> Any:
        A = np.eye(x.shape[-1]) if self.A is None else constant(self.A, x)
        return xp.zeros((*x.shape[:-1], 1, 1)) + A

    def floors(self, dimension: int) -> np.ndarray:
        return self.tensors_at(np.zeros((1, dimension)))

    def tensors_at(self, x: np.ndarray) -> np.ndarray:
        return self._everywhere(x, np)

    def energies(self, x: np.ndarray, v: np.ndarray) -> np.ndarray:
        return 0.5 * np.sum(self._lowered(v) * v, axis=-1)

    def energy_terms(self, x: np.ndarray, v: np.ndarray, second: bool = True) -> EnergyTerms:
        n, D = x.shape
        p = self._lowered(v)
        M = self.tensors_at(x[: n if second else 0])
        xx, xv = np.zeros((2, *M.shape))
        return EnergyTerms(0.5 * np.sum(p * v, axis=1), np.zeros((n, D)), p, xx, xv, M)

    def forces(self, x: np.ndarray, v: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return np.zeros(v.shape), self.tensors_at(x)

    def force_jacobians(self, x: np.ndarray, v: np.ndarray, a: np.ndarray) -> np.ndarray:
        return np.zeros((len(x), 2, x.shape[1], x.shape[1]))

    def is_pulled_back(self, dimension: int) -> bool:
        return True  # by a linear map

    def products(self, x: np.ndarray) -> np.ndarray:
        n, D = x.shape
        found = np.zeros((n, D + D * (D + 1) // 2, D + D * (D + 1) // 2))
        found[:, :D, :D] = self.tensors_at(x)
        return found

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
