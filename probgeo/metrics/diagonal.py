"""Metrics whose tensor is diagonal everywhere."""

from abc import abstractmethod
from typing import Any

import numpy as np

from probgeo.metrics.base import Metric, array_module


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
