"""Bad input gets an error that names the argument."""

import warnings

import jax.numpy as jnp
import numpy as np
import pytest

from probgeo import Gaussian, solve_bvp, solve_ivp, solvers


def spring(t, y, dy):
    return -y


def decay(t, y):
    return -y


def branching(t, y, dy):
    return -y if y[0] > 0 else y


SPAN = (0.0, 1.0)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: solve_bvp(branching, SPAN, [0.0], [1.0]), "f must be traceable by JAX"),
        (lambda: solve_bvp(branching, SPAN, [0.0], [1.0]), "Tried as a NumPy function of rows"),
        (lambda: solve_bvp(branching, SPAN, [0.0], [1.0]), "wrap it in one of probgeo.functions"),
        (lambda: solve_bvp(spring, SPAN, ["0"], ["1"]), "ya must be an array of numbers"),
        (lambda: solve_bvp(spring, SPAN, [1j], [0.0]), "ya must be an array of numbers"),
        (lambda: solve_bvp(3, SPAN, [0.0], [1.0]), "f must be a function"),
        (lambda: solve_bvp(decay, SPAN, [0.0], [1.0]), r"f\(t, y, dy\) could not be called"),
        (lambda: solve_ivp(spring, SPAN, [0.0]), r"f\(t, y\) could not be called"),
        (
            lambda: solve_bvp(lambda t, y, dy: y[:1], SPAN, [0.0, 1.0], [1.0, 0.0]),
            r"must return shape \(2,\) for one point, got \(1,\)",
        ),
        (lambda: solve_bvp(lambda t, y, dy: None, SPAN, [0.0], [1.0]), "must return shape"),
        (
            lambda: solve_ivp(lambda t, y: jnp.sqrt(y), SPAN, [-1.0]),
            "f must be finite at the start",
        ),
        (lambda: solve_ivp(decay, SPAN, [1.0], solver=3), "solver must be one of probgeo.solvers"),
        (lambda: solve_ivp(decay, SPAN, [1.0], solver=solvers.Markov), "solver must be one of"),
        (lambda: solve_ivp(decay, SPAN, [1.0]).std(0.5, source=np.ones(2)), "source must be one"),
        (lambda: solve_ivp(decay, SPAN, [1.0]).sample("a", 1, [0.5]), "seed must be a whole"),
        (lambda: solve_ivp(decay, SPAN, [1.0]).sample(-1, 1, [0.5]), "seed must be a whole"),
        (lambda: solve_bvp(spring, (1.0, 0.0), [0.0], [1.0]), "t_span must be increasing"),
        (lambda: solve_bvp(spring, (1.0, 1.0), [0.0], [1.0]), "t_span must be increasing"),
        (lambda: solve_bvp(spring, (0.0, np.inf), [0.0], [1.0]), "t_span must be finite"),
        (lambda: solve_bvp(spring, 1.0, [0.0], [1.0]), "t_span must be two numbers"),
        (lambda: solve_bvp(spring, SPAN, [0.0], [1.0, 2.0]), r"one size D, got ya \(1,\) and yb"),
        (lambda: solve_ivp(spring, SPAN, [0.0, 1.0], [1.0]), "one size D, got y0"),
        (
            lambda: solve_bvp(spring, SPAN, np.zeros((3, 1)), np.zeros((2, 1))),
            "leading .batch. axes must broadcast",
        ),
        (lambda: solve_bvp(spring, SPAN, [np.nan], [1.0]), "ya must be finite"),
        (lambda: solve_bvp(spring, SPAN, [0.0], 1.0), "yb must have shape"),
        (lambda: solve_bvp(spring, SPAN, [0.0], np.zeros((2, 0))), "yb must have shape"),
        (lambda: solve_bvp(spring, SPAN, [0.0], "one"), "yb must be an array of numbers"),
        (lambda: solve_ivp(spring, SPAN, [0.0], Gaussian([0.0], [[-1.0]])), "cov must be positive"),
        (
            lambda: solve_bvp(spring, SPAN, [0.0], [1.0], guess=np.zeros((1, 1))),
            "guess must hold at least two samples",
        ),
        (
            lambda: solve_bvp(spring, SPAN, [0.0], [1.0], guess=np.zeros((5, 3))),
            "guess must give values of shape",
        ),
        (lambda: solvers.Dense(n_points=0), "n_points must be a whole number >= 1"),
        (lambda: solvers.Dense(n_points=2.5), "n_points must be a whole number"),
        (lambda: solvers.Dense(refinements=-1), "refinements must be a whole number >= 0"),
        (lambda: solvers.Dense(tolerance=0.0), "tolerance must be positive"),
        (lambda: solvers.Dense(nugget=-1.0), "nugget must be positive"),
        (lambda: solvers.Dense(kernel="rbf"), "kernel must be a Kernel"),
        (lambda: solvers.Dense(grid="random"), "grid must be one of"),
        (lambda: solvers.Dense(grid=[0.5, 0.2]), "grid must be strictly increasing"),
        (lambda: solvers.Dense(grid=[[0.5]]), "grid must be a vector"),
        (lambda: solvers.Dense(error_model="exact"), "error_model must be one of"),
        (lambda: solvers.Dense(V="data"), "V must be"),
        (lambda: solvers.Dense(V=np.eye(2), S=np.eye(2)), "give either V or S"),
        (lambda: solvers.BoundError(-1.0), "U bounds absolute values"),
        (lambda: solvers.BoundError(np.ones((2, 3))), "U must be a number or a"),
        (lambda: solvers.BoundError(1.0, np.eye(2)), "both be numbers"),
        (
            lambda: solve_bvp(spring, SPAN, [0.0], [1.0], solver=solvers.Dense(V=np.eye(2))),
            r"V must have shape \(1, 1\)",
        ),
        (
            lambda: solve_bvp(spring, SPAN, [0.0], [1.0], solver=solvers.Dense(S=[[0.0]])),
            "S must be positive definite",
        ),
        (
            lambda: solve_bvp(spring, SPAN, [0.0], [1.0], solver=solvers.Dense(grid=[0.5, 1.5])),
            r"grid must lie in t_span \[0, 1\]",
        ),
        (
            lambda: solve_bvp(
                spring, SPAN, [0.0] * 2, [1.0] * 2,
                solver=solvers.Dense(error_model=solvers.BoundError(np.eye(3), np.eye(3))),
            ),
            "U must have shape",
        ),
        (
            lambda: solve_bvp(
                spring, SPAN, [0.0], [1.0],
                solver=solvers.Dense(error_model=solvers.BoundError(1.0)),
            ),
            "U_prime",
        ),
    ],
)  # fmt: skip
def test_bad_input_is_named(call, message):
    with pytest.raises((ValueError, TypeError), match=message):
        call()


def test_an_empty_batch_is_an_empty_answer():
    curve = solve_bvp(spring, SPAN, np.zeros((0, 2)), np.zeros(2))
    assert curve.converged.shape == (0,)
    assert curve.mean([0.1, 0.2]).shape == (0, 2, 2)


@pytest.mark.parametrize("span", [1e-100, 1e-50, 1e-20, 1e20, 1e60, 1e100])
@pytest.mark.parametrize("boundary", [True, False])
def test_error_bars_are_finite_or_flagged(span, boundary):
    """They hold fifth powers of time, which overflow before the solution does."""
    args = ([1.0], [1.0]) if boundary else ([1.0], [1.0 / span])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        solve = solve_bvp if boundary else solve_ivp
        curve = solve(lambda t, y, dy: -y / span**2, (0.0, span), *args)
        known = np.isfinite(curve.std(span * np.linspace(0.0, 1.0, 5))).all()
    assert bool(curve.converged) == bool(known) == (1e-40 < span < 1e40)
