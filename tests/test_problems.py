"""The benchmark problems are what they claim to be: solutions, boundary values, derivatives."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.polynomial import Chebyshev
from problems import (
    CASH_NUMBERS,
    IVPS,
    arenstorf,
    bratu,
    cash,
    coupled,
    damped,
    first_order,
    harmonic,
    hyperbolic_geodesic,
    logistic,
    pendulum,
    pleiades,
)
from scipy.integrate import solve_bvp

EPSILONS = (1.0, 0.1, 0.01)

OTHERS = {
    "bratu": bratu,
    "bratu-near-fold": lambda: bratu(3.5),
    "hyperbolic": hyperbolic_geodesic,
    "hyperbolic-leftwards": lambda: hyperbolic_geodesic((1.0, 0.6), (-1.0, 0.8)),
    "hyperbolic-vertical": lambda: hyperbolic_geodesic((0.3, 0.5), (0.3, 2.0)),
    "hyperbolic-nearly-vertical": lambda: hyperbolic_geodesic((0.3, 0.5), (0.3 + 1e-9, 2.0)),
    "pendulum": pendulum,
    "coupled": coupled,
}

everywhere = pytest.mark.parametrize(
    "make",
    [pytest.param(lambda n=n, e=e: cash(n, e), id=f"cash{n:02d}-{e}") for n in CASH_NUMBERS for e in EPSILONS]
    + [pytest.param(make, id=name) for name, make in OTHERS.items()],
)


def derivatives(solution, t, radius, degree=14):
    """Value and two derivatives at t, each (D,), of the interpolant on a window around t."""
    domain = (t - radius, t + radius)
    nodes = Chebyshev.basis(degree + 1, domain=domain).roots().real
    values = solution(nodes)
    fits = [Chebyshev.fit(nodes, column, degree, domain=domain) for column in values.T]
    return tuple(np.array([fit.deriv(k)(t) if k else fit(t) for fit in fits]) for k in range(3))


def defect(problem, windows=101):
    """How far the solution is from y'' = f, relative to the largest term, within the interval."""
    t0, t1 = problem.t_span
    # Windows are as narrow as the thinnest layer, which no problem has below epsilon.
    radius = min(0.05, 0.3 * (problem.epsilon or 1.0)) * (t1 - t0)
    t = np.linspace(t0 + radius, t1 - radius, windows)
    rows = [derivatives(problem.solution, s, radius) for s in t]
    y, dy, ddy = map(np.stack, zip(*rows, strict=True))
    return np.abs(ddy - jax.vmap(problem.f)(t, y, dy)).max() / np.abs(ddy).max()


def random_states(problem, m=5):
    rng = np.random.default_rng(0)
    t = rng.uniform(*problem.t_span, m)
    y = problem.solution(t).T
    # Off the solution, where a wrong derivative cannot hide, but inside the half-plane.
    state = np.concatenate((y * rng.uniform(0.8, 1.2, y.shape), rng.normal(size=y.shape)))
    return t, state


def test_the_catalogue():
    assert len(CASH_NUMBERS) >= 14
    names = [make().name for make in IVPS]
    assert len(set(names)) == len(names)


@everywhere
def test_closed_form_solves_the_equation(make):
    assert defect(make()) < 1e-7


def test_the_check_sees_a_wrong_sign():
    right, wrong = cash(7, 0.1), cash(5, 0.1)
    assert defect(right) < 1e-7
    object.__setattr__(right, "f", wrong.f)
    assert defect(right) > 1e-2


@everywhere
def test_boundary_values_are_those_of_the_solution(make):
    problem = make()
    ends = problem.solution(np.array(problem.t_span))
    assert np.all(np.isfinite(ends))
    np.testing.assert_array_equal(ends, [problem.ya, problem.yb])
    assert problem.ya.shape == problem.yb.shape == ends.shape[1:]


# What the test set states, independently of the closed forms.
STATED = {
    1: lambda e: (1, 0),
    2: lambda e: (1, 0),
    3: lambda e: (-1, -1),
    4: lambda e: (1 + np.exp(-2), 1 + np.exp(-2 * (1 + e) / e)),
    5: lambda e: (-1, -1),
    6: lambda e: (-2, 0),
    7: lambda e: (-1, 1),
    8: lambda e: (1, 2),
    9: lambda e: (1 / (1 + e), 1 / (1 + e)),
    10: lambda e: (0, 2),
    11: lambda e: (-1, -1),
    12: lambda e: (-1, 0),
    13: lambda e: (0, -1 + np.exp(-2 / np.sqrt(e))),  # stated as -1, its limit
    14: lambda e: (np.exp(-2 / np.sqrt(e)), np.exp(-2 / np.sqrt(e))),
    15: lambda e: (1, 1),
    16: lambda e: (0, np.sin(np.pi / (2 * e))),
    17: lambda e: (-0.1 / np.sqrt(e + 0.01), 0.1 / np.sqrt(e + 0.01)),
    18: lambda e: (1, np.exp(-1 / e)),
    20: lambda e: (1 + e * np.log(np.cosh(0.745 / e)), 1 + e * np.log(np.cosh(0.255 / e))),
    21: lambda e: (1, np.exp(-1 / np.sqrt(e))),
}


@pytest.mark.parametrize("number", CASH_NUMBERS)
@pytest.mark.parametrize("epsilon", EPSILONS)
def test_boundary_values_are_those_of_the_test_set(number, epsilon):
    problem = cash(number, epsilon)
    stated = STATED[number](problem.epsilon)
    np.testing.assert_allclose([*problem.ya, *problem.yb], stated, rtol=1e-12, atol=1e-12)


def test_end_points_of_the_others():
    assert np.allclose([bratu().ya, bratu().yb], 0, atol=1e-14)
    a, b = (-1.0, 0.5), (1.0, 1.0)
    geodesic = hyperbolic_geodesic(a, b)
    np.testing.assert_allclose([geodesic.ya, geodesic.yb], [a, b], rtol=1e-14)


def test_bratu_takes_the_lower_branch():
    assert bratu(1.0).solution(np.array([0.5]))[0, 0] == pytest.approx(0.14053921, abs=1e-7)
    with pytest.raises(ValueError, match="no solution"):
        bratu(3.6)


@pytest.mark.parametrize("b", [(1.0, 1.0), (-1.0, 3.0)])
def test_hyperbolic_geodesic_has_constant_speed_on_a_circle(b):
    problem = hyperbolic_geodesic((-1.0, 0.5), b)
    t = np.linspace(0.1, 0.9, 9)
    rows = [derivatives(problem.solution, s, 0.05) for s in t]
    y, dy, _ = map(np.stack, zip(*rows, strict=True))
    speed = np.linalg.norm(dy, axis=1) / y[:, 1]
    cosh_distance = 1 + np.sum((problem.ya - problem.yb) ** 2) / (2 * problem.ya[1] * problem.yb[1])
    np.testing.assert_allclose(speed, np.arccosh(cosh_distance), rtol=1e-9)
    if b[0] != -1.0:
        centre = (problem.yb @ problem.yb - problem.ya @ problem.ya) / (2 * (problem.yb[0] - problem.ya[0]))
        radius = np.hypot(y[:, 0] - centre, y[:, 1])
        np.testing.assert_allclose(radius, radius[0], rtol=1e-12)


@everywhere
def test_scipy_form_agrees_with_the_jax_form(make):
    problem = make()
    t, state = random_states(problem)
    values = jax.vmap(first_order(problem.f, 2), out_axes=1)(t, state.T)
    np.testing.assert_allclose(problem.scipy_fun(t, state), values, rtol=1e-11, atol=1e-11)


@everywhere
def test_scipy_jacobian_agrees_with_automatic_differentiation(make):
    problem = make()
    t, state = random_states(problem)
    jacobian = jax.jacfwd(first_order(problem.f, 2), argnums=1)
    values = jax.vmap(jacobian, out_axes=2)(t, state.T)
    np.testing.assert_allclose(problem.scipy_jac(t, state), values, rtol=1e-11, atol=1e-11)


def test_copies_share_one_field():
    one, two = cash(20, 0.1), cash(20, 0.105)
    assert one.field is two.field
    y, dy = jnp.array([0.3]), jnp.array([0.7])
    for problem in (one, two):
        assert problem.f(0.2, y, dy) == problem.field(0.2, y, dy, problem.parameters)


@pytest.mark.parametrize(
    "make",
    [pytest.param(lambda n=n: cash(n, 0.1), id=f"cash{n:02d}") for n in CASH_NUMBERS]
    + [pytest.param(make, id=name) for name, make in OTHERS.items()],
)
def test_solve_bvp_finds_the_closed_form(make):
    problem = make()
    d = problem.ya.size
    t = np.linspace(*problem.t_span, 30)
    s = (t - t[0]) / (t[-1] - t[0])
    line = problem.ya[:, None] * (1 - s) + problem.yb[:, None] * s
    slope = (problem.yb - problem.ya)[:, None] / (t[-1] - t[0]) * np.ones_like(t)
    result = solve_bvp(
        problem.scipy_fun,
        lambda a, b: np.concatenate((a[:d] - problem.ya, b[:d] - problem.yb)),
        t,
        np.concatenate((line, slope)),
        fun_jac=problem.scipy_jac,
        tol=1e-6,
        max_nodes=20_000,
    )
    assert result.success
    fine = np.linspace(*problem.t_span, 501)
    exact = problem.solution(fine)
    assert np.abs(result.sol(fine)[:d].T - exact).max() < 1e-4 * max(1.0, np.abs(exact).max())


# --- initial value problems -----------------------------------------------------------------


@pytest.mark.parametrize("make", IVPS, ids=lambda make: make.__name__)
def test_ivp_solution_starts_right_and_solves_the_equation(make):
    problem = make()
    t0, t1 = problem.t_span
    np.testing.assert_allclose(problem.solution(np.array([t0]))[0], problem.y0, atol=1e-14)
    assert problem.solution(np.linspace(t0, t1, 4)).shape == (4, problem.y0.size)
    radius = 2e-3 * (t1 - t0)
    # Arenstorf's orbit passes the moon at both ends, too fast for windows of this size.
    for t in np.linspace(0.9 * t0 + 0.1 * t1, 0.1 * t0 + 0.9 * t1, 9):
        y, dy, ddy = derivatives(problem.solution, t, radius, degree=10)
        left, right = (dy, problem.f(t, y)) if problem.order == 1 else (ddy, problem.f(t, y, dy))
        # A numerical reference is smooth only up to its own error, which differentiation amplifies.
        scale = np.abs(y).max() + np.abs(left).max()
        np.testing.assert_allclose(left, right, rtol=0, atol=1e-5 * scale)


@pytest.mark.parametrize("make", [logistic, harmonic, damped])
def test_closed_form_of_an_ivp_agrees_with_the_numerical_reference(make):
    problem = make()
    t = np.linspace(*problem.t_span, 50)
    numerical = problem.restarted(problem.y0, problem.dy0).solution
    np.testing.assert_allclose(numerical(t), problem.solution(t), atol=1e-10)


def test_arenstorf_orbit_closes():
    problem = arenstorf()
    np.testing.assert_allclose(problem.solution(np.array(problem.t_span)), np.stack([problem.y0] * 2), atol=1e-9)


def test_pleiades_keep_their_centre_of_mass():
    problem = pleiades()
    mass = np.arange(1.0, 8.0)
    t = np.linspace(*problem.t_span, 20)
    centre = problem.solution(t).reshape(-1, 2, 7) @ mass
    start, drift = problem.y0.reshape(2, 7) @ mass, problem.dy0.reshape(2, 7) @ mass
    np.testing.assert_allclose(centre, start + t[:, None] * drift, atol=1e-9)


def test_pleiades_end_where_the_literature_says():
    # Mazzia and Magherini, Test Set for Initial Value Problem Solvers, problem Pleiades.
    x = [0.3706139143970502, 3.237284092057233, -3.222559032418324, 0.6597091455775310]
    x += [0.3425581707156584, 1.562172101400631, -0.7003092922212495]
    y = [-3.943437585517392, -3.271380973972550, 5.225081843456543, -2.590612434977470]
    y += [1.198213693392275, -0.2429682344935824, 1.091449240428980]
    np.testing.assert_allclose(pleiades().solution(np.array([3.0]))[0], x + y, atol=1e-9)
