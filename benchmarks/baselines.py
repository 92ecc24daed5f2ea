"""Perturbed copies of the problems, and how SciPy's solve_bvp and ours take them.

SciPy gets every advantage a careful user would give it: vectorised right-hand sides and analytic
Jacobians.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from problems import BVP, CASH_NUMBERS, IVP, bratu, cash, coupled, hyperbolic_geodesic, pendulum
from scipy.integrate import solve_bvp

import probgeo

Make = Callable[[np.random.Generator], BVP]


# --- perturbed copies -----------------------------------------------------------------------


def perturbed(make_problem: Make, n: int, seed: int = 0) -> list[BVP]:
    """n random copies of a problem, each with its own closed-form solution."""
    rng = np.random.default_rng(seed)
    return [make_problem(rng) for _ in range(n)]


def _few_per_cent(rng: np.random.Generator, size=None):
    return rng.uniform(0.95, 1.05, size)


def cash_copies(number: int, epsilon: float) -> Make:
    if number == 16:
        # 1/epsilon counts half turns and the problem is singular when it is even: stay near odd.
        frequency = 1 / cash(16, epsilon).epsilon
        return lambda rng: cash(16, 1 / (frequency + rng.uniform(-0.3, 0.3)))
    return lambda rng: cash(number, epsilon * _few_per_cent(rng))


def bratu_copies(lam: float = 1.0) -> Make:
    return lambda rng: bratu(lam * _few_per_cent(rng))


def hyperbolic_copies(a=(-1.0, 0.5), b=(1.0, 1.0)) -> Make:
    return lambda rng: hyperbolic_geodesic(a * _few_per_cent(rng, 2), b * _few_per_cent(rng, 2))


def pendulum_copies(k: float = 0.8) -> Make:
    return lambda rng: pendulum(k * _few_per_cent(rng))


def coupled_copies(turns: float = 3.0) -> Make:
    return lambda rng: coupled(turns * _few_per_cent(rng))


def bvp_families(epsilon: float = 0.1) -> dict[str, Make]:
    """Every boundary value problem, as a source of perturbed copies."""
    return {
        "bratu": bratu_copies(),
        "hyperbolic": hyperbolic_copies(),
        "pendulum": pendulum_copies(),
        "coupled": coupled_copies(),
    } | {f"cash{n:02d}": cash_copies(n, epsilon) for n in CASH_NUMBERS}


def perturbed_starts(problem: IVP, n: int, size: float, seed: int = 0):
    """n initial values, each component changed by at most `size` relative to the largest."""
    rng = np.random.default_rng(seed)

    def jitter(v):
        return v + size * np.abs(v).max() * rng.uniform(-1, 1, (n, v.size))

    return jitter(problem.y0), None if problem.dy0 is None else jitter(problem.dy0)


# --- solve_bvp ------------------------------------------------------------------------------


def straight_line(problem: BVP, n: int):
    """A uniform mesh and the state (y, y') of the straight line between the boundary values."""
    t = np.linspace(*problem.t_span, n)
    step = (problem.yb - problem.ya)[:, None]
    s = (t - t[0]) / (t[-1] - t[0])
    slope = np.broadcast_to(step / (t[-1] - t[0]), (problem.ya.size, n))
    return t, np.concatenate((problem.ya[:, None] + step * s, slope))


def solve_with_scipy(problem: BVP, tol: float, n_start: int):
    d = problem.ya.size
    data = np.concatenate((problem.ya, problem.yb))
    at_start, at_end = np.zeros((2, 2 * d, 2 * d))
    at_start[:d, :d] = at_end[d:, :d] = np.eye(d)
    return solve_bvp(
        problem.scipy_fun,
        lambda a, b: np.concatenate((a[:d], b[:d])) - data,
        *straight_line(problem, n_start),
        fun_jac=problem.scipy_jac,
        bc_jac=lambda a, b: (at_start, at_end),
        tol=tol,
        max_nodes=20_000,
    )


def solve_copies(copies: Sequence[BVP], solver: probgeo.solvers.Markov) -> probgeo.Curve:
    """All copies in one call: they share the equation and the interval."""
    ya, yb, args = (np.array([getattr(p, k) for p in copies]) for k in ("ya", "yb", "parameters"))
    return probgeo.solve_bvp(copies[0].field, copies[0].t_span, ya, yb, args=args, solver=solver)
