"""First-order systems with a singular term S y / (t - t0)."""

import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import jn_zeros, jv

from probgeo import at, solve_bvp, solvers
from probgeo.functions import as_field
from probgeo.ode.singular import WithSingularTerm

T = np.linspace(0.0, 1.0, 101)
BESSEL = [[0.0, 1.0], [4.0, 0.0]]  # of y and t y', for y'' + y'/t + (a^2 - 4/t^2) y = 0


def emden(t, y):
    return jnp.array([y[1], -(y[0] ** 5)])


def bessel(a):
    return lambda t, y: jnp.array([0.0 * t, -(a**2) * t * y[0]])


def pooled(cases):
    """Share within two standard deviations, and median normalised squared error."""
    covered, squares = [], []
    for curve, truth in cases:
        assert curve.converged
        error, std = (curve.mean(T) - truth)[1:-1], curve.std(T)[1:-1]
        covered.append(np.mean(np.abs(error) <= 2 * std))
        squares.append(np.mean((error / std) ** 2))
    return np.mean(covered), np.median(squares)


def test_closed_forms_with_error_bars_from_both_sides():
    cases = []
    for rtol in (1e-3, 1e-5, 1e-8):
        solver = solvers.Markov(rtol=rtol)
        # SciPy's documentation of S has this equation, of Lane and Emden
        curve = solve_bvp(
            emden, (0.0, 1.0), S=[[0.0, 0.0], [0.0, -2.0]], order=1, solver=solver,
            conditions=[at(0, y={1: 0.0}), at(1, y={0: 0.75**0.5})],
            guess=np.tile([1.0, 0.0], (5, 1)),
        )  # fmt: skip
        root = np.sqrt(1 + T**2 / 3)
        cases.append((curve, np.stack([1 / root, -T / (3 * root**3)], axis=1)))
        # (I - S)^-1 f, with the digits that differences over elements lose
        np.testing.assert_allclose(curve.mean(0.0, 1), [0.0, -1 / 3], atol=100 * rtol)
        for a in (1.0, 4.0, 7.0):
            curve = solve_bvp(
                bessel(a), (0.0, 1.0), S=BESSEL, order=1, solver=solver,
                conditions=[at(0, y={0: 0.0}), at(1, y={0: jv(2, a)})],
            )  # fmt: skip
            slope = 0.5 * a * T * (jv(1, a * T) - jv(3, a * T))
            cases.append((curve, np.stack([jv(2, a * T), slope], axis=1)))
    covered, square = pooled(cases)
    assert 0.90 <= covered <= 0.99
    assert 0.2 <= square <= 4.0


def test_the_interval_may_start_anywhere():
    here, there = (
        solve_bvp(
            lambda t, y, t0=t0: jnp.array([0.0 * t, -9.0 * (t - t0) * y[0]]), (t0, t0 + 1),
            conditions=[at(t0, y={0: 0.0}), at(t0 + 1, y={0: 1.0})], order=1, S=BESSEL,
        )
        for t0 in (0.0, -3.0)
    )  # fmt: skip
    np.testing.assert_allclose(here.mean(T), there.mean(T - 3.0), rtol=1e-9, atol=1e-12)


def test_eigenvalues_of_a_drum_with_a_nodal_line():
    zeros = jn_zeros(2, 2)
    curve = solve_bvp(
        lambda t, y, p: jnp.array([0.0 * t, -(p[0] ** 2) * t * y[0]]), (0.0, 1.0), S=BESSEL,
        conditions=[at(0, y={0: 0.0}), at(1, y={0: 0.0, 1: 1.0})], order=1,
        parameters=zeros[:, None] + 0.05, solver=solvers.Markov(rtol=1e-9),
        guess=lambda t: np.stack([t * np.sin(zeros * t), 0.0 * zeros], axis=-1),
    )  # fmt: skip
    assert curve.converged.all()
    error = np.abs(curve.parameters.mean[:, 0] - zeros)
    assert np.all(error < 1e-8)
    assert np.all(error < 4 * curve.parameters.std[:, 0])


def test_jacobians_are_derivatives():
    S, a = np.array(BESSEL), 0.5
    field = WithSingularTerm(as_field(bessel(2.0), 1, 2, batch_shape=(1,)), S, a)
    t, state, member = np.array([0.8]), np.array([[[0.3, -0.7]]]), np.zeros(1, dtype=int)
    values, jacobians = field.values_and_jacobians(t, state, member)
    np.testing.assert_allclose(values, field.values(t, state, member))
    np.testing.assert_allclose(jacobians, field.jacobians(t, state, member))
    for i in range(2):
        step = np.zeros_like(state)
        step[0, 0, i] = 1e-6
        change = field.values(t, state + step, member) - field.values(t, state - step, member)
        np.testing.assert_allclose(jacobians[0, 0, :, i], change[0] / 2e-6, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize(
    ("S", "order", "message"),
    [
        ([[0.0, 1.0]], 1, r"S must have shape \(D, D\)"),
        (np.eye(3), 1, "disagree|shape"),
        (np.eye(2), 2, "order=1"),
        ([[0.0, 0.0], [0.0, -2.0]], 1, "contradict S y = 0"),
    ],
)
def test_what_does_not_fit_is_refused(S, order, message):
    with pytest.raises(ValueError, match=message):
        solve_bvp(
            lambda t, y, *dy: y, (0.0, 1.0), S=S, order=order,
            conditions=[at(0, y=[0.0, 1.0])] * order,
        )  # fmt: skip
