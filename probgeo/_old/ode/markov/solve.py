"""One problem on one mesh: Gauss-Newton sweeps, posterior, calibration, error."""

from typing import NamedTuple

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from probgeo._old.ode.curve import OK
from probgeo._old.ode.markov.calibration import expected_squares, held_out_defects, local_scale
from probgeo._old.ode.markov.chain import Chain, Triangles, back_substitute, backward_conditionals
from probgeo._old.ode.markov.integral import integration, is_worthwhile, solve_integral_form
from probgeo._old.ode.markov.posterior import MarkovPosterior
from probgeo._old.ode.markov.prior import Prior
from probgeo._old.ode.markov.regression import Regression, chain_for, regression, spread_columns
from probgeo._old.ode.problem import BOUNDARY, Problem, mean_basis
from probgeo._old.ode.sweeps import Refined, damped_sweeps

NEGLIGIBLE = 0.1  # residual at the nodes, as a part of the defects between them


class Settings(eqx.Module):
    """What `Markov` passes on; see there."""

    prior: Prior
    tolerance: Float[Array, ""]
    rtol: Float[Array, ""]
    atol: Float[Array, ""]
    first_order: bool = eqx.field(static=True)
    calibration: str = eqx.field(static=True)
    local: bool = eqx.field(static=True)
    stiff: bool = eqx.field(static=True)

    def model(self, problem: Problem, nodes: Float[Array, " n"]) -> Regression:
        return regression(self.prior, problem, nodes, self.first_order)

    def integration(self, problem: Problem, nodes: Float[Array, " n"]) -> Array | None:
        """W of the integral form, if that pays on a mesh that is shared by a batch."""
        if not is_worthwhile(nodes.size, problem.dimension, self.first_order):
            return None
        return integration(chain_for(self.prior, problem, nodes))


class Solution(NamedTuple):
    """A posterior on one mesh and what is known of its quality."""

    posterior: MarkovPosterior
    log_evidence: Float[Array, ""]
    scale: Float[Array, ""]  # of the noise where it is strongest
    residual: Float[Array, ""]  # of the ODE at the nodes
    settled: Bool[Array, ""]  # whether that is negligible
    defects: Float[Array, " n-1"]  # |defect| of the ODE between the nodes
    excess: Float[Array, ""]  # error estimate over tolerance


def iterate(
    settings: Settings,
    problem: Problem,
    nodes: Float[Array, " n"],
    states: Float[Array, "n m d"],
    sweeps: Int[Array, ""],
    W: Float[Array, "n s n"] | None,
) -> Refined:
    """Sweeps from given derivatives until the residual of the ODE is below the tolerance.

    In integral form with W, see `Settings.integration`, or by smoothing.
    """
    model = settings.model(problem, nodes)
    if W is not None:
        found = solve_integral_form(model, W, states, sweeps, settings.tolerance)
    else:
        start = model.from_derivatives(jnp.where(jnp.isfinite(states), states, 0.0))
        if problem.conditions != BOUNDARY:
            # states of a classical solver obey the ODE, but are not yet one smooth curve
            _, start = model.sweep(start)
        found = damped_sweeps(model.sweep, start, sweeps, settings.tolerance)
    # the last sweep is paid for, and squares the error
    return found._replace(x=jnp.where(found.status == OK, found.proposal, found.x))


def finish(
    settings: Settings, problem: Problem, nodes: Float[Array, " n"], x: Float[Array, "n s d"]
) -> Solution:
    """The calibrated posterior, linearised about states of the chain that obey the ODE.

    With noise that changes along the curve these states stay its mean: calibration is for error
    bars, and noise that follows single defects would cost smooth problems several digits.
    """
    model = settings.model(problem, nodes)
    defects = held_out_defects(model, x)
    values = model.evaluate(model.derivatives(x))
    model, scale2 = _calibrated(settings, model, x, values, defects)
    posterior, triangles = _posterior(model, x, values)
    count = nodes.size * problem.dimension
    if settings.calibration == "evidence":  # the best global factor, in closed form
        scale2 = jnp.sum(triangles.quadratic) / count
    log_evidence = _log_evidence(model.chain, triangles, posterior.E.shape[2], scale2, count)
    posterior = _scaled(posterior, scale2)
    if settings.local and settings.calibration != "none":
        posterior = eqx.tree_at(lambda p: p.states, posterior, x)
        residual = model.residual(x, values)
    else:
        there = model.evaluate(model.derivatives(posterior.states))
        residual = model.residual(posterior.states, there)
    between = model.relative(defects, values)
    return Solution(
        posterior=posterior,
        log_evidence=log_evidence,
        scale=jnp.sqrt(scale2) * jnp.max(model.chain.scale),
        residual=residual,
        settled=_from_a_walk(settings, problem)
        | (residual <= jnp.maximum(settings.tolerance, NEGLIGIBLE * between)),
        defects=jnp.sqrt(jnp.sum(defects**2, axis=-1)),
        excess=_excess(settings, problem, posterior),
    )


def _from_a_walk(settings: Settings, problem: Problem) -> bool:
    """Whether f is taken at the states of a classical solver and nowhere else."""
    return problem.conditions != BOUNDARY and not settings.first_order


def _calibrated(
    settings: Settings,
    model: Regression,
    x: Array,
    values: Float[Array, "n d"],
    defects: Float[Array, "n-1 d"],
) -> tuple[Regression, Array]:
    """The model with the right course of the noise along the curve, and its level."""
    one, chain = jnp.array(1.0), model.chain
    if settings.calibration == "none":
        return model, one
    if settings.calibration == "defect":
        squares = jnp.mean(defects**2, axis=-1) / expected_squares(chain)
        if not settings.local:
            return model, jnp.mean(squares / chain.scale**2)
    elif settings.local:  # a step at a time: how surprising was each one?
        _, triangles = _posterior(model, x, values)
        squares = jnp.sum(triangles.steps, axis=-1) / model.problem.dimension * chain.scale**2
    else:
        return model, one
    scale = local_scale(chain, squares)
    largest = jnp.max(scale)
    course = jnp.where(largest > 0, scale / largest, 1.0)
    return eqx.tree_at(lambda m: m.chain.scale, model, course), largest**2


def _posterior(
    model: Regression, x: Array, values: Float[Array, "n d"]
) -> tuple[MarkovPosterior, Triangles]:
    """The posterior for the noise that the chain has, linearised about `x`."""
    chain, problem = model.chain, model.problem
    states = model.derivatives(x)
    at = model.coordinates(x, values)
    triangles = chain.eliminate(at)
    posterior = MarkovPosterior(
        prior=chain.prior,
        nodes=chain.nodes,
        unit=chain.unit,
        scale=chain.scale,
        values=problem.values,
        states=at.states(back_substitute(triangles)).reshape(x.shape),
        moves=None if problem.spread is None else model.moves(states),
        spread=None if problem.spread is None else spread_columns(problem),
        E=at.E,
        given=backward_conditionals(triangles, chain.given(at.E.shape[2])),
        conditions=problem.conditions,
    )
    return posterior, triangles


def _log_evidence(
    chain: Chain, triangles: Triangles, blocks: int, scale2: Array, count: int
) -> Array:
    safe = jnp.maximum(scale2, 1e-300)
    normalisation = triangles.quadratic.size * chain.log_determinants(triangles, blocks)
    quadratic = jnp.sum(triangles.quadratic) / safe
    return normalisation - 0.5 * (quadratic + count * jnp.log(2.0 * jnp.pi * safe))


def _scaled(posterior: MarkovPosterior, scale2: Array) -> MarkovPosterior:
    """The posterior for process noise `scale2` times as strong."""
    scale = jnp.sqrt(scale2)
    given = posterior.given
    return eqx.tree_at(
        lambda p: (p.scale, p.given.factor, p.given.cov),
        posterior,
        (posterior.scale * scale, given.factor * scale, given.cov * scale2),
    )


def _excess(settings: Settings, problem: Problem, posterior: MarkovPosterior) -> Array:
    """Twice the largest numerical standard deviation between the nodes, over the tolerance."""
    spread = posterior.spread_at(posterior.halfway(0))
    columns = problem.dimension // spread.shape[-1]
    error = 2.0 * jnp.sqrt(columns * jnp.max(jnp.trace(spread, axis1=1, axis2=2)))
    line = mean_basis(problem.conditions, 0, posterior.nodes) @ problem.values
    size = jnp.sqrt(jnp.max(jnp.sum((line + posterior.states[:, 0]) ** 2, axis=-1)))
    return error / jnp.maximum(settings.atol + settings.rtol * size, 1e-300)
