"""The ODE in integral form: its highest derivative at the nodes is the only unknown.

Given v = c^(o) at the nodes, the posterior mean of the curve and all its derivatives is a linear
map x = W v, the same for every dimension and every member of a batch on one mesh. What is left to
solve is v = f(t, line + W v): an equation of the second kind, well conditioned where
differentiation is not. Its solution is the mean of the zeroth-order linearisation, and an excellent
start for the first-order one.
"""

from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.scipy.sparse.linalg import gmres
from jaxtyping import Array, Float, Int

from probgeo._old.ode.curve import OK, OUT_OF_SWEEPS
from probgeo._old.ode.markov.chain import Chain, Linearisation, back_substitute
from probgeo._old.ode.markov.regression import Regression
from probgeo._old.ode.sweeps import Refined, damped_sweeps

LARGEST_DENSE = 160  # unknowns up to which elimination is cheaper than smoothing,
LARGEST_ELIMINATION = 80  # and than iterations that need no Jacobian, or Krylov's
LARGEST_MESH = 320  # nodes up to which W, which has their square of entries, is worth having
KRYLOV = 6  # iterations for a step of Newton's method, with a good preconditioner
PICARD = 20  # most fixed-point iterations before Newton's method,
REMEMBERED = 4  # and how many of them Anderson's acceleration looks at
FORCING = 1e-2  # relative accuracy of a Newton step that is found by iteration


def is_worthwhile(nodes: int, dimension: int, first_order: bool) -> bool:
    """Whether the integral form is cheaper than smoothing, on a mesh that a batch shares."""
    return nodes * dimension <= LARGEST_DENSE if first_order else nodes <= LARGEST_MESH


def is_small(nodes: int, dimension: int) -> bool:
    """Whether a step of Newton's method by elimination is cheaper than by iteration."""
    return nodes * dimension <= LARGEST_ELIMINATION


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
        directly = self.model.first_order or is_small(states.shape[0], states.shape[2])
        return self._directly(states) if directly else self._iteratively(states)

    def _directly(self, states: Array) -> tuple[Array, Array]:
        model, o = self.model, self.model.problem.order
        values = model.evaluate(states)
        J, b = model.linearise(states, values, True)
        weights = self.W[:, :o] * model.chain.factors[:o, None]
        moved = jnp.einsum("naoc,nom->namc", J, weights)
        size = b.size
        system = jnp.eye(size) - moved.reshape(size, size)
        v = jnp.linalg.solve(system, b.reshape(size))
        return values - model.line[:, o], v.reshape(b.shape[:2])

    def _iteratively(self, states: Array) -> tuple[Array, Array]:
        """By Krylov's iteration, with finite differences to begin with."""
        model, o = self.model, self.model.problem.order
        values = model.evaluate(states)
        J, b = model.linearise(states, values, True)
        weights = self.W[:, :o] * model.chain.factors[:o, None]

        def operator(v: Array) -> Array:
            return v - jnp.einsum("naoc,noc->na", J, jnp.einsum("nom,mc->noc", weights, v))

        # for the step, not for its end: the tolerance is relative to the residual there
        v = states[:, o] - model.line[:, o]
        step, _ = gmres(
            operator,
            b[:, :, 0] - operator(v),
            tol=FORCING,
            restart=KRYLOV,
            maxiter=1,
            M=differences(J, model.chain.nodes),
            solve_method="batched",
        )
        return values - model.line[:, o], v + step


def differences(J: Float[Array, "n d 2 d"], nodes: Float[Array, " n"]) -> Callable[[Array], Array]:
    """r -> e'' for e'' = J (e, e') + r with e = 0 at the ends, on equal steps.

    By central differences, a block tridiagonal system: right up to the square of the step, and so
    a good preconditioner for the integral form of the same equation.
    """
    h = nodes[1] - nodes[0]
    one = jnp.eye(J.shape[1])
    inner = J[1:-1]
    before = one / h**2 + inner[:, :, 1] / (2 * h)
    after = one / h**2 - inner[:, :, 1] / (2 * h)
    solve = block_tridiagonal(before, -2.0 * one / h**2 - inner[:, :, 0], after)

    def apply(r: Float[Array, "n d"]) -> Float[Array, "n d"]:
        e = jnp.pad(solve(r[1:-1]), ((1, 1), (0, 0)))
        states = jnp.stack([e, jnp.asarray(jnp.gradient(e, axis=0)) / h], axis=1)
        return r + jnp.einsum("naoc,noc->na", J, states)

    return apply


def block_tridiagonal(
    before: Float[Array, "n d d"], diagonal: Float[Array, "n d d"], after: Float[Array, "n d d"]
) -> Callable[[Array], Array]:
    """The solver of a block tridiagonal system; what can be is done once for all right sides."""

    def eliminate(gain: Array, row: tuple) -> tuple:
        low, block, up = row
        inverse = jnp.linalg.inv(block - low @ gain)
        return inverse @ up, (inverse, inverse @ low, inverse @ up)

    blocks = (before.at[0].set(0.0), diagonal, after.at[-1].set(0.0))
    factors: tuple[Array, Array, Array]
    _, factors = jax.lax.scan(eliminate, jnp.zeros_like(diagonal[0]), blocks)

    def solve(r: Float[Array, "n d"]) -> Float[Array, "n d"]:
        def forward(y: Array, row: tuple) -> tuple:
            inverse, low, b = row
            y = inverse @ b - low @ y
            return y, y

        def backward(x: Array, row: tuple) -> tuple:
            y, up = row
            x = y - up @ x
            return x, x

        inverses, lows, ups = factors
        zero = jnp.zeros_like(r[0])
        y: Array
        x: Array
        _, y = jax.lax.scan(forward, zero, (inverses, lows, r))
        _, x = jax.lax.scan(backward, zero, (y, ups), reverse=True)
        return x

    return solve


def solve_by_fixed_points(
    model: Regression, W: Float[Array, "n s n"], start: Float[Array, "n m d"], tolerance: Array
) -> Refined:
    """v <- f(t, line + W v), with Anderson's acceleration: no Jacobians, and often enough."""
    form, o = IntegralForm(model, W), model.problem.order

    def image(v: Array) -> tuple[Array, Array]:
        values = model.evaluate(model.derivatives(form.states(v))) - model.line[:, o]
        return values, model.relative(v - values, values)

    first = model.evaluate(start) - model.line[:, o]
    history = jnp.zeros((REMEMBERED, *first.shape))

    def cond(carry: tuple) -> Array:
        *_, residual, count = carry
        return (residual > tolerance) & (count < PICARD)  # false for NaN

    def body(carry: tuple) -> tuple:
        v, values, steps, changes, _, count = carry
        # the best mixture of the last images, by least squares of their residuals
        flat = changes.reshape(REMEMBERED, -1)
        gram = flat @ flat.T
        ridge = 1e-12 * jnp.trace(gram) + jnp.finfo(float).tiny
        mix = jnp.linalg.solve(gram + ridge * jnp.eye(REMEMBERED), flat @ (values - v).reshape(-1))
        new = values - jnp.tensordot(mix, steps + changes, 1)
        image_of_new, residual = image(new)
        slot = count % REMEMBERED
        steps = steps.at[slot].set(new - v)
        changes = changes.at[slot].set((image_of_new - new) - (values - v))
        return new, image_of_new, steps, changes, residual, count + 1

    values, residual = image(first)
    carry = (first, values, history, history, residual, jnp.array(0))
    _, values, _, _, residual, count = jax.lax.while_loop(cond, body, carry)
    x = form.states(values)
    status = jnp.where(residual <= tolerance, OK, OUT_OF_SWEEPS)
    return Refined(x, x, residual, status, count)


def solve_integral_form(
    model: Regression,
    W: Float[Array, "n s n"],
    start: Float[Array, "n m d"],
    sweeps: Int[Array, ""],
    tolerance: Array,
) -> Refined:
    """Damped Newton steps from given derivatives; the result are states of the chain.

    A guess says nothing of the highest derivative, which is then NaN: the first v is that of the
    ODE linearised about the guess.
    """
    form = IntegralForm(model, W)
    v = start[:, -1] - model.line[:, model.problem.order]
    v = jnp.where(jnp.all(jnp.isfinite(v)), v, form.propose(start.at[:, -1].set(0.0))[1])
    found = damped_sweeps(form.sweep, v, sweeps, tolerance)
    x, proposal = form.states(found.x), form.states(found.proposal)
    # the last step is mostly the best, but nobody has looked yet
    better = model.residual(proposal, model.evaluate(model.derivatives(proposal))) < found.residual
    return found._replace(x=x, proposal=jnp.where(better, proposal, x))
