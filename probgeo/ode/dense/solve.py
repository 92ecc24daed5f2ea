"""Some problems, from their prior to their posterior: the algorithm of Sec. 3 in order."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from probgeo.ode.curve import NOT_FINITE, OK, UNFAITHFUL
from probgeo.ode.dense.errors import ErrorModel, FoundBounds, Linearised
from probgeo.ode.dense.evidence import best_lengthscales, evidence
from probgeo.ode.dense.gram import (
    Observations,
    Regression,
    SplitCovariance,
    members_of,
    with_member_axis,
)
from probgeo.ode.dense.posterior import DensePosterior, Sensitivity
from probgeo.ode.dense.sweeps import Refined, damped_sweeps
from probgeo.ode.dense.unit import UnitProblem, mean_basis
from probgeo.ode.kernels import Kernel, Pinned, Stationary

# on two kinds of pendulum the largest change still to come is, after 1, 2, 3, 4 rounds, 14, 1.2, .2
# and .04 per cent where evaluations have no noise; with noise it takes up to 8 rounds


@dataclass(frozen=True)
class Settings:
    """What `Dense` passes on; see there. `shape` (D, D) is V up to its `scale`."""

    kernel: Kernel
    error_model: ErrorModel
    find_bounds: bool
    fit_lengthscale: bool
    refinements: int
    tolerance: float
    shape: np.ndarray
    scale: str
    nugget: float


class Solution(NamedTuple):
    """What comes out of P problems: a posterior, and numbers (P,)."""

    posterior: DensePosterior
    status: np.ndarray
    log_evidence: np.ndarray
    n_evaluations: np.ndarray
    residual: np.ndarray


def solve(
    settings: Settings, problem: UnitProblem, nodes: np.ndarray, guess: np.ndarray | None
) -> Solution:
    """The posterior of P problems, from a guess (P, N, order, D) of states if there is one."""
    kernel, model = settings.kernel, settings.error_model
    evaluations = np.zeros(len(problem.values), dtype=np.int64)
    if settings.find_bounds:
        regression, _ = _regression(settings, problem, nodes, kernel, model)
        states = regression.states(*regression.sweep(model, guess))
        model = _bounds_along(regression, states)
        evaluations += nodes.size
    if settings.fit_lengthscale:
        kernel, used = _fit_lengthscale(settings, problem, nodes, kernel, model, guess)
        evaluations += used

    regression, pinned = _regression(settings, problem, nodes, kernel, model)
    observations, L, refined = _refined(settings, regression, model, guess)
    states = regression.states(observations, L)
    values = regression.evaluate(states)
    defect = _relative(regression, states[:, :, -1] - values, values)

    surprise = regression.surprise(observations)
    fit = evidence(L, surprise, regression.V)
    scale2 = _scale2(settings, problem)
    scale2 = fit.best_scale2() if scale2 is None else scale2
    scale2 = np.where(np.isnan(scale2), fit.best_scale2(), scale2)
    weights = regression.weights(observations.maps, L, surprise)
    posterior = DensePosterior(
        kernel=pinned,
        t0=problem.problem.t0,
        duration=problem.problem.duration,
        unit_nodes=nodes,
        values=problem.values,
        scale2=scale2,
        V=regression.V,
        L=L,
        maps=observations.maps,
        weights=weights.reshape(regression.prior_mean.shape),
        sensitivity=_sensitivity(settings, problem, nodes, kernel, states),
    )
    log_evidence = fit.log(scale2)
    finite = np.isfinite(log_evidence) & np.isfinite(posterior.weights).all(axis=(1, 2, 3))
    # noise on the evaluations lets the mean deviate from the ODE, but not by more than a tenth
    far = (refined.status == OK) & (defect > max(0.1, settings.tolerance))
    status = np.where(far, UNFAITHFUL, refined.status)
    evaluations += _count(nodes, refined, guess) + nodes.size  # the last for the check of the mean
    status = np.where(finite, status, NOT_FINITE)
    return Solution(posterior, status, log_evidence, evaluations, refined.residual)


def _regression(
    settings: Settings, problem: UnitProblem, nodes: np.ndarray, kernel: Kernel, model: ErrorModel
) -> tuple[Regression, Pinned]:
    """The prior on the nodes."""
    orders = tuple(range(problem.order + 1))
    N, m = len(nodes), len(orders)
    basis = np.stack([mean_basis(problem.conditions, d, nodes) for d in orders], axis=1)
    prior_mean = (basis.reshape(N * m, -1) @ problem.values).reshape(-1, N, m, problem.dimension)
    pinned = Pinned(kernel, problem.conditions)
    V = SplitCovariance.of(settings.shape, model.kronecker)
    K = with_member_axis(pinned.matrix(orders, nodes, orders, nodes), 5)
    return Regression(problem, nodes, K, V, prior_mean, settings.nugget), pinned


def _scale2(settings: Settings, problem: UnitProblem) -> np.ndarray | None:
    """Squares (P,) of the scale of V, NaN where there is none; None if the evidence chooses all."""
    if settings.scale == "evidence":
        return None
    if settings.scale == "given":
        return np.ones(len(problem.values))
    # Sec. 3.4 with erratum 3: V = [(a-b)' S^-1 (a-b)] S; without a direction there is no scale
    slope = (mean_basis(problem.conditions, 1, np.zeros(1)) @ problem.values)[:, 0]
    size = np.sum(slope * np.linalg.solve(settings.shape, slope.T).T, axis=-1)
    return np.where(size > 0, size, np.nan)


def _bounds_along(regression: Regression, states: np.ndarray) -> FoundBounds:
    """Elementwise largest |Jacobian| along each curve: U and U' of Eq. 9."""
    seen = regression.problem.evaluate(regression.nodes, states[:, :, :-1], jacobians=True)
    assert seen.jacobians is not None
    along = np.abs(seen.jacobians).reshape(*states.shape[:2], *seen.jacobians.shape[1:])
    return FoundBounds(np.swapaxes(along.max(axis=1), -1, -2))  # U[i, j] bounds |d f_j / d c_i|


def _fit_lengthscale(
    settings: Settings,
    problem: UnitProblem,
    nodes: np.ndarray,
    kernel: Kernel,
    model: ErrorModel,
    guess: np.ndarray | None,
    rounds: int = 4,
) -> tuple[Stationary, np.ndarray]:
    """Alternate sweeps with the best length scales for their evaluations; counts of these (P,).

    The evaluations are refined first: those of the recursion alone are rough where a length scale
    is short, and rough evaluations ask for a shorter one still.
    """
    assert isinstance(kernel, Stationary)
    scale2 = _scale2(settings, problem)
    lengthscales = np.full(len(problem.values), kernel.lengthscale)
    used = np.zeros(len(problem.values), dtype=np.int64)
    for _ in range(rounds):
        trial = kernel.with_lengthscale(lengthscales[:, None, None])
        regression, _ = _regression(settings, problem, nodes, trial, model)
        observations, _, refined = _refined(settings, regression, model, guess)
        used += _count(nodes, refined, guess)
        surprise, V = regression.surprise(observations), regression.V
        lengthscales = best_lengthscales(
            kernel, problem.conditions, nodes, V, observations, surprise, scale2, lengthscales
        )
    return kernel.with_lengthscale(lengthscales[:, None, None]), used


def _refined(
    settings: Settings, regression: Regression, model: ErrorModel, guess: np.ndarray | None
) -> tuple[Observations, np.ndarray, Refined]:
    """The recursion, and sweeps after it: observations, their Gram matrix, and how they ended."""
    observations, L = regression.sweep(model, guess)
    refine = _gauss_newton if isinstance(model, Linearised) else _fixed_point
    return refine(settings, regression, observations, L, guess is not None)


def _count(nodes: np.ndarray, refined: Refined, guess: np.ndarray | None) -> np.ndarray:
    """Evaluations (P,) of f in `_refined`: the recursion, the check of the start, the sweeps."""
    return nodes.size * (refined.sweeps + (2 if guess is not None else 4))


def _relative(regression: Regression, residual: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Size (P,) of residuals (P, N, D) against that of f and of the slope of the straight line."""
    slope = regression.prior_mean[:, :, 1]
    sizes = [np.sqrt(np.mean(x**2, axis=(1, 2))) for x in (residual, values, slope)]
    return sizes[0] / np.maximum(sizes[1] + sizes[2], np.finfo(float).tiny)


def _fixed_point(
    settings: Settings,
    regression: Regression,
    observations: Observations,
    L: np.ndarray,
    guessed: bool,
) -> tuple[Observations, np.ndarray, Refined]:
    """Evaluate again at the posterior mean, the Gram matrix fixed (Sec. 3.3.1)."""
    everyone = np.arange(len(observations.values))

    def evaluate(values: np.ndarray, members: np.ndarray) -> tuple[Regression, np.ndarray]:
        part = regression.take(members)
        seen = observations.take(members)._replace(values=values)
        return part, part.evaluate(part.states(seen, members_of(L, members)))

    def sweep(values: np.ndarray, members: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        part, proposal = evaluate(values, members)
        return _relative(part, values - proposal, proposal), proposal

    start = observations.values
    if not guessed:
        line = regression.evaluate(regression.prior_mean)
        start = _better(lambda v: v - evaluate(v, everyone)[1], start, line)
    refined = damped_sweeps(sweep, start, settings.refinements, settings.tolerance)
    return observations._replace(values=refined.x), L, refined


def _gauss_newton(
    settings: Settings,
    regression: Regression,
    observations: Observations,
    L: np.ndarray,
    guessed: bool,
) -> tuple[Observations, np.ndarray, Refined]:
    """Linearise f again about the posterior mean."""

    def condition(part: Regression, states: np.ndarray) -> tuple[Observations, np.ndarray]:
        observations = part.observe(Linearised(), states)
        return observations, part.factor(observations)

    def sweep(states: np.ndarray, members: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        part = regression.take(members)
        values = part.evaluate(states)
        residual = _relative(part, states[:, :, -1] - values, values)
        return residual, part.states(*condition(part, states))

    start = regression.states(observations, L)
    if not guessed:
        line = regression.prior_mean
        start = _better(lambda x: x[:, :, -1] - regression.evaluate(x), start, line)
    refined = damped_sweeps(sweep, start, settings.refinements, settings.tolerance)
    observations, L = condition(regression, refined.x)
    return observations, L, refined


def _better(
    residual: Callable[[np.ndarray], np.ndarray], recursion: np.ndarray, line: np.ndarray
) -> np.ndarray:
    """Where to start sweeps: the recursion can run away where the straight line does not."""
    sizes = [np.sum(residual(x) ** 2, axis=(1, 2)) for x in (recursion, line)]
    worse = ~(sizes[0] <= sizes[1])  # true for NaN
    return np.where(worse.reshape(-1, *[1] * (line.ndim - 1)), line, recursion)


def _sensitivity(
    settings: Settings,
    problem: UnitProblem,
    nodes: np.ndarray,
    kernel: Kernel,
    states: np.ndarray,
) -> Sensitivity | None:
    """How the user's uncertain data move the curve, through the ODE linearised about it.

    One linear problem for each direction in which the data (or, if asked for, the parameters of f)
    may move.
    """
    P, C, D = problem.values.shape
    lines = problem.lines()
    if lines is None and not problem.problem.with_args:
        return None
    model = Linearised()
    regression, _ = _regression(settings, problem, nodes, kernel, model)
    linearised = regression.observe(model, states)
    lines = np.zeros((P, C, D, 0)) if lines is None else lines
    forced = np.zeros((P, nodes.size, D, 0))
    if problem.problem.with_args:
        forced = problem.by_args(nodes, states[:, :, :-1])
        lines = np.concatenate([lines, np.zeros((P, C, D, forced.shape[-1]))], axis=-1)
    R, N, m = lines.shape[-1], nodes.size, problem.order + 1
    basis = np.stack([mean_basis(problem.conditions, d, nodes) for d in range(m)], axis=1)
    along = basis.reshape(N * m, C) @ lines.reshape(P, C, D * R)
    violated = -(linearised.maps.reshape(P, N, D, m * D) @ along.reshape(P, N, m * D, R))
    violated[..., R - forced.shape[-1] :] += forced
    L = regression.factor(linearised)
    weights = regression.weights(linearised.maps, L, violated.reshape(P, N * D, R))
    return Sensitivity(lines, weights)
