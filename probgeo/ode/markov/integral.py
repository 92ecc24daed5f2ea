"""The ODE in integral form: its highest derivative at the nodes is the only unknown.

Given v = c^(o) at the nodes, the posterior mean of the curve and all its derivatives is a linear
map x = W v, the same for every dimension and every member of a batch on one mesh. What is left to
solve is v = f(t, line + W v): an equation of the second kind, well conditioned where
differentiation is not. Its solution is the mean of the zeroth-order linearisation, and an excellent
start for the first-order one.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.scipy.sparse.linalg import gmres
from jaxtyping import Array, Float, Int

from probgeo.ode.markov.chain import Chain, Linearisation, back_substitute
from probgeo.ode.markov.regression import Regression
from probgeo.ode.sweeps import Refined, damped_sweeps

LARGEST_DENSE = 160  # unknowns up to which Newton's equations are solved by elimination
LARGEST_MESH = 256  # nodes up to which W, which has their square of entries, is worth having
KRYLOV = 24  # iterations for larger ones, a few dozen being plenty for a compact operator
FORCING = 1e-3  # relative accuracy of a Newton step that is found by iteration


def is_worthwhile(nodes: int, dimension: int, first_order: bool) -> bool:
    """Whether the integral form is cheaper than smoothing, on a mesh that a batch shares."""
    return nodes * dimension <= LARGEST_DENSE if first_order else nodes <= LARGEST_MESH


def integration(chain: Chain) -> Float[Array, "n s n"]:
    """States x = W v, in the coordinates of the chain, from deviations v of c^(o) at the nodes."""
    N = chain.nodes.size
    unit = Linearisation(jnp.zeros((N, 1, chain.order, 1)), jnp.eye(N)[:, None, :])
    x = chain.coordinates(unit)
    return x.states(back_substitute(chain.eliminate(x)))[:, :, 0]


class IntegralForm(eqx.Module):
    """v = f(t, line + W v) for one problem."""

    model: Regression
    W: Float[Array, "n s n"]

    def states(self, v: Float[Array, "n d"]) -> Float[Array, "n s d"]:
        return jnp.einsum("nsm,md->nsd", self.W, v)

    def sweep(self, v: Float[Array, "n d"]) -> tuple[Array, Array]:
        """The residual at v, and where Newton's method would go."""
        values, proposal = self.propose(self.model.derivatives(self.states(v)))
        return self.model.relative(v - values, values), proposal

    def propose(self, states: Float[Array, "n m d"]) -> tuple[Array, Array]:
        """f at some states, and the solution of the ODE linearised there, as deviations."""
        return self._directly(states) if self.model.first_order else self._iteratively(states)

    def _directly(self, states: Array) -> tuple[Array, Array]:
        model, o = self.model, self.model.problem.order
        J, b = model.linearise(states, True)
        weights = self.W[:, :o] * model.chain.factors[:o, None]
        moved = jnp.einsum("naoc,nom->namc", J, weights)
        size = b.size
        system = jnp.eye(size) - moved.reshape(size, size)
        v = jnp.linalg.solve(system, b.reshape(size))
        return model.evaluate(states) - model.line[:, o], v.reshape(b.shape[:2])

    def _iteratively(self, states: Array) -> tuple[Array, Array]:
        """Without a matrix of derivatives: Krylov's iteration needs directional ones only."""
        model, o = self.model, self.model.problem.order
        values, push = jax.linearize(model.evaluate, states)
        values = values - model.line[:, o]
        line = model.line

        def moved(v: Array) -> Array:
            return push(model.derivatives(self.states(v)) - line)

        v, _ = gmres(
            lambda v: v - moved(v),
            values + push(line - states),
            x0=values,
            tol=FORCING,
            restart=KRYLOV,
            maxiter=1,
            solve_method="incremental",
        )
        return values, v


def solve_integral_form(
    model: Regression, start: Float[Array, "n m d"], sweeps: Int[Array, ""], tolerance: Array
) -> Refined:
    """Damped Newton steps from given derivatives; the result are states of the chain.

    A guess says nothing of the highest derivative, which is then NaN: the first v is that of the
    ODE linearised about the guess.
    """
    form = IntegralForm(model, integration(model.chain))
    v = start[:, -1] - model.line[:, model.problem.order]
    v = jnp.where(jnp.all(jnp.isfinite(v)), v, form.propose(start.at[:, -1].set(0.0))[1])
    found = damped_sweeps(form.sweep, v, sweeps, tolerance)
    return found._replace(x=form.states(found.x), proposal=form.states(found.proposal))
