"""Initial value problems of geometry: exponential maps and parallel transport."""

from dataclasses import replace
from typing import Any

import numpy as np

from probgeo.gaussian import Gaussian, covariance_factor
from probgeo.geometry.fields import GeodesicField, TransportField
from probgeo.metrics import Metric
from probgeo.ode.curve import Curve, Moved
from probgeo.ode.problem import Problem
from probgeo.ragged import in_chunks

AT_ONCE = 4096  # members solved at a time: a few hundred megabytes in ten dimensions


def shoot(
    metric: Metric, a: Gaussian, v: Gaussian, solver: Any, progress: bool | None = None
) -> list[Curve]:
    """Geodesics on [0, 1] from rows a (B, D) with velocities v (B, D), in chunks."""

    def work(members: np.ndarray) -> Curve:
        origin = a.mean[members]
        problem = initial(
            GeodesicField(metric, origin),
            [np.zeros_like(origin), v.mean[members]],
            [a.cov[members], v.cov[members]],
        )
        curve = solver.solve(problem)
        return replace(curve, posterior=Moved(curve.posterior, origin))

    return in_chunks(work, len(a.mean), most=AT_ONCE, progress=progress, unit="exponential maps")


def carry(metric: Metric, curve: Curve, along: np.ndarray, v: Gaussian, solver: Any) -> list[Curve]:
    """Rows v (B, D), each carried along the curve of that number, in chunks."""

    def work(members: np.ndarray) -> Curve:
        field = TransportField(metric, curve.posterior, along[members])
        t0, t1 = curve.t_span
        return solver.solve(initial(field, [v.mean[members]], [v.cov[members]], t0, t1))

    return in_chunks(work, len(v.mean), most=AT_ONCE, unit="transports")


def initial(
    field: Any, means: list[np.ndarray], covs: list[np.ndarray], t0: float = 0.0, t1: float = 1.0
) -> Problem:
    """An initial value problem from rows that have been checked."""
    spread = None
    if any(np.any(cov) for cov in covs):
        spread = np.stack([covariance_factor(cov) for cov in covs], axis=1)
    values = np.stack(means, axis=1)
    return Problem(field, t0, t1, field.order, "initial", values, spread, (len(values),))
