"""The Markov solver against classical ones, its cost and its calibration, on one thread.

    python benchmarks/markov.py [--quick] [--only bvp|ivp|cost|calibration]

prints markdown tables and writes them to benchmarks/results/markov.md; a part that was run alone
replaces its own section there. `--quick` tries everything on a few small cases, without writing.
"""

# ruff: noqa: E402  (threads have to be limited before JAX starts them)
from __future__ import annotations

import argparse
import os
import platform
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version
from pathlib import Path

os.environ.setdefault("PROBGEO_COMPILE", "thorough")  # compilation is apart
os.environ["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"
for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[name] = "1"
if hasattr(os, "sched_setaffinity"):
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})

import jax
import numpy as np
import problems
from baselines import bvp_families, perturbed, perturbed_starts
from comparison import (
    CHECKED,
    NAN,
    Duel,
    counted,
    dopri8,
    interleaved,
    linearisation_for,
    mean_nodes,
    number,
    our_bvps,
    our_ivps,
    scipy_bvps,
    solve_copies,
    table,
    timed,
)
from problems import CASH_NUMBERS

from probgeo import ConvergenceWarning, Curve, solve_ivp, solvers

RESULTS = Path(__file__).parent / "results" / "markov.md"
BVP_ERROR, IVP_ERROR = 1e-5, 1e-6  # measured errors at which solvers are compared
FASTER, STRETCH = 5, 20  # times faster than SciPy: wanted, hoped for
NODES, GROWTH, MOST = (64, 128), 8, 12.0  # GROWTH times the nodes, less than MOST times the time
PLAIN = {
    "bratu": problems.bratu,
    "hyperbolic": problems.hyperbolic_geodesic,
    "pendulum": problems.pendulum,
    "coupled": problems.coupled,
}  # boundary value problems without epsilon
CASH = {f"cash{n:02d}": partial(problems.cash, n) for n in CASH_NUMBERS}
SPREAD = {"arenstorf": 1e-6, "pleiades": 1e-3, "lotka_volterra": 1e-2}  # of initial values
TIMES = 200  # at which the calibration is looked at
REFERENCE_ERROR = 1e-12  # of the solutions compared with, relative to their size


@dataclass(frozen=True)
class Scale:
    """How much is run."""

    repeats: int = 3
    copies: int = 100  # in one batch
    scipy_copies: int = 20  # one after the other
    rtols: tuple[float, ...] = (1e-3, 1e-4, 1e-5, 1e-6)  # ours
    ivp_rtols: tuple[float, ...] = (1e-3, 1e-4, 1e-5)
    scipy_tols: tuple[float, ...] = tuple(10.0**-k for k in range(2, 9))
    scipy_starts: tuple[int, ...] = (20, 40)  # nodes of the first mesh
    diffrax_tols: tuple[float, ...] = tuple(10.0**-k for k in range(5, 12))
    bvps: tuple[str, ...] = (*PLAIN, *[f"cash{n:02d}" for n in (1, 3, 4, 6, 7, 9, 12, 15, 20, 21)])
    layers: tuple[str, ...] = tuple(f"cash{n:02d}" for n in (1, 4, 6, 14, 15, 21))
    ivps: tuple[str, ...] = ("arenstorf", "pleiades")
    calibrated: tuple[str, ...] = ("harmonic", "damped", "logistic", "lotka_volterra",
                                   "van_der_pol", "stiff_van_der_pol", "arenstorf",
                                   "pleiades")  # fmt: skip
    epsilons: tuple[float, ...] = (1.0, 0.1, 0.01)


QUICK = Scale(
    repeats=1,
    copies=8,
    scipy_copies=3,
    rtols=(1e-4, 1e-6),
    ivp_rtols=(1e-4,),
    scipy_tols=(1e-3, 1e-5),
    diffrax_tols=(1e-7, 1e-9),
    bvps=("bratu", "cash20"),
    layers=("cash01",),
    ivps=("arenstorf",),
    calibrated=("logistic",),
    epsilons=(1.0, 0.1),
)


# --- boundary value problems ------------------------------------------------------------------


def bvp_duel(name: str, epsilon: float, scale: Scale) -> Duel:
    print(f"  {name}", flush=True)
    jax.clear_caches()
    copies = perturbed(bvp_families(epsilon)[name], scale.copies)
    few = copies[: scale.scipy_copies]
    ours, theirs, extra = interleaved(
        [partial(our_bvps, copies, rtol) for rtol in scale.rtols],
        [partial(scipy_bvps, few, tol, n) for n in scale.scipy_starts for tol in scale.scipy_tols],
        scale.repeats,
    )
    return Duel(name, ours, theirs, extra * scale.copies, BVP_ERROR)


def bvp_summary(duels: Sequence[Duel], copies: int) -> str:
    ratios = np.array([theirs / ours for ours, theirs in (duel.times() for duel in duels)])
    reached = ratios[np.isfinite(ratios)]
    middle, least = (np.median(reached), reached.min()) if reached.size else (NAN, NAN)
    return (
        f"Times faster, by problem: median {number(middle, '.1f')}, least {number(least, '.1f')}; "
        f"at least {FASTER} on {(reached >= FASTER).sum()} of {len(duels)}, at least {STRETCH} on "
        f"{(reached >= STRETCH).sum()}, not comparable: {len(duels) - reached.size}. "
        + counted(duels, copies)
    )


def bvps(scale: Scale) -> str:
    parts = [
        f"A batch of {scale.copies} perturbed copies against SciPy's "
        f"solve_bvp on the first {scale.scipy_copies} of them, one after the other, with "
        "vectorised right-hand sides and Jacobians. Milliseconds per problem, ours with the "
        f"posterior, at a measured error of {BVP_ERROR:g} (the largest in the batch, relative to "
        "the size of the solution): read off the work-precision curve, and (setting) of the "
        "cheapest setting that is at least so accurate, whose nodes are given. Settings at which "
        "a copy failed do not count. Failures and false successes (declared converged, error "
        "above 10 rtol) are totals over the sweeps, ours over rtol from "
        f"{scale.rtols[0]:g} to {scale.rtols[-1]:g}, SciPy's over tol from "
        f"{scale.scipy_tols[0]:g} to {scale.scipy_tols[-1]:g} and first meshes of "
        f"{' and '.join(map(str, scale.scipy_starts))} nodes. Compile time is that of our sweep."
    ]
    every = []
    for epsilon, names in ((0.1, scale.bvps), (0.01, scale.layers)):
        print(f"boundary value problems, epsilon = {epsilon}", flush=True)
        duels = [bvp_duel(name, epsilon, scale) for name in names]
        every += duels
        rows = [duel.cells(lambda ours, theirs: theirs / ours) for duel in duels]
        cells = table(Duel.header("SciPy", "times faster"), rows)
        parts += [f"### epsilon = {epsilon}", cells, bvp_summary(duels, scale.copies)]
    return "\n\n".join([*parts, "### Both together", bvp_summary(every, scale.copies)])


# --- initial value problems -------------------------------------------------------------------


def ivp_duel(name: str, scale: Scale) -> Duel:
    print(f"  {name}", flush=True)
    jax.clear_caches()
    problem = getattr(problems, name)()
    starts = perturbed_starts(problem, scale.copies, SPREAD[name])
    t = np.linspace(*problem.t_span, 201)
    members = [[values[i] for values in starts] for i in range(CHECKED)]
    references = np.array([problem.restarted(*member).solution(t) for member in members])
    ours, theirs, extra = interleaved(
        [partial(our_ivps, problem, starts, references, rtol) for rtol in scale.ivp_rtols],
        [partial(dopri8, problem, starts, tol) for tol in scale.diffrax_tols],
        scale.repeats,
    )
    return Duel(name, ours, theirs, extra, IVP_ERROR)


def ivps(scale: Scale) -> str:
    print("initial value problems", flush=True)
    duels = [ivp_duel(name, scale) for name in scale.ivps]
    rows = [duel.cells(lambda ours, theirs: ours / theirs) for duel in duels]
    return (
        f"{scale.copies} perturbed initial values in a batch against Diffrax's Dopri8, mapped and "
        "compiled. Milliseconds for the batch, ours with the smoothed posterior (Pleiades without "
        f"Jacobians), at a measured error of {IVP_ERROR:g} at the final time (the largest of the "
        f"first {CHECKED} members, relative to the size of the solution there). Columns as above, "
        "but here a large ratio is a slow solver, and false successes are those of the first "
        f"{CHECKED} members, along their curves.\n\n"
        f"{table(Duel.header('Dopri8', 'ours / Dopri8'), rows)}\n\n{counted(duels, scale.copies)}"
    )


# --- cost -------------------------------------------------------------------------------------


def cost_run(solve: Callable[[solvers.Markov], Curve], n_points: int) -> dict:
    curve, spent = timed(lambda: solve(solvers.Markov(n_points=n_points)))
    return {"time": spent, "work": float(np.mean(curve.n_evaluations)) / n_points}


def cost(scale: Scale) -> str:
    print("cost", flush=True)
    jax.clear_caches()
    copies = perturbed(bvp_families()["hyperbolic"], scale.copies)
    ivp = problems.lotka_volterra()
    starts = perturbed_starts(ivp, scale.copies, SPREAD[ivp.name])
    batches = {
        "hyperbolic, BVP": partial(solve_copies, copies),
        f"{ivp.name}, IVP": lambda solver: solve_ivp(ivp.f, ivp.t_span, *starts, solver=solver),
    }
    rows = []
    for label, solve in batches.items():
        for few in NODES:
            runs = [partial(cost_run, solve, n) for n in (few, GROWTH * few)]
            pair, _, extra = interleaved(runs, [], scale.repeats)
            ratio = pair[1]["time"] / pair[0]["time"]
            rows.append([label, f"{few}, {GROWTH * few}",
                         *[f"{1e3 * row['time']:.1f}" for row in pair], f"{ratio:.1f}",
                         "yes" if ratio < MOST else "no",
                         *[f"{row['work']:.1f}" for row in pair], f"{extra:.1f}"])  # fmt: skip
            print("  " + " ".join(rows[-1]), flush=True)
    header = ["batch", "nodes", "ms, few", "ms, many", "ratio", f"below {MOST:g}",
              "evaluations / N, few", "many", "compile s"]  # fmt: skip
    return (
        f"Milliseconds for a batch of {scale.copies} on equally spaced nodes and on {GROWTH} times "
        "as many, with the posterior. On 64 nodes in two dimensions a boundary value problem is "
        "still solved in integral form, which is cheaper than the smoother that takes over on "
        f"larger meshes.\n\n{table(header, rows)}"
    )


# --- calibration ------------------------------------------------------------------------------


def calibration_row(label: str, curve: Curve, solution: Callable) -> list:
    """Label, converged, nodes, largest error, coverage and ANEES at random times."""
    t = np.random.default_rng(0).uniform(*np.asarray(curve.t_span), TIMES)
    exact = solution(t)
    size, dimension = np.abs(exact).max(), exact.shape[1]
    off = np.asarray(curve.mean(t)) - exact
    cov = np.asarray(curve(t).cov) + (REFERENCE_ERROR * size) ** 2 * np.eye(dimension)
    std = np.sqrt(np.diagonal(cov, axis1=-2, axis2=-1))
    coverage = np.mean(np.abs(off) <= 2 * std)
    anees = np.mean(np.sum(off * np.linalg.solve(cov, off[..., None])[..., 0], axis=1)) / dimension
    print(f"  {label}: coverage {coverage:.3f}, ANEES {anees:.2g}", flush=True)
    good = "yes" if curve.converged else "no"
    return [label, good, mean_nodes(curve), np.abs(off).max() / size, coverage, anees]


def calibrated_bvps(name: str, epsilons: Sequence[float]) -> list[list]:
    """One equation, at several epsilon if it has one, as a batch."""
    if name in PLAIN:
        cases = {name: PLAIN[name]()}
    else:
        cases = {f"{name}, {p.epsilon:.3g}": p for p in map(CASH[name], epsilons)}
    curves = solve_copies(list(cases.values()), solvers.Markov())
    return [
        calibration_row(label, curves[i], problem.solution)
        for i, (label, problem) in enumerate(cases.items())
    ]


def calibrated_ivp(name: str) -> list:
    problem = getattr(problems, name)()
    solver = solvers.Markov(linearisation=linearisation_for(problem))
    curve = solve_ivp(problem.f, problem.t_span, problem.y0, problem.dy0, solver=solver)
    return calibration_row(name, curve, problem.solution)


def calibration_summary(rows: Sequence[list]) -> str:
    coverage, anees = (np.array([row[k] for row in rows]) for k in (-2, -1))
    inside = int(((anees >= 0.2) & (anees <= 5)).sum())
    return (
        f"Over {len(rows)} problems: mean coverage {coverage.mean():.3f}, mean ANEES "
        f"{anees.mean():.2g} (median {np.median(anees):.2g}, {anees.min():.2g} to "
        f"{anees.max():.2g}, {inside} problems between 0.2 and 5)."
    )


def calibration(scale: Scale) -> str:
    print("calibration", flush=True)
    jax.clear_caches()
    groups = {
        "Boundary value problems, with their epsilon": [
            row for name in scale.bvps for row in calibrated_bvps(name, scale.epsilons)
        ],
        "Initial value problems": [calibrated_ivp(name) for name in scale.calibrated],
    }
    parts = [
        f"At default settings and {TIMES} random times: the share of components "
        "within two standard deviations of the solution (0.954 for a Gaussian) and the averaged "
        "normalised squared error, e' P^-1 e / D (1 at best). P includes the error of the "
        f"solutions compared with, {REFERENCE_ERROR:g} of their size. The largest error at these "
        "times is relative to the size of the solution."
    ]
    header = ["problem", "converged", "nodes", "largest error", "coverage", "ANEES"]
    for title, rows in groups.items():
        cells = [
            [*row[:2], f"{row[2]:.0f}", f"{row[3]:.1e}", f"{row[4]:.3f}", f"{row[5]:.2g}"]
            for row in rows
        ]
        parts += [f"### {title}", table(header, cells), calibration_summary(rows)]
    every = [row for rows in groups.values() for row in rows]
    return "\n\n".join([*parts, "### Both together", calibration_summary(every)])


# --- all parts --------------------------------------------------------------------------------

PARTS = {
    "bvp": ("Boundary value problems", bvps),
    "ivp": ("Initial value problems", ivps),
    "cost": ("Cost", cost),
    "calibration": ("Calibration", calibration),
}


def preface(repeats: int) -> str:
    names = ("probgeo", "jax", "jaxlib", "scipy", "diffrax", "numpy")
    packages = ", ".join(f"{package} {version(package)}" for package in names)
    return (
        f"# The Markov solver\n\nOne thread of a machine with {os.cpu_count()} CPUs "
        f"({platform.system()}, {platform.machine()}), Python {platform.python_version()}, "
        f"{packages}. Times on the clock, the best of {repeats} calls in turn with the other "
        "solver's; compile time is what first calls take on top."
    )


def written(beginning: str) -> dict[str, str]:
    """Sections of the results by title, unless they are from another machine or version."""
    old = RESULTS.read_text().strip() if RESULTS.exists() else ""
    first, *sections = old.split("\n\n## ")
    return dict(s.split("\n\n", 1) for s in sections) if first == beginning else {}


def main() -> None:
    parser = argparse.ArgumentParser(description="Benchmarks of the Markov solver.")
    parser.add_argument("--quick", action="store_true", help="a few small cases, nothing written")
    parser.add_argument("--only", choices=PARTS, help="one part instead of all")
    options = parser.parse_args()
    warnings.simplefilter("ignore", ConvergenceWarning)  # the tables say how many converged
    start = time.perf_counter()
    scale = QUICK if options.quick else Scale()
    beginning = preface(scale.repeats)
    sections = written(beginning) if options.only and not options.quick else {}
    text = ""
    for part, (title, run) in PARTS.items():
        if options.only in (None, part):
            sections[title] = run(scale)
        known = [f"## {t}\n\n{sections[t]}" for t, _ in PARTS.values() if t in sections]
        text = "\n\n".join([beginning, *known]) + "\n"
        if not options.quick:
            RESULTS.parent.mkdir(exist_ok=True)
            RESULTS.write_text(text)
    print(f"\n{text}\n{time.perf_counter() - start:.0f} s")


if __name__ == "__main__":
    main()
