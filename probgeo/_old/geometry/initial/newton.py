"""Newton's method for the energy of a polygon, damped by its own metric.

The Hessian H of the energy is block tridiagonal. Where it is positive definite Newton's steps
converge quadratically, where it is not they do not descend. H + mu P does for mu large enough, if
P is what is left of H with the metric tensors frozen, the quadratic form of the control step.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from probgeo._old._compile import compiled
from probgeo._old.geometry.equation import Metric
from probgeo._old.geometry.linalg import WRITTEN_OUT, solve_spd
from probgeo._old.geometry.polyline import discrete_energy

FIRST_DAMPING = 1.0
LESS, MORE = 0.2, 5.0  # factors on the damping after a step that was taken, or not
LEAST = 1e-3  # damping below this is none, and any after a failure is above
MOST_DAMPING = 1e4  # steps damped like this do not get anywhere


class Hessian(NamedTuple):
    """Blocks for the inner points: those on the diagonal, those to the next point, and P's."""

    gradient: Float[Array, "t-1 d"]
    diagonal: Float[Array, "t-1 d d"]
    upper: Float[Array, "t-1 d d"]  # the last one leads to the end, which is fixed
    frozen_diagonal: Float[Array, "t-1 d d"]
    frozen_upper: Float[Array, "t-1 d d"]


class Newton(NamedTuple):
    """One polygon on its way down."""

    x: Float[Array, "t+1 d"]
    energy: Float[Array, ""]
    promise: Float[Array, ""]  # how much energy the last step proposed would save
    damping: Float[Array, ""]


def is_cheap(dimension: int) -> bool:
    """Whether elimination is written out: with LAPACK, control steps are quicker."""
    return dimension <= WRITTEN_OUT


def hessian(metric: Metric, x: Float[Array, "t+1 d"]) -> Hessian:
    """Derivatives of sum_t u_t' M(m_t) u_t, u_t a step and m_t its middle."""

    def slopes(m: Array, u: Array) -> tuple[Array, Array]:
        by_m, by_u = jax.grad(metric.energy, argnums=(0, 1))(m, u)
        return by_m, by_u

    u, middle = jnp.diff(x, axis=0), 0.5 * (x[1:] + x[:-1])
    by_m, by_u = jax.vmap(slopes)(middle, u)
    mm, um = jax.vmap(jax.jacfwd(slopes))(middle, u)
    uu = 2.0 * jax.vmap(metric)(middle)
    mu = jnp.swapaxes(um, 1, 2)
    # the step goes from p = m - u/2 to q = m + u/2
    pp = 0.25 * mm - 0.5 * (mu + um) + uu
    qq = 0.25 * mm + 0.5 * (mu + um) + uu
    pq = 0.25 * mm + 0.5 * (mu - um) - uu
    return Hessian(
        gradient=(0.5 * by_m + by_u)[:-1] + (0.5 * by_m - by_u)[1:],
        diagonal=qq[:-1] + pp[1:],
        upper=pq[1:],
        frozen_diagonal=uu[:-1] + uu[1:],
        frozen_upper=-uu[1:],
    )


def solve_tridiagonal(
    diagonal: Float[Array, "n d d"], upper: Float[Array, "n d d"], b: Float[Array, "n d"]
) -> Float[Array, "n d"]:
    """Block elimination; NaN if the matrix is not positive definite."""
    D = b.shape[-1]

    def forward(carry: tuple, row: tuple) -> tuple:
        gain, value = carry  # x_{t-1} = value - gain x_t
        lower, block, up, b = row
        S = block - lower @ gain
        sides = jnp.concatenate([up, (b - lower @ value)[:, None]], axis=1)
        solved = jax.vmap(lambda c: solve_spd(lambda v: S @ v, S, c), 1, 1)(sides)
        return (solved[:, :D], solved[:, D]), (solved[:, :D], solved[:, D])

    def backward(later: Array, row: tuple) -> tuple:
        gain, value = row
        x = value - gain @ later
        return x, x

    lower = jnp.concatenate([jnp.zeros_like(upper[:1]), jnp.swapaxes(upper[:-1], 1, 2)])
    start = (jnp.zeros((D, D)), jnp.zeros(D))
    rows: tuple[Array, Array]
    x: Array
    _, rows = jax.lax.scan(forward, start, (lower, diagonal, upper, b))
    _, x = jax.lax.scan(backward, jnp.zeros(D), rows, reverse=True)
    return x


def begin(metric: Metric, x: Float[Array, "t+1 d"]) -> Newton:
    energy = discrete_energy(metric, x)
    return Newton(x, energy, jnp.array(jnp.inf), jnp.array(FIRST_DAMPING))


def advance(metric: Metric, state: Newton) -> Newton:
    """Try one step; take it if the energy falls, else damp the next one more."""
    H, mu = hessian(metric, state.x), state.damping
    step = solve_tridiagonal(
        H.diagonal + mu * H.frozen_diagonal, H.upper + mu * H.frozen_upper, -H.gradient
    )
    trial = state.x.at[1:-1].add(step)
    energy = discrete_energy(metric, trial)
    # half of the slope along the step is what a quadratic would save
    promise = -0.5 * (len(state.x) - 1.0) * jnp.sum(H.gradient * step)
    better = energy < state.energy  # false for NaN
    less = jnp.where(LESS * mu < LEAST, 0.0, LESS * mu)
    more = MORE * jnp.maximum(mu, LEAST)
    return Newton(
        x=jnp.where(better, trial, state.x),
        energy=jnp.where(better, energy, state.energy),
        promise=jnp.where(jnp.isfinite(promise), promise, jnp.inf),
        damping=jnp.where(better, less, more),
    )


@compiled
def begin_batch(metric: Metric, points: Float[Array, "b t+1 d"]) -> Newton:
    return jax.vmap(lambda x: begin(metric, x))(points)


@compiled
def advance_batch(metric: Metric, states: Newton, steps: Array) -> Newton:
    return jax.lax.fori_loop(
        0, steps, lambda _, s: jax.vmap(lambda one: advance(metric, one))(s), states
    )
