"""Two solvers side by side: times at equal measured errors, and the table that shows them.

A run of a solver at one of its settings is a dictionary, here called a row: "time" in seconds,
measured "error", "failures" and "nodes"; ours also have "false" successes.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import jax
import numpy as np
from baselines import diffrax_ivp, relative_error, scipy_bvp
from measures import time_at_error
from problems import BVP, IVP

from probgeo import Curve, solve_bvp, solve_ivp, solvers

NAN = float("nan")
CHECKED = 3  # members of a batch of initial value problems that get a reference solution


# --- runs --------------------------------------------------------------------------------------


def timed(solve: Callable[[], Curve]) -> tuple[Curve, float]:
    start = time.perf_counter()
    curve = jax.block_until_ready(solve())
    return curve, time.perf_counter() - start


def mean_nodes(curve: Curve) -> float:
    """Nodes a member; meshes in a batch are filled up with copies of the end."""
    return float(np.mean(1 + (np.diff(np.asarray(curve.nodes), axis=-1) > 0).sum(axis=-1)))


def solve_copies(copies: Sequence[BVP], solver: solvers.Markov) -> Curve:
    """All copies in one call: they share the equation and the interval."""
    ya, yb, args = (np.array([getattr(p, k) for p in copies]) for k in ("ya", "yb", "parameters"))
    return solve_bvp(copies[0].field, copies[0].t_span, ya, yb, args=args, solver=solver)


def our_bvps(copies: Sequence[BVP], rtol: float) -> dict:
    curve, spent = timed(lambda: solve_copies(copies, solvers.Markov(rtol=rtol)))
    means = np.asarray(curve.mean(np.linspace(*copies[0].t_span, 1001)))  # as in relative_error
    pairs = zip(copies, means, strict=True)
    errors = np.array([relative_error(problem, lambda t, y=y: y) for problem, y in pairs])
    good = np.asarray(curve.converged)
    return {
        "time": spent / len(copies),
        "error": errors.max(),
        "failures": int((~good).sum()),
        "false": int((good & (errors > 10 * rtol)).sum()),
        "nodes": mean_nodes(curve),
    }


def scipy_bvps(copies: Sequence[BVP], tol: float, n_start: int) -> dict:
    row = scipy_bvp(copies, tol, n_start, repeats=1)
    return row | {"time": row["time_per_problem"], "error": row["max_error"]}


def linearisation_for(problem: IVP) -> str:
    """Without Jacobians where there are many dimensions."""
    return "zeroth" if len(problem.y0) > 4 else "first"


def our_ivps(problem: IVP, starts: tuple, references: np.ndarray, rtol: float) -> dict:
    solver = solvers.Markov(rtol=rtol, linearisation=linearisation_for(problem))
    curve, spent = timed(lambda: solve_ivp(problem.f, problem.t_span, *starts, solver=solver))
    good = np.asarray(curve.converged)
    t = np.linspace(*problem.t_span, references.shape[1])
    off, size = np.abs(np.asarray(curve[:CHECKED].mean(t)) - references), np.abs(references)
    along = off.max(axis=(1, 2)) / size.max(axis=(1, 2))
    at_end = np.max(off[:, -1].max(axis=1) / size[:, -1].max(axis=1))
    return {
        "time": spent,
        "error": float(at_end) if np.isfinite(at_end) else np.inf,
        "failures": int((~good).sum()),
        "false": int((good[:CHECKED] & ~(along <= 10 * rtol)).sum()),
        "nodes": mean_nodes(curve),
    }


def dopri8(problem: IVP, starts: tuple, tol: float) -> dict:
    row = diffrax_ivp(problem, *starts, rtol=tol, atol=tol, checked=CHECKED, repeats=1)
    return row | {"nodes": row["steps"]}


# --- comparisons -------------------------------------------------------------------------------


def interleaved(ours: Sequence[Callable], theirs: Sequence[Callable], repeats: int) -> tuple:
    """Rows of both, each the fastest of a few calls, and what our first calls took on top.

    All runs take turns, so that a busy spell of the machine meets both sides.
    """
    first = []
    for run in ours:
        first.append(run()["time"])
        print(f"    first call {1e3 * first[-1]:.0f} ms", flush=True)
    rounds = [[run() for run in (*ours, *theirs)] for _ in range(repeats)]
    rows = [min(same, key=lambda row: row["time"]) for same in zip(*rounds, strict=True)]
    mine, others = rows[: len(ours)], rows[len(ours) :]
    for row in rows:
        if "error" in row:
            marks = f"error {row['error']:.1e}, {row['failures']} failed"
            print(f"    {1e3 * row['time']:.2f} ms, {marks}", flush=True)
    return mine, others, sum(first) - sum(row["time"] for row in mine)


def at_error(rows: Sequence[dict], target: float) -> tuple[float, dict]:
    """The time on the work-precision curve, and the cheapest row, at a measured error.

    Only settings at which every member was solved count, for all solvers alike.
    """
    solved = [row for row in rows if not row["failures"]]
    between = time_at_error([r["error"] for r in solved], [r["time"] for r in solved], target)
    enough = [row for row in solved if row["error"] <= target]
    nothing = {"time": NAN, "nodes": NAN}
    return between, min(enough, key=lambda row: row["time"], default=nothing)


def total(rows: Sequence[dict], key: str) -> int:
    return sum(row[key] for row in rows)


@dataclass(frozen=True)
class Duel:
    """Our rows against theirs: seconds, per problem or per batch, at equal measured errors."""

    name: str
    ours: list[dict]
    theirs: list[dict]
    compile_time: float
    target: float

    def times(self) -> tuple[float, float]:
        return at_error(self.ours, self.target)[0], at_error(self.theirs, self.target)[0]

    def cells(self, ratio: Callable[[float, float], float]) -> list[str]:
        ours, theirs = (at_error(rows, self.target)[1] for rows in (self.ours, self.theirs))
        cells = [self.name]
        for pair in (self.times(), (ours["time"], theirs["time"])):
            cells += [number(1e3 * pair[0]), number(1e3 * pair[1]), number(ratio(*pair), ".1f")]
        cells += [number(row["nodes"], ".0f") for row in (ours, theirs)]
        counts = [total(self.ours, "failures"), total(self.ours, "false")]
        return [*cells, f"{self.compile_time:.1f}", *map(str, counts),
                str(total(self.theirs, "failures"))]  # fmt: skip

    @staticmethod
    def header(other: str, ratio: str) -> list[str]:
        return ["problem", "ours ms", f"{other} ms", ratio, "ours ms, setting",
                f"{other} ms, setting", f"{ratio}, setting", "our nodes", f"{other} nodes",
                "compile s", "our failures", "false successes", f"{other} failures"]  # fmt: skip


def counted(duels: Sequence[Duel], copies: int) -> str:
    rows = [row for duel in duels for row in duel.ours]
    return (
        f"Of our {copies * len(rows)} solves in the sweeps {total(rows, 'failures')} failed and "
        f"said so; **false successes: {total(rows, 'false')}**."
    )


def number(value: float, form: str = ".2f") -> str:
    return format(value, form) if np.isfinite(value) else "-"


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A markdown table, numbers to the right."""
    cells = [header, ["---"] + ["---:"] * (len(header) - 1), *rows]
    return "\n".join("| " + " | ".join(row) + " |" for row in cells)
