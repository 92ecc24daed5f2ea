"""How strong the noise of the prior is, step by step, from what the fit has not seen.

The defect c^(o) - f(c, ...) of the mean half-way between two nodes is compared with the variance
that the posterior has for it there. A single defect says little, so neighbours are averaged: not
their noise itself, which varies by orders of magnitude along a graded mesh, but what it does to
the curve over one step, kappa^2 h^(2q).
"""

import math
from functools import lru_cache

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from scipy.linalg import pascal, solve_triangular

from probgeo._old.ode.markov.chain import Chain
from probgeo._old.ode.markov.exact import wiener_bridge, wiener_whitening
from probgeo._old.ode.markov.posterior import across, bridges
from probgeo._old.ode.markov.regression import Regression
from probgeo._old.ode.problem import mean_basis

WINDOW = 8  # steps over which a triangular window reaches, each way
LARGEST_TABLE = 32  # nodes after which the ends of a mesh do not feel each other
FLOOR = 0.1  # least effect of a step, as a fraction of the largest along the curve


def held_out_defects(model: Regression, x: Float[Array, "n s d"]) -> Float[Array, "n-1 d"]:
    """Defects of the ODE half-way between the nodes."""
    nodes, problem, o = model.chain.nodes, model.problem, model.problem.order
    middle = 0.5 * (nodes[1:] + nodes[:-1])
    half = 0.5 * jnp.diff(nodes)
    bridge = bridges(model.chain.prior, half, half, model.chain.unit, tuple(range(o + 1)))
    line = [mean_basis(problem.conditions, d, middle) @ problem.values for d in range(o + 1)]
    between = model.chain.factors[: o + 1, None] * across(x, jnp.arange(half.size), bridge)
    states = jnp.stack(line, axis=1) + between
    return states[:, o] - jax.vmap(lambda t, y: problem.f(t, *y[:-1]))(middle, states)


def expected_squares(chain: Chain) -> Float[Array, " n-1"]:
    """Variance of c^(o) half-way between nodes, given c^(o) at the nodes, for noise of scale 1.

    Taken from equal steps and carried over to the mesh by its local step: c^(o) is q - o times
    integrated. What f makes of c and its lower derivatives is smaller by a power of h.
    """
    N, q, o = chain.nodes.size, chain.prior.q, chain.order
    few = min(N, LARGEST_TABLE)
    table = on_equal_steps(q, o, chain.pinned_first, chain.pinned_last, few)
    # far from the ends nothing depends on their distance
    half = few // 2
    table = np.concatenate([table[:half], np.full(N - few, table[half - 1]), table[half:]])
    return chain.prior.intensity * table * jnp.diff(chain.nodes) ** (2 * (q - o) + 1)


@lru_cache
def on_equal_steps(
    q: int, o: int, pinned_first: tuple[int, ...], pinned_last: bool, N: int
) -> np.ndarray:
    """The same for a q-times integrated Wiener process on N nodes with steps of length 1.

    By plain least squares for all states at once: NumPy, because nothing is worth compiling here.
    """
    s, step = q + 1, np.arange(N - 1)
    rows = np.zeros((N - 1, s, N, s))
    rows[step, :, step] = -math.factorial(q) * wiener_whitening(q) @ pascal(s, kind="upper")
    rows[step, :, step + 1] = math.factorial(q) * wiener_whitening(q)
    free = np.ones((N, s), dtype=bool)
    free[:, o] = False  # the ODE gives it
    free[0, list(pinned_first)] = False
    free[-1, 0] = not pinned_last
    triangle = np.linalg.qr(rows.reshape(-1, N * s)[:, free.ravel()], mode="r")
    left, right, between = (
        np.tensordot(0.5 ** np.arange(len(t)), t, 1)[o] for t in wiener_bridge(q)
    )
    middle = np.zeros((N - 1, N, s))
    middle[step, step], middle[step, step + 1] = left, right
    middle = middle.reshape(N - 1, -1)[:, free.ravel()]
    spread = solve_triangular(triangle, middle.T, trans=1)
    variance = np.sum(spread**2, axis=0) + between[o] / math.factorial(q) ** 2
    return math.factorial(o) ** 2 * variance


def local_scale(chain: Chain, squares: Float[Array, " n-1"]) -> Float[Array, " n-1"]:
    """Standard deviations of the noise from estimates of its variance, one a step."""
    effect = jnp.diff(chain.nodes) ** (2 * chain.prior.q)
    steps = np.arange(effect.size)
    window = np.maximum(1.0 - np.abs(steps[:, None] - steps) / WINDOW, 0.0)
    window /= np.sum(window, axis=1, keepdims=True)
    smooth = window @ (squares * effect)
    return jnp.sqrt(jnp.maximum(smooth, FLOOR * jnp.max(smooth)) / effect)
