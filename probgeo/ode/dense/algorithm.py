"""Some problems, from their prior to their posterior: the algorithm of Sec. 3 in order."""

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from probgeo.ode.curve import NOT_FINITE, OK, UNFAITHFUL
from probgeo.ode.dense.error_models import ErrorModel, FoundBounds, LinearisedError
from probgeo.ode.dense.evidence import best_lengthscales, evidence
from probgeo.ode.dense.gram import PriorAtNodes, SplitCovariance, mean_basis
from probgeo.ode.dense.posterior import DensePosterior, Sensitivity
from probgeo.ode.dense.sweeps import Sweeps, relative_size, sweep_until_settled
from probgeo.ode.kernels import Stationary
from probgeo.ode.problem import Problem

if TYPE_CHECKING:
    from probgeo.ode.dense.solver import Dense


def infer(
    solver: "Dense",
    problem: Problem,
    members: np.ndarray,
    nodes: np.ndarray,
    shape: np.ndarray,
    guess: np.ndarray | None,
) -> tuple[DensePosterior, dict[str, np.ndarray]]:
    """The posterior of members (P,) of a problem, and diagnostics (P,) by the names they have in a `Curve`.

    nodes (N,) on the unit interval; shape (D, D), V up to its scale; guess (P, N, order, D), states to begin with.
    """
    model = solver.error_model
    V = SplitCovariance.of(shape, model.kronecker)
    prior = PriorAtNodes.of(problem, members, nodes, solver.kernel, V, solver.nugget)
    scale2 = given_scale2(solver, prior, shape)
    evaluations = np.zeros(len(members), dtype=np.int64)
    if solver.find_bounds:
        model = found_bounds(prior, model, guess)
        evaluations += nodes.size
    if solver.fit_lengthscale:
        prior, used = with_best_lengthscales(solver, prior, model, guess, scale2)
        evaluations += used
    observations, L, refined = sweep_until_settled(prior, model, guess, solver.refinements, solver.tolerance)
    states = prior.states(observations, L)
    values = prior.evaluate(states)
    defect = relative_size(prior, states[:, :, -1] - values, values)

    surprise = prior.surprise(observations)
    fit = evidence(L, surprise, prior.V)
    scale2 = fit.best_scale2() if scale2 is None else np.where(np.isnan(scale2), fit.best_scale2(), scale2)
    weights = prior.weights(observations.maps, L, surprise)
    posterior = DensePosterior(
        kernel=prior.kernel,
        t0=problem.t0,
        duration=problem.duration,
        unit_nodes=nodes,
        values=prior.values,
        scale2=scale2,
        V=prior.V,
        L=L,
        maps=observations.maps,
        weights=weights.reshape(prior.prior_mean.shape),
        sensitivity=sensitivity(prior, shape, states),
    )
    log_evidence = fit.log(scale2)
    finite = np.isfinite(log_evidence) & np.isfinite(weights).all(axis=(1, 2, 3, 4))
    # noise on the evaluations lets the mean deviate from the ODE, but not by more than a tenth
    far = (refined.status == OK) & (defect > max(0.1, solver.tolerance))
    status = np.where(far, UNFAITHFUL, refined.status)
    return posterior, {
        "status": np.where(finite, status, NOT_FINITE),
        "log_evidence": log_evidence,
        "n_evaluations": evaluations + counted(nodes, refined, guess) + nodes.size,  # the last for the defect
        "residual": refined.residual,
        "scale": np.sqrt(scale2),
    }


def counted(nodes: np.ndarray, refined: Sweeps, guess: np.ndarray | None) -> np.ndarray:
    """Evaluations (P,) of f: the recursion, the check of where to start, the sweeps."""
    return nodes.size * (refined.sweeps + (4 if guess is None else 2))


def given_scale2(solver: "Dense", prior: PriorAtNodes, shape: np.ndarray) -> np.ndarray | None:
    """Squares (P,) of the scale of V, NaN or None where the evidence is to choose it."""
    if solver.scale != "ends":
        return None if solver.scale == "evidence" else np.ones(len(prior.values))
    # Sec. 3.4 with erratum 3: V = [(a-b)' S^-1 (a-b)] S; without a direction there is no scale
    slope = (mean_basis(prior.kernel.conditions, 1, np.zeros(1)) @ prior.values)[:, 0]
    size = np.sum(slope * np.linalg.solve(shape, slope.T).T, axis=-1)
    return np.where(size > 0, size, np.nan)


def found_bounds(prior: PriorAtNodes, model: ErrorModel, guess: np.ndarray | None) -> FoundBounds:
    """Elementwise largest |Jacobian| along first solutions: U and U' of Eq. 9."""
    states = prior.states(*prior.sweep(model, guess))
    J = prior.evaluations(prior.nodes, states[:, :, :-1], jacobians=True).jacobians
    assert J is not None
    along = np.abs(J).reshape(*states.shape[:2], *J.shape[1:])
    return FoundBounds(np.swapaxes(along.max(axis=1), -1, -2))  # U[i, j] bounds |d f_j / d c_i|


def with_best_lengthscales(
    solver: "Dense",
    prior: PriorAtNodes,
    model: ErrorModel,
    guess: np.ndarray | None,
    scale2: np.ndarray | None,
    rounds: int = 4,
) -> tuple[PriorAtNodes, np.ndarray]:
    """Alternate sweeps with the best length scales for their evaluations; counts of these (P,).

    The evaluations are refined first: those of the recursion alone are rough where a length scale is short, and rough
    evaluations ask for a shorter one still. On two kinds of pendulum the largest change still to come is, after 1, 2,
    3, 4 rounds, 14, 1.2, .2 and .04 per cent where evaluations have no noise; with noise it takes up to 8 rounds.
    """
    kernel = solver.kernel
    assert isinstance(kernel, Stationary)
    lengthscales = np.full(len(prior.values), kernel.lengthscale)
    used = np.zeros(len(prior.values), dtype=np.int64)
    prior = prior.with_kernel(kernel.with_lengthscale(lengthscales))
    for _ in range(rounds):
        observations, _, refined = sweep_until_settled(prior, model, guess, solver.refinements, solver.tolerance)
        used += counted(prior.nodes, refined, guess)
        lengthscales = best_lengthscales(kernel, prior, observations, scale2, lengthscales)
        prior = prior.with_kernel(kernel.with_lengthscale(lengthscales))
    return prior, used


def sensitivity(prior: PriorAtNodes, shape: np.ndarray, states: np.ndarray) -> Sensitivity | None:
    """How the user's uncertain data move the curve, through the ODE linearised about it.

    One linear problem for each direction in which the data (or, if asked for, the parameters of f) may move.
    """
    problem = prior.problem
    if problem.spread is None and not problem.with_args:
        return None
    model = LinearisedError()
    prior = replace(prior, V=SplitCovariance.of(shape, model.kronecker))
    linearised, lines = prior.observe(model, states), prior.lines()
    P, N, m, D = states.shape
    along = np.stack([mean_basis(prior.kernel.conditions, d, prior.nodes) for d in range(m)], axis=1)
    along = np.einsum("nmc,pcdr->pnmdr", along, lines).reshape(P, N, m * D, -1)
    forced = -(linearised.maps.reshape(P, N, D, m * D) @ along)
    if problem.with_args:
        by_args = prior.by_args(states[:, :, :-1])
        forced = np.concatenate([forced, by_args], axis=-1)
        lines = np.concatenate([lines, np.zeros((*lines.shape[:3], by_args.shape[-1]))], axis=-1)
    weights = prior.weights(linearised.maps, prior.factor(linearised), forced.reshape(P, N * D, -1))
    return Sensitivity(lines, weights)
