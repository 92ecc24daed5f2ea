"""Iterative refinement (Sec. 3.3.1), damped."""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from probgeo._old.ode.curve import NOT_FINITE, OK, OUT_OF_SWEEPS, STALLED

SMALLEST_STEP = 1e-4


class Refined(NamedTuple):
    """The best iterate, its relative residual, how it ended and after how many sweeps.

    `proposal` is where one more sweep would go: from a good iterate, a better one for free.
    """

    x: Array
    proposal: Array
    residual: Float[Array, ""]
    status: Array
    sweeps: Array


def damped_sweeps(
    sweep: Callable[[Array], tuple[Array, Array]],
    x: Array,
    sweeps: Array,
    tolerance: Array,
) -> Refined:
    """Iterate x towards the proposals of `sweep(x) -> (residual, proposal)`.

    A step is kept only if the residual falls, and halved otherwise.
    """

    def cond(carry: tuple) -> Array:
        _, residual, _, step, count = carry
        return (residual > tolerance) & (step > SMALLEST_STEP) & (count < sweeps)

    def body(carry: tuple) -> tuple:
        x, residual, proposal, step, count = carry
        trial = x + step * (proposal - x)
        new_residual, new_proposal = sweep(trial)
        first = count < 0
        better = first | (new_residual < residual)  # false for NaN
        return (
            jnp.where(better, trial, x),
            jnp.where(better, new_residual, residual),
            jnp.where(better, new_proposal, proposal),
            jnp.where(better, jnp.minimum(1.0, 2.0 * step), 0.5 * step),
            count + 1,
        )

    # the first look at x is a step to itself: there is one place where `sweep` is compiled
    start = (x, jnp.array(jnp.inf), x, jnp.array(1.0), jnp.array(-1))
    x, residual, proposal, step, count = jax.lax.while_loop(cond, body, start)
    status = jnp.where(step > SMALLEST_STEP, OUT_OF_SWEEPS, STALLED)
    status = jnp.where(residual <= tolerance, OK, status)
    status = jnp.where(jnp.isfinite(residual), status, NOT_FINITE)
    return Refined(x, proposal, residual, status, count)
