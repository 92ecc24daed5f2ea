"""Solves with positive definite matrices, and their derivatives."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from probgeo.geometry.linalg import WRITTEN_OUT, solve_spd
from tests.geometry.reference import random_tensors


@pytest.mark.parametrize("dimension", [1, 3, WRITTEN_OUT, WRITTEN_OUT + 1])
def test_solution_and_derivatives_agree_with_the_inverse(dimension):
    rng = np.random.default_rng(dimension)
    M, dM = jnp.asarray(random_tensors(rng, 2, dimension))
    b, db = jnp.asarray(rng.normal(size=(2, dimension)))

    @jax.jit
    def solution(t):
        def matvec(u):
            return (M + t * dM) @ u

        return solve_spd(matvec, M + t * dM, b + t * db)

    value, slope = jax.jvp(solution, (0.0,), (1.0,))
    expected = np.linalg.solve(M, b)
    np.testing.assert_allclose(value, expected, rtol=1e-10)
    np.testing.assert_allclose(slope, np.linalg.solve(M, db - dM @ expected), rtol=1e-10)
    backward = jax.grad(lambda t: jnp.sum(solution(t)))(0.0)
    np.testing.assert_allclose(backward, np.sum(slope), rtol=1e-10)


@pytest.mark.parametrize("dimension", [2, WRITTEN_OUT + 1])
def test_an_indefinite_matrix_gives_nan_not_numbers(dimension):
    M = jnp.diag(jnp.arange(float(dimension)) - 0.5)
    assert np.isnan(solve_spd(lambda u: M @ u, M, jnp.ones(dimension))).any()
