"""Two solvers side by side: times at equal measured errors, and the table that shows them.

A run of a solver at one of its settings is a dictionary, here called a row: "time" in seconds,
measured "error", "failures" and "nodes"; ours also have "false" successes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from baselines import time_at_error

NAN = float("nan")


def interleaved(ours: Sequence[Callable], theirs: Sequence[Callable], repeats: int) -> tuple:
    """Rows of both, each the fastest of a few calls, and the time our first calls took on top.

    All runs take turns, so that a busy spell of the machine meets both sides.
    """
    first = [run()["time"] for run in ours]
    rounds = [[run() for run in (*ours, *theirs)] for _ in range(repeats)]
    rows = [min(same, key=lambda row: row["time"]) for same in zip(*rounds, strict=True)]
    mine, others = rows[: len(ours)], rows[len(ours) :]
    for row in rows:
        if "error" in row:
            print(f"    {1e3 * row['time']:.2f} ms, error {row['error']:.1e}", flush=True)
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
