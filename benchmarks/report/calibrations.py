"""Whether error bars are as long as the errors, by problem and solver."""

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
NODES = 24  # of the Markov solver,
DENSE_NODES = 12  # and of the dense one, whose kernel would else be exact to rounding
IVPS = ("lotka_volterra", "damped")
IVP_TOL = 1e-5
FLOOR = 1e-12  # error of the references, relative to the size of the solution
GAUSSIAN = 0.954  # share within two standard deviations


def run(scale: Scale) -> dict[str, Any]:
    rows = []
    for name, epsilon in scale.calibrated:
        rows += boundary(name, epsilon, scale.orders)
    for name in IVPS[: len(scale.ivps)]:
        rows += initial(name)
    return {"rows": rows}


def row(problem: str, solver: str, found: tuple, exact: np.ndarray) -> dict[str, Any]:
    """Coverage and ANEES of means (P, T, D) with covariances, or standard deviations, of those
    declared solved."""
    from measures import calibration

    mean, cov, good = (np.asarray(x) for x in found)
    size = np.abs(exact).max()
    floor = (FLOOR * size) ** 2
    cov = cov + floor * np.eye(exact.shape[-1]) if cov.ndim == 4 else np.sqrt(cov**2 + floor)
    out = {"problem": problem, "solver": solver, "solved": int(good.sum()), "count": len(good)}
    if good.any():
        coverage, anees = calibration((mean - exact)[good], cov[good])
        error = float(np.median(np.abs(mean - exact)[good].max(axis=(1, 2))) / size)
        out |= {"coverage": coverage, "anees": anees, "error": error}
    print("   ", *out.values(), flush=True)
    return out


def times(t_span) -> np.ndarray:
    return np.sort(np.random.default_rng(0).uniform(*t_span, TIMES))


def boundary(name: str, epsilon: float, orders: tuple[int, ...]) -> list[dict]:
    from baselines import bvp_families, perturbed
    from comparison import solve_copies

    from probgeo import solvers

    copies = perturbed(bvp_families(epsilon)[name], COPIES)
    t = times(copies[0].t_span)
    exact = np.array([problem.solution(t) for problem in copies])
    cases = {"Markov, default": solvers.Markov()}
    cases |= {f"Markov, order {q}": solvers.Markov(q, NODES) for q in orders}
    cases |= {
        "Dense, default": solvers.Dense(n_points=DENSE_NODES),
        "Dense, linearised": solvers.Dense(n_points=DENSE_NODES, error_model="linearised"),
    }
    rows = []
    for label, solver in cases.items():
        curve = solve_copies(copies, solver)
        at = curve(t)
        rows.append(row(name, label, (at.mean, at.cov, curve.converged), exact))
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
    curve = solve_ivp(problem.f, problem.t_span, *starts, solver=solvers.Markov(rtol=IVP_TOL))
    at = curve(t)
    rows = [row(name, "Markov, default", (at.mean, at.cov, curve.converged), exact)]
    for kind, scale in product(("ts0", "ts1"), CALIBRATIONS):
        label = f"probdiffeq {kind.upper()}, {scale}"
        try:
            mean, std = probdiffeq_posterior(batch, kind, scale, t)(IVP_TOL)
        except Exception as error:  # noqa: BLE001  (another library may fail in any way)
            rows.append({"problem": name, "solver": label, "broken": reason(error)})
            continue
        good = np.isfinite(mean).all(axis=(1, 2)) & np.isfinite(std).all(axis=(1, 2))
        rows.append(row(name, label, (mean, std, good), exact))
    return rows


def text(result: dict[str, Any]) -> str:
    rows = [r for r in result["rows"] if "coverage" in r]
    cells = [
        [r["problem"], r["solver"], f"{r['solved']} of {r['count']}", number(r["error"], ".1e"),
         f"{r['coverage']:.3f}", number(r["anees"], ".2g")]
        for r in rows
    ]  # fmt: skip
    missing = "\n".join(f"- {r['solver']} on {r['problem']}: "
                        + (f"`{r['broken']}`" if "broken" in r else "no member was solved") + "."
                        for r in result["rows"] if "coverage" not in r)  # fmt: skip
    header = ["problem", "solver", "solved", "median error", "coverage", "ANEES"]
    return "\n\n".join(part for part in [
        f"{COPIES} perturbed copies of each problem, {TIMES} random times. Coverage is the share "
        "of components within two standard deviations of the solution "
        f"({GAUSSIAN} for a Gaussian); the ANEES is the mean of e' P^-1 e / D, one at best: below, "
        "error bars are too long, above, too short. Markov solvers of a given order have "
        f"{NODES} equally spaced nodes, the default chooses its own; dense solvers have "
        f"{DENSE_NODES}. probdiffeq: its smoother of order 5 at the tolerance of ours "
        f"({IVP_TOL:g}), its scale by quasi maximum likelihood (MLE, its default correction on or "
        "off) or a step at a time (dynamic); its standard deviations are taken as they come, "
        "without correlations. Where errors are near rounding, a floor of "
        f"{FLOOR:g} of the size of the solution is added for all solvers.",
        f"![Coverage and normalised error by solver](images/benchmarks/{PICTURE})",
        "Grey: within a factor of two of the right length of the error bars.",
        table(header, cells, words=2),
        "\n".join(f"- {line}" for line in verdicts(rows)),
        missing,
    ] if part)  # fmt: skip


def headlines(result: dict[str, Any]) -> list[str]:
    """Of our own two defaults."""
    rows = [r for r in result["rows"] if "coverage" in r]
    return verdicts([r for r in rows if r["solver"] in ("Markov, default", "Dense, default")])


def verdicts(rows: list[dict]) -> list[str]:
    lines = []
    for solver in dict.fromkeys(r["solver"] for r in rows):
        own = [r for r in rows if r["solver"] == solver]
        coverage = np.mean([r["coverage"] for r in own])
        anees = np.exp(np.mean(np.log([r["anees"] for r in own])))
        lines.append(
            f"{solver}: mean coverage {coverage:.2f}, geometric mean of the ANEES {anees:.2g}: "
            f"{judgement(coverage, anees)}."
        )
    return lines


def judgement(coverage: float, anees: float) -> str:
    """In words. Within a factor of two in the error bar, four in its square, is fair.

    >>> judgement(0.95, 1.0), judgement(0.5, 30.0), judgement(1.0, 0.01)
    ('about right', 'too confident', 'too careful')
    >>> judgement(0.95, 30.0)
    'about right at most times, far too confident at some'
    """
    if coverage < 0.85:
        return "too confident"
    if anees > 4:
        return "about right at most times, far too confident at some"
    return "too careful" if anees < 0.25 else "about right"


def draw(result: dict[str, Any], folder: Path) -> None:
    rows = [r for r in result["rows"] if "coverage" in r]
    solvers = list(dict.fromkeys(r["solver"] for r in rows))
    problems = list(dict.fromkeys(r["problem"] for r in rows))
    figure, axes = plt.subplots(1, 2, figsize=(8.4, 0.36 * len(solvers) + 1.6), sharey=True,
                                layout="constrained")  # fmt: skip
    for k, problem in enumerate(problems):
        own = [r for r in rows if r["problem"] == problem]
        y = [solvers.index(r["solver"]) + 0.12 * (k - (len(problems) - 1) / 2) for r in own]
        style = {"color": COLOURS[k], "marker": MARKERS[k], "linestyle": "", "label": problem}
        axes[0].plot([r["coverage"] for r in own], y, **style)
        axes[1].plot([r["anees"] for r in own], y, **style)
    axes[0].axvline(GAUSSIAN, color="0.4", linewidth=1)
    axes[1].axvspan(0.25, 4, color="0.9", zorder=0)
    axes[1].axvline(1, color="0.4", linewidth=1)
    axes[0].set(xlabel="coverage of two standard deviations", yticks=range(len(solvers)),
                yticklabels=solvers)  # fmt: skip
    axes[1].set(xscale="log", xlabel="ANEES")
    axes[0].invert_yaxis()
    handles, labels = axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=5)
    save(figure, folder / PICTURE)
