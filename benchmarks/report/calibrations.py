"""Whether error bars are as long as the errors: differential equations and geodesics."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from report.pictures import COLOURS, MARKERS, plt, save
from report.scale import Scale
from report.writing import number, reason, table

TITLE = "Calibration"
PICTURE = "calibration.png"
COPIES = 20
TIMES = 40
RTOLS = (1e-2, 1e-4, 1e-6, 1e-8)
DENSE_NODES = 12  # more, and the paper's kernel would be exact to rounding
IVPS = ("lotka_volterra", "damped")
PEERS_TOL = 1e-5
SETS = ("ones", "half circle", "two moons", "spiral")
PAIRS = 40
TIGHT = 1e-9  # tolerance of the reference of geodesics
FLOOR = 1e-12  # error of references, relative to the size of the solution
GAUSSIAN = 0.954  # share within two standard deviations
COVERAGE, SQUARE = (0.90, 0.99), (0.2, 4.0)  # what is asked for


def run(scale: Scale) -> dict[str, Any]:
    rows = []
    for name, epsilon in scale.calibrated:
        rows += boundary(name, epsilon)
    for name in IVPS[: len(scale.ivps)]:
        rows += initial(name)
    for name in SETS[: len(scale.data_sets)]:
        rows += geodesics(name)
    return {"rows": rows}


def row(problem: str, solver: str, found: tuple, exact: np.ndarray, size: Any) -> dict[str, Any]:
    """Coverage and normalised error of means (P, ..., D) with standard deviations, of those
    declared solved; errors of the reference are a share of `size`."""
    from measures import calibration

    mean, std, good = (np.asarray(x) for x in found)
    out = {"problem": problem, "solver": solver, "solved": int(good.sum()), "count": len(good)}
    if good.any():
        std = np.sqrt(std**2 + (FLOOR * size) ** 2)
        coverage, square = calibration((mean - exact)[good], std[good])
        off = np.abs((mean - exact) / size)[good].reshape(good.sum(), -1).max(axis=1)
        out |= {"coverage": coverage, "square": square, "error": float(np.median(off))}
    print("   ", *out.values(), flush=True)
    return out


def times(t_span) -> np.ndarray:
    return np.sort(np.random.default_rng(0).uniform(*t_span, TIMES))


def ours(rtol: float) -> str:
    return f"Markov, rtol {rtol:.0e}"


def boundary(name: str, epsilon: float) -> list[dict]:
    from baselines import bvp_families, perturbed, solve_copies

    from probgeo import solvers

    copies = perturbed(bvp_families(epsilon)[name], COPIES)
    t = times(copies[0].t_span)
    exact = np.array([problem.solution(t) for problem in copies])
    cases = {ours(rtol): solvers.Markov(rtol=rtol) for rtol in RTOLS}
    cases["Dense, linearised"] = solvers.Dense(n_points=DENSE_NODES, error_model="linearised")
    rows = []
    for label, solver in cases.items():
        curve = solve_copies(copies, solver)
        found = curve.mean(t), curve.std(t), curve.converged
        rows.append(row(name, label, found, exact, np.abs(exact).max()))
    return rows


def initial(name: str) -> list[dict]:
    from peers import CALIBRATIONS, probdiffeq_posterior

    from probgeo import solve_ivp, solvers
    from report.ivps import problem_and_batch

    problem, batch = problem_and_batch(name, COPIES)
    name = name.replace("_", " ")
    t = times(problem.t_span)
    starts = [v for v in (batch.y0, batch.dy0) if v is not None]
    members = [[v[i] for v in starts] for i in range(COPIES)]
    exact = np.array([problem.restarted(*member).solution(t) for member in members])
    size = np.abs(exact).max()
    rows = []
    for rtol in RTOLS:
        curve = solve_ivp(problem.f, problem.t_span, *starts, solver=solvers.Markov(rtol=rtol))
        found = curve.mean(t), curve.std(t), curve.converged
        rows.append(row(name, ours(rtol), found, exact, size))
    for kind, scale in product(("ts0", "ts1"), CALIBRATIONS):
        label = f"probdiffeq {kind.upper()}, {scale}"
        try:
            mean, std = probdiffeq_posterior(batch, kind, scale, t)(PEERS_TOL)
        except Exception as error:  # noqa: BLE001  (another library may fail in any way)
            rows.append({"problem": name, "solver": label, "broken": reason(error)})
            continue
        good = np.isfinite(mean).all(axis=(1, 2)) & np.isfinite(std).all(axis=(1, 2))
        rows.append(row(name, label, (mean, std, good), exact, size))
    return rows


def geodesics(name: str) -> list[dict]:
    """Positions, lengths and logarithms at default settings, where the reference is the same."""
    from learned import learned, random_pairs

    from probgeo import Manifold, solvers

    X, metric = learned(name)
    a, b = random_pairs(X, PAIRS)
    found = Manifold(metric).geodesic(a, b, progress=False)
    tight = Manifold(metric, solvers.Markov(rtol=TIGHT)).geodesic(a, b, guess=found)
    same = found.converged & tight.converged
    same &= np.abs(found.length.mean / tight.length.mean - 1) < 1e-3
    found, tight, t = found[same], tight[same], times((0.0, 1.0))
    extent = np.abs(tight.mean(t) - a[same][:, None]).max(axis=(1, 2))
    good = np.ones(same.sum(), bool)
    log, length = found.log(), found.length
    cases = {
        "position": (found.mean(t), found.std(t), tight.mean(t), extent[:, None, None]),
        "length": (length.mean[:, None], length.std[:, None], tight.length.mean[:, None], 1.0),
        "logarithm": (log.mean, log.std, tight.log().mean, extent[:, None]),
    }
    return [row(name, f"geodesic, {part}", (mean, std, good), exact, size)
            for part, (mean, std, exact, size) in cases.items()]  # fmt: skip


def text(result: dict[str, Any]) -> str:
    rows = [r for r in result["rows"] if "coverage" in r]
    cells = [
        [r["problem"], r["solver"], f"{r['solved']} of {r['count']}", number(r["error"], ".1e"),
         f"{r['coverage']:.3f}", number(r["square"], ".2g")]
        for r in rows
    ]  # fmt: skip
    missing = "\n".join(f"- {r['solver']} on {r['problem']}: "
                        + (f"`{r['broken']}`" if "broken" in r else "no member was solved") + "."
                        for r in result["rows"] if "coverage" not in r)  # fmt: skip
    header = ["problem", "solver", "solved", "median error", "coverage", "normalised square"]
    return "\n\n".join(part for part in [
        f"{COPIES} perturbed copies of each problem, {TIMES} random times. Coverage is the share "
        "of components within two standard deviations of the solution "
        f"({GAUSSIAN} for a Gaussian). The square of error over standard deviation, averaged over "
        "each curve, median over curves: one at best; below, error bars are too long, above, too "
        f"short. The dense solver has {DENSE_NODES} nodes. probdiffeq: its smoother of order 5 at "
        f"a tolerance of {PEERS_TOL:g}, its scale by quasi maximum likelihood (MLE, its default "
        "correction on or off) or a step at a time (dynamic). Geodesics: "
        f"{PAIRS} pairs of each set in the plane at default settings, against our own at "
        f"{TIGHT:g} started from them; those that moved to another curve are left out. A floor of "
        f"{FLOOR:g} of the size of the solution is added for all solvers.",
        f"![Coverage and normalised error by solver](images/benchmarks/{PICTURE})",
        "Grey: within a factor of two of the right length of the error bars.",
        table(header, cells, words=2),
        "\n".join(f"- {line}" for line in verdicts(rows)),
        missing,
    ] if part)  # fmt: skip


def headlines(result: dict[str, Any]) -> list[str]:
    """Of our own."""
    rows = [r for r in result["rows"] if "coverage" in r]
    own = [r for r in rows if r["solver"].startswith(("Markov", "geodesic"))]
    inside = [r for r in own if COVERAGE[0] <= r["coverage"] <= COVERAGE[1]]
    fair = [r for r in own if SQUARE[0] <= r["square"] <= SQUARE[1]]
    return [
        f"Of {len(own)} cases of our own the coverage is between {COVERAGE[0]:.2f} and "
        f"{COVERAGE[1]:.2f} in {len(inside)}, the normalised square between {SQUARE[0]:g} and "
        f"{SQUARE[1]:g} in {len(fair)}.",
        *verdicts(own),
    ]


def verdicts(rows: list[dict]) -> list[str]:
    lines = []
    for solver in dict.fromkeys(r["solver"] for r in rows):
        own = [r for r in rows if r["solver"] == solver]
        coverage = np.mean([r["coverage"] for r in own])
        square = np.exp(np.mean(np.log([r["square"] for r in own])))
        lines.append(
            f"{solver}: mean coverage {coverage:.2f}, geometric mean of the normalised squares "
            f"{square:.2g}: {judgement(coverage, square)}."
        )
    return lines


def judgement(coverage: float, square: float) -> str:
    """In words. Within a factor of two in the error bar, four in its square, is fair.

    >>> judgement(0.95, 1.0), judgement(0.5, 30.0), judgement(1.0, 0.01)
    ('about right', 'too confident', 'too careful')
    >>> judgement(0.95, 30.0)
    'about right at most times, far too confident at some'
    """
    if coverage < 0.85:
        return "too confident"
    if square > SQUARE[1]:
        return "about right at most times, far too confident at some"
    return "too careful" if square < SQUARE[0] else "about right"


def draw(result: dict[str, Any], folder: Path) -> None:
    rows = [r for r in result["rows"] if "coverage" in r]
    solvers = list(dict.fromkeys(r["solver"] for r in rows))
    problems = list(dict.fromkeys(r["problem"] for r in rows))
    figure, axes = plt.subplots(1, 2, figsize=(8.4, 0.36 * len(solvers) + 1.6), sharey=True,
                                layout="constrained")  # fmt: skip
    for k, problem in enumerate(problems):
        own = [r for r in rows if r["problem"] == problem]
        y = [solvers.index(r["solver"]) + 0.08 * (k - (len(problems) - 1) / 2) for r in own]
        style = {"color": COLOURS[k], "marker": MARKERS[k], "linestyle": "", "label": problem}
        axes[0].plot([r["coverage"] for r in own], y, **style)
        axes[1].plot([r["square"] for r in own], y, **style)
    axes[0].axvline(GAUSSIAN, color="0.4", linewidth=1)
    axes[1].axvspan(0.25, 4, color="0.9", zorder=0)
    axes[1].axvline(1, color="0.4", linewidth=1)
    axes[0].set(xlabel="coverage of two standard deviations", yticks=range(len(solvers)),
                yticklabels=solvers)  # fmt: skip
    axes[1].set(xscale="log", xlabel="normalised squared error")
    axes[0].invert_yaxis()
    handles, labels = axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=4)
    save(figure, folder / PICTURE)
