"""What work-precision sections share: rows, tables, verdicts and pictures.

A row is one solver at one setting on one problem: "problem", "solver", "setting", "time" in
processor seconds a member, and what `measures.judged` says. Another library that cannot be run
leaves a row with what it said, "broken".
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from measures import judged, ratios, time_needed, timed

from report.pictures import STYLES, plt, save
from report.writing import OURS, milliseconds, number, reason, table, verdict


def attempted(
    problem: str,
    solver: str,
    settings: Iterable[float],
    prepare: Callable[[], Callable],
    members: int,
    compiles: bool = True,
) -> list[tuple[dict, Any]]:
    """Rows of one solver without judgement, and its answers: prepare() gives solve(setting)."""
    found: list[tuple[dict, Any]] = []
    case = {"problem": problem, "solver": solver}
    try:
        solve = prepare()
        for setting in settings:
            answer, seconds = timed(lambda s=setting, f=solve: f(s), compiles)
            found.append((case | {"setting": setting, "time": seconds / members}, answer))
    except Exception as error:  # another library may fail in any way, ours may not
        if solver == OURS:
            raise
        why = reason(error)
        print("   ", problem, solver, why, flush=True)
        found.append((case | {"broken": why}, None))
    return found


def swept(
    problem: str,
    solver: str,
    settings: Iterable[float],
    prepare: Callable[[], Callable],
    judge: Callable[[Any], tuple],
    members: int,
    compiles: bool = True,
) -> list[dict]:
    """Rows of one solver; judge(answer) gives the errors, and who is said to be solved."""
    rows = []
    for row, answer in attempted(problem, solver, settings, prepare, members, compiles):
        if "broken" not in row:
            row = row | judged(*judge(answer))
            print("   ", *line(row), flush=True)
        rows.append(row)
    return rows


def line(row: dict) -> list[str]:
    bad = f"{row['failures']} failed, {row['false']} false"
    return [row["problem"], row["solver"], f"{row['setting']:.0e}", milliseconds(row["time"]), "ms",
            number(row["error"], ".1e"), bad]  # fmt: skip


def measured(rows: Sequence[dict]) -> list[dict]:
    return [row for row in rows if "broken" not in row]


def names(rows: Sequence[dict], key: str) -> list[str]:
    return list(dict.fromkeys(row[key] for row in rows))


def needed_table(rows: Sequence[dict], target: float) -> str:
    """Milliseconds a problem at the target, one line a problem, one column a solver."""
    rows = measured(rows)
    solvers = names(rows, "solver")
    lines = []
    for problem in names(rows, "problem"):
        needed = [
            time_needed([r for r in rows if (r["problem"], r["solver"]) == (problem, s)], target) for s in solvers
        ]
        lines.append([problem, *map(milliseconds, needed)])
    return table(["problem", *solvers], lines)


def findings(rows: Sequence[dict], target: float) -> list[str]:
    """Paragraphs: times at equal error, what they say, and how often solvers went wrong."""
    return [
        needed_table(rows, target),
        f"At a largest error of {target:g}:",
        verdicts(rows, target),
        "All settings of the sweeps together:",
        bad_table(rows),
    ]


def bad_table(rows: Sequence[dict]) -> str:
    """Failures and false successes of all settings together."""
    rows = measured(rows)
    lines = []
    for solver in names(rows, "solver"):
        own = [row for row in rows if row["solver"] == solver]
        count, failures, false = (sum(r[k] for r in own) for k in ("count", "failures", "false"))
        bad = f"{100 * (failures + false) / count:.1f} %"
        lines.append([solver, count, failures, false, bad])
    return table(["solver", "in the sweep", "failures", "false successes", "bad"], lines)


def verdicts(rows: Sequence[dict], target: float) -> str:
    others = [name for name in names(measured(rows), "solver") if name != OURS]
    return "\n".join(f"- {line}" for line in against(rows, target, others))


def against(rows: Sequence[dict], target: float, others: Sequence[str]) -> list[str]:
    """A verdict for each of these solvers that could be run."""
    rows = measured(rows)
    known = [name for name in others if name in names(rows, "solver")]
    return [verdict(ratios(rows, OURS, name, target), name) for name in known]


def draw(rows: Sequence[dict], file: Path, per: str, target: float | None = None, error: str = "error") -> None:
    """Time against error, one panel a problem; hollow where a member failed or was wrong."""
    rows = measured(rows)
    problems, solvers = names(rows, "problem"), names(rows, "solver")
    columns = 2 if len(problems) in (2, 4) else min(3, len(problems))
    lines = math.ceil(len(problems) / columns)
    figure, axes = plt.subplots(lines, columns, figsize=(3.6 * columns, 2.9 * lines + 0.6),
                                squeeze=False, sharey=True, layout="constrained")  # fmt: skip
    for axis, problem in zip(axes.flat, problems, strict=False):
        for style, solver in zip(STYLES, solvers, strict=False):
            own = [r for r in rows if (r["problem"], r["solver"]) == (problem, solver)]
            own = sorted((r for r in own if r[error]), key=lambda r: r["setting"], reverse=True)
            emphasis = {"linewidth": 2.4, "zorder": 3} if solver == OURS else {}
            axis.plot(*points(own, error), **style | emphasis, label=solver)
            bad = [r for r in own if r["failures"] or r["false"]]
            hollow = {"linestyle": "", "markerfacecolor": "white", "zorder": 4}
            axis.plot(*points(bad, error), **style | hollow)
        if target:
            axis.axvline(target, color="0.5", linewidth=1.0, linestyle=":")
        kind = "largest" if error == "error" else "median"
        axis.set(xscale="log", yscale="log", title=problem, xlabel=f"{kind} relative error")
        axis.invert_xaxis()
    for axis in axes.flat[len(problems) :]:
        axis.set_visible(False)
    for axis in axes[:, 0]:
        axis.set_ylabel(f"CPU ms {per}")
    handles, labels = axes.flat[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=columns + 1)
    save(figure, file)


def points(rows: Sequence[dict], error: str) -> tuple[list[float], list[float]]:
    return [r[error] for r in rows], [1e3 * r["time"] for r in rows]
