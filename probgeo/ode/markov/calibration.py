"""How strong the noise of the prior is, step by step, from what the fit has not seen.

The defect c^(o) - f(c, ...) of the mean half-way between two nodes is compared with the variance
that the posterior has for it there. A single defect says little, so neighbours are averaged: not
their noise itself, which varies by orders of magnitude along a graded mesh, but what it does to
the curve over one step, kappa^2 h^(2q).
"""

from functools import lru_cache

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from probgeo.ode.markov.chain import Chain, Linearisation, backward_conditionals
from probgeo.ode.markov.posterior import across, bridges, reach_through
from probgeo.ode.markov.prior import WienerPrior
from probgeo.ode.markov.regression import Regression
from probgeo.ode.problem import mean_basis

WINDOW = 8  # steps over which a triangular window reaches, each way
LARGEST_TABLE = 32  # nodes after which the ends of a mesh do not feel each other
FLOOR = 0.1  # least effect of a step, as a fraction of the largest along the curve


def held_out_defects(model: Regression, x: Float[Array, "n s d"]) -> Float[Array, "n-1 d"]:
    """Defects of the ODE half-way between the nodes."""
    nodes, problem, o = model.chain.nodes, model.problem, model.problem.order
    middle = 0.5 * (nodes[1:] + nodes[:-1])
    half = 0.5 * jnp.diff(nodes)
    bridge = bridges(model.chain.prior, half, half, model.chain.unit)
    n = jnp.arange(half.size)
    line = [mean_basis(problem.conditions, d, middle) @ problem.values for d in range(o + 1)]
    between = [model.chain.factors[d] * across(x, n, bridge, d) for d in range(o + 1)]
    states = jnp.stack([a + b for a, b in zip(line, between, strict=True)], axis=1)
    return states[:, o] - jax.vmap(lambda t, y: problem.f(t, *y[:-1]))(middle, states)


def expected_squares(chain: Chain) -> Float[Array, " n-1"]:
    """Variance of c^(o) half-way between nodes, given c^(o) at the nodes, for noise of scale 1.

    Taken from equal steps and carried over to the mesh by its local step: c^(o) is q - o times
    integrated. What f makes of c and its lower derivatives is smaller by a power of h.
    """
    N, q, o = chain.nodes.size, chain.prior.q, chain.order
    few = min(N, LARGEST_TABLE)
    table = jnp.asarray(_on_equal_steps(q, o, chain.pinned_first, chain.pinned_last, few))
    # far from the ends nothing depends on their distance
    half = few // 2
    middle = jnp.full(N - few, table[half - 1])
    table = jnp.concatenate([table[:half], middle, table[half:]])
    return chain.prior.intensity * table * jnp.diff(chain.nodes) ** (2 * (q - o) + 1)


@lru_cache
def _on_equal_steps(
    q: int, o: int, pinned_first: tuple[int, ...], pinned_last: bool, N: int
) -> np.ndarray:
    """The same for a q-times integrated Wiener process on N nodes with steps of length 1."""

    @jax.jit  # compiled as one program, also while another one is being traced
    def variances() -> Array:
        one = jnp.array(1.0)
        nodes, scale = jnp.arange(N, dtype=float), jnp.ones(N - 1)
        chain = Chain(WienerPrior(q), nodes, one, scale, o, pinned_first, pinned_last)
        at = chain.coordinates(Linearisation(jnp.zeros((N, 1, o, 1)), jnp.zeros((N, 1, 1))))
        given = backward_conditionals(chain.eliminate(at), chain.given(1))
        bridge = bridges(chain.prior, 0.5 * scale, 0.5 * scale, one)
        reach = reach_through(at.E, given, jnp.arange(N - 1), bridge, o)
        variance = jnp.einsum("tbk,tkl,tbl->t", reach.later, given.cov[1:], reach.later)
        variance += jnp.sum(reach.own**2, axis=(1, 2)) + bridge.cov[:, o, o]
        return chain.factors[o] ** 2 * variance

    return np.asarray(variances.lower().compile()())


def local_scale(chain: Chain, squares: Float[Array, " n-1"]) -> Float[Array, " n-1"]:
    """Standard deviations of the noise from estimates of its variance, one a step."""
    effect = jnp.diff(chain.nodes) ** (2 * chain.prior.q)
    steps = jnp.arange(effect.size)
    window = jnp.maximum(1.0 - jnp.abs(steps[:, None] - steps) / WINDOW, 0.0)
    smooth = window @ (squares * effect) / jnp.sum(window, axis=1)
    return jnp.sqrt(jnp.maximum(smooth, FLOOR * jnp.max(smooth)) / effect)
