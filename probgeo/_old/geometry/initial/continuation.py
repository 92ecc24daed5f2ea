"""Continuation: the geodesic of a smooth metric first, then of sharper and sharper ones."""

from collections.abc import Sequence
from typing import Any

import equinox as eqx
import numpy as np

from probgeo._old._checks import as_float_array
from probgeo._old.geometry.equation import Metric
from probgeo._old.geometry.initial.base import Start, Starts
from probgeo._old.geometry.initial.descent import EnergyDescent, descend
from probgeo._old.geometry.polyline import straight


class Continuation(Start):
    """Energy descent on metrics `metric.with_rho(f * metric.rho)`, f growing to one.

    Parameters
    ----------
    factors : sequence of float
        By which the sharpness is multiplied in the stages before the last.
    descent : EnergyDescent
        What is done at each stage.
    """

    factors: tuple[float, ...] = eqx.field(static=True)
    descent: EnergyDescent

    def __init__(
        self, factors: Sequence[float] = (0.01, 0.1, 0.3), descent: EnergyDescent | None = None
    ) -> None:
        given = np.asarray(as_float_array("factors", factors))
        if given.ndim != 1 or not np.all((given >= 0) & (given < 1)):
            raise ValueError(f"factors must be numbers in [0, 1), got {factors!r}")
        self.factors = tuple(float(f) for f in given)
        self.descent = EnergyDescent() if descent is None else descent

    def start(self, metric: Any, a: np.ndarray, b: np.ndarray) -> Starts:
        if not hasattr(metric, "with_rho"):
            raise ValueError(
                f"Continuation needs a metric with a sharpness, such as LocalMetrics, got "
                f"{type(metric).__name__}"
            )
        points = straight(a, b, self.descent.segments)
        for factor in self.factors:
            smoother: Metric = metric.with_rho(factor * metric.rho)
            points = descend(smoother, points, self.descent.steps, self.descent.tolerance)
        return self.descent.improve(metric, points, "continuation")
