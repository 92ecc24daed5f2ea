"""Square-root linear algebra: orthogonal elimination of small stacked systems.

Matrices here are a handful of rows and columns, but there is one a node and a problem. Up to a
certain size the reflections are written out, so that a batch of them runs as one vectorised loop;
beyond it LAPACK is called once a matrix.
"""

import jax.numpy as jnp
from jax.scipy.linalg import solve_triangular
from jaxtyping import Array, Float

UNROLLED = 20  # columns up to which writing the loop out is faster


def eliminate(
    rows: Float[Array, "m n"], right: Float[Array, "m e"], columns: int
) -> tuple[Float[Array, "n n"], Float[Array, "n e"], Float[Array, "m-n e"]]:
    """Rotate the least-squares rows [A | b] so that the first `columns` of A are triangular.

    Returns the triangle, its right-hand side and what remains of b: the residual of the least
    squares problem, whose squares add up to its minimum. Needs m >= columns = n.
    """
    stacked = jnp.concatenate([rows, right], axis=1)
    if columns <= UNROLLED:
        stacked = _householder(stacked, columns)
    else:
        q, r = jnp.linalg.qr(rows, mode="complete")
        stacked = jnp.concatenate([jnp.triu(r), q.T @ right], axis=1)
    triangle, rotated = stacked[:, :columns], stacked[:, columns:]
    return triangle[:columns], rotated[:columns], rotated[columns:]


def _householder(a: Float[Array, "m n"], columns: int) -> Float[Array, "m n"]:
    """Reflect `columns` columns to upper triangular form, the rest along with them."""
    done = []
    width = a.shape[1]
    for j in range(columns):
        x = a[:, 0]
        norm2 = jnp.sum(x**2)
        safe = jnp.where(norm2 > 0, norm2, 1.0)
        alpha = -jnp.where(x[0] < 0, -1.0, 1.0) * jnp.sqrt(safe)
        v = x.at[0].add(-alpha)
        # I - 2 v v' / (v' v), with v' v = 2 (norm^2 - alpha x_0)
        scale = jnp.where(norm2 > 0, 1.0 / (safe - alpha * x[0]), 0.0)
        a = a - v[:, None] * (scale * (v @ a))[None, :]
        done.append(jnp.concatenate([jnp.zeros(j), a[0]]))
        a = a[1:, 1:]
    rest = jnp.concatenate([jnp.zeros((a.shape[0], width - a.shape[1])), a], axis=1)
    return jnp.concatenate([jnp.stack(done), rest])


def solve_upper(R: Float[Array, "n n"], b: Float[Array, "n e"]) -> Float[Array, "n e"]:
    """R^-1 b for an upper triangle."""
    n = R.shape[0]
    if n > UNROLLED:
        return solve_triangular(R, b)
    solved: list[Array] = []
    for i in reversed(range(n)):
        known = sum((R[i, i + 1 + k] * x for k, x in enumerate(reversed(solved))), jnp.zeros(()))
        solved.append((b[i] - known) / R[i, i])
    return jnp.stack(solved[::-1])
