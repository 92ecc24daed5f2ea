"""Zeros of functions of the state: their times and states, with error bars."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.integrate import solve_ivp as scipys

from probgeo import Gaussian, load, observed, save, solve_ivp, solvers


def event(g, terminal=False, direction=0):
    g.terminal, g.direction = terminal, direction
    return g


def ball(t, y, dy):
    return -9.81 + 0.0 * y


def thrown(y0=1.0, dy0=10.0):
    """When and how fast a ball hits the ground."""
    root = np.sqrt(np.square(dy0) + 2 * 9.81 * np.asarray(y0))
    return (dy0 + root) / 9.81, -root


ground = event(lambda t, y, dy: y[0], terminal=True, direction=-1)
top = event(lambda t, y, dy: dy[0])


def test_a_ball_that_is_thrown():
    curve = solve_ivp(ball, (0.0, 50.0), [1.0], [10.0], events=[ground, top])
    when, how = thrown()
    np.testing.assert_allclose(curve.t_events[0].mean, [when], rtol=1e-12)
    np.testing.assert_allclose(curve.t_events[1].mean, [10.0 / 9.81], rtol=1e-12)
    np.testing.assert_allclose(curve.y_events[0].mean, [[0.0, how]], atol=1e-11)
    assert curve.t_end.mean == curve.t_events[0].mean[0]
    assert np.isnan(curve.mean(when + 0.1))
    assert np.isfinite(curve.mean(when - 0.1))
    assert np.isnan(curve.sample(0, 3, [0.5, 30.0])[:, 1]).all()
    assert curve.nodes[-1] == curve.t_end.mean


def test_uncertain_starts_move_events():
    """To first order, against closed forms: dt = dy0 / speed, and the speed at the ground."""
    curve = solve_ivp(ball, (0.0, 50.0), Gaussian([1.0], [[1e-6]]), Gaussian([10.0], [[4e-6]]), events=ground)
    slopes = [(thrown(1.0 + a, 10.0 + b)[0] - thrown(1.0 - a, 10.0 - b)[0]) / 2e-5 for a, b in ((1e-5, 0), (0, 1e-5))]
    expected = np.sqrt(slopes[0] ** 2 * 1e-6 + slopes[1] ** 2 * 4e-6)
    np.testing.assert_allclose(curve.event_std(0, "boundary"), [expected], rtol=1e-6)
    np.testing.assert_allclose(curve.t_end.std, expected, rtol=1e-6)
    state = curve.y_events[0]
    assert state.std[0, 0] < 1e-9  # the height is zero there
    speed = 10.0**2 + 2 * 9.81
    np.testing.assert_allclose(state.std[0, 1], np.sqrt(9.81**2 * 1e-6 + 10.0**2 * 4e-6) / np.sqrt(speed), rtol=1e-6)


def test_every_member_has_an_end_of_its_own():
    y0 = np.linspace(1.0, 3.0, 5)[:, None]
    curve = solve_ivp(ball, (0.0, 2.4), y0, np.full((5, 1), 10.0), events=[ground, top])
    when = thrown(y0[:, 0])[0]
    np.testing.assert_allclose(curve.t_end.mean, np.minimum(when, 2.4), rtol=1e-12)
    np.testing.assert_array_equal(np.isnan(curve.t_events[0].mean[:, 0]), when > 2.4)
    np.testing.assert_array_equal(np.isnan(curve.mean(2.3)[:, 0]), when < 2.3)
    assert curve.converged.all()
    one = curve[1]
    np.testing.assert_allclose(one.t_end.mean, when[1], rtol=1e-12)


def pendulum(t, y, dy, k):
    return -k * jnp.sin(y)


def test_times_are_within_their_error_bars():
    """Of many pendulums, at many tolerances, numerical errors only."""
    k = np.linspace(0.5, 4.0, 8)
    through = event(lambda t, y, dy, k: y[0] - 0.1 * t)
    reference = scipys(
        lambda t, z: np.concatenate([z[8:], -k * np.sin(z[:8])]), (0, 12), [1.5] * 8 + [0.0] * 8,
        method="DOP853", rtol=1e-13, atol=1e-13,
        events=[lambda t, z, m=m: z[m] - 0.1 * t for m in range(8)],
    )  # fmt: skip
    normed = []
    for rtol in (1e-2, 1e-3, 1e-4, 1e-5, 1e-6, 1e-7):
        curve = solve_ivp(
            pendulum, (0.0, 12.0), np.full((8, 1), 1.5), np.zeros((8, 1)), args=k[:, None],
            events=through, solver=solvers.Markov(rtol=rtol),
        )  # fmt: skip
        times, std = curve.t_events[0].mean, curve.event_std(0, "numerical")
        for m, truth in enumerate(reference.t_events):
            found = times[m][np.isfinite(times[m])]
            assert len(found) == len(truth)
            normed.append((found - truth) / std[m][: len(truth)])
    normed = np.concatenate(normed)
    assert np.mean(np.abs(normed) <= 2) >= 0.90  # no upper bound: errors of one kind of problem
    assert 0.2 <= np.mean(normed**2) <= 4.0


@pytest.mark.parametrize(("direction", "share"), [(0, 0.5), (1, 1.5), (-1, 0.5)])
def test_direction_and_number(direction, share):
    def wave(t, y):
        return jnp.array([y[1], -y[0]])

    zero = event(lambda t, y: y[0], terminal=2, direction=direction)
    curve = solve_ivp(wave, (0.0, 30.0), [1.0, 0.0], events=zero)
    apart = 1.0 if direction == 0 else 2.0
    expected = np.pi * np.array([share, share + apart])
    np.testing.assert_allclose(curve.t_events[0].mean, expected, atol=1e-5)
    np.testing.assert_allclose(curve.t_end.mean, expected[1], atol=1e-5)


def test_numpy_functions_and_stiff_steps():
    zero = event(lambda t, y: y[:, 0] - 0.5, terminal=True)
    for stiff in (False, True):
        curve = solve_ivp(
            lambda t, y: -y + 0.0 * np.asarray(y), (0.0, 5.0), [1.0],
            events=zero, solver=solvers.Markov(stiff=stiff),
        )  # fmt: skip
        assert abs(curve.t_end.mean - np.log(2.0)) <= 3 * curve.t_end.std + 1e-12


def test_stops_before_it_breaks():
    """The solution is infinite at 1, the event at 0.9."""
    high = event(lambda t, y: y[0] - 10.0, terminal=True)
    curve = solve_ivp(lambda t, y: y**2, (0.0, 5.0), [1.0], events=high)
    assert curve.converged
    assert abs(curve.t_end.mean - 0.9) <= 3 * curve.t_end.std


def test_kept_in_files(tmp_path):
    curve = solve_ivp(ball, (0.0, 50.0), [1.0], [10.0], events=[ground, top])
    again = load(save(curve, tmp_path / "curve"))
    np.testing.assert_array_equal(again.t_events[0].mean, curve.t_events[0].mean)
    np.testing.assert_array_equal(again.mean([0.5, 20.0]), curve.mean([0.5, 20.0]))


def test_bad_input_is_named():
    def decay(t, y):
        return -y

    with pytest.raises(TypeError, match="events must be functions"):
        solve_ivp(decay, (0, 1), [1.0], events=[1.0])
    with pytest.raises(TypeError, match="one number at every point"):
        solve_ivp(decay, (0, 1), [1.0], events=lambda t, y: y)
    with pytest.raises(ValueError, match="terminal must be"):
        solve_ivp(decay, (0, 1), [1.0], events=event(lambda t, y: y[0], terminal=-1))
    zero = event(lambda t, y: y[0])
    with pytest.raises(TypeError, match=r"events need solvers\.Markov"):
        solve_ivp(decay, (0, 1), [1.0], events=zero, solver=solvers.Dense())
    seen = observed([0.5], [[1.0]], noise=1.0)
    with pytest.raises(TypeError, match="curves without data"):
        solve_ivp(decay, (0, 1), [1.0], events=zero, data=seen)
    with pytest.raises(TypeError, match="inside JAX"):
        jax.jit(lambda y0: solve_ivp(decay, (0, 1), y0, events=ground).mean(1.0))(jnp.ones(1))


def test_an_event_that_never_happens_has_no_times():
    curve = solve_ivp(lambda t, y: -y, (0.0, 1.0), [1.0], events=lambda t, y: y[0] + 5.0)
    assert curve.converged
    assert curve.t_events[0].mean.shape == (0,)
    assert curve.y_events[0].mean.shape == (0, 1)
