"""Hyperparameters: the scale of V and the length scale of the kernel (Sec. 3.4, supplement C)."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from probgeo import solve_bvp, solve_ivp, solvers
from probgeo.ode.dense.evidence import log_density_terms, newton, objective
from probgeo.ode.dense.gram import Observations, SplitCovariance
from probgeo.ode.kernels import IntegratedWiener, Matern, SquaredExponential

NODES = jnp.linspace(0.05, 0.95, 6)
ENDS = ((0.0, 0), (1.0, 0))
V = jnp.array([[1.0, 0.3], [0.3, 0.5]])


def forcing(t, y, dy):
    """Does not depend on y: the evaluations are the same for every length scale."""
    return jnp.stack([jnp.sin(6.0 * t), 1.0 + jnp.cos(4.0 * t)])


def weak_pendulum(t, y, dy):
    return -jnp.sin(y)


def observations(kronecker):
    rng = np.random.default_rng(0)
    b = 1 if kronecker else 2
    maps = np.zeros((6, b, 3, b))
    maps[:, :, 2, :] = np.eye(b)
    if not kronecker:
        maps[:, :, :2, :] = rng.normal(size=(6, b, 2, b))
    noise = np.broadcast_to(1e-3 * np.eye(b), (6, b, b))
    values = rng.normal(size=(6, 2))
    return Observations(*map(jnp.asarray, (values, maps, noise)))


@pytest.mark.parametrize(
    ("kernel", "kronecker", "scale2"),
    [
        (SquaredExponential(0.4), True, None),
        (SquaredExponential(0.4), False, 2.0),
        (Matern(3.5, 0.5), False, None),
    ],
)
def test_objective_has_the_right_derivatives(kernel, kronecker, scale2):
    seen = observations(kronecker)
    split = SplitCovariance.of(V, kronecker)
    surprise = seen.values.reshape(6 * split.rows.shape[0], -1)

    def at(x):
        trial = kernel.with_lengthscale(jnp.exp(x))
        return objective(trial, ENDS, NODES, split, seen, surprise, scale2)

    x = jnp.log(kernel.lengthscale)
    _, slope, curvature = at(x)
    np.testing.assert_allclose(slope, jax.grad(lambda x: at(x)[0])(x), rtol=1e-7)
    np.testing.assert_allclose(curvature, jax.grad(lambda x: at(x)[1])(x), rtol=1e-6)


def test_density_terms_against_numpy():
    rng = np.random.default_rng(1)
    roots = rng.normal(size=(3, 5, 5))
    G, dG, ddG = (a @ a.T + 5 * np.eye(5) for a in roots)
    r = rng.normal(size=(5, 2))

    def along(h):
        shifted = G + h * dG + h**2 / 2 * ddG
        return np.sum(r * np.linalg.solve(shifted, r)), np.linalg.slogdet(shifted)[1]

    h = 1e-3
    low, mid, high = (np.array(along(s)) for s in (-h, 0.0, h))
    quadratic, log_determinant = log_density_terms(*map(jnp.asarray, (G, dG, ddG, r)))
    for got, index in ((quadratic, 0), (log_determinant, 1)):
        np.testing.assert_allclose(got[0], mid[index], rtol=1e-12)
        np.testing.assert_allclose(got[1], (high - low)[index] / (2 * h), rtol=1e-5)
        np.testing.assert_allclose(got[2], (high - 2 * mid + low)[index] / h**2, rtol=1e-4)


@pytest.mark.parametrize(("error_model", "choice"), [("none", "evidence"), ("jacobian", "given")])
def test_lengthscale_agrees_with_a_grid_search(error_model, choice):
    options = {
        "n_points": 8,
        "error_model": error_model,
        "V": V if choice == "given" else "evidence",
    }
    ends = np.array([0.0, 0.0]), np.array([1.0, 0.5])

    def solve(**more):
        return solve_bvp(forcing, (0.0, 1.0), *ends, solver=solvers.Dense(**options, **more))

    scales = np.exp(np.linspace(np.log(0.1), np.log(1.5), 60))
    by_grid = [float(solve(kernel=SquaredExponential(s)).log_evidence) for s in scales]
    found = solve(fit_lengthscale=True)
    best = scales[int(np.argmax(by_grid))]
    step = np.log(scales[1] / scales[0])
    assert abs(np.log(found.posterior.kernel.kernel.lengthscale / best)) <= step
    assert found.log_evidence >= max(by_grid) - 1e-9


def test_newton_is_safeguarded():
    """A function with a maximum between the start and the minimum, and steep walls."""

    def value(x):
        return jnp.cos(3 * x) + 0.1 * x**2

    def function(x):
        return value(x), jax.grad(value)(x), jax.grad(jax.grad(value))(x)

    for start in (-0.1, 0.1, 0.9, 1.9):
        x = float(newton(function, jnp.array(start), (-2.0, 2.0)))
        slope = float(function(x)[1])
        assert abs(slope) < 1e-6 or abs(x) == 2.0
        assert function(x)[0] <= function(jnp.array(start))[0]
    # a minimum outside the bounds ends at the bound

    def line(x):
        return x, jnp.ones(()), jnp.zeros(())

    assert float(newton(line, jnp.array(0.5), (-1.0, 1.0))) == -1.0


def test_scale_of_highest_evidence():
    """log p(Y | s^2 S) is highest at the scale the solver reports."""
    S = np.asarray(V)
    fitted = solve_ivp(
        weak_pendulum, (0.0, 2.0), [1.0, 0.5], [0.0, 1.0], solver=solvers.Dense(S=S, n_points=10)
    )
    evidences = [
        float(
            solve_ivp(
                weak_pendulum, (0.0, 2.0), [1.0, 0.5], [0.0, 1.0],
                solver=solvers.Dense(V=factor * float(fitted.scale) ** 2 * S, n_points=10),
            ).log_evidence
        )
        for factor in (0.9, 1.0, 1.1)
    ]  # fmt: skip
    assert evidences[1] > max(evidences[0], evidences[2])
    np.testing.assert_allclose(evidences[1], fitted.log_evidence, rtol=1e-9)


def test_erratum_3_v_from_the_ends_has_the_units_of_the_data():
    """V = [(a-b)' S^-1 (a-b)] S, or with dy0 for a - b."""
    S = np.asarray(V)
    a, b = np.array([0.2, 0.1]), np.array([1.0, -0.4])
    curve = solve_bvp(forcing, (0.0, 1.0), a, b, solver=solvers.Dense(V="ends", S=S))
    np.testing.assert_allclose(curve.scale**2, (a - b) @ np.linalg.solve(S, a - b), rtol=1e-10)
    ivp = solve_ivp(weak_pendulum, (0.0, 2.0), a, b, solver=solvers.Dense(V="ends", S=S))
    np.testing.assert_allclose(
        ivp.scale**2, (2 * b) @ np.linalg.solve(S, 2 * b), rtol=1e-10
    )  # the slope per unit interval


def test_v_from_the_ends_falls_back_to_evidence_where_the_ends_meet():
    same = solve_bvp(forcing, (0.0, 1.0), [0.0, 0.0], [0.0, 0.0], solver=solvers.Dense(V="ends"))
    fitted = solve_bvp(forcing, (0.0, 1.0), [0.0, 0.0], [0.0, 0.0], solver=solvers.Dense())
    np.testing.assert_allclose(same.scale, fitted.scale, rtol=1e-12)
    assert same.scale > 0


def test_a_straight_solution_is_certain():
    ends = [0.0, 1.0], [1.0, 1.0]
    curve = solve_bvp(lambda t, y, dy: 0.0 * y, (0.0, 1.0), *ends, solver=solvers.Dense())
    assert curve.converged
    np.testing.assert_array_equal(curve.std([0.0, 0.5, 1.0]), 0.0)
    assert np.isfinite(curve.log_evidence)


def test_only_kernels_with_a_lengthscale_can_be_fitted():
    with pytest.raises(ValueError, match="IntegratedWiener has no length scale"):
        solvers.Dense(IntegratedWiener(3), fit_lengthscale=True)
    assert eqx.is_array(SquaredExponential(0.3).lengthscale)
