"""What the dense solver costs, on one thread: by error model, by number of nodes, by dimension.

    python benchmarks/dense.py

prints markdown tables and writes them to benchmarks/results/dense.md.
"""

# ruff: noqa: E402  (threads have to be limited before JAX starts them)
from __future__ import annotations

import os
import platform
import time
import warnings
from collections.abc import Callable, Sequence
from importlib.metadata import version
from pathlib import Path

os.environ.setdefault("PROBGEO_COMPILE", "thorough")  # compilation is apart
os.environ["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"
for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[name] = "1"
if hasattr(os, "sched_setaffinity"):
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})

import jax
import jax.numpy as jnp
import numpy as np
from problems import hyperbolic_geodesic

from probgeo import ConvergenceWarning, Curve, solve_bvp, solvers

RESULTS = Path(__file__).parent / "results" / "dense.md"
REPEATS = 2

MODELS = {
    "none": "none",
    "BoundError(1, 1)": solvers.BoundError(1.0, 1.0),
    "jacobian": "jacobian",
    "bound": "bound",
    "linearised": "linearised",
}
DEFAULT = solvers.Dense().refinements
NEAR = (-0.5, 1.0), (0.5, 1.5)  # ends of geodesics in the hyperbolic half-plane
FAR = (-1.0, 0.5), (1.0, 1.0)
FIELD = hyperbolic_geodesic().f  # one equation for all; only the ends differ


def measure(solve: Callable[[], Curve]) -> tuple[Curve, float, float]:
    """The curves, the best time of a few calls, and what the first call took on top of it.

    Processor time, not that on the clock: on one thread they differ only if the machine is busy.
    """
    times = []
    for _ in range(1 + REPEATS):
        start = time.process_time()
        curve = jax.block_until_ready(solve())
        times.append(time.process_time() - start)
    steady = min(times[1:])
    return curve, steady, times[0] - steady


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A markdown table, numbers to the right."""
    cells = [header, ["---"] + ["---:"] * (len(header) - 1), *rows]
    return "\n".join("| " + " | ".join(row) + " |" for row in cells)


# --- error models -----------------------------------------------------------------------------


class Geodesics:
    """A batch of geodesics of the hyperbolic half-plane, their ends jittered by 5 per cent."""

    t = np.linspace(0.0, 1.0, 101)

    def __init__(self, ends: tuple, n: int, seed: int = 0) -> None:
        jitter = np.random.default_rng(seed).uniform(0.95, 1.05, (n, 2, 2))
        problems = [hyperbolic_geodesic(*pair) for pair in np.array(ends) * jitter]
        self.ya, self.yb = (np.array([getattr(p, k) for p in problems]) for k in ("ya", "yb"))
        self.exact = np.array([p.solution(self.t) for p in problems])

    def row(self, model: object, n_points: int, refinements: int, from_line: bool) -> list:
        """Steady time, compile time and the quality of the answer."""
        solver = solvers.Dense(n_points=n_points, error_model=model, refinements=refinements)
        guess = np.stack([self.ya, self.yb], axis=1) if from_line else None
        curve, steady, compiling = measure(
            lambda: solve_bvp(FIELD, (0.0, 1.0), self.ya, self.yb, solver=solver, guess=guess)
        )
        error = np.abs(np.asarray(curve.mean(self.t)) - self.exact).max(axis=(1, 2))
        error = np.where(np.isfinite(error), error, np.inf) / np.abs(self.exact).max(axis=(1, 2))
        good = np.asarray(curve.converged)
        quality = [
            f"{np.mean(np.asarray(curve.n_evaluations)) / n_points:.1f}",
            f"{100 * np.mean(good):.1f} %",
            f"{np.median(error):.1e}",
        ]
        return [steady / len(good), compiling, quality]


def error_models(n_problems: int = 1000, n_points: int = 20) -> str:
    near, far = Geodesics(NEAR, n_problems), Geodesics(FAR, n_problems)
    cases = {
        ("near", "0", "own"): (near, 0, False),
        ("near", str(DEFAULT), "own"): (near, DEFAULT, False),
        ("far", str(DEFAULT), "own"): (far, DEFAULT, False),
        ("far", str(DEFAULT), "line"): (far, DEFAULT, True),
    }
    rows, base = [], {}
    for name, model in MODELS.items():
        jax.clear_caches()
        for case, (batch, refinements, from_line) in cases.items():
            steady, compiling, quality = batch.row(model, n_points, refinements, from_line)
            ratio = steady / base.setdefault(case, steady)
            # cases that differ in data only run the same program
            compiled = f"{compiling:.1f}" if compiling > 0.5 else "same"
            rows.append([name, *case, f"{1e6 * steady:.0f}", f"{ratio:.1f}", compiled, *quality])
            print(" ".join(rows[-1]), flush=True)
    rows.sort(key=lambda row: list(cases).index(tuple(row[1:4])))
    header = ["error model", "ends", "refinements", "start", "us / problem", "ratio to none",
              "compile s", "evaluations / N", "converged", "median error"]  # fmt: skip
    return (
        f"## Error models\n\n{n_problems} geodesics of the hyperbolic half-plane in a batch, "
        f"N = {n_points}; ends near {NEAR[0]} and {NEAR[1]}, or farther apart near {FAR[0]} and "
        f"{FAR[1]}, jittered by 5 %. Left to its own start, the solver takes the better of the "
        "paper's recursion and the straight line; else it is given the line as a guess. The error "
        "is the largest one along the curve relative to the size of the solution, its median is "
        "over the batch, converged or not. Evaluations of f a node include the first pass, the "
        "comparison of the two starts and the final check.\n\n" + table(header, rows)
    )


# --- growth -----------------------------------------------------------------------------------


def pendulums(t, y, dy):
    """A ring of pendulums, each pulled towards its two neighbours."""
    return -jnp.sin(y) + 0.5 * (jnp.roll(y, 1) + jnp.roll(y, -1) - 2 * y)


def time_per_problem(model: str, n_points: int, dimension: int, batch: int) -> float:
    """Seconds for one pass, without refinement: every problem then does the same work."""
    yb = np.random.default_rng(0).uniform(0.5, 1.0, (batch, dimension))
    solver = solvers.Dense(n_points=n_points, error_model=model, refinements=0)
    ya = np.zeros_like(yb)
    jax.clear_caches()
    _, steady, _ = measure(lambda: solve_bvp(pendulums, (0.0, 1.0), ya, yb, solver=solver))
    return steady / batch


def exponents(sizes: Sequence[int], times: Sequence[float]) -> list[str]:
    """Slopes in the logarithms: over all sizes, and between the two largest."""
    x, y = np.log(sizes), np.log(times)
    return [f"{np.polyfit(x, y, 1)[0]:.2f}", f"{(y[-1] - y[-2]) / (x[-1] - x[-2]):.2f}"]


def growth(
    title: str,
    symbol: str,
    sizes: Sequence[int],
    arguments: Callable[[int], tuple[int, int]],
    batches: dict[str, Sequence[int]],
    stated: dict[str, str],
) -> str:
    rows = []
    for model, per_size in batches.items():
        times = [
            time_per_problem(model, *arguments(size), batch)
            for size, batch in zip(sizes, per_size, strict=True)
        ]
        counts = ", ".join(map(str, dict.fromkeys(per_size)))
        cells = [f"{1e6 * t:.0f}" for t in times]
        rows.append([model, counts, *cells, *exponents(sizes, times), stated[model]])
        print(" ".join(rows[-1]), flush=True)
    header = ["error model", "batch", *[f"{symbol} = {size}" for size in sizes],
              "exponent, all", "exponent, last two", "exponent, stated"]  # fmt: skip
    return f"## {title}\n\n" + table(header, rows)


def growth_with_nodes() -> str:
    return growth(
        "Growth with N at D = 2 (us / problem)",
        "N",
        (10, 20, 40, 80),
        lambda n: (n, 2),
        {"none": [500] * 4, "jacobian": [200, 200, 100, 50]},
        {"none": "2 (3, shared by the batch)", "jacobian": "3"},
    )


def growth_with_dimension() -> str:
    return growth(
        "Growth with D at N = 20 (us / problem)",
        "D",
        (2, 5, 10, 20, 50),
        lambda d: (20, d),
        {"none": [500] * 5, "jacobian": [200, 100, 40, 10, 2]},
        {"none": "1", "jacobian": "3"},
    )


def machine() -> str:
    packages = ", ".join(f"{p} {version(p)}" for p in ("probgeo", "jax", "jaxlib", "numpy"))
    return (
        f"One thread of a machine with {os.cpu_count()} CPUs ({platform.system()}, "
        f"{platform.machine()}), Python {platform.python_version()}, {packages}. "
        f"Processor times, the best of {REPEATS} calls, compilation apart."
    )


def main() -> None:
    warnings.simplefilter("ignore", ConvergenceWarning)  # the tables say how many converged
    start = time.perf_counter()
    parts = ["# The dense solver", machine(), error_models(), growth_with_nodes(),
             growth_with_dimension()]  # fmt: skip
    text = "\n\n".join(parts) + "\n"
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(text)
    print(f"\n{text}\n{time.perf_counter() - start:.0f} s")


if __name__ == "__main__":
    main()
