"""Metrics given by a function x -> M(x), in JAX, NumPy or torch."""

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from probgeo.metrics.arguments import unwrapped
from probgeo.metrics.metric import Metric, array_module


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
            rows = points.reshape(-1, points.shape[-1])
            return self.tensors_at(rows).reshape(*points.shape, points.shape[-1])
        return unwrapped(self.function)(x)

    @property
    def _function(self) -> Callable:
        return self.function


class Diagonal(Metric):
    """M(x) = diag(m(x)), given by one method, `diagonal`, in JAX, NumPy or torch.

    Examples
    --------
    >>> class Slope(Diagonal):
    ...     def diagonal(self, x):
    ...         return np.exp(x)
    >>> Slope().apply(np.zeros(3), np.arange(3.0)).tolist()
    [0.0, 1.0, 2.0]
    """

    @abstractmethod
    def diagonal(self, x: Any) -> Any:
        """m(x), all positive."""

    def __call__(self, x: Any) -> Any:
        entries = self.diagonal(x)
        if type(entries).__module__.startswith("torch"):
            return entries.diag_embed()
        xp = array_module(entries)
        return xp.asarray(entries)[..., None] * np.eye(entries.shape[-1])
