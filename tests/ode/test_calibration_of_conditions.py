"""Error bars of curves and parameters from both sides, against closed forms and SciPy."""

import jax.numpy as jnp
import numpy as np
import pytest
from scipy.integrate import solve_bvp as scipys
from scipy.optimize import brentq
from scipy.special import jn_zeros, jv, mathieu_a, mathieu_cem

from probgeo import at, condition, periodic, robin, solve_bvp, solvers

RTOLS = (1e-3, 1e-5, 1e-7)
T = np.linspace(0.0, 1.0, 203)[1:-1]


# each gives a batch of curves, their true values (B, T) at t (T,) and true parameters (B,) or None


def robins(solver):
    a = np.linspace(1.0, 8.0, 6)[:, None]
    curves = solve_bvp(
        lambda t, y, dy, a: a**2 * y, (0.0, 1.0), args=a, solver=solver,
        conditions=[at(0, y=np.ones((6, 1))), robin(1, y=0.5, dy=1.0)],
    )  # fmt: skip
    up, down = (0.5 + a) * np.exp(a), (0.5 - a) * np.exp(-a)
    share = -down / (up - down)
    return curves, T, share * np.exp(a * T) + (1 - share) * np.exp(-a * T), None


def periods(solver):
    a = np.linspace(1.5, 6.5, 6)[:, None]
    curves = solve_bvp(
        lambda t, y, dy, a: -a * y + jnp.exp(jnp.sin(t)) * (jnp.cos(t) ** 2 - jnp.sin(t) + a),
        (0.0, 2 * np.pi), args=a, conditions=[periodic()], solver=solver,
        guess=np.zeros((6, 5, 1)),
    )  # fmt: skip
    t = 2 * np.pi * T
    return curves, t, np.tile(np.exp(np.sin(t)), (6, 1)), None


def interiors(solver):
    w = np.linspace(2.0, 7.0, 6)[:, None]
    inside = np.sin(0.4 * w) + np.cos(0.4 * w)
    curves = solve_bvp(
        lambda t, y, dy, w: -(w**2) * y, (0.0, 1.0), args=w, solver=solver,
        conditions=[at(0, y=np.ones((6, 1))), at(0.4, y=inside)],
    )  # fmt: skip
    return curves, T, np.sin(w * T) + np.cos(w * T), None


def beams(solver):
    a = np.array([30.0, 100.0, 400.0, 1500.0])
    curves = solve_bvp(
        lambda t, y, dy, d2y, d3y, a: 1.0 - a * y, (0.0, 1.0), args=a[:, None], order=4,
        conditions=[at(0, y=np.zeros((4, 1)), dy=0.0), at(1, d2y=0.0, d3y=0.0)], solver=solver,
    )  # fmt: skip
    truths = []
    for own in a:
        roots = own**0.25 * np.exp(1j * np.pi * (2 * np.arange(4) + 1) / 4)
        rows = [roots**0, roots, roots**2 * np.exp(roots), roots**3 * np.exp(roots)]
        factors = np.linalg.solve(np.array(rows), [-1 / own, 0, 0, 0])
        truths.append(1 / own + (np.exp(np.outer(T, roots)) @ factors).real)
    return curves, T, np.array(truths), None


def bratus(upper):
    def solve(solver):
        a = np.array([0.5, 1.0, 2.0, 3.0])
        heights = np.array([5.5, 4.1, 3.0, 2.0] if upper else 4 * [0.0])
        curves = solve_bvp(
            lambda t, y, dy, a: -a * jnp.exp(y), (0.0, 1.0), args=a[:, None], solver=solver,
            conditions=[at(0, y=0.0), at(1, y=0.0)],
            guess=lambda t: 4 * t * (1 - t) * heights[:, None],
        )  # fmt: skip
        truths = []
        for own in a:
            turn = brentq(lambda x, s=own: 1 - np.sqrt(2 * s) / 4 * np.sinh(x / 4), 1e-3, 60.0)
            theta = brentq(
                lambda x, s=own: x - np.sqrt(2 * s) * np.cosh(x / 4),
                *((turn, 100.0) if upper else (0.0, turn)), xtol=1e-14,
            )  # fmt: skip
            truths.append(-2 * np.log(np.cosh((T - 0.5) * theta / 2) / np.cosh(theta / 4)))
        return curves, T, np.array(truths), None

    return solve


def waves(solver):
    """SciPy's Sturm-Liouville problem, with densities 1 / (1 + a t)^2 that have closed forms."""
    a = np.array([0.2, 0.5, 1.0, 2.0])
    s = np.log(1 + a)
    modes = np.array([1, 2, 3, 2])
    k = np.sqrt(a**2 / 4 + (modes * np.pi * a / s) ** 2)
    grown = np.log(1 + np.outer(a, T))
    phase = (modes * np.pi / s)[:, None]

    def start(t):
        x = np.log(1 + a * t) * modes * np.pi / s
        return (np.sqrt(1 + a * t) * np.sin(x) * s / (modes * np.pi * a))[:, None]

    def g(ya, dya, yb, dyb, p):
        return jnp.array([ya[0], yb[0], dya[0] - 1.0])

    curves = solve_bvp(
        lambda t, y, dy, both: -(both[0] ** 2) / (1 + both[1] * t) ** 2 * y, (0.0, 1.0),
        args=a[:, None], parameters=1.03 * k[:, None], conditions=[condition(g)], guess=start,
        solver=solver,
    )  # fmt: skip
    truths = np.sqrt(1 + np.outer(a, T)) * np.sin(phase * grown) / (phase * a[:, None])
    return curves, T, truths, k


def mathieus(solver):
    modes, q = (x.ravel() for x in np.meshgrid([2, 3, 4], [1.0, 3.0, 5.0]))
    values = np.array([mathieu_a(m, s) for m, s in zip(modes, q, strict=True)])
    first = np.array([mathieu_cem(m, s, 0.0)[0] for m, s in zip(modes, q, strict=True)])

    def start(t):
        both = zip(modes, q, strict=True)
        return np.array([[mathieu_cem(m, s, np.degrees(t))[0]] for m, s in both]) / first[:, None]

    curves = solve_bvp(
        lambda t, y, dy, both: -(both[0] - 2 * both[1] * jnp.cos(2 * t)) * y, (0.0, np.pi),
        conditions=[at(0, y=1.0, dy=0.0), at(np.pi, dy=0.0)], parameters=values[:, None] + 0.1,
        args=q[:, None], guess=start, solver=solver,
    )  # fmt: skip
    t = np.pi * T
    both = zip(modes, q, strict=True)
    truths = np.array([mathieu_cem(m, s, np.degrees(t))[0] for m, s in both]) / first[:, None]
    return curves, t, truths, values


def drums(solver):
    zeros = jn_zeros(0, 6)
    curves = solve_bvp(
        lambda t, y, dy, p: -dy / t - p[0] ** 2 * y, (0.0, 1.0), solver=solver,
        conditions=[at(0, y=1.0, dy=0.0), at(1, y=0.0)], parameters=zeros[:, None] + 0.05,
        guess=lambda t: jv(0, zeros * t)[:, None],
    )  # fmt: skip
    return curves, T, jv(0, zeros[:, None] * T), zeros


def oscillators(solver):
    """Limit cycles of van der Pol's equation, against SciPy."""
    mu = np.array([0.2, 0.5, 0.8, 1.2])
    curves = solve_bvp(
        lambda t, y, dy, both: both[0] * both[1] * (1 - y**2) * dy - both[0] ** 2 * y, (0.0, 1.0),
        args=mu[:, None], parameters=np.full((4, 1), 6.5), conditions=[periodic(), at(0, dy=0.0)],
        guess=lambda t: np.full((4, 1), 2 * np.cos(2 * np.pi * t)), solver=solver,
    )  # fmt: skip
    return curves, T, *cycles(tuple(mu))


FOUND = {}


def cycles(strengths):
    if strengths not in FOUND:
        t = np.linspace(0, 1, 101)
        start = np.array([2 * np.cos(2 * np.pi * t), -4 * np.pi * np.sin(2 * np.pi * t)])
        answers = [
            scipys(
                lambda t, y, p, s=s: np.array(
                    [y[1], p[0] * s * (1 - y[0] ** 2) * y[1] - p[0] ** 2 * y[0]]
                ),
                lambda ya, yb, p: np.array([*(ya - yb), ya[1]]),
                t, start, [6.5], tol=1e-9, max_nodes=100_000,
            )
            for s in strengths
        ]  # fmt: skip
        assert all(answer.success for answer in answers)
        FOUND[strengths] = (
            np.array([answer.sol(T)[0] for answer in answers]),
            np.array([answer.p[0] for answer in answers]),
        )
    return FOUND[strengths]


KINDS = {
    "Robin": robins, "periodic": periods, "interior": interiors, "beam": beams,
    "Bratu, lower": bratus(upper=False), "Bratu, upper": bratus(upper=True),
    "Sturm-Liouville": waves, "Mathieu": mathieus, "Bessel": drums, "van der Pol": oscillators,
}  # fmt: skip


@pytest.mark.parametrize("rtol", RTOLS)
def test_error_bars_fit_the_errors(rtol):
    covered, squares, of_parameters = [], [], []
    for name, kind in KINDS.items():
        curves, t, truths, parameters = kind(solvers.Markov(rtol=rtol))
        assert curves.converged.all(), name
        error, std = curves.mean(t)[..., 0] - truths, curves.std(t)[..., 0]
        assert np.all(np.abs(error).max(axis=1) <= 4 * rtol * np.abs(truths).max(axis=1)), name
        covered.append(np.mean(np.abs(error) <= 2 * std))
        squares += list(np.mean((error / std) ** 2, axis=1))
        if parameters is not None:
            known = curves.parameters
            of_parameters += list((known.mean[:, 0] - parameters) / known.std[:, 0])
    assert 0.90 <= np.mean(covered) <= 0.99
    assert 0.2 <= np.median(squares) <= 4.0
    normed = np.array(of_parameters)
    assert 0.90 <= np.mean(np.abs(normed) <= 2) <= 1.0
    assert 0.2 <= np.median(normed**2) <= 4.0


@pytest.mark.parametrize("kind", [mathieus, drums])
def test_eigenvalues_to_eight_digits(kind):
    curves, _, _, values = kind(solvers.Markov(rtol=1e-9))
    error = np.abs(curves.parameters.mean[:, 0] - values)
    assert error.max() <= 1e-8
    assert np.mean(error <= 2 * curves.parameters.std[:, 0]) >= 0.9
