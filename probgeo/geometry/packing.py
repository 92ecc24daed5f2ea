"""Curves that were found, as the `Geodesic` that users get."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from probgeo.gaussian import covariance_factor
from probgeo.geometry.chains import Chains
from probgeo.geometry.end_slopes import end_slopes
from probgeo.geometry.geodesic import GOOD, LONGER_THAN_LINE, NO_LENGTH, NO_METRIC, Geodesic
from probgeo.geometry.length import ROUND_OFF, first_variation
from probgeo.geometry.shortest import Shortest
from probgeo.metrics import Metric
from probgeo.ode.curve import NOT_FINITE
from probgeo.ode.piecewise import PiecewisePosterior, hermite_pieces
from probgeo.ragged import elements_of, in_chunks, members_at_a_time, members_of


@dataclass(frozen=True)
class Ends:
    """Rows a, b (B, D) and their covariances (B, D, D), None if they are certain."""

    a: np.ndarray
    b: np.ndarray
    cov_a: np.ndarray | None = None
    cov_b: np.ndarray | None = None


def packed(metric: Metric, found: Shortest, usable: np.ndarray, ends: Ends, batch: tuple[int, ...]) -> Geodesic:
    """Geodesics of all members; those that could not be tried, not `usable`, are NaN."""
    index = np.flatnonzero(usable)
    rounding = max(ROUND_OFF, metric.precision(ends.a.shape[1]))

    def spread_out(values: np.ndarray, otherwise: Any) -> np.ndarray:
        if usable.all():
            return values.reshape((*batch, *values.shape[1:]))
        full = np.full((len(usable), *values.shape[1:]), otherwise, dtype=values.dtype)
        full[index] = values
        return full.reshape((*batch, *values.shape[1:]))

    posterior = posterior_of(metric, found.chains, found.scale, index, ends)
    spread = np.zeros(len(index))
    if posterior.spread is not None:
        spread = first_variation(metric, posterior, found.length)
    if not usable.all():
        posterior = with_gaps(posterior, usable)
    flag = np.where(found.longer, LONGER_THAN_LINE, GOOD)
    apart = (ends.a != ends.b).any(axis=1)[index]
    flag = np.where(np.isfinite(found.length) & ((found.length > 0) | ~apart), flag, NO_LENGTH)
    with np.errstate(divide="ignore", invalid="ignore"):
        gap = np.where(found.length > 0, found.second / (found.length - found.excess) - 1.0, np.inf)
    return Geodesic(
        posterior=posterior,
        t_span=(0.0, 1.0),
        status=spread_out(found.status, NOT_FINITE),
        log_evidence=spread_out(found.log_density, np.nan),
        n_evaluations=spread_out(found.evaluations, 0),
        residual=spread_out(found.residual, np.nan),
        scale=spread_out(found.scale, np.nan),
        metric=metric,
        energy=spread_out(2.0 * found.energy, np.nan),
        n_minima=spread_out(found.minima, 0),
        gap=spread_out(np.maximum(gap, 0.0), np.nan),
        flag=spread_out(flag, NO_METRIC),
        won=spread_out(found.start, 0),
        mean_length=spread_out(found.length, np.nan),
        length_error=spread_out(found.excess + rounding * found.length, np.nan),
        length_spread=spread_out(spread, np.nan),
        velocity=spread_out(found.velocity, np.nan),
        velocity_error=spread_out(found.velocity_error, np.nan),
    )


def posterior_of(
    metric: Metric, chains: Chains, scale: np.ndarray, index: np.ndarray, ends: Ends
) -> PiecewisePosterior:
    """Gaussian posteriors about curves, with the scales (members,) of their numerical errors."""
    t, offsets, D = chains.t, chains.offsets, chains.nodes.shape[2]
    envelope = np.repeat(scale, np.diff(offsets))[:, None] * np.ones(D)
    pieces = hermite_pieces(t, offsets, chains.nodes)
    spread = spread_columns(metric, chains, index, ends)
    return PiecewisePosterior(t, offsets, pieces, spread, envelope, 2, True)


def spread_columns(metric: Metric, chains: Chains, index: np.ndarray, ends: Ends) -> np.ndarray | None:
    """How curves move with standard normal numbers behind their ends: (elements, 4, D, R)."""
    covs = [cov for cov in (ends.cov_a, ends.cov_b) if cov is not None]
    if not covs:
        return None
    D = chains.nodes.shape[2]
    sides = [k for k, cov in enumerate((ends.cov_a, ends.cov_b)) if cov is not None]
    factors = [covariance_factor(cov[index]) for cov in covs]

    def work(members: np.ndarray) -> np.ndarray:
        part = chains.take(members)
        slopes = end_slopes(metric, part).reshape(len(part.t), 2, D, 2, D)
        own = members[members_of(part.offsets)]
        columns = [
            np.einsum("njdk,nkr->njdr", slopes[:, :, :, side], factor[own])
            for side, factor in zip(sides, factors, strict=True)
        ]
        nodes = np.concatenate(columns, axis=-1)
        pieces = hermite_pieces(part.t, part.offsets, nodes.reshape(len(part.t), 2, -1))
        return pieces.reshape(*pieces.shape[:2], D, -1)

    most = members_at_a_time(chains.hessian_bytes)
    return np.concatenate(in_chunks(work, len(chains), most=most, progress=False))


def with_gaps(posterior: PiecewisePosterior, usable: np.ndarray) -> PiecewisePosterior:
    """Members in between that are NaN, on the mesh of the first."""
    full = posterior.take(np.where(usable, np.cumsum(usable) - 1, 0))
    full.envelope[~usable[members_of(full.offsets)]] = np.nan
    elements = ~usable[members_of(elements_of(full.offsets))]
    full.pieces[elements] = np.nan
    if full.spread is not None:
        full.spread[elements] = np.nan
    return full
