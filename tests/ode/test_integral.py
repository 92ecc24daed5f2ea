"""The integral form: Newton's steps by elimination and by Krylov's iteration; fixed points."""

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from probgeo.ode.curve import OK
from probgeo.ode.markov.integral import (
    LARGEST_ELIMINATION,
    IntegralForm,
    block_tridiagonal,
    differences,
    integration,
    solve_by_fixed_points,
    solve_integral_form,
)
from probgeo.ode.markov.prior import WienerPrior
from probgeo.ode.markov.regression import regression
from probgeo.ode.problem import boundary_value_problem

N, D = 41, 5
NODES = jnp.linspace(0.0, 1.0, N)


def field(t, y, dy):
    return jnp.sin(3.0 * jnp.roll(y, 1)) - 0.5 * dy * y


def test_block_elimination():
    rng = np.random.default_rng(0)
    low, diagonal, up = rng.normal(size=(3, 6, 3, 3))
    diagonal = diagonal + 8.0 * np.eye(3)
    full = np.zeros((6, 3, 6, 3))
    for k in range(6):
        full[k, :, k] = diagonal[k]
        if k:
            full[k, :, k - 1] = low[k]
        if k < 5:
            full[k, :, k + 1] = up[k]
    r = rng.normal(size=(6, 3))
    found = block_tridiagonal(*map(jnp.asarray, (low, diagonal, up)))(jnp.asarray(r))
    expected = np.linalg.solve(full.reshape(18, 18), r.reshape(-1))
    np.testing.assert_allclose(found.reshape(-1), expected, rtol=1e-10)


def test_differences_are_of_second_order():
    """e'' = -4 e + r with r chosen so that e = sin(pi t)."""
    errors = []
    for n in (21, 41):
        t = jnp.linspace(0.0, 1.0, n)
        J = jnp.zeros((n, 1, 2, 1)).at[:, :, 0].set(-4.0)
        r = ((4.0 - jnp.pi**2) * jnp.sin(jnp.pi * t))[:, None]
        exact = -(jnp.pi**2) * jnp.sin(jnp.pi * t)
        errors.append(float(jnp.abs(differences(J, t)(r)[:, 0] - exact).max()))
    assert 3.8 < errors[0] / errors[1] < 4.2


def test_both_ways_take_the_same_step():
    assert N * D > LARGEST_ELIMINATION
    problem = boundary_value_problem(field, (0.0, 1.0), np.zeros(D), np.arange(D) / D)
    model = regression(WienerPrior(5), problem, NODES, False)
    form = IntegralForm(model, integration(model.chain))
    states = model.line.at[:, 2].add(0.1)
    directly, iteratively = (
        eqx.filter_jit(step)(states)[1] for step in (form._directly, form._iteratively)
    )
    away = jnp.linalg.norm(directly - (states[:, 2] - model.line[:, 2]))
    # Krylov's iteration goes on until a hundredth of the residual is left
    assert jnp.linalg.norm(iteratively - directly) < 0.02 * away


def test_fixed_points_are_what_newtons_method_finds():
    problem = boundary_value_problem(field, (0.0, 1.0), np.zeros(D), np.arange(D) / D)
    model = regression(WienerPrior(5), problem, NODES, False)
    W, tolerance = integration(model.chain), jnp.array(1e-10)
    fixed = eqx.filter_jit(solve_by_fixed_points)(model, W, model.line, tolerance)
    newton = eqx.filter_jit(solve_integral_form)(model, W, model.line, jnp.array(20), tolerance)
    assert fixed.status == newton.status == OK
    np.testing.assert_allclose(fixed.x[:, :3], newton.x[:, :3], atol=1e-8)


def test_fixed_points_that_diverge_are_not_taken_for_a_solution():
    """y'' = 400 sinh(y): the image of a curve is far larger than the curve."""
    problem = boundary_value_problem(
        lambda t, y, dy: 400.0 * jnp.sinh(y), (0.0, 1.0), np.ones(D), -np.ones(D)
    )
    model = regression(WienerPrior(5), problem, NODES, False)
    W = integration(model.chain)
    found = eqx.filter_jit(solve_by_fixed_points)(model, W, model.line, jnp.array(1e-8))
    assert found.status != OK


def test_a_last_step_that_leads_away_is_not_taken():
    """So loose a tolerance that the start is good enough, where Newton's method is not yet."""

    def wild(t, y, dy):
        return 40.0 * jnp.sin(9.0 * y)

    for end in (0.3, 0.5, 0.7):
        problem = boundary_value_problem(wild, (0.0, 1.0), [0.0], [end])
        model = regression(WienerPrior(5), problem, NODES, True)
        W = integration(model.chain)
        found = solve_integral_form(model, W, model.line, jnp.array(3), jnp.array(1e3))
        first, last = (
            model.residual(x, model.evaluate(model.derivatives(x)))
            for x in (found.x, found.proposal)
        )
        np.testing.assert_allclose(first, found.residual, rtol=1e-6)
        assert last <= first
