"""Square-root linear algebra: orthogonal elimination of small stacked systems."""

import jax.numpy as jnp
from jax.scipy.linalg import solve_triangular
from jaxtyping import Array, Float


def eliminate(
    rows: Float[Array, "m n"], right: Float[Array, "m e"]
) -> tuple[Float[Array, "n n"], Float[Array, "n e"], Float[Array, " e"]]:
    """Rotate the least squares rows [A | b], m >= n, so that A becomes triangular.

    Returns the triangle, its right-hand side and the sum of squares of what remains of b: the
    minimum of the least squares problem. b is rotated by carrying it along as further columns,
    so that no orthogonal matrix is ever formed.
    """
    columns = rows.shape[1]
    stacked = jnp.concatenate([rows, right], axis=1)
    missing = max(0, stacked.shape[1] - stacked.shape[0])
    stacked = jnp.pad(stacked, ((0, missing), (0, 0)))
    R = jnp.linalg.qr(stacked, mode="r")
    return R[:columns, :columns], R[:columns, columns:], jnp.sum(R[columns:, columns:] ** 2, axis=0)


def solve_upper(R: Float[Array, "n n"], b: Float[Array, "n e"]) -> Float[Array, "n e"]:
    """R^-1 b for an upper triangle."""
    return solve_triangular(R, b)
