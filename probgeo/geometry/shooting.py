"""Initial value problems of geometry: exponential maps and parallel transport."""

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from probgeo.functions import Field
from probgeo.gaussian import covariance_factor
from probgeo.geometry.geodesic_equations import GeodesicField, TransportField
from probgeo.metrics import Metric
from probgeo.ode.curve import Curve, joined_curves
from probgeo.ode.problem import Problem
from probgeo.ode.solve import Solver
from probgeo.ragged import in_chunks, members_at_a_time

Uncertain = tuple[np.ndarray, np.ndarray | None]  # means (B, D) and covariances (B, D, D), if any


def shoot(metric: Metric, a: Uncertain, v: Uncertain, solver: Solver, progress: bool | None) -> Curve:
    """Geodesics on [0, 1] from a (B, D) with velocities v (B, D), in one flat batch.

    Members that begin where there is no metric are flagged, and cost the others nothing.
    """

    def work(members: np.ndarray) -> Curve:
        origin = a[0][members]
        field = GeodesicField(metric, origin)
        start = np.zeros_like(origin), _some(a[1], members)
        curve = solver.solve(initial(field, [start, (v[0][members], _some(v[1], members))]))
        return replace(curve, posterior=curve.posterior.moved(origin))

    return _in_chunks(work, a[0], progress, "exponential maps")


def carry(metric: Metric, curve: Curve, along: np.ndarray, v: Uncertain, solver: Solver) -> Curve:
    """Vectors v (B, D), each carried along the curve of that number, in one flat batch."""

    def work(members: np.ndarray) -> Curve:
        field = TransportField(metric, curve.posterior, along[members])
        start = v[0][members], _some(v[1], members)
        return solver.solve(initial(field, [start], curve.t_span))

    return _in_chunks(work, v[0], False, "transports")


def initial(field: Field, data: list[Uncertain], t_span: tuple[float, float] = (0.0, 1.0)) -> Problem:
    means, covs = zip(*data, strict=True)
    return Problem(field, *t_span, field.order, "initial", np.stack(means, axis=1), factors_of(covs), (len(means[0]),))


def factors_of(covs: Sequence[np.ndarray | None]) -> np.ndarray | None:
    """Factors A (B, C, D, D) of C covariances A A' (B, D, D), zero in the place of None; None without any."""
    known = [cov for cov in covs if cov is not None]
    if not known:
        return None
    zero = np.zeros_like(known[0])
    return np.stack([zero if cov is None else covariance_factor(cov) for cov in covs], axis=1)


def _some(cov: np.ndarray | None, members: np.ndarray) -> np.ndarray | None:
    return None if cov is None else cov[members]


def _in_chunks(work: Callable[[np.ndarray], Curve], rows: np.ndarray, progress: bool | None, unit: str) -> Curve:
    count, D = rows.shape
    # Solvers bound their memory themselves: 256 members in 50 dimensions took 9.2 s by forties,
    # 9.3 s at once. But the bar should move.
    most = members_at_a_time(8 * 300 * D**2)
    # steps of fewer than 1000 members take less time than Python needs to hand them to a thread
    parts = in_chunks(work, count, most=most, least=1000, progress=progress, unit=unit)
    return joined_curves(parts)
