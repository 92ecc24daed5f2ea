"""A plain classical solver of boundary value problems: Chebyshev nodes and a fixed point.

The unknown is the acceleration at the nodes, a. Two fixed matrices integrate it to the velocity and
the position, the equation turns these into an acceleration again, and a = F(a) is iterated with
Anderson's acceleration. There are no Jacobians and no error bars. All of it is batched and
compiled. A member is solved if the equation also holds between the nodes; if not, it tries again
with twice as many.
"""

from __future__ import annotations

from functools import lru_cache, partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from numpy.polynomial import chebyshev

SIZES = (8, 16, 32, 64, 128, 256)  # nodes
MEMORY = 6  # of Anderson's acceleration
ITERATIONS = 100


class Solution(NamedTuple):
    """Who is solved and on how many nodes, (P,), and the accelerations there, (n, D) a member."""

    ya: np.ndarray
    yb: np.ndarray
    t_span: tuple[float, float]
    accelerations: list[np.ndarray]
    converged: np.ndarray
    nodes: np.ndarray

    def position(self, t: np.ndarray) -> np.ndarray:
        """(P, T, D)"""
        t = np.asarray(t)
        s = (t - self.t_span[0]) / (self.t_span[1] - self.t_span[0])
        bends = [maps(len(a), 2 * s - 1, self.t_span).position @ a for a in self.accelerations]
        return self.ya[:, None] + (self.yb - self.ya)[:, None] * s[:, None] + np.array(bends)


class Maps(NamedTuple):
    """What n accelerations make of a curve at T times; matrices (T, n)."""

    t: np.ndarray  # (T,)
    acceleration: np.ndarray  # interpolates
    velocity: np.ndarray  # of the curve that vanishes at both ends
    position: np.ndarray


def maps(n: int, s: np.ndarray, t_span: tuple[float, float]) -> Maps:
    """The maps from n Chebyshev points to points s of [-1, 1], which stands for t_span."""
    half = (t_span[1] - t_span[0]) / 2
    unit = np.linalg.inv(chebyshev.chebvander(chebyshev.chebpts2(n), n - 1))
    position = chebyshev.chebint(unit, 2)  # coefficients, one column a node
    left, right = chebyshev.chebval(np.array([-1.0, 1.0]), position).T
    position[0] -= (left + right) / 2
    position[1] -= (right - left) / 2
    values = [chebyshev.chebval(s, c).T for c in (unit, chebyshev.chebder(position), position)]
    scales = (1.0, half, half**2)
    matrices = [scale * value for scale, value in zip(scales, values, strict=True)]
    return Maps(t_span[0] + half * (s + 1), *matrices)


@lru_cache
def grids(n: int, t_span: tuple[float, float]) -> tuple[Maps, Maps]:
    """At the nodes, and half-way between them."""
    s = chebyshev.chebpts2(n)
    return maps(n, s, t_span), maps(n, (s[1:] + s[:-1]) / 2, t_span)


def solve(f, t_span, ya, yb, args, tol, sizes=SIZES) -> Solution:
    """Solve y'' = f(t, y, dy, args) for boundary values (P, D), starting from straight lines."""
    ya, yb = np.asarray(ya, float), np.asarray(yb, float)
    P, D = ya.shape
    found, good, used = [np.empty(0)] * P, np.zeros(P, bool), np.full(P, sizes[-1])
    left, a = np.arange(P), np.zeros((P, sizes[0], D))
    for n, larger in zip(sizes, (*sizes[1:], None), strict=True):
        # as many as a power of two, so that few sizes of batch are compiled
        rows = np.arange(min(P, 1 << (len(left) - 1).bit_length())) % len(left)
        members = jax.tree.map(lambda x, i=left[rows]: jnp.asarray(x)[i], (ya, yb, args))
        out = _solve(f, grids(n, t_span), jnp.asarray(a[rows]), tol, *members)
        a, ok = (np.asarray(x)[: len(left)] for x in out)
        good[left], used[left] = ok, n
        for i, row in zip(left, a, strict=True):
            found[i] = row
        left, a = left[~ok], np.nan_to_num(a[~ok])
        if not left.size or larger is None:
            break
        finer = maps(n, chebyshev.chebpts2(larger), t_span).acceleration
        a = np.einsum("mn,pnd->pmd", finer, a)
    return Solution(ya, yb, t_span, found, good, used)


@partial(jax.jit, static_argnums=0)
def _solve(f, grids, start, tol, ya, yb, args):
    def member(start, ya, yb, args):
        t0, t1 = grids[0].t[0], grids[0].t[-1]
        slope = (yb - ya) / (t1 - t0)
        at_nodes, between = grids

        def force(grid, a):
            position = ya + slope * (grid.t - t0)[:, None] + grid.position @ a
            velocity = slope + grid.velocity @ a
            return jax.vmap(f, (0, 0, 0, None))(grid.t, position, velocity, args)

        def residual(grid, a):
            """How far the curve is from the equation, relative to the largest acceleration."""
            F = force(grid, a)
            size = jnp.abs(F).max() + jnp.abs(slope).max() / (t1 - t0)
            return jnp.abs(F - grid.acceleration @ a).max() / size

        a = _anderson(partial(force, at_nodes), start, lambda a: residual(at_nodes, a) > 0.1 * tol)
        solved = (residual(at_nodes, a) <= tol) & (residual(between, a) <= tol)
        return a, solved

    return jax.vmap(member)(start, ya, yb, args)


def _anderson(F, start, unfinished):
    """Iterate a = F(a); the last changes of a and of the residual tell how to extrapolate."""
    shape, size = start.shape, start.size

    def step(state):
        k, a, _, last_a, last_r, changes_a, changes_r = state
        r = F(a.reshape(shape)).reshape(size) - a
        slot = k % MEMORY
        new = k > 0
        changes_a = changes_a.at[slot].set(jnp.where(new, a - last_a, 0.0))
        changes_r = changes_r.at[slot].set(jnp.where(new, r - last_r, 0.0))
        gram = changes_r @ changes_r.T
        ridge = (1e-14 * jnp.trace(gram) + 1e-300) * jnp.eye(MEMORY)
        weights = jnp.linalg.solve(gram + ridge, changes_r @ r)
        following = a + r - weights @ (changes_a + changes_r)
        go_on = unfinished(following.reshape(shape)) & jnp.isfinite(following).all()
        return k + 1, following, go_on, a, r, changes_a, changes_r

    flat = start.reshape(size)
    empty = jnp.zeros((MEMORY, size))
    state = (0, flat, True, flat, flat, empty, empty)
    state = jax.lax.while_loop(lambda s: s[2] & (s[0] < ITERATIONS), step, state)
    return state[1].reshape(shape)
