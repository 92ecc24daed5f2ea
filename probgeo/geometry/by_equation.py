"""Geodesics as solutions of their differential equation, by solvers of boundary value problems.

This is how the paper does it, with `solvers.Dense`. The first guess is the curve of least energy.
"""

from dataclasses import replace

import numpy as np

from probgeo.geometry.chains import Chains
from probgeo.geometry.geodesic import LONGER_THAN_KNOWN, NO_METRIC, Geodesic
from probgeo.geometry.geodesic_equations import GeodesicField
from probgeo.geometry.length import ROUND_OFF, chain_lengths, draw_lengths, first_variation, scaled, with_middles
from probgeo.geometry.packing import Ends
from probgeo.geometry.shooting import factors_of
from probgeo.ode.curve import NOT_FINITE
from probgeo.ode.problem import Problem
from probgeo.ode.solve import Solver
from probgeo.ragged import members_of, offsets_of


def solved_by(solver: Solver, least: Geodesic, ends: Ends, draws: int = 32) -> Geodesic:
    """The geodesics that a solver finds near those of least energy, of the same batch.

    The uncertainty of their lengths is that of so many curves drawn, as in the paper. Those that
    are more than a hundredth longer are flagged.
    """
    count = len(ends.a)
    lost = np.ravel(least.flag) == NO_METRIC
    stand_in = np.where(lost, np.flatnonzero(~lost)[0], np.arange(count))  # solved, and flagged
    origin, guess = ends.a[stand_in], least.posterior.mean(np.linspace(0, 1, 65), 0)
    problem = Problem(
        GeodesicField(least.metric, origin),
        0.0,
        1.0,
        2,
        "boundary",
        np.stack([np.zeros_like(origin), ends.b[stand_in] - origin], axis=1),
        factors_of([ends.cov_a, ends.cov_b]),
        (count,),
    )
    curve = solver.solve(problem, guess=guess[stand_in] - origin[:, None])
    posterior = curve.posterior.moved(origin)
    meshes = [with_middles(posterior.nodes(m)) for m in range(count)]
    t, offsets = np.concatenate(meshes), offsets_of([len(mesh) for mesh in meshes])
    nodes = np.stack([posterior.mean_at(members_of(offsets), t, d) for d in (0, 1)], axis=1)
    length, energy = chain_lengths(least.metric, Chains(nodes, t, offsets))
    spread = np.zeros(count)
    if problem.spread is not None:
        spread = first_variation(least.metric, posterior, length)
    drawn, _ = draw_lengths(least.metric, posterior, 0, draws)
    variance = np.mean((drawn - length) ** 2, axis=0) - spread**2  # draws know the total only
    error = np.sqrt(np.maximum(variance, 0.0)) + ROUND_OFF * length
    velocity = scaled(least.metric, origin, nodes[offsets[:-1], 1], length)
    longer = length > 1.01 * np.ravel(least.mean_length)
    flag = np.where(longer & (np.ravel(least.flag) == 0), LONGER_THAN_KNOWN, np.ravel(least.flag))

    def shaped(values: np.ndarray) -> np.ndarray:
        values = np.where(_rows(lost, values), np.nan, values)
        return values.reshape((*least.batch_shape, *values.shape[1:]))

    return replace(
        least,
        posterior=posterior,
        status=np.where(lost, NOT_FINITE, curve.status).reshape(least.batch_shape),
        log_evidence=shaped(curve.log_evidence),
        n_evaluations=curve.n_evaluations.reshape(least.batch_shape),
        residual=shaped(curve.residual),
        scale=shaped(curve.scale),
        energy=shaped(2.0 * energy),
        flag=flag.reshape(least.batch_shape),
        mean_length=shaped(length),
        length_error=shaped(error),
        length_spread=shaped(spread),
        velocity=shaped(velocity),
        velocity_error=np.full(least.batch_shape, np.nan),  # the posterior knows it
    )


def _rows(which: np.ndarray, values: np.ndarray) -> np.ndarray:
    """A mask of members with as many axes as the values."""
    return which.reshape(-1, *[1] * (values.ndim - 1))
