"""The geodesic equation of a metric, for tests, teaching and comparison."""

from typing import Any

import numpy as np

from probgeo._checks import is_traced
from probgeo.metrics.loops import solve_vectors
from probgeo.metrics.metric import array_module, as_metric, by_rows, jax_methods


def acceleration(metric: Any, x: Any, v: Any) -> Any:
    """c'' of the geodesic with c = x and c' = v, both (..., D).

    M c'' = 1/2 grad_x (v' M(x) v) - d/ds M(x + s v) v: Eq. 2, mended (erratum 1).

    Examples
    --------
    In the hyperbolic half plane, a geodesic that starts level turns down:

    >>> half_plane = lambda x: np.eye(2) / x[1] ** 2
    >>> acceleration(half_plane, [0.0, 1.0], [1.0, 0.0]).tolist()
    [0.0, -1.0]
    """
    return as_metric(metric).acceleration(x, v)


def printed_acceleration(metric: Any, x: Any, v: Any) -> Any:
    """What Eq. 2 prints, -1/2 M^-1 grad_x (v' M(x) v): right for D = 1 only. For comparison.

    Examples
    --------
    In the half plane it turns the wrong way:

    >>> half_plane = lambda x: np.eye(2) / x[1] ** 2
    >>> float(printed_acceleration(half_plane, [0.0, 1.0], [1.0, 0.0])[1])
    1.0
    """
    made = as_metric(metric)

    def of_rows(x: np.ndarray, v: np.ndarray) -> np.ndarray:
        terms = made.energy_terms(x, v)
        return solve_vectors(terms.vv, -terms.by_x)

    return by_rows(of_rows, lambda x, v: jax_methods().acceleration(made, x, v, printed=True), x, v)


def christoffel(metric: Any, x: Any) -> Any:
    """Christoffel symbols Gamma[k, i, j] at x (D,), with c''_k = -Gamma[k, i, j] c'_i c'_j.

    D^3 numbers: for tests and teaching. The solvers use `acceleration`.

    Examples
    --------
    >>> half_plane = lambda x: np.eye(2) / x[1] ** 2
    >>> christoffel(half_plane, [0.0, 2.0])[1].tolist()
    [[0.5, 0.0], [0.0, -0.5]]
    """
    made, xp = as_metric(metric), array_module(x)
    if is_traced(x):
        slopes, M = jax_methods().jax.jacfwd(made)(x), made(x)  # dM_ij / dx_k
    else:
        point = np.array(x, dtype=np.float64)[None]
        D = point.shape[1]
        # M e_j is the gradient of the energy by v = e_j: xv[j, k, i] = d (M e_j)_i / d x_k
        slopes = made.energy_terms(np.repeat(point, D, axis=0), np.eye(D)).xv.transpose(2, 0, 1)
        M = made.tensors_at(point)[0]
    lowered = 0.5 * (xp.moveaxis(slopes, 2, 1) + slopes - xp.moveaxis(slopes, 2, 0))
    return xp.einsum("kl,lij->kij", xp.linalg.inv(M), lowered) + 0.0
