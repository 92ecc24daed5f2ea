"""Metrics given by a function x -> M(x), in JAX, NumPy or torch."""

import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from probgeo.functions import NumpyFunction, RowFunction, TorchFunction, as_row_function
from probgeo.metrics.base import Metric
from probgeo.metrics.inputs import asymmetry, unwrapped
from probgeo.metrics.loops import EnergyTerms, solve_jacobians, solve_vectors


@dataclass(frozen=True, repr=False, eq=False)
class FunctionMetric(Metric):
    """A metric given by a function x (D,) -> (D, D).

    Parameters
    ----------
    function : callable
        Of one point with jax.numpy, or of rows (n, D) -> (n, D, D) with NumPy or torch; of one
        point will do there too, but takes longer. Or one of `probgeo.functions.JaxFunction`,
        `NumpyFunction` and `TorchFunction`, which say what it is.
    """

    function: Callable

    def __call__(self, x: Any) -> Any:
        """M(x): NumPy for arrays of NumPy, and whatever the function makes of others."""
        if isinstance(x, np.ndarray | list | tuple):
            points = np.asarray(x, dtype=np.float64)
            D = points.shape[-1]
            return self._by_function.values(points.reshape(-1, D)).reshape(*points.shape, D)
        return unwrapped(self.function)(x)

    @cached_property
    def _by_function(self) -> "MetricFunction":
        function = unwrapped(self.function)
        name = getattr(function, "__qualname__", type(function).__name__)
        return MetricFunction(self.function, name)


class MetricFunction:
    """What rows of a function x -> M(x) and its derivatives say to the engine.

    It has to be symmetric: derivatives are those of v' M v, which does not see the rest.
    """

    def __init__(self, function: Callable, name: str) -> None:
        self.function, self.name = function, name
        self._rows: dict[int, RowFunction] = {}

    def check(self, dimension: int) -> None:
        """That it can be called for a point of so many coordinates, and is symmetric there."""
        self.tensors_at(np.full((1, dimension), 0.5))

    def values(self, x: np.ndarray) -> np.ndarray:
        """M (n, D, D) at rows x (n, D), symmetric or not."""
        return self._at(x).tensors(x)

    def tensors_at(self, x: np.ndarray) -> np.ndarray:
        return self._symmetric(x, self.values(x))

    def energies(self, x: np.ndarray, v: np.ndarray) -> np.ndarray:
        return self._at(x).energies(x, v)

    def energy_terms(self, x: np.ndarray, v: np.ndarray, second: bool) -> EnergyTerms:
        terms = EnergyTerms(*self._at(x).energy_terms(x, v, second))
        if second:
            self._symmetric(x, terms.vv)
        return terms

    def accelerations(self, x: np.ndarray, v: np.ndarray) -> np.ndarray:
        return self._accelerations(x, v)[0]

    def acceleration_jacobians(self, x: np.ndarray, v: np.ndarray) -> np.ndarray:
        a, M = self._accelerations(x, v)
        return solve_jacobians(M, self._at(x).force_jacobians(x, v, a).swapaxes(1, 2))

    def _accelerations(self, x: np.ndarray, v: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        force, M = self._at(x).forces(x, v)
        self._symmetric(x, M)
        return solve_vectors(M, force), M

    def _at(self, x: np.ndarray) -> RowFunction:
        D = x.shape[1]
        if D not in self._rows:
            self._rows[D] = self._found_out(D)
            self._symmetric(x[:1], self._rows[D].tensors(x[:1]))
        return self._rows[D]

    def _found_out(self, dimension: int) -> RowFunction:
        shape = (dimension, dimension)
        try:
            return as_row_function(self.function, dimension, "metric", shape)
        except (TypeError, ValueError):
            of_rows = _of_one_point(self.function, dimension)
            if of_rows is None:
                raise
        return as_row_function(of_rows, dimension, "metric", shape)

    def _symmetric(self, x: np.ndarray, M: np.ndarray) -> np.ndarray:
        gaps, symmetric = asymmetry(M)
        if not symmetric.all():
            n = np.argmin(symmetric)
            raise ValueError(
                f"the metric {self.name} must be symmetric, but at x = {x[n]} it has entries that "
                f"differ by {gaps[n]:.3g}"
            )
        return M


def _of_one_point(function: Any, dimension: int) -> Any:
    """What says that a function is one of one point, if that is what it is in NumPy or torch."""
    if not callable(function):
        return None
    point, shape = np.full(dimension, 0.5), (dimension, dimension)
    if _returns(function, point, shape, np.ndarray):
        return NumpyFunction(function, rows=False)
    torch = sys.modules.get("torch")
    if torch is not None and _returns(function, torch.tensor(point), shape, torch.Tensor):
        return TorchFunction(torch.func.vmap(function))
    return None


def _returns(function: Callable, point: Any, shape: tuple[int, int], kind: type) -> bool:
    try:
        value: Any = function(point)
    except Exception:  # noqa: BLE001  (whatever it raises, it is not that kind of function)
        return False
    return isinstance(value, kind) and tuple(getattr(value, "shape", ())) == shape
