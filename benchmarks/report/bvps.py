"""Boundary value problems with closed-form solutions, against SciPy and a spectral fixed point."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

from measures import WRONG

from report import sweeps
from report.scale import Scale
from report.writing import OURS, SPECTRAL, broken

TITLE = "Boundary value problems"
PICTURE = "bvps.png"
TARGET = 1e-5
FIRST_MESHES = (10, 40)  # of SciPy


def run(scale: Scale) -> dict[str, Any]:
    rows = []
    for name, epsilon in scale.bvps:
        rows += one_problem(name, epsilon, scale)
    return {"rows": rows, "members": scale.members, "one_by_one": scale.one_by_one}


def one_problem(name: str, epsilon: float, scale: Scale) -> list[dict]:
    import numpy as np
    import spectral
    from baselines import bvp_families, perturbed, solve_copies, solve_with_scipy
    from measures import largest_errors

    from probgeo import solvers

    copies = perturbed(bvp_families(epsilon)[name], scale.members)
    few = copies[: scale.one_by_one]
    label = f"{name}, {epsilon:g}" if name.startswith("cash") else name
    t_span = copies[0].t_span
    t = np.linspace(*t_span, 501)
    exact = np.array([problem.solution(t) for problem in copies])
    ya, yb, args = (np.array([getattr(p, k) for p in copies]) for k in ("ya", "yb", "parameters"))

    def ours(rtol):
        return solve_copies(copies, solvers.Markov(rtol=rtol))

    def fixed_point(tol):
        return spectral.solve(copies[0].field, t_span, ya, yb, args, tol)

    def scipys(n, tol):
        return [solve_with_scipy(problem, tol, n) for problem in few]

    def of_scipy(found):
        y = np.array([r.sol(t)[: ya.shape[1]].T for r in found])
        return largest_errors(y, exact[: len(few)]), [r.success for r in found]

    sweep = partial(sweeps.swept, label)
    rows = sweep(OURS, scale.rtols, lambda: ours,
                 lambda c: (largest_errors(c.mean(t), exact), c.converged),
                 len(copies))  # fmt: skip
    rows += sweep(SPECTRAL, scale.tols, lambda: fixed_point,
                  lambda s: (largest_errors(s.position(t), exact), s.converged),
                  len(copies))  # fmt: skip
    for n in FIRST_MESHES:
        rows += sweep(f"SciPy solve_bvp, {n} nodes", scale.scipy_tols,
                      lambda n=n: partial(scipys, n), of_scipy, len(few),
                      compiles=False)  # fmt: skip
    return rows


def text(result: dict[str, Any]) -> str:
    rows = result["rows"]
    return "\n\n".join(part for part in [
        f"Perturbed copies of each problem, {result['members']} of them in one batch. "
        f"`solve_bvp` takes the first {result['one_by_one']}, one after the other, with "
        "vectorised right-hand sides and analytic Jacobians, from meshes of "
        f"{' and '.join(map(str, FIRST_MESHES))} nodes. The spectral fixed point (Chebyshev nodes, "
        "Picard's iteration in integral form, Anderson's acceleration) is a few dozen lines of JAX "
        "in `benchmarks/spectral.py`, batched and compiled, without Jacobians or error bars. All "
        "start from the straight line. Errors are the largest along the curve, relative to the "
        "size of the closed-form solution; ours come with a posterior, whose cost is included. The "
        "number after a problem is its epsilon: the smaller, the thinner the layers.",
        f"![Work against precision on boundary value problems](images/benchmarks/{PICTURE})",
        "Hollow marks: a member failed, or was declared solved with an error above "
        f"{WRONG:g}. CPU milliseconds a problem at a largest error of {TARGET:g}:",
        *sweeps.findings(rows, TARGET),
        broken(rows),
    ] if part)  # fmt: skip


def headlines(result: dict[str, Any]) -> list[str]:
    others = (SPECTRAL, *(f"SciPy solve_bvp, {n} nodes" for n in FIRST_MESHES))
    return sweeps.against(result["rows"], TARGET, others)


def draw(result: dict[str, Any], folder: Path) -> None:
    sweeps.draw(result["rows"], folder / PICTURE, "a problem", TARGET)
