"""Laws that hold for all inputs."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from probgeo import Gaussian, solve_bvp, solve_ivp, solvers
from probgeo.functions import NumpyFunction
from probgeo.ode.kernels import Matern

TIMES = np.linspace(0.0, 1.0, 7)
ERROR_MODELS = ("bound", "none", "linearised")


def network(rng):
    """A small random vector field of rows, and its derivatives."""
    inner, outer = rng.normal(size=(5, 4)), rng.normal(size=(4, 2))

    def hidden(t, y, dy):
        return np.tanh(np.concatenate([y, dy, t[:, None]], axis=1) @ inner)

    def jacobian(t, y, dy):
        slopes = np.einsum("nh,kh,hi->nki", 1.0 - hidden(t, y, dy) ** 2, inner[:4], outer)
        return slopes.reshape(-1, 2, 2, 2).swapaxes(2, 3)

    return NumpyFunction(lambda t, y, dy: hidden(t, y, dy) @ outer, jacobian)


def in_other_units(field, unit, shift):
    """The same field in other units of y, and shifted in time."""
    return NumpyFunction(
        lambda t, y, dy: unit * field.f(t - shift, y / unit, dy / unit),
        lambda t, y, dy: field.jacobian(t - shift, y / unit, dy / unit),
    )


def random_problem(seed):
    rng = np.random.default_rng(seed)
    root = rng.normal(size=(2, 2))
    return (network(rng), rng.normal(size=2), Gaussian(rng.normal(size=2), 0.01 * root @ root.T))


@pytest.mark.parametrize("error_model", ERROR_MODELS)
@settings(max_examples=15)
@given(seed=st.integers(0, 10**6))
def test_covariances_are_symmetric_and_positive_semidefinite(error_model, seed):
    field, ya, yb = random_problem(seed)
    solver = solvers.Dense(n_points=8, error_model=error_model, tolerance=1e3)
    curve = solve_bvp(field, (0.0, 1.0), ya, yb, solver=solver)
    cov = np.asarray(curve.cov(TIMES[:, None], TIMES[None, :]))
    joint = np.transpose(cov, (0, 2, 1, 3)).reshape(14, 14)
    size = np.abs(joint).max()
    np.testing.assert_allclose(joint, joint.T, atol=1e-9 * size)
    assert np.linalg.eigvalsh(joint)[0] > -1e-8 * size
    for source in ("numerical", "boundary"):
        assert np.all(np.asarray(curve.std(TIMES, source=source)) >= 0)


@pytest.mark.parametrize("error_model", ["bound", "linearised"])
@settings(max_examples=10)
@given(seed=st.integers(0, 10**6), unit=st.floats(1e-3, 1e3), shift=st.floats(-5.0, 5.0))
def test_results_do_not_depend_on_units_or_on_the_origin_of_time(error_model, seed, unit, shift):
    """With V from data (S) and by evidence or from the ends, c -> unit c, t -> t + shift."""
    field, ya, yb = random_problem(seed)
    S = np.array([[1.0, 0.3], [0.3, 0.5]])
    plain = field
    other = in_other_units(field, unit, shift)
    for V in ("evidence", "ends"):
        options = {"kernel": Matern(4.5, 0.5), "n_points": 8, "error_model": error_model, "V": V}
        solver = solvers.Dense(**options, S=S, tolerance=1e3)
        rescaled = solvers.Dense(**options, S=unit**2 * S, tolerance=1e3)
        a = solve_bvp(plain, (0.0, 1.0), ya, yb, solver=solver)
        b = solve_bvp(
            other, (shift, 1.0 + shift), unit * ya,
            Gaussian(unit * yb.mean, unit**2 * yb.cov), solver=rescaled,
        )  # fmt: skip
        size = np.abs(a.mean(TIMES)).max()
        np.testing.assert_allclose(b.mean(TIMES + shift) / unit, a.mean(TIMES), atol=1e-7 * size)
        # a standard deviation is the root of a difference
        np.testing.assert_allclose(b.std(TIMES + shift) / unit, a.std(TIMES), rtol=1e-4, atol=1e-6 * size)
        expected = a.log_evidence - 8 * 2 * np.log(unit)
        np.testing.assert_allclose(b.log_evidence, expected, rtol=1e-5, atol=1e-4)


@settings(max_examples=10)
@given(seed=st.integers(0, 10**6))
def test_initial_values_are_met(seed):
    field, y0, dy0 = random_problem(seed)
    solver = solvers.Dense(n_points=8, tolerance=1e3)
    curve = solve_ivp(field, (0.0, 1.0), y0, dy0, solver=solver)
    np.testing.assert_allclose(curve.mean(0.0), y0, atol=1e-9)
    np.testing.assert_allclose(curve.mean(0.0, 1), dy0.mean, atol=1e-8)
    np.testing.assert_allclose(curve.cov(0.0, 0.0, (1, 1)), dy0.cov, atol=1e-7)
