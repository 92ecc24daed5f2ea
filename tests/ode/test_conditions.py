"""Boundary value problems with general conditions and unknown parameters."""

import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import jn_zeros, mathieu_a

from probgeo import ConvergenceWarning, Gaussian, ScalarGaussian, at, condition, periodic, robin, solve_bvp, solvers

T = np.linspace(0.0, 1.0, 101)


def zero(t, y, dy):
    return 0.0 * y


def is_within_bars(curve, t, truth, bars=5.0):
    """Whether the truth (T, D) is within so many standard deviations, and the curve is good."""
    error, std = np.abs(curve.mean(t) - truth), curve.std(t)
    rounding = 1e-14 * np.abs(truth).max()
    return bool(curve.converged) and np.all(error <= bars * std + rounding)


# --- closed forms --------------------------------------------------------------------------


def test_a_slope_may_be_given_instead_of_a_value():
    curve = solve_bvp(lambda t, y, dy: y, (0.0, 1.0), conditions=[at(0, y=[1.0]), at(1, dy=0.0)])
    assert is_within_bars(curve, T, (np.cosh(1 - T) / np.cosh(1.0))[:, None])
    assert curve.std(0.0)[0] == 0.0
    assert curve.std(1.0)[0] > 0.0


def test_robin():
    curve = solve_bvp(zero, (0.0, 1.0), conditions=[at(0, y=1.0), robin(1, y=2.0, dy=1.0)])
    np.testing.assert_allclose(curve.mean(T)[:, 0], 1 - 2 * T / 3, atol=1e-12)


def test_robin_with_matrices_couples_components():
    ends = [at(0, y=[1.0, 2.0]), robin(1, y=[[1.0, -1.0], [0, 0]], dy=[[0, 0], [1.0, 1.0]])]
    curve = solve_bvp(zero, (0.0, 1.0), conditions=ends)
    end, slope = curve.mean(1.0), curve.mean(1.0, derivative=1)
    np.testing.assert_allclose([end[0] - end[1], slope.sum()], 0.0, atol=1e-12)


def test_periodic():
    t = 2 * np.pi * T

    def swing(t, y, dy):
        return -3.0 * y + jnp.sin(t)

    curve = solve_bvp(swing, (0.0, 2 * np.pi), conditions=[periodic()])
    assert is_within_bars(curve, t, np.sin(t)[:, None] / 2)


def test_interior_times():
    ends = [at(0.0, y={0: 1.0}), at(0.3, y={0: 0.5})]
    curve = solve_bvp(lambda t, y: jnp.array([y[1], -y[0]]), (0.0, 1.0), conditions=ends, order=1, dimension=2)
    slope = (0.5 - np.cos(0.3)) / np.sin(0.3)
    truth = np.stack([np.cos(T) + slope * np.sin(T), slope * np.cos(T) - np.sin(T)], axis=1)
    assert is_within_bars(curve, T, truth)
    assert 0.3 in curve.nodes


@pytest.mark.parametrize(
    ("ends", "truth"),
    [
        ([at(0, y=0.0, dy=0.0), at(1, d2y=0.0, d3y=0.0)], lambda x: x**2 * (6 - 4 * x + x**2) / 24),
        ([at(0, y=0.0, d2y=0.0), at(1, y=0.0, d2y=0.0)], lambda x: x * (1 - 2 * x**2 + x**3) / 24),
    ],
)
def test_beams(ends, truth):
    def load(t, y, dy, d2y, d3y):
        return 1.0 + 0.0 * y

    curve = solve_bvp(load, (0.0, 1.0), conditions=ends, order=4)
    np.testing.assert_allclose(curve.mean(T)[:, 0], truth(T), atol=1e-14)
    assert curve.std(T).max() < 1e-12


def test_third_order():
    curve = solve_bvp(
        lambda t, y, dy, d2y: y, (0.0, 1.0), conditions=[at(0, y=1.0, dy=1.0), at(1, y=np.e)],
        order=3,
    )  # fmt: skip
    assert is_within_bars(curve, T, np.exp(T)[:, None])


def test_growing_and_falling_solutions_do_not_drown_each_other():
    # exp(100 t) is 1e43 at the end: shooting is hopeless
    curve = solve_bvp(
        lambda t, y: jnp.array([y[1], 1e4 * y[0]]), (0.0, 1.0), order=1, dimension=2,
        conditions=[at(0, y={0: 1.0}), at(1, y={0: 1.0})],
    )  # fmt: skip
    truth = np.exp(-100 * T) + np.exp(100 * (T - 1))
    assert curve.converged
    assert np.all(np.abs(curve.mean(T)[:, 0] - truth) < 1e-3)


# --- SciPy's examples ----------------------------------------------------------------------


def g_bratu(ya, yb):
    return np.array([ya[0], yb[0]])


@pytest.mark.parametrize(("level", "middle"), [(0.0, 0.1405392144), (3.0, 4.0914668)])
def test_bratu_has_two_solutions(level, middle):
    def bratu(t, y):
        return jnp.array([y[1], -jnp.exp(y[0])])

    start = np.stack([np.full(5, level), np.zeros(5)], axis=1)
    curve = solve_bvp(bratu, (0.0, 1.0), conditions=[condition(g_bratu)], order=1, guess=start)
    theta = 1.5171645990508 if level == 0.0 else 10.938702772  # of theta = sqrt(2) cosh(theta / 4)
    for _ in range(3):  # of Newton, to all digits
        excess = theta - np.sqrt(2) * np.cosh(theta / 4)
        theta -= excess / (1 - np.sqrt(2) / 4 * np.sinh(theta / 4))
    truth = -2 * np.log(np.cosh((T - 0.5) * theta / 2) / np.cosh(theta / 4))
    assert abs(truth[50] - middle) < 1e-5
    error, std = np.abs(curve.mean(T)[:, 0] - truth), curve.std(T)[:, 0]
    assert curve.converged
    assert np.all(error <= 5 * std + 1e-13)


def test_sturm_liouville():
    def wave(t, y, p):
        return jnp.array([y[1], -(p[0] ** 2) * y[0]])

    def g(ya, yb, p):
        return np.array([ya[0], yb[0], ya[1] - p[0]])

    def start(t):
        return [np.sin(6.0 * t), 6.0 * np.cos(6.0 * t)]

    curve = solve_bvp(wave, (0.0, 1.0), conditions=[condition(g)], parameters=[6.0], order=1, guess=start)
    k = curve.parameters
    assert abs(k.mean[0] - 2 * np.pi) < 4 * k.std[0] < 1e-4


def test_a_singular_term_is_written_as_it_is():
    curve = solve_bvp(
        lambda t, y, dy: -2.0 * dy / t - y**5, (0.0, 1.0), guess=np.ones((5, 1)),
        conditions=[at(0, dy=0.0), at(1, y=[0.75**0.5])],
    )  # fmt: skip
    assert is_within_bars(curve, T, (1 / np.sqrt(1 + T**2 / 3))[:, None], bars=8)


# --- parameters ----------------------------------------------------------------------------


def test_mathieu_eigenvalues():
    def mathieu(t, y, dy, p):
        return -(p[0] - 10.0 * jnp.cos(2 * t)) * y

    ends = [at(0, y=1.0, dy=0.0), at(np.pi, dy=0.0)]
    curve = solve_bvp(
        mathieu, (0.0, np.pi), conditions=ends, parameters=[15.0],
        guess=lambda t: [np.cos(4 * t)], solver=solvers.Markov(rtol=1e-9),
    )  # fmt: skip
    error = abs(curve.parameters.mean[0] - mathieu_a(4, 5.0))
    assert error < 1e-8
    assert error < 4 * curve.parameters.std[0] < 1e-8


def test_bessel_zeros_as_eigenvalues_of_a_drum():
    def drum(t, y, dy, p):
        return -dy / t - p[0] ** 2 * y

    zeros = jn_zeros(0, 3)
    curve = solve_bvp(
        drum, (0.0, 1.0), conditions=[at(0, y=1.0, dy=0.0), at(1, y=0.0)],
        parameters=zeros[:, None] + 0.1, solver=solvers.Markov(rtol=1e-9),
        guess=lambda t: np.cos(np.pi * (np.arange(3)[:, None] + 0.5) * t),
    )  # fmt: skip
    assert curve.converged.all()
    np.testing.assert_allclose(curve.parameters.mean[:, 0], zeros, atol=1e-8)
    assert np.all(np.abs(curve.parameters.mean[:, 0] - zeros) < 5 * curve.parameters.std[:, 0])


def test_the_period_of_van_der_pol():
    def scaled(t, y, dy, p):  # time in units of the unknown period
        return p[0] * (1 - y**2) * dy - p[0] ** 2 * y

    curve = solve_bvp(
        scaled, (0.0, 1.0), conditions=[periodic(), at(0, dy=0.0)], parameters=[6.5],
        guess=lambda t: [2 * np.cos(2 * np.pi * t)], solver=solvers.Markov(rtol=1e-8),
    )  # fmt: skip
    assert abs(curve.parameters.mean[0] - 6.66328685933) < 1e-8
    assert curve.parameters.std[0] < 1e-7


def test_members_of_a_batch_are_as_alone():
    def bratu(t, y, dy, p, *_):
        return -p[0] * jnp.exp(y)

    middles = np.linspace(0.05, 0.6, 4)[:, None]
    ends = [at(0, y=0.0), at(1, y=0.0)]
    kw = {"parameters": [1.0]}
    batch = solve_bvp(bratu, (0.0, 1.0), conditions=[*ends, at(0.5, y=middles)], **kw)
    assert batch.batch_shape == (4,)
    assert batch.parameters.mean.shape == (4, 1)
    for i in range(4):
        alone = solve_bvp(bratu, (0.0, 1.0), conditions=[*ends, at(0.5, y=middles[i])], **kw)
        np.testing.assert_allclose(alone.mean(T), batch[i].mean(T), rtol=1e-10)
        np.testing.assert_allclose(alone.parameters.mean, batch[i].parameters.mean, rtol=1e-10)


# --- uncertain conditions ------------------------------------------------------------------


def test_noise_on_conditions_is_the_boundary_part():
    ends = [at(0, y=Gaussian([1.0], [[0.04]])), robin(1, y=2.0, dy=1.0)]
    curve = solve_bvp(zero, (0.0, 1.0), conditions=ends)
    np.testing.assert_allclose(curve.std(T, source="boundary")[:, 0], 0.2 * (1 - 2 * T / 3))
    draws = curve.sample(0, 4000, [0.0, 1.0])[..., 0]
    np.testing.assert_allclose(draws.std(axis=0), [0.2, 0.2 / 3], rtol=0.05)


def test_noise_reaches_the_parameters():
    # y'' = p, y(0) = 0, y'(0) = 0, y(1) = N(1, .1^2): p = 2 y(1)
    ends = [at(0, y=0.0, dy=0.0), at(1, y={0: ScalarGaussian(1.0, 0.01)})]
    curve = solve_bvp(lambda t, y, dy, p: p + 0.0 * y, (0.0, 1.0), conditions=ends, parameters=[1.0], dimension=1)
    np.testing.assert_allclose(curve.parameters.mean, 2.0)
    np.testing.assert_allclose(curve.parameters.std, 0.2)
    np.testing.assert_allclose(curve.std(T, source="boundary")[:, 0], 0.1 * T**2, atol=1e-12)


def test_noise_on_a_function():
    def g(ya, dya, yb, dyb):
        return np.array([ya[0] - 1.0, yb[0] ** 2 - 4.0])

    curve = solve_bvp(
        zero, (0.0, 1.0), conditions=[condition(g, noise=np.diag([0.0, 0.16]))],
        guess=np.ones((5, 1)),
    )  # fmt: skip
    np.testing.assert_allclose(curve.std([0.0, 1.0], source="boundary")[:, 0], [0, 0.1], atol=1e-6)


# --- calibration ---------------------------------------------------------------------------


@pytest.mark.parametrize("rtol", [1e-3, 1e-5, 1e-7])
def test_error_bars_of_curves_and_parameters_from_both_sides(rtol):
    covered, squares, of_parameters = [], [], []
    solver, tight = solvers.Markov(rtol=rtol), solvers.Markov(rtol=1e-11)

    def record(solve):
        curve, truth = solve(solver), solve(tight)
        t = np.linspace(*curve.t_span, 203)[1:-1]
        error, std = curve.mean(t) - truth.mean(t), curve.std(t)
        covered.append(np.mean(np.abs(error) <= 2 * std))
        squares.append(np.mean((error / std) ** 2))
        if hasattr(curve, "parameters"):
            error = curve.parameters.mean - truth.parameters.mean
            of_parameters.append(float((error / curve.parameters.std)[0]))

    def neumann(a):
        ends = [at(0, y=1.0), at(1, dy=0.0)]
        return lambda s: solve_bvp(lambda t, y, dy: a * jnp.sin(y) + t, (0.0, 1.0), conditions=ends, solver=s)

    def pendulum(a):
        ends = [at(0, y={0: 0.0}), at(1, y={1: a})]
        return lambda s: solve_bvp(
            lambda t, y: jnp.array([y[1], -9 * jnp.sin(y[0])]), (0.0, 1.0), conditions=ends,
            order=1, dimension=2, solver=s,
        )  # fmt: skip

    def forced(a):
        return lambda s: solve_bvp(
            lambda t, y, dy: -0.3 * dy - a * y - y**3 + jnp.exp(jnp.sin(t)), (0.0, 2 * np.pi),
            conditions=[periodic()], solver=s,
        )  # fmt: skip

    def oscillator(mu):
        return lambda s: solve_bvp(
            lambda t, y, dy, p: p[0] * mu * (1 - y**2) * dy - p[0] ** 2 * y, (0.0, 1.0),
            conditions=[periodic(), at(0, dy=0.0)], parameters=[6.5], solver=s,
            guess=lambda t: [2 * np.cos(2 * np.pi * t)],
        )  # fmt: skip

    def mathieu(q):
        return lambda s: solve_bvp(
            lambda t, y, dy, p: -(p[0] - 2 * q * jnp.cos(2 * t)) * y, (0.0, np.pi),
            conditions=[at(0, y=1.0, dy=0.0), at(np.pi, dy=0.0)], parameters=[16.0], solver=s,
            guess=lambda t: [np.cos(4 * t)],
        )  # fmt: skip

    kinds = {
        neumann: (2.0, 6.0, 12.0), pendulum: (0.5, 1.5), forced: (1.5, 3.0),
        oscillator: (0.5, 1.0, 2.0), mathieu: (1.0, 3.0, 5.0),
    }  # fmt: skip
    for kind, values in kinds.items():
        for value in values:
            record(kind(value))
    assert 0.90 <= np.mean(covered) <= 0.995
    assert 0.2 <= np.median(squares) <= 4.0
    of_parameters = np.array(of_parameters)
    assert np.mean(np.abs(of_parameters) <= 2) >= 0.8
    assert 0.2 <= np.median(of_parameters**2) <= 4.0


# --- what cannot be solved -----------------------------------------------------------------


@pytest.mark.parametrize(
    ("conditions", "parameters", "message"),
    [
        ([at(0, y=1.0)], None, r"needs 2 conditions, got 1 \(1 by at\(0, y=...\)\): 1 missing"),
        ([at(0, y=1.0), periodic()], None, "needs 2 conditions, got 3 .* 1 too many"),
        ([at(0, y=1.0), at(1, y=1.0)], [1.0], "and 1 unknown parameter needs 3 .* 1 missing"),
        ([at(0, y=1.0), at(0, y=2.0)], None, "repeats or contradicts"),
        ([at(0, y=1.0, d2y=2.0)], None, "derivatives below the order 2"),
        ([at(0, y=1.0), at(2, y=2.0)], None, r"must lie in \(0.0, 1.0\)"),
        ([at(0, y={3: 1.0}), at(1, y=[1.0])], None, "components .* must be 0 to 0"),
        ([at(0, y={0: 1.0}), at(1, y=1.0)], None, "dimension="),
        ([at(0, y=[1.0]), at(1, y=[1.0, 2.0])], None, "disagree on the dimension"),
    ],
)
def test_conditions_that_do_not_fit_are_refused(conditions, parameters, message):
    with pytest.raises(ValueError, match=message):
        solve_bvp(lambda t, y, dy, *p: 0.0 * y, (0.0, 1.0), conditions=conditions, parameters=parameters)


def test_what_is_no_condition_is_refused():
    with pytest.raises(TypeError, match="list of at"):
        solve_bvp(zero, (0.0, 1.0), conditions=[1.0])
    with pytest.raises(TypeError, match="ya and yb, or conditions"):
        solve_bvp(zero, (0.0, 1.0))
    with pytest.raises(TypeError, match=r"solvers\.Markov"):
        solve_bvp(zero, (0.0, 1.0), conditions=[periodic()], solver=solvers.Dense())
    with pytest.raises(ValueError, match="at most 4"):
        solve_bvp(zero, (0.0, 1.0), conditions=[periodic()], order=5)


def test_a_parameter_that_nothing_determines_has_infinite_variance():
    with pytest.warns(ConvergenceWarning, match="no unique solution"):
        curve = solve_bvp(
            lambda t, y, dy, p: 0.0 * y + 0.0 * p[0], (0.0, 1.0), [0.0], [1.0],
            conditions=[at(0.5, y=0.5)], parameters=[1.0],
        )  # fmt: skip
    assert not curve.converged
    assert np.isinf(curve.parameters.std).all()


@pytest.mark.parametrize("order", range(3, 8))
def test_resonance_is_told(order):
    """By elements of low degree, too, for which the problem is far from singular on coarse meshes."""
    with pytest.warns(ConvergenceWarning, match="no unique solution"):
        solve_bvp(lambda t, y, dy: -y, (0.0, 2 * np.pi), conditions=[periodic()], solver=solvers.Markov(order=order))


def test_a_problem_without_solution_is_told():
    def too_hot(t, y, dy):
        return -12.0 * jnp.exp(y)

    with pytest.warns(ConvergenceWarning):
        curve = solve_bvp(too_hot, (0.0, 1.0), conditions=[at(0, y=0.0), at(1, y=0.0)])
    assert not curve.converged


def test_functions_are_called_with_all_curves_at_once_only_where_that_is_the_same():
    """The distance from the origin mixes components, and the curves, if it is given all of them."""
    seen = []

    def radius(ya, yb):
        seen.append(np.shape(ya))
        return np.array([np.linalg.norm(ya) - 2.0, yb[0] - yb[1]])

    def first(ya, yb):
        return np.array([ya[0] - 1.0, yb[0] - yb[1]])

    turn = lambda t, y: jnp.array([y[1], -y[0]])  # noqa: E731
    start = np.tile([1.0, 1.5], (3, 5, 1)) * np.array([0.9, 1.0, 1.1])[:, None, None]
    for g in (radius, first):
        curve = solve_bvp(turn, (0, 1), conditions=[condition(g)], order=1, guess=start)
        assert curve.converged.all()
        for y0, y1 in zip(curve.mean(0.0), curve.mean(1.0), strict=True):
            np.testing.assert_allclose(g(y0, y1), 0.0, atol=1e-7)
    assert seen[-1] == (2,)


def test_how_conditions_are_given_wrongly_is_said():
    swing = lambda t, y, dy: -y  # noqa: E731
    with pytest.raises(TypeError, match="conditions must be a list"):
        solve_bvp(swing, (0, 1), conditions=at(0, y=0.0))
    with pytest.raises(TypeError, match=r"could not be called as g\(y0, dy0, y1, dy1\)"):
        solve_bvp(swing, (0, 1), conditions=[condition(lambda ya, yb: ya)])
    with pytest.raises(ValueError, match=r"must broadcast, got \[\(3,\), \(2,\)"):
        solve_bvp(swing, (0, 1), conditions=[at(0, y=np.zeros((3, 1))), at(1, y=np.ones((2, 1)))])
