"""The evidence of the evaluations, and the length scale that maximises it (Sec. 3.4, supplement C).

Boundary values are data of the user's, not something to be explained: the evidence is
p(Y | a, b, lambda) = p(Y, a, b | lambda) / p(a, b | lambda). Eq. 18 is the numerator.
"""

import math
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax.scipy.linalg import cho_solve, solve_triangular
from jaxtyping import Array, Float

from probgeo._old.ode.dense.gram import Observations, SplitCovariance
from probgeo._old.ode.kernels import Stationary
from probgeo._old.ode.problem import Conditions

SMALLEST, LARGEST = 0.02, 2.0  # length scales, as fractions of the interval
TINY = 1e-300


class Evidence(NamedTuple):
    """Parts of -2 log p(Y | a, b) = quadratic / s^2 + size log(2 pi s^2) + log_determinant.

    s is the scale of V.
    """

    quadratic: Float[Array, ""]
    log_determinant: Float[Array, ""]
    size: int

    def best_scale2(self) -> Float[Array, ""]:
        """The square of the scale of V with the highest evidence."""
        return self.quadratic / self.size

    def log(self, scale2: Array) -> Float[Array, ""]:
        scale2 = jnp.maximum(scale2, TINY)
        spread = self.size * jnp.log(2.0 * jnp.pi * scale2)
        return -0.5 * (self.quadratic / scale2 + spread + self.log_determinant)


def evidence(L: Array, surprise: Float[Array, "nb e"], V: SplitCovariance) -> Evidence:
    """The evidence for unit scale, from the Cholesky factor of the (pinned) Gram matrix."""
    rows, columns = surprise.shape
    root = jnp.linalg.cholesky(V.columns)
    z = solve_triangular(L, whiten(surprise, root), lower=True)
    halves = columns * jnp.sum(jnp.log(jnp.diag(L))) + rows * jnp.sum(jnp.log(jnp.diag(root)))
    return Evidence(jnp.sum(z**2), 2.0 * halves, rows * columns)


def whiten(surprise: Array, root: Float[Array, "e e"]) -> Array:
    """Make the columns independent, given a Cholesky factor of their covariance."""
    return solve_triangular(root, surprise.T, lower=True).T


def log_density_terms(
    G: Array, dG: Array, ddG: Array, r: Float[Array, "n e"]
) -> tuple[tuple[Array, Array, Array], tuple[Array, Array, Array]]:
    """r' G^-1 r and log|G|, each with its first and second derivative (supplement C)."""
    factor = (jnp.linalg.cholesky(G), True)
    a = cho_solve(factor, r)
    b = dG @ a
    solved, solved2 = cho_solve(factor, dG), cho_solve(factor, ddG)
    quadratic = (
        jnp.sum(r * a),
        -jnp.sum(a * b),
        2.0 * jnp.sum(b * cho_solve(factor, b)) - jnp.sum(a * (ddG @ a)),
    )
    log_determinant = (
        2.0 * jnp.sum(jnp.log(jnp.diagonal(factor[0]))),
        jnp.trace(solved),
        jnp.trace(solved2) - jnp.sum(solved * solved.T),
    )
    return quadratic, log_determinant


def joint_gram(
    entry: Callable[[int, int, Array, Array], Array],
    conditions: Conditions,
    nodes: Float[Array, " n"],
    V: Float[Array, "b b"],
    maps: Float[Array, "n b m b"],
) -> Float[Array, "p p"]:
    """Covariance of boundary values and observations, built from `entry(i, j, s, t)`."""
    N, B, m, _ = maps.shape
    C = len(conditions)
    times = jnp.concatenate([jnp.array([t for t, _ in conditions]), nodes])
    # every time carries all orders; a boundary value picks one of them
    full = jnp.stack(
        [
            jnp.stack([entry(i, j, times[:, None], times[None, :]) for j in range(m)], axis=-1)
            for i in range(m)
        ],
        axis=1,
    )
    picks = jnp.stack([jnp.zeros((B, m, B)).at[:, d, :].set(jnp.eye(B)) for _, d in conditions])
    H = jnp.concatenate([picks, maps])
    size = (C + N) * B
    return jnp.einsum("iamc,cd,imjp,jbpd->iajb", H, V, full, H).reshape(size, size)


def objective(
    kernel: Stationary,
    conditions: Conditions,
    nodes: Array,
    V: SplitCovariance,
    observations: Observations,
    surprise: Array,
    scale2: Array | None,
) -> tuple[Array, Array, Array]:
    """-2 log p(Y | a, b, lambda) up to a constant, with two derivatives by log lambda.

    With `scale2` None the scale of V is the best one for each lambda.
    """
    maps, B = observations.maps, observations.maps.shape[1]

    def first(i: int, j: int, s: Array, t: Array) -> Array:
        return kernel.lengthscale_derivatives(i, j, s, t)[0]

    def second(i: int, j: int, s: Array, t: Array) -> Array:
        return kernel.lengthscale_derivatives(i, j, s, t)[1]

    entries = (kernel.derivative, first, second)
    G, dG, ddG = (joint_gram(entry, conditions, nodes, V.rows, maps) for entry in entries)
    ends = len(conditions) * B
    noise = jnp.einsum("ij,iab->iajb", jnp.eye(len(nodes)), observations.noise)
    G = G.at[ends:, ends:].add(noise.reshape(len(G) - ends, -1))

    whitened = whiten(surprise, jnp.linalg.cholesky(V.columns))
    residual = jnp.concatenate([jnp.zeros((ends, whitened.shape[1])), whitened])
    (q, dq, ddq), joint = log_density_terms(G, dG, ddG, residual)
    _, boundary = log_density_terms(
        G[:ends, :ends], dG[:ends, :ends], ddG[:ends, :ends], jnp.zeros((ends, 1))
    )
    columns = surprise.shape[1]
    logdet, dlogdet, ddlogdet = (columns * (x - y) for x, y in zip(joint, boundary, strict=True))
    if scale2 is not None:
        return q / scale2 + logdet, dq / scale2 + dlogdet, ddq / scale2 + ddlogdet
    q = q + TINY
    count = surprise.size
    slope = dq / q
    return (
        count * jnp.log(q) + logdet,
        count * slope + dlogdet,
        count * (ddq / q - slope**2) + ddlogdet,
    )


def newton(
    function: Callable[[Array], tuple[Array, Array, Array]], x: Array, bounds: tuple[float, float]
) -> Array:
    """Minimise a scalar function given with two derivatives: safeguarded Newton-Raphson.

    Where the curvature is not positive the step goes downhill; a step that does not lower the
    function is halved.
    """
    largest_step, steps, precision = 0.7, 40, 1e-8

    def direction(slope: Array, curvature: Array) -> Array:
        step = jnp.where(curvature > 0, -slope / curvature, -jnp.sign(slope))
        return jnp.clip(jnp.nan_to_num(step), -largest_step, largest_step)

    def cond(carry: tuple) -> Array:
        _, _, step, count = carry
        return (jnp.abs(step) > precision) & (count < steps)

    def body(carry: tuple) -> tuple:
        x, value, step, count = carry
        candidate = jnp.clip(x + step, *bounds)
        new, slope, curvature = function(candidate)
        better = new < value  # false for NaN
        following = jnp.where(candidate == x, 0.0, direction(slope, curvature))
        return (
            jnp.where(better, candidate, x),
            jnp.where(better, new, value),
            jnp.where(better, following, 0.5 * (candidate - x)),
            count + 1,
        )

    value, slope, curvature = function(x)
    value = jnp.where(jnp.isnan(value), jnp.inf, value)
    return jax.lax.while_loop(cond, body, (x, value, direction(slope, curvature), 0))[0]


def best_lengthscale(
    kernel: Stationary,
    conditions: Conditions,
    nodes: Array,
    V: SplitCovariance,
    observations: Observations,
    surprise: Array,
    scale2: Array | None,
) -> Float[Array, ""]:
    """The length scale of highest evidence for given evaluations."""

    def at(log_lengthscale: Array) -> tuple[Array, Array, Array]:
        trial = kernel.with_lengthscale(jnp.exp(log_lengthscale))
        return objective(trial, conditions, nodes, V, observations, surprise, scale2)

    bounds = (math.log(SMALLEST), math.log(LARGEST))
    start = jnp.clip(jnp.log(kernel.lengthscale), *bounds)
    return jnp.exp(newton(at, start, bounds))
