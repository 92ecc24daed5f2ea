"""One ODE on one mesh, linearised: what a Gauss-Newton sweep does."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from probgeo._old.ode.markov.chain import Chain, Coordinates, Linearisation, back_substitute
from probgeo._old.ode.markov.prior import Prior
from probgeo._old.ode.problem import BOUNDARY, Problem, mean_basis


class Regression(eqx.Module):
    """One ODE on its mesh, seen from the straight line through its data.

    `x` (n, s, d) are states of the chain, deviations from the line; `states` (n, m, d) are the
    curve and its derivatives up to the order of the ODE.
    """

    problem: Problem
    chain: Chain
    line: Float[Array, "n m d"]
    first_order: bool = eqx.field(static=True)

    def derivatives(self, x: Float[Array, "n s d"]) -> Float[Array, "n m d"]:
        """The curve and its derivatives from states of the chain."""
        m = self.problem.order + 1
        return self.line + x[:, :m] * self.chain.factors[None, :m, None]

    def from_derivatives(self, states: Float[Array, "n m d"]) -> Float[Array, "n s d"]:
        """States of the chain with the derivatives that are known, the others zero."""
        m = self.problem.order + 1
        x = (states - self.line) / self.chain.factors[None, :m, None]
        return jnp.pad(x, ((0, 0), (0, self.chain.prior.q + 1 - m), (0, 0)))

    def evaluate(self, states: Float[Array, "n m d"]) -> Float[Array, "n d"]:
        return jax.vmap(lambda t, y: self.problem.f(t, *y[:-1]))(self.chain.nodes, states)

    def jacobians(self, states: Float[Array, "n m d"]) -> Float[Array, "n d o d"]:
        return jax.vmap(lambda t, y: self.problem.f.jacobian(t, y[:-1]))(self.chain.nodes, states)

    def linearise(
        self, states: Float[Array, "n m d"], values: Float[Array, "n d"], first_order: bool
    ) -> Linearisation:
        """The ODE for deviations from the line, c^(o) = J c + b, with the values of f there."""
        o, line = self.problem.order, self.line
        if not first_order:
            N = len(states)
            return Linearisation(jnp.zeros((N, 1, o, 1)), (values - line[:, o])[:, None, :])
        J = self.jacobians(states)
        away = line[:, :o] - states[:, :o]
        b = values + jnp.einsum("namc,nmc->na", J, away) - line[:, o]
        return Linearisation(J, b[:, :, None])

    def relative(self, residual: Float[Array, "n d"], values: Float[Array, "n d"]) -> Array:
        """Size of a residual of the ODE against that of f and of the slope of the line."""
        size = [jnp.sqrt(jnp.mean(x**2)) for x in (residual, values, self.line[:, 1])]
        return size[0] / jnp.maximum(size[1] + size[2], jnp.finfo(float).tiny)

    def residual(self, x: Float[Array, "n s d"], values: Float[Array, "n d"]) -> Array:
        """Relative residual of the ODE at the nodes, where f has these values."""
        return self.relative(self.derivatives(x)[:, -1] - values, values)

    def sweep(self, x: Float[Array, "n s d"]) -> tuple[Array, Float[Array, "n s d"]]:
        """The residual at x, and where a Gauss-Newton step would go."""
        values = self.evaluate(self.derivatives(x))
        at = self.coordinates(x, values)
        proposal = at.states(back_substitute(self.chain.eliminate(at))).reshape(x.shape)
        return self.residual(x, values), proposal

    def coordinates(self, x: Float[Array, "n s d"], values: Float[Array, "n d"]) -> Coordinates:
        """Free coordinates for the ODE linearised about x, counted from there."""
        ode = self.linearise(self.derivatives(x), values, self.first_order)
        return self.chain.coordinates(ode, x.reshape(*x.shape[:2], *ode.b.shape[1:]))

    def moves(self, states: Float[Array, "n m d"]) -> Float[Array, "n s d r"]:
        """How the user's uncertain data move the curve, through the ODE linearised about it."""
        spread = spread_columns(self.problem)
        line, o = _line(self.problem, self.chain.nodes, spread), self.problem.order
        J = self.jacobians(states)
        b = jnp.einsum("namc,nmcr->nar", J, line[:, :o]) - line[:, o]
        x = self.chain.coordinates(Linearisation(J, b))
        moved = x.states(back_substitute(self.chain.eliminate(x)))
        return moved.reshape(len(states), -1, *spread.shape[1:])


def spread_columns(problem: Problem) -> Float[Array, "c d r"]:
    """Directions in which the data may move: one value each, by one column of its factor."""
    assert problem.spread is not None
    C, D, _ = problem.spread.shape
    return jnp.einsum("ce,cij->ciej", jnp.eye(C), problem.spread).reshape(C, D, C * D)


def regression(
    prior: Prior, problem: Problem, nodes: Float[Array, " n"], first_order: bool
) -> Regression:
    line = _line(problem, nodes, problem.values)
    return Regression(problem, chain_for(prior, problem, nodes), line, first_order)


def chain_for(prior: Prior, problem: Problem, nodes: Float[Array, " n"]) -> Chain:
    """The prior on a mesh; the same for all members of a batch."""
    boundary = problem.conditions == BOUNDARY
    return Chain(
        prior=prior,
        nodes=nodes,
        unit=1.0 / jnp.array(nodes.size - 1.0),
        # nodes are dense where the curve is rough: c^(q+1) ~ h^-q on a mesh of equal errors
        scale=(jnp.mean(jnp.diff(nodes)) / jnp.diff(nodes)) ** prior.q,
        order=problem.order,
        pinned_first=(0,) if boundary else tuple(d for _, d in problem.conditions),
        pinned_last=boundary,
    )


def _line(
    problem: Problem, nodes: Float[Array, " n"], values: Float[Array, "c ..."]
) -> Float[Array, "n m ..."]:
    """The straight line through some data at the nodes, and its derivatives."""
    orders = range(problem.order + 1)
    basis = [mean_basis(problem.conditions, d, nodes) for d in orders]
    return jnp.tensordot(jnp.stack(basis, axis=1), values, 1)
