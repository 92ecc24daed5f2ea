"""Metrics given by a function x -> M(x), in JAX, NumPy or torch."""

import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from probgeo.functions import NumpyFunction, RowFunction, TorchFunction, as_row_function
from probgeo.metrics.base import Metric
from probgeo.metrics.inputs import unwrapped


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
            rows = points.reshape(-1, D)
            return self._rows(rows).tensors(rows).reshape(*points.shape, D)
        return unwrapped(self.function)(x)

    def _found_out(self, dimension: int) -> RowFunction:
        shape = (dimension, dimension)
        try:
            return as_row_function(self.function, dimension, "metric", shape)
        except (TypeError, ValueError):
            of_rows = _of_one_point(self.function, dimension)
            if of_rows is None:
                raise
        return as_row_function(of_rows, dimension, "metric", shape)

    @property
    def _name(self) -> str:
        function = unwrapped(self.function)
        return getattr(function, "__qualname__", type(function).__name__)


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
