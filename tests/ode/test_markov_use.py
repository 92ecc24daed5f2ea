"""The Markov solver without Jacobians, inside JAX's transformations, and given bad input."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from probgeo import solve_bvp, solve_ivp, solvers
from probgeo.ode.problem import boundary_value_problem

A0 = np.array([[-2.0, 0.5], [0.3, -1.0]])
A1 = np.array([[0.1, -0.4], [0.2, 0.3]])
YA, YB = np.array([0.3, -0.2]), np.array([1.0, 0.8])
TIMES = np.array([0.13, 0.5, 0.77])


def linear_field(t, y, dy):
    return A0 @ y + A1 @ dy + jnp.cos(t)


def oscillator(t, y, dy):
    return -y


def three_springs(t, y, dy):
    return -jnp.array([1.0, 2.0, 3.0]) * jnp.sin(y) + 0.1 * jnp.roll(y, 1)


def test_zeroth_order_shares_one_covariance_and_agrees_with_first_order():
    ya, yb = np.array([0.1, -0.2, 0.3]), np.array([1.0, 0.5, -0.4])

    def solve(kind):
        # error bars are about the mesh: the iteration has to end well below them
        solver = solvers.Markov(linearisation=kind, n_points=16, tolerance=1e-11)
        return solve_bvp(three_springs, (0.0, 1.0), ya, yb, solver=solver)

    zeroth, first = solve("zeroth"), solve("first")
    assert zeroth.converged
    assert zeroth.posterior.E.shape[2] == 1  # one block for all dimensions
    cov = np.asarray(zeroth.cov(0.3, 0.6))
    np.testing.assert_allclose(cov, cov[0, 0] * np.eye(3), atol=1e-12 * cov[0, 0])
    spread = np.asarray(first.std(TIMES)) + np.asarray(zeroth.std(TIMES))
    assert np.all(np.abs(np.asarray(zeroth.mean(TIMES) - first.mean(TIMES))) < 2 * spread)


class Spring(eqx.Module):
    stiffness: jax.Array

    def __call__(self, t, y, dy):
        return -self.stiffness * jnp.sin(y)


class SpringWithJacobian(Spring):
    def jacobian(self, t, y, dy):
        by_y = jnp.diag(-self.stiffness * jnp.cos(y))
        return jnp.stack([by_y, jnp.zeros_like(by_y)], axis=1)


@pytest.mark.parametrize(
    "solver", [solvers.Markov(n_points=17), solvers.Dense(n_points=9, error_model="linearised")]
)
def test_jacobians_of_ones_own_are_used(solver):
    """On an interval of length two, so that units matter."""
    plain, own = (
        solve_bvp(kind(jnp.array(2.0)), (0.0, 2.0), jnp.zeros(2), jnp.ones(2), solver=solver)
        for kind in (Spring, SpringWithJacobian)
    )
    np.testing.assert_allclose(own.mean(TIMES), plain.mean(TIMES), rtol=1e-9)
    np.testing.assert_allclose(own.std(TIMES), plain.std(TIMES), rtol=1e-6, atol=1e-12)


def test_gradients_through_a_solve():
    """Reverse and forward mode against finite differences of tight solutions."""
    solver = solvers.Markov(n_points=33)

    def middle(stiffness, end):
        curve = solve_bvp(Spring(stiffness), (0.0, 1.0), jnp.zeros(1), end, solver=solver)
        return curve.mean(0.5)[0]

    k, end = jnp.array(3.0), jnp.array([1.0])
    by_k, by_end = jax.jit(jax.grad(middle, argnums=(0, 1)))(k, end)
    forward = jax.jacfwd(middle)(k, end)
    h = 1e-4
    tight = solvers.Markov(6, n_points=65)

    def value(k, e):
        return float(
            solve_bvp(Spring(jnp.array(k)), (0.0, 1.0), [0.0], [e], solver=tight).mean(0.5)[0]
        )

    np.testing.assert_allclose(by_k, (value(3 + h, 1) - value(3 - h, 1)) / (2 * h), rtol=1e-4)
    np.testing.assert_allclose(by_end[0], (value(3, 1 + h) - value(3, 1 - h)) / (2 * h), rtol=1e-4)
    np.testing.assert_allclose(forward, by_k, rtol=1e-6)


def test_a_solve_inside_jit_and_vmap():
    """With a plain function, which is not something that JAX can differentiate."""
    solver = solvers.Markov(n_points=33)

    def middle(end):
        return solve_bvp(linear_field, (0.0, 1.0), YA, end, solver=solver).mean(0.5)

    ends = jnp.stack([YB, 2.0 * YB])
    inside = jax.jit(jax.vmap(middle))(ends)
    outside = solve_bvp(linear_field, (0.0, 1.0), YA, ends, solver=solver).mean(0.5)
    # the two take different ways to the same posterior mean, up to the error of the mesh
    np.testing.assert_allclose(inside, outside, atol=1e-7)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: solvers.Markov(order=9), "order must be at most 8"),
        (lambda: solvers.Markov(order=1), "order must be a whole number >= 2"),
        (lambda: solvers.Markov(n_points=3), "n_points must be a whole number"),
        (lambda: solvers.Markov(rtol=0.0), "rtol and atol must not both be zero"),
        (lambda: solvers.Markov(calibration="guess"), "calibration must be one of"),
        (lambda: solvers.Markov(linearisation="second"), "linearisation must be one of"),
        (
            lambda: solve_ivp(
                oscillator,
                (0, 1),
                [0.0],
                [1.0],
                solver=solvers.Markov(prior=solvers.WienerPrior(1), n_points=9),
            ),
            "order must not be below that of the ODE",
        ),
    ],
)
def test_bad_input_is_named(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_an_attempt_says_how_far_it_is_from_the_tolerance():
    """Also on a mesh that is given: twice the largest numerical deviation between the nodes."""
    solver = solvers.Markov(n_points=12, rtol=1e-6)
    problem = boundary_value_problem(three_springs, (0.0, 1.0), np.zeros((2, 3)), np.ones((2, 3)))
    curve, excess = solver.attempt(problem)
    nodes = np.asarray(curve.nodes)[0]
    std = np.asarray(curve.std(0.5 * (nodes[1:] + nodes[:-1]), source="numerical"))
    size = np.linalg.norm(np.asarray(curve.mean(nodes)), axis=-1).max(axis=1)
    error = 2.0 * np.sqrt(np.sum(std**2, axis=-1)).max(axis=1)
    np.testing.assert_allclose(excess, error / (1e-6 * size), rtol=1e-6)
