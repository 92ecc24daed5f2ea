"""Hyperparameters: the scale of V and the length scale of the kernel (Sec. 3.4, supplement C)."""

import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import multivariate_normal

from probgeo import solve_bvp, solve_ivp, solvers
from probgeo.ode.dense.evidence import evidence, minimised
from probgeo.ode.dense.gram import Observations, PriorAtNodes, SplitCovariance, observed_covariance
from probgeo.ode.kernels import IntegratedWiener, Matern, SquaredExponential
from probgeo.ode.problem import Problem

NODES = np.linspace(0.05, 0.95, 6)
ENDS = ((0.0, 0), (1.0, 0))
V = np.array([[1.0, 0.3], [0.3, 0.5]])


def forcing(t, y, dy):
    """Does not depend on y: the evaluations are the same for every length scale."""
    return jnp.stack([jnp.sin(6.0 * t), 1.0 + jnp.cos(4.0 * t)])


def weak_pendulum(t, y, dy):
    return -jnp.sin(y)


def observations(kronecker):
    rng = np.random.default_rng(0)
    b = 1 if kronecker else 2
    maps = np.zeros((1, 6, b, 3, b))
    maps[..., 2, :] = np.eye(b)
    if not kronecker:
        maps[..., :2, :] = rng.normal(size=(6, b, 2, b))
    noise = np.tile(1e-3 * np.eye(b), (1, 6, 1, 1))
    values = rng.normal(size=(2, 6, 2))  # of two members
    return Observations(values, maps, noise)


@pytest.mark.parametrize("kronecker", [True, False])
def test_evidence_is_the_joint_density_over_that_of_the_ends(kronecker):
    """p(Y | a, b) = p(Y, a, b) / p(a, b), by Eq. 18 and the Gram matrix of a kernel that is not pinned."""
    seen, split, kernel = observations(kronecker), SplitCovariance.of(V, kronecker), Matern(4.5, 0.3)
    problem = Problem(None, 0.0, 1.0, 2, "boundary", np.zeros((2, 2, 2)), None, (2,))
    prior = PriorAtNodes.of(problem, np.arange(2), NODES, kernel, split, 0.0)
    found = evidence(prior.factor(seen), prior.surprise(seen), split).log(np.ones(2))

    B = len(split.rows)
    times = np.concatenate([[0.0, 1.0], NODES])
    ends = np.zeros((1, 2, B, 3, B))
    ends[:, :, :, 0] = np.eye(B)
    K = kernel.matrix((0, 1, 2), times, (0, 1, 2), times)[None]
    joint = observed_covariance(np.concatenate([ends, seen.maps], axis=1), split.rows, K)[0]
    joint[2 * B :, 2 * B :] += np.kron(np.eye(6), seen.noise[0, 0])
    joint, known = np.kron(joint, split.columns), slice(0, 4)
    for values, got in zip(seen.values, found, strict=True):
        whole = np.concatenate([np.zeros(4), values.ravel()])
        density = multivariate_normal(np.zeros(16), joint).logpdf(whole)
        density -= multivariate_normal(np.zeros(4), joint[known, known]).logpdf(whole[known])
        np.testing.assert_allclose(got, density, rtol=1e-9)


@pytest.mark.parametrize(("error_model", "choice"), [("none", "evidence"), ("jacobian", "given")])
def test_lengthscale_agrees_with_a_grid_search(error_model, choice):
    options = {"n_points": 8, "error_model": error_model, "V": V if choice == "given" else "evidence"}
    ends = np.array([0.0, 0.0]), np.array([1.0, 0.5])

    def solve(**more):
        return solve_bvp(forcing, (0.0, 1.0), *ends, solver=solvers.Dense(**options, **more))

    scales = np.exp(np.linspace(np.log(0.1), np.log(1.5), 60))
    by_grid = [float(solve(kernel=SquaredExponential(s)).log_evidence) for s in scales]
    found = solve(fit_lengthscale=True)
    best = scales[int(np.argmax(by_grid))]
    step = np.log(scales[1] / scales[0])
    assert abs(np.log(found.posterior.lengthscale[0] / best)) <= step
    assert found.log_evidence >= max(by_grid) - 1e-9


def test_a_length_scale_of_every_members_own_describes_a_smooth_solution():
    """Refined evaluations are smooth, so that no short length scale is ever called for.

    The recursion alone is rough without an error model, and rougher the shorter the scale is.
    """
    ends = np.linspace(0.1, 0.8, 6)[:, None]
    exact = solve_bvp(weak_pendulum, (0.0, 2.0), ends, [1.2], solver=solvers.Dense(
        SquaredExponential(0.4), 30, error_model="linearised", refinements=30, tolerance=1e-6
    ))  # fmt: skip
    for error_model in ("none", "linearised"):
        solver = solvers.Dense(error_model=error_model, fit_lengthscale=True)
        curve = solve_bvp(weak_pendulum, (0.0, 2.0), ends, [1.2], solver=solver)
        assert curve.posterior.lengthscale.shape == (6,)
        assert curve.posterior.lengthscale.min() > 0.3
        np.testing.assert_allclose(curve.mean(1.3), exact.mean(1.3), atol=2e-3)
        plain = solvers.Dense(error_model=error_model)
        fixed = solve_bvp(weak_pendulum, (0.0, 2.0), ends, [1.2], solver=plain)
        assert (curve.log_evidence > fixed.log_evidence).all()
        # members and their kernels stay together
        np.testing.assert_allclose(curve[4].mean(0.7), curve.mean(0.7)[4], atol=1e-13)
        np.testing.assert_allclose(curve[4].std(0.7), curve.std(0.7)[4], atol=1e-13)


def test_minima_of_every_members_own():
    """Functions with a maximum between the start and the minimum, and steep walls."""

    def function(x, members):
        return np.where(x > 2.2, np.nan, np.cos(3 * x) + 0.1 * x**2)

    starts = np.array([-0.1, 0.1, 0.9, 1.9])
    x = minimised(function, starts, (-2.0, 2.0))
    slope = -3 * np.sin(3 * x) + 0.2 * x
    assert ((np.abs(slope) < 1e-4) | (np.abs(x) == 2.0)).all()
    assert (function(x, None) <= function(starts, None)).all()
    # each as if alone
    alone = [minimised(function, starts[k : k + 1], (-2.0, 2.0))[0] for k in range(4)]
    np.testing.assert_array_equal(x, alone)
    # a minimum outside the bounds ends at the bound
    assert minimised(lambda x, members: x, np.array([0.5]), (-1.0, 1.0))[0] == -1.0


def test_scale_of_highest_evidence():
    """log p(Y | s^2 S) is highest at the scale the solver reports."""
    S = V
    fitted = solve_ivp(weak_pendulum, (0.0, 2.0), [1.0, 0.5], [0.0, 1.0], solver=solvers.Dense(S=S, n_points=10))
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
    S = V
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
    assert SquaredExponential(0.3).lengthscale == 0.3
