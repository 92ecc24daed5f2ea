"""What the classical solvers need on the same problems: SciPy's solve_bvp and Diffrax's Dopri8.

The baselines get every advantage a careful user would give them: vectorised right-hand sides and
analytic Jacobians for solve_bvp, one compiled and batched program for Dopri8. Times are the best of
a few repeats, errors are measured against the known solution, not the solver's own estimate.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import diffrax
import jax
import jax.numpy as jnp
import numpy as np
from measures import time_at_error
from problems import (
    BVP,
    CASH_NUMBERS,
    IVP,
    arenstorf,
    bratu,
    cash,
    coupled,
    first_order,
    hyperbolic_geodesic,
    pendulum,
    pleiades,
)
from scipy.integrate import solve_bvp

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


def relative_error(problem: BVP, estimate: Callable, points: int = 1001) -> float:
    """max |estimate - solution| / max |solution| on a uniform grid, estimate: t (T,) -> (T, D)."""
    t = np.linspace(*problem.t_span, points)
    exact = problem.solution(t)
    error = np.abs(estimate(t) - exact).max() / np.abs(exact).max()
    return float(error) if np.isfinite(error) else float("inf")


def scipy_bvp(
    problem_batch: Sequence[BVP], tol: float, n_start: int = 30, repeats: int = 3
) -> dict[str, float]:
    """solve_bvp on one problem after the other, as it cannot do better."""
    times, results = [], []
    for _ in range(repeats):
        start = time.perf_counter()
        results = [solve_with_scipy(problem, tol, n_start) for problem in problem_batch]
        times.append((time.perf_counter() - start) / len(problem_batch))
    errors = [
        relative_error(problem, lambda t, r=result, d=problem.ya.size: r.sol(t)[:d].T)
        for problem, result in zip(problem_batch, results, strict=True)
    ]
    return {
        "time_per_problem": min(times),
        "max_error": max(errors),
        "failures": sum(not result.success for result in results),
        "nodes": float(np.mean([result.x.size for result in results])),
    }


def scipy_work_precision(
    problem_batch: Sequence[BVP],
    target: float = 1e-5,
    tols: Sequence[float] = tuple(10.0**-k for k in range(2, 10)),
    n_starts: Sequence[int] = (20, 40),
    repeats: int = 3,
) -> dict:
    """Sweep the tolerance and the first mesh, and read off the time at a measured error."""
    rows = [
        {"tol": tol, "n_start": n} | scipy_bvp(problem_batch, tol, n, repeats)
        for n in n_starts
        for tol in tols
    ]
    solved = [row for row in rows if not row["failures"]]
    errors = [row["max_error"] for row in solved]
    times = [row["time_per_problem"] for row in solved]
    return {"rows": rows, "target": target, "time_at_target": time_at_error(errors, times, target)}


# --- Dopri8 ---------------------------------------------------------------------------------


def perturbed_starts(problem: IVP, n: int, size: float, seed: int = 0):
    """n initial values, each component changed by at most `size` relative to the largest."""
    rng = np.random.default_rng(seed)

    def jitter(v):
        return v + size * np.abs(v).max() * rng.uniform(-1, 1, (n, v.size))

    return jitter(problem.y0), None if problem.dy0 is None else jitter(problem.dy0)


def _dopri8(problem: IVP, rtol: float, atol: float, max_steps: int) -> Callable:
    field = first_order(problem.f, problem.order)
    term = diffrax.ODETerm(lambda t, state, _: field(t, state))

    def solve(state):
        result = diffrax.diffeqsolve(
            term,
            diffrax.Dopri8(),
            *problem.t_span,
            dt0=None,
            y0=state,
            stepsize_controller=diffrax.PIDController(rtol=rtol, atol=atol),
            saveat=diffrax.SaveAt(t1=True),
            max_steps=max_steps,
            throw=False,
        )
        return result.ys[0], result.stats["num_steps"], result.result == diffrax.RESULTS.successful

    return jax.jit(jax.vmap(solve))


def diffrax_ivp(
    problem: IVP,
    y0_batch,
    dy0_batch=None,
    rtol: float = 1e-8,
    atol: float = 1e-8,
    checked: int = 3,
    repeats: int = 3,
    max_steps: int = 100_000,
) -> dict[str, float]:
    """Dopri8 on a batch of initial values, mapped, compiled and in double precision.

    The error is that of y at the final time, relative to max |y| there, over the first `checked`
    members of the batch: each of them has a reference solution computed to about 1e-11.
    """
    parts = [np.asarray(v, float) for v in (y0_batch, dy0_batch) if v is not None]
    states = jnp.concatenate(parts, axis=1)

    start = time.perf_counter()
    solve = _dopri8(problem, rtol, atol, max_steps).lower(states).compile()
    compile_time = time.perf_counter() - start

    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        ends, steps, solved = jax.block_until_ready(solve(states))
        times.append(time.perf_counter() - start)

    def error(i):
        reference = problem.restarted(*(part[i] for part in parts)).solution
        exact = reference(np.array(problem.t_span[1:]))[0]
        return np.abs(ends[i, : exact.size] - exact).max() / np.abs(exact).max()

    return {
        "time": min(times),
        "compile_time": compile_time,
        "error": float(max(error(i) for i in range(min(checked, len(states))))),
        "failures": int(np.sum(~np.asarray(solved))),
        "steps": int(np.max(steps)),
    }


def diffrax_work_precision(
    problem: IVP,
    y0_batch,
    dy0_batch=None,
    target: float = 1e-6,
    tols: Sequence[float] = tuple(10.0**-k for k in range(5, 12)),
) -> dict:
    rows = [
        {"tol": tol} | diffrax_ivp(problem, y0_batch, dy0_batch, rtol=tol, atol=tol) for tol in tols
    ]
    solved = [row for row in rows if not row["failures"]]
    errors, times = [row["error"] for row in solved], [row["time"] for row in solved]
    return {"rows": rows, "target": target, "time_at_target": time_at_error(errors, times, target)}


def main() -> None:
    print("solve_bvp, epsilon = 0.1, 5 copies of each problem: ms per problem at an error of 1e-5")
    for name, make in bvp_families(epsilon=0.1).items():
        sweep = scipy_work_precision(perturbed(make, 5))
        failures = sum(row["failures"] for row in sweep["rows"])
        print(
            f"  {name:12s} {1e3 * sweep['time_at_target']:8.2f}   {failures} failures in the sweep"
        )

    print("Dopri8, 100 initial values: ms for the batch at an error of 1e-6")
    for problem, size in ((pleiades(), 1e-3), (arenstorf(), 1e-6)):
        sweep = diffrax_work_precision(problem, *perturbed_starts(problem, 100, size))
        spent = 1e3 * sweep["time_at_target"]
        compiling = max(row["compile_time"] for row in sweep["rows"])
        print(f"  {problem.name:12s} {spent:8.1f}   compiled in {compiling:.1f} s")


if __name__ == "__main__":
    main()
