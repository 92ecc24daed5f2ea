"""One problem, from its prior to its posterior: the algorithm of Sec. 3 in order."""

from collections.abc import Callable
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from probgeo._old.ode.curve import NOT_FINITE, OK, UNFAITHFUL
from probgeo._old.ode.dense.errors import BoundError, ErrorModel, Linearised
from probgeo._old.ode.dense.evidence import best_lengthscale, evidence
from probgeo._old.ode.dense.gram import Observations, Regression, SplitCovariance
from probgeo._old.ode.dense.posterior import DensePosterior, Sensitivity, sensitivity
from probgeo._old.ode.kernels import Kernel, Pinned, Stationary
from probgeo._old.ode.problem import Problem, mean_basis
from probgeo._old.ode.sweeps import Refined, damped_sweeps

LENGTHSCALE_ROUNDS = 4
ACCEPTED_DEFECT = 0.1


class Settings(eqx.Module):
    """What `Dense` passes on; see there."""

    kernel: Kernel
    error_model: ErrorModel
    find_bounds: bool = eqx.field(static=True)
    fit_lengthscale: bool = eqx.field(static=True)
    refinements: Int[Array, ""]
    tolerance: Float[Array, ""]
    shape: Float[Array, "d d"]
    scale: str = eqx.field(static=True)
    nugget: Float[Array, ""]


class Solution(NamedTuple):
    """What comes out of one problem."""

    posterior: DensePosterior
    status: Array
    log_evidence: Array
    n_evaluations: Array
    residual: Array


def solve(
    settings: Settings,
    problem: Problem,
    nodes: Float[Array, " n"],
    guess: Float[Array, "n order d"] | None,
) -> Solution:
    """The posterior of one problem."""
    kernel, model = settings.kernel, settings.error_model
    evaluations = 0
    if settings.find_bounds:
        regression, _ = _regression(settings, problem, nodes, kernel, model)
        states = regression.states(*regression.sweep(model, guess))
        model = _bounds_along(regression, states)
        evaluations += nodes.size
    if settings.fit_lengthscale:
        kernel = _fit_lengthscale(settings, problem, nodes, kernel, model, guess)
        evaluations += LENGTHSCALE_ROUNDS * nodes.size

    regression, pinned = _regression(settings, problem, nodes, kernel, model)
    observations, L = regression.sweep(model, guess)
    refine = _gauss_newton if isinstance(model, Linearised) else _fixed_point
    observations, L, refined = refine(settings, regression, observations, L, guess is not None)
    states = regression.states(observations, L)
    values = regression.evaluate(states)
    defect = _relative(regression, states[:, -1] - values, values)

    surprise = regression.surprise(observations)
    fit = evidence(L, surprise, regression.V)
    scale2 = _given_scale2(settings, problem, fit.best_scale2())
    scale2 = fit.best_scale2() if scale2 is None else scale2
    weights = regression.weights(observations.maps, L, surprise)
    posterior = DensePosterior(
        kernel=pinned,
        nodes=nodes,
        values=problem.values,
        scale2=scale2,
        V=regression.V,
        L=L,
        maps=observations.maps,
        weights=weights.reshape(regression.prior_mean.shape),
        sensitivity=None
        if problem.spread is None
        else _sensitivity(settings, problem, nodes, kernel, states),
    )
    log_evidence = fit.log(scale2)
    finite = jnp.isfinite(log_evidence) & jnp.all(jnp.isfinite(weights))
    # noise on the evaluations lets the mean deviate from the ODE, but not without limit
    far = (refined.status == OK) & (defect > jnp.maximum(ACCEPTED_DEFECT, settings.tolerance))
    status = jnp.where(far, UNFAITHFUL, refined.status)
    # the recursion, the check of the start, the sweeps, the check of the mean
    evaluations += nodes.size * (3 if guess is not None else 5)
    return Solution(
        posterior,
        jnp.where(finite, status, NOT_FINITE),
        log_evidence,
        evaluations + nodes.size * refined.sweeps,
        refined.residual,
    )


def _regression(
    settings: Settings, problem: Problem, nodes: Array, kernel: Kernel, model: ErrorModel
) -> tuple[Regression, Pinned]:
    orders = tuple(range(problem.order + 1))
    basis = jnp.stack([mean_basis(problem.conditions, d, nodes) for d in orders], axis=1)
    pinned = Pinned(kernel, problem.conditions)
    V = SplitCovariance.of(settings.shape, model.kronecker)
    K = pinned.matrix(orders, nodes, orders, nodes)
    return Regression(problem.f, nodes, K, V, basis @ problem.values, settings.nugget), pinned


def _given_scale2(settings: Settings, problem: Problem, fallback: Array | None) -> Array | None:
    """The square of the scale of V, or None if the evidence is to choose it."""
    if settings.scale == "evidence":
        return None
    if settings.scale == "given":
        return jnp.array(1.0)
    # Sec. 3.4 with erratum 3: V = [(a-b)' S^-1 (a-b)] S; without a direction there is no scale
    slope = mean_basis(problem.conditions, 1, jnp.array(0.0)) @ problem.values
    size = slope @ jnp.linalg.solve(settings.shape, slope)
    return size if fallback is None else jnp.where(size > 0, size, fallback)


def _bounds_along(regression: Regression, states: Float[Array, "n m d"]) -> BoundError:
    """Elementwise largest |Jacobian| along a curve: U and U' of Eq. 9."""
    along = jax.vmap(lambda tau, state: regression.f.jacobian(tau, state[:-1]))
    largest = jnp.max(jnp.abs(along(regression.nodes, states)), axis=0)
    return BoundError(*jnp.moveaxis(largest, 0, -1))


def _fit_lengthscale(
    settings: Settings,
    problem: Problem,
    nodes: Array,
    kernel: Kernel,
    model: ErrorModel,
    guess: Array | None,
) -> Stationary:
    """Alternate sweeps with the best length scale for their evaluations."""
    assert isinstance(kernel, Stationary)
    scale2 = _given_scale2(settings, problem, None)

    def improve(_round: Array, lengthscale: Array) -> Array:
        trial = kernel.with_lengthscale(lengthscale)
        regression, _ = _regression(settings, problem, nodes, trial, model)
        observations, _ = regression.sweep(model, guess)
        surprise = regression.surprise(observations)
        V, conditions = regression.V, problem.conditions
        return best_lengthscale(trial, conditions, nodes, V, observations, surprise, scale2)

    best = jax.lax.fori_loop(0, LENGTHSCALE_ROUNDS, improve, kernel.lengthscale)
    return kernel.with_lengthscale(best)


def _relative(regression: Regression, residual: Array, values: Array) -> Array:
    """Size of the residual against that of f and of the slope of the straight line."""
    slope = regression.prior_mean[:, 1]
    sizes = [jnp.sqrt(jnp.mean(x**2)) for x in (residual, values, slope)]
    return sizes[0] / jnp.maximum(sizes[1] + sizes[2], jnp.finfo(float).tiny)


def _fixed_point(
    settings: Settings, regression: Regression, observations: Observations, L: Array, guessed: bool
) -> tuple[Observations, Array, Refined]:
    """Evaluate again at the posterior mean, the Gram matrix fixed (Sec. 3.3.1)."""

    def evaluate(values: Array) -> Array:
        return regression.evaluate(regression.states(observations._replace(values=values), L))

    def sweep(values: Array) -> tuple[Array, Array]:
        proposal = evaluate(values)
        return _relative(regression, values - proposal, proposal), proposal

    start = observations.values
    if not guessed:
        line = regression.evaluate(regression.prior_mean)
        start = _better(lambda v: v - evaluate(v), start, line)
    refined = damped_sweeps(sweep, start, settings.refinements, settings.tolerance)
    return observations._replace(values=refined.x), L, refined


def _gauss_newton(
    settings: Settings, regression: Regression, observations: Observations, L: Array, guessed: bool
) -> tuple[Observations, Array, Refined]:
    """Linearise f again about the posterior mean."""

    def condition(states: Array) -> tuple[Observations, Array]:
        observations = regression.observe(Linearised(), states)
        return observations, regression.factor(observations)

    def sweep(states: Array) -> tuple[Array, Array]:
        values = regression.evaluate(states)
        residual = _relative(regression, states[:, -1] - values, values)
        return residual, regression.states(*condition(states))

    start = regression.states(observations, L)
    if not guessed:
        line = regression.prior_mean
        start = _better(lambda x: x[:, -1] - regression.evaluate(x), start, line)
    refined = damped_sweeps(sweep, start, settings.refinements, settings.tolerance)
    observations, L = condition(refined.x)
    return observations, L, refined


def _better(residual: Callable[[Array], Array], recursion: Array, line: Array) -> Array:
    """Where to start sweeps: the recursion can run away where the straight line does not."""
    worse = ~(jnp.sum(residual(recursion) ** 2) <= jnp.sum(residual(line) ** 2))  # true for NaN
    return jnp.where(worse, line, recursion)


def _sensitivity(
    settings: Settings, problem: Problem, nodes: Array, kernel: Kernel, states: Array
) -> Sensitivity:
    """How the user's uncertain data move the curve, through the ODE linearised about it."""
    model = Linearised()
    regression, _ = _regression(settings, problem, nodes, kernel, model)
    return sensitivity(regression, regression.observe(model, states), problem)
