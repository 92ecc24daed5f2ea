"""Guesses as users have them: curves, functions, samples."""

import numpy as np
import pytest

from probgeo import solve_bvp
from probgeo.functions import NumpyFunction
from probgeo.ode.guess import guess_samples, guess_states, sample_states
from probgeo.ode.problem import boundary_value_problem


@NumpyFunction
def spring(t, y, dy):
    return -y


def problem(batch=(3,), span=(1.0, 3.0)):
    return boundary_value_problem(spring, span, np.zeros((*batch, 2)), np.ones((*batch, 2)))


def parabola(t):
    return np.stack([1.0 + t, t**2], axis=-1)


def test_samples_of_a_parabola_are_taken_exactly_inside():
    """Central differences of a parabola are exact; at the ends they are of first order."""
    samples = parabola(np.linspace(0.0, 1.0, 11))[None]
    s = np.linspace(0.1, 0.89, 13)
    value, slope, bend = sample_states(samples, s)
    np.testing.assert_allclose(value[0], parabola(s), atol=1e-13)
    np.testing.assert_allclose(slope[0, :, 1], 2 * s, atol=1e-12)
    np.testing.assert_allclose(bend[0], np.tile([0.0, 2.0], (13, 1)), atol=1e-10)


@pytest.mark.parametrize("kind", ["function", "samples", "batch of samples"])
def test_derivatives_are_by_the_users_time(kind):
    times = np.linspace(1.0, 3.0, 41)
    samples = parabola(times)
    guesses = {"function": parabola, "samples": samples, "batch of samples": np.stack([samples] * 3)}
    inside = np.array([1.5, 2.0, 2.7])
    states = guess_states(guesses[kind], problem(), inside)
    assert states.shape == (3, 3, 2, 2)
    np.testing.assert_allclose(states[1, :, 0], parabola(inside), atol=1e-12)
    np.testing.assert_allclose(states[1, :, 1], np.stack([np.ones(3), 2 * inside], -1), atol=1e-10)


def test_a_curve():
    curve = solve_bvp(spring, (1.0, 3.0), np.zeros((3, 2)), np.ones((3, 2)))
    states = guess_states(curve, problem(), np.array([1.2, 2.5]))
    np.testing.assert_array_equal(states[:, :, 1], curve.mean([1.2, 2.5], 1))


def test_shapes_are_checked():
    with pytest.raises(ValueError, match="at least two samples"):
        guess_samples(np.zeros((1, 2)), (1.0, 3.0), (3, 2))
    with pytest.raises(ValueError, match=r"shape \(3, 5, 2\) at 5 times, got \(5, 4\)"):
        guess_samples(np.zeros((5, 4)), (1.0, 3.0), (3, 2))
    with pytest.raises(ValueError, match="guess must be finite"):
        guess_samples(np.full((5, 2), np.nan), (1.0, 3.0), (3, 2))
