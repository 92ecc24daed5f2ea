"""Distances by the expected metric of an ensemble, and how far its members disagree."""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from probgeo.gaussian import ScalarGaussian

ModelSource = Literal["total", "numerical", "boundary", "model"]


@dataclass(frozen=True, init=False, repr=False, eq=False)
class EnsembleDistance(ScalarGaussian):
    """Distances (...) by the expected metric of a `metrics.Ensemble`.

    Attributes
    ----------
    members : array (K, ...)
        Distances by the metric of each member, along shortest curves of its own.
    model_std : array (...)
        Standard deviation of these; zero for an ensemble of one, which knows no spread.
    numerical_std : array (...)
    converged : bool array (...)
        Whether all members' geodesics are, and that of the expected metric.
    """

    members: np.ndarray
    numerical_std: np.ndarray
    converged: np.ndarray

    @property
    def model_std(self) -> np.ndarray:
        return np.sqrt(spread(self.members))


def with_spread(
    distance: ScalarGaussian,
    members: np.ndarray,
    numerical_std: np.ndarray,
    converged: np.ndarray,
    source: ModelSource = "total",
) -> EnsembleDistance:
    """A distance (...) whose variance is that over members (K, ...), alone or in addition."""
    model = spread(members)
    variance = model if source == "model" else distance.cov + model
    found = EnsembleDistance.unchecked(distance.mean, variance)
    extra = {"members": members, "numerical_std": numerical_std, "converged": converged}
    for name, value in extra.items():
        object.__setattr__(found, name, value)
    return found


def spread(members: np.ndarray) -> np.ndarray:
    """Variance over the first axis, with Bessel's correction; zero for a single member."""
    return np.var(members, axis=0, ddof=1) if len(members) > 1 else np.zeros(members.shape[1:])
