"""One problem on one mesh: Gauss-Newton sweeps, posterior, calibration, error."""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from probgeo.ode.dense.errors import jacobian
from probgeo.ode.markov.chain import (
    Chain,
    Linearisation,
    Triangles,
    back_substitute,
    backward_conditionals,
)
from probgeo.ode.markov.posterior import MarkovPosterior
from probgeo.ode.markov.prior import Prior
from probgeo.ode.problem import BOUNDARY, Problem, mean_basis
from probgeo.ode.sweeps import Refined, damped_sweeps


class Settings(eqx.Module):
    """What `Markov` passes on; see there."""

    prior: Prior
    tolerance: Float[Array, ""]
    rtol: Float[Array, ""]
    atol: Float[Array, ""]
    first_order: bool = eqx.field(static=True)
    calibration: str = eqx.field(static=True)


class Solution(NamedTuple):
    """A posterior on one mesh and what is known of its quality."""

    posterior: MarkovPosterior
    states: Float[Array, "n m d"]
    log_evidence: Float[Array, ""]
    scale: Float[Array, ""]
    defects: Float[Array, " n-1"]  # |defect| of the ODE between the nodes
    excess: Float[Array, ""]  # error estimate over tolerance


class Regression(eqx.Module):
    """One ODE on its mesh, seen from the straight line through its data."""

    problem: Problem
    chain: Chain
    first_order: bool = eqx.field(static=True)

    @property
    def line(self) -> Float[Array, "n m d"]:
        return self._along(self.problem.values)

    def _along(self, values: Float[Array, "c ..."]) -> Float[Array, "n m ..."]:
        orders = range(self.problem.order + 1)
        basis = [mean_basis(self.problem.conditions, d, self.chain.nodes) for d in orders]
        return jnp.tensordot(jnp.stack(basis, axis=1), values, 1)

    def evaluate(self, states: Float[Array, "n m d"]) -> Float[Array, "n d"]:
        return jax.vmap(lambda t, y: self.problem.f(t, *y[:-1]))(self.chain.nodes, states)

    def linearise(self, states: Float[Array, "n m d"], first_order: bool) -> Linearisation:
        """The ODE for deviations from the line: c^(o) = J c + b."""
        values, o = self.evaluate(states), self.problem.order
        line = self.line
        if not first_order:
            N = len(states)
            return Linearisation(jnp.zeros((N, 1, o, 1)), (values - line[:, o])[:, None, :])
        J = jax.vmap(lambda t, y: jacobian(self.problem.f, t, y[:-1]))(self.chain.nodes, states)
        away = line[:, :o] - states[:, :o]
        b = values + jnp.einsum("namc,nmc->na", J, away) - line[:, o]
        return Linearisation(J, b[:, :, None])

    def residual(self, states: Array) -> Array:
        """Size of the residual of the ODE against that of f and of the slope of the line."""
        values = self.evaluate(states)
        size = [jnp.sqrt(jnp.mean(x**2)) for x in (states[:, -1] - values, values, self.line[:, 1])]
        return size[0] / jnp.maximum(size[1] + size[2], jnp.finfo(float).tiny)

    def propose(self, states: Array) -> Array:
        """One Gauss-Newton step."""
        x = self.chain.coordinates(self.linearise(states, self.first_order))
        w = back_substitute(self.chain.eliminate(x))
        return self.from_chain(x.states(w).reshape(len(states), -1, states.shape[-1]))

    def from_chain(self, x: Float[Array, "n s d"]) -> Float[Array, "n m d"]:
        """States in the user's derivatives, from deviations in the chain's coordinates."""
        m = self.problem.order + 1
        return self.line + x[:, :m] * self.chain.factors[None, :m, None]

    def moves(self, states: Array) -> Float[Array, "n s d r"]:
        """How the user's uncertain data move the curve, through the ODE linearised about it."""
        spread = spread_columns(self.problem)
        line, o = self._along(spread), self.problem.order
        J = self.linearise(states, True).J
        b = jnp.einsum("namc,nmcr->nar", J, line[:, :o]) - line[:, o]
        x = self.chain.coordinates(Linearisation(J, b))
        moved = x.states(back_substitute(self.chain.eliminate(x)))
        return moved.reshape(len(states), -1, *spread.shape[1:])


def spread_columns(problem: Problem) -> Float[Array, "c d r"]:
    """Directions in which the data may move: one value each, by one column of its factor."""
    assert problem.spread is not None
    C, D, _ = problem.spread.shape
    return jnp.einsum("ce,cij->ciej", jnp.eye(C), problem.spread).reshape(C, D, C * D)


def regression(settings: Settings, problem: Problem, nodes: Array) -> Regression:
    boundary = problem.conditions == BOUNDARY
    chain = Chain(
        prior=settings.prior,
        nodes=nodes,
        unit=1.0 / jnp.array(nodes.size - 1.0),
        # nodes are dense where the curve is rough: c^(q+1) ~ h^-q on a mesh of equal errors
        scale=(jnp.mean(jnp.diff(nodes)) / jnp.diff(nodes)) ** settings.prior.q,
        order=problem.order,
        pinned_first=(0,) if boundary else tuple(d for _, d in problem.conditions),
        pinned_last=boundary,
    )
    return Regression(problem, chain, settings.first_order)


def iterate(
    settings: Settings, problem: Problem, nodes: Array, states: Array, sweeps: Int[Array, ""]
) -> Refined:
    """Gauss-Newton sweeps from given states until the residual is below the tolerance."""
    model = regression(settings, problem, nodes)
    return damped_sweeps(
        lambda x: (model.residual(x), model.propose(x)), states, sweeps, settings.tolerance
    )


def finish(settings: Settings, problem: Problem, nodes: Array, states: Array) -> Solution:
    """The calibrated posterior about converged states."""
    model = regression(settings, problem, nodes)
    posterior, triangles = _posterior(model, states)
    defects, ratios = held_out_defects(problem, posterior)
    count = nodes.size * problem.dimension
    if settings.calibration == "evidence":
        scale2 = jnp.sum(triangles.quadratic) / count
    elif settings.calibration == "none":
        scale2 = jnp.array(1.0)
    else:
        scale2 = jnp.mean(ratios)
    log_evidence = _log_evidence(model.chain, triangles, posterior.E.shape[2], scale2, count)
    posterior = _scaled(posterior, scale2)
    return Solution(
        posterior=posterior,
        states=model.from_chain(posterior.states),
        log_evidence=log_evidence,
        scale=jnp.sqrt(scale2),
        defects=defects,
        excess=_excess(settings, problem, posterior),
    )


def _posterior(model: Regression, states: Array) -> tuple[MarkovPosterior, Triangles]:
    """The posterior for the noise that the chain has, linearised about `states`."""
    chain, problem = model.chain, model.problem
    x = chain.coordinates(model.linearise(states, model.first_order))
    triangles = chain.eliminate(x)
    mean = x.states(back_substitute(triangles))
    posterior = MarkovPosterior(
        prior=chain.prior,
        nodes=chain.nodes,
        unit=chain.unit,
        scale=chain.scale,
        values=problem.values,
        states=mean.reshape(len(states), -1, problem.dimension),
        moves=None if problem.spread is None else model.moves(states),
        spread=None if problem.spread is None else spread_columns(problem),
        E=x.E,
        given=backward_conditionals(triangles, chain.given(x.E.shape[2])),
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


def held_out_defects(problem: Problem, posterior: MarkovPosterior) -> tuple[Array, Array]:
    """Defects of the ODE half-way between nodes, and their squares over what the posterior expects.

    The defect c^(o) - f(c, ...) of the mean is something the fit has not seen; its variance under
    the posterior is that of c^(o) - J (c, ...).
    """
    middle = 0.5 * (posterior.nodes[1:] + posterior.nodes[:-1])
    place, o = posterior.halfway(), problem.order
    line = [mean_basis(problem.conditions, d, middle) @ problem.values for d in range(o + 1)]
    states = jnp.stack(
        [line[d] + posterior.across(posterior.states, place, d) for d in range(o + 1)], axis=1
    )
    defect = states[:, o] - jax.vmap(lambda t, y: problem.f(t, *y[:-1]))(middle, states)
    B = posterior.E.shape[2]
    # the defect as a map of the derivatives 0..o: (-J, 1)
    maps = jnp.zeros((len(middle), B, o + 1, B)).at[:, :, o].set(jnp.eye(B))
    if problem.dimension == B:
        J = jax.vmap(lambda t, y: jacobian(problem.f, t, y[:-1]))(middle, states)
        maps = maps.at[:, :, :o].set(-J)
    reaches = [posterior.reach(place, m) for m in range(o + 1)]
    later = sum(maps[:, :, m] @ r.later for m, r in enumerate(reaches))
    own = sum(maps[:, :, m] @ r.own for m, r in enumerate(reaches))
    between = jnp.stack(
        [jnp.stack([posterior.between(place, i, j) for j in range(o + 1)]) for i in range(o + 1)]
    )
    variance = jnp.einsum("tbk,tkl,tbl->t", later, posterior.given.cov[1:], later)
    variance += jnp.sum(own**2, axis=(1, 2))
    variance += jnp.einsum("tbic,ijt,tbjc->t", maps, between, maps)
    square = jnp.sum(defect**2, axis=-1)
    return jnp.sqrt(square), square / (variance * (problem.dimension // B))


def _excess(settings: Settings, problem: Problem, posterior: MarkovPosterior) -> Array:
    """Twice the largest numerical standard deviation between the nodes, over the tolerance."""
    spread = posterior.spread_at(posterior.halfway(), 0)
    columns = problem.dimension // spread.shape[-1]
    error = 2.0 * jnp.sqrt(columns * jnp.max(jnp.trace(spread, axis1=1, axis2=2)))
    line = mean_basis(problem.conditions, 0, posterior.nodes) @ problem.values
    size = jnp.sqrt(jnp.max(jnp.sum((line + posterior.states[:, 0]) ** 2, axis=-1)))
    return error / jnp.maximum(settings.atol + settings.rtol * size, 1e-300)
