"""Hyperparameters: the scale of V and the length scale of the kernel (Sec. 3.4, supplement C)."""

import jax.numpy as jnp
import numpy as np
import pytest

from probgeo import solve_bvp, solve_ivp, solvers
from probgeo.ode.dense.evidence import evidence, log_density_terms, newton_raphson, objective
from probgeo.ode.dense.gram import Observations, Regression, SplitCovariance
from probgeo.ode.kernels import IntegratedWiener, Matern, Pinned, SquaredExponential

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


@pytest.mark.parametrize(
    ("kernel", "kronecker", "scale2"),
    [(SquaredExponential(0.4), True, None), (SquaredExponential(0.4), False, 2.0), (Matern(3.5, 0.5), False, None)],
)
def test_objective_has_the_right_derivatives(kernel, kronecker, scale2):
    seen = observations(kronecker)
    split = SplitCovariance.of(V, kronecker)
    surprise = seen.values.reshape(2, 6 * len(split.rows), -1)

    def at(x):
        trial = kernel.with_lengthscale(kernel.lengthscale * np.exp([[[x]], [[x + 0.1]]]))
        return objective(trial, ENDS, NODES, split, seen, surprise, scale2)

    h = 1e-5
    (low, low_slope, _), (_, slope, curvature), (high, high_slope, _) = (at(x) for x in (-h, 0, h))
    np.testing.assert_allclose((high - low) / (2 * h), slope, rtol=1e-6)
    np.testing.assert_allclose((high_slope - low_slope) / (2 * h), curvature, rtol=1e-5)


@pytest.mark.parametrize("kronecker", [True, False])
def test_objective_is_the_evidence_up_to_a_constant(kronecker):
    """Two length scales compared by Eq. 18, once with joint and once with pinned Gram matrices."""
    seen, split = observations(kronecker), SplitCovariance.of(V, kronecker)
    surprise = seen.values.reshape(2, 6 * len(split.rows), -1)
    by_objective, by_evidence = [], []
    for scale in (0.3, 0.6):
        kernel = Matern(4.5, scale)
        by_objective.append(objective(kernel, ENDS, NODES, split, seen, surprise, 1.0)[0])
        K = Pinned(kernel, ENDS).matrix((0, 1, 2), NODES, (0, 1, 2), NODES)[None]
        prior_mean = np.zeros((2, 6, 3, 2))
        L = Regression(None, NODES, K, split, prior_mean, 0.0).factor(seen)
        by_evidence.append(-2 * evidence(L, surprise, split).log(np.ones(2)))
    np.testing.assert_allclose(np.diff(by_objective, axis=0), np.diff(by_evidence, axis=0), rtol=1e-9)


def test_density_terms_against_numpy():
    rng = np.random.default_rng(1)
    roots = rng.normal(size=(3, 4, 5, 5))
    G, dG, ddG = (a @ a.swapaxes(-1, -2) + 5 * np.eye(5) for a in roots)
    r = rng.normal(size=(4, 5, 2))

    def along(h):
        shifted = G + h * dG + h**2 / 2 * ddG
        return np.sum(r * np.linalg.solve(shifted, r), (1, 2)), np.linalg.slogdet(shifted)[1]

    h = 1e-4
    low, mid, high = (np.array(along(s)) for s in (-h, 0.0, h))
    quadratic, log_determinant = log_density_terms(G, dG, ddG, r)
    for got, index in ((quadratic, 0), (log_determinant, 1)):
        np.testing.assert_allclose(got[0], mid[index], rtol=1e-12)
        np.testing.assert_allclose(got[1], (high - low)[index] / (2 * h), rtol=1e-5)
        np.testing.assert_allclose(got[2], (high - 2 * mid + low)[index] / h**2, rtol=1e-4)


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


def test_newton_is_safeguarded():
    """Functions with a maximum between the start and the minimum, and steep walls."""

    def function(x, members):
        value = np.cos(3 * x) + 0.1 * x**2
        return value, -3 * np.sin(3 * x) + 0.2 * x, -9 * np.cos(3 * x) + 0.2

    starts = np.array([-0.1, 0.1, 0.9, 1.9])
    x = newton_raphson(function, starts, (-2.0, 2.0))
    value, slope, _ = function(x, None)
    assert ((np.abs(slope) < 1e-6) | (np.abs(x) == 2.0)).all()
    assert (value <= function(starts, None)[0]).all()
    # each as if alone
    alone = [newton_raphson(function, starts[k : k + 1], (-2.0, 2.0))[0] for k in range(4)]
    np.testing.assert_array_equal(x, alone)
    # a minimum outside the bounds ends at the bound

    def line(x, members):
        return x, np.ones_like(x), np.zeros_like(x)

    assert newton_raphson(line, np.array([0.5]), (-1.0, 1.0))[0] == -1.0


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
