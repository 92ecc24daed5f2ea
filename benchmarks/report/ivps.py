"""Initial value problems, against SciPy, Diffrax and probdiffeq."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

from report import sweeps
from report.scale import Scale
from report.writing import OURS, broken

TITLE = "Initial value problems"
PICTURE = "ivps.png"
TARGET = 1e-6
CHECKED = 5  # members that get a reference solution
SPREAD = {"pleiades": 1e-3}  # of the initial values, relative; else 1e-2
PROBDIFFEQ_ORDER = 5  # that of our default


def run(scale: Scale) -> dict[str, Any]:
    rows = []
    for name in scale.ivps:
        rows += one_problem(name, scale)
    return {"rows": rows, "members": scale.members}


def problem_and_batch(name: str, members: int):
    """An initial value problem, and perturbed copies of it."""
    import problems
    from baselines import perturbed_starts
    from peers import Batch

    problem = exponential_map() if name == "exponential map" else getattr(problems, name)()
    starts = perturbed_starts(problem, members, SPREAD.get(name, 1e-2))
    return problem, Batch(problem.f, problem.t_span, *starts)


def exponential_map():
    """Half-way along a straight line through digits, in the metric learned from them."""
    import numpy as np
    from learned import learned
    from problems import IVP, numerical_solution

    X, metric = learned("ones")
    a, b = X[np.argmin(X[:, 0])], X[np.argmax(X[:, 0])]
    start = (0.0, 1.0), a, 0.5 * (b - a)

    def f(t, y, dy):
        return metric.acceleration(y, dy)

    return IVP("exponential map", f, *start, numerical_solution(f, *start))


def references(problem, batch):
    """Tight solutions (M, T, D) of the first members, along the interval."""
    import numpy as np

    starts = [v for v in (batch.y0, batch.dy0) if v is not None]
    t = np.linspace(*problem.t_span, 101)
    members = [[v[i] for v in starts] for i in range(min(CHECKED, len(batch.y0)))]
    return np.array([problem.restarted(*m).solution(t) for m in members])


def one_problem(name: str, scale: Scale) -> list[dict]:
    import numpy as np
    from peers import Ends, by_diffrax, by_probdiffeq, by_scipy

    from probgeo import solve_ivp, solvers

    problem, batch = problem_and_batch(name, scale.members)
    exact = references(problem, batch)
    large = batch.y0.shape[1] > 4

    def ours(rtol):
        curve = solve_ivp(batch.f, batch.t_span, batch.y0, batch.dy0, solver=solvers.Markov(rtol=rtol))
        end = curve(batch.t_span[1])  # with its covariance
        return Ends(end.mean, curve.converged)

    def judge(ends):
        """Failures count for all members, errors for those with a reference."""
        errors = np.zeros(len(ends.y))
        off = np.abs(ends.y[: len(exact)] - exact[:, -1]).max(axis=1)
        errors[: len(exact)] = off / np.abs(exact).max(axis=(1, 2))
        return errors, ends.converged

    sweep = partial(sweeps.swept, name.replace("_", " "), judge=judge, members=len(batch.y0))
    rows = sweep(OURS, scale.rtols, lambda: ours)
    for method in ("Tsit5", "Dopri8"):
        rows += sweep(f"Diffrax {method}", scale.tols, lambda m=method: by_diffrax(batch, m))
    for kind in ("ts0",) if large else ("ts0", "ts1"):
        prepare = partial(by_probdiffeq, batch, kind, PROBDIFFEQ_ORDER)
        rows += sweep(f"probdiffeq {kind.upper()}", scale.tols, prepare)
    rows += sweep("SciPy DOP853", scale.tols, lambda: by_scipy(batch, "DOP853"))
    return rows


def text(result: dict[str, Any]) -> str:
    rows = result["rows"]
    return "\n\n".join(part for part in [
        f"{result['members']} perturbed initial values of each problem in one batch: mapped and "
        "compiled for Diffrax and probdiffeq (adaptive steps, integrated Wiener process of order "
        f"{PROBDIFFEQ_ORDER}, filter, with its step control and defaults; TS0 without Jacobians, "
        "isotropic; TS1 with them, dense), one stacked system with a compiled right-hand side for "
        "SciPy. They return the final value, ours the smoothed posterior over the whole curve. "
        "Errors are at the final time, relative to the largest value on the way; they, and false "
        f"successes, are looked at for the first {CHECKED} members. The exponential map is that of "
        "the metric learned from the digits.",
        f"![Work against precision on initial value problems](images/benchmarks/{PICTURE})",
        f"CPU milliseconds a problem at a largest error of {TARGET:g}:",
        *sweeps.findings(rows, TARGET),
        broken(rows),
    ] if part)  # fmt: skip


def headlines(result: dict[str, Any]) -> list[str]:
    others = ("Diffrax Dopri8", "probdiffeq TS0", "SciPy DOP853")
    return sweeps.against(result["rows"], TARGET, others)


def draw(result: dict[str, Any], folder: Path) -> None:
    sweeps.draw(result["rows"], folder / PICTURE, "a problem", TARGET)
