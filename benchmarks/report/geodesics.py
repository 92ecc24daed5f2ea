"""Geodesics on metrics learned in the plane, against SciPy and geomstats."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from measures import WRONG, judged, time_at_error

from report import sweeps
from report.scale import Scale
from report.writing import OURS, broken, factor, milliseconds, number, table

TITLE = "Geodesics in the plane"
PICTURE = "geodesics.png"
TOLS = (1e-2, 1e-3, 1e-5)
OUR_RTOLS = (1e-2, 1e-3, 1e-5)
MEDIAN = 1e-5  # error at which times are compared
LONGER = 1.01  # than the best known curve: wrong
NUMPY_NAMES = frozenset(dir(np))  # before geomstats gets what it misses


def run(scale: Scale) -> dict[str, Any]:
    rows, polygons = [], []
    for name in scale.data_sets:
        found, beaten = one_data_set(name, scale.pairs)
        rows += found
        polygons.append(beaten)
    return {
        "rows": rows,
        "pairs": scale.pairs,
        "shorter_polygons": sum(polygons),
        "numpy_has_trapz": "trapz" in NUMPY_NAMES,
    }


def one_data_set(name: str, pairs: int) -> tuple[list[dict], int]:
    from learned import learned, random_pairs
    from peers import by_geomstats
    from shortest import shortest_lengths

    from probgeo import Manifold, solvers
    from probgeo.paper.classical import NumpyMetric, by_solve_bvp

    X, metric = learned(name)
    plain = NumpyMetric(metric)
    a, b = random_pairs(X, pairs)
    t = np.linspace(0.0, 1.0, 201)

    def ours(rtol):
        found = Manifold(metric, solvers.Markov(rtol=rtol)).geodesic(a, b, progress=False)
        found.length.std  # noqa: B018  (a posterior that is worked out when it is asked for)
        return lambda: (found.mean(t), found.converged)

    def scipys(tol):
        found = [by_solve_bvp(plain, x, y, tol) for x, y in zip(a, b, strict=True)]
        good = np.array([f.status == 0 for f in found])
        return lambda: (np.array([f.sol(t)[: a.shape[1]].T for f in found]), good)

    def geomstats(run, tol):
        paths, good = run(tol)
        return lambda: (np.array([path(t) for path in paths]), good)

    attempt = partial(sweeps.attempted, name, members=pairs)
    found = attempt(OURS, OUR_RTOLS, lambda: ours)
    found += attempt("SciPy solve_bvp", TOLS, lambda: scipys, compiles=False)
    found += attempt("geomstats LogODESolver", TOLS,
                     lambda: partial(geomstats, by_geomstats(plain, a, b)),
                     compiles=False)  # fmt: skip

    answers = [(row, answer()) for row, answer in found if answer]
    polygons = shortest_lengths(metric, X, a, b)
    judge = Judge(plain, t, polygons, [answer for _, answer in answers])
    rows = [row for row, answer in found if not answer]
    for row, (points, converged) in answers:
        rows.append(row | judged(judge.errors(points, converged), converged))
        print("   ", *sweeps.line(rows[-1]), flush=True)
    return rows, judge.shorter_polygons()


class Judge:
    """Knows the shortest curves that any solver found, and how far others are off.

    Errors are relative to the extent of the geodesic. A curve that is longer than the best known
    one is not the geodesic that was asked for: its error is infinite.
    """

    def __init__(self, metric, t, polygons, answers) -> None:
        self.metric, self.t, self.polygons = metric, t, polygons
        self.best, self.points = np.full(len(polygons), np.inf), np.empty(0)
        self.references: dict[int, np.ndarray] = {}
        for points, converged in answers:
            lengths = np.where(converged, self.lengths(points), np.inf)
            shorter = lengths < self.best
            self.best = np.where(shorter, lengths, self.best)
            known = self.points if self.points.size else points
            self.points = np.where(shorter[:, None, None], points, known)

    def lengths(self, points):
        steps, middles = np.diff(points, axis=1), (points[:, 1:] + points[:, :-1]) / 2
        flat = (x.reshape(-1, x.shape[-1]).T for x in (middles, steps))
        with np.errstate(all="ignore"):
            return np.sqrt(self.metric.energy(*flat)).reshape(len(points), -1).sum(axis=1)

    def shorter_polygons(self) -> int:
        """Pairs for which a polygon is shorter than every solver's curve."""
        return int((self.best > LONGER * self.polygons).sum())

    def errors(self, points, converged):
        limit = LONGER * np.minimum(self.best, self.polygons)
        errors = np.full(len(points), np.inf)
        for i in np.flatnonzero(converged & (self.lengths(points) <= limit)):
            error = distance(points[i], self.reference(i))
            if error > WRONG:  # it may be another geodesic that is as short
                error = min(error, distance(points[i], self.next_to(points[i], np.inf)))
            errors[i] = error
        return errors

    def reference(self, i):
        """The geodesic next to the best known curve or, if it cannot be had, that curve."""
        if i not in self.references:
            self.references[i] = self.next_to(self.points[i], self.points[i])
        return self.references[i]

    def next_to(self, points, otherwise):
        from probgeo.paper.classical import reference_geodesic

        try:
            return reference_geodesic(self.metric, points)
        except RuntimeError:
            return otherwise


def distance(points, reference) -> float:
    """The largest distance in a coordinate, relative to the extent of the curve."""
    extent = np.abs(points - points[0]).max()
    return float(np.abs(points - reference).max() / extent) if extent else 0.0


TRAPZ = (
    " As it is, this geomstats does not import with this NumPy, which has dropped `trapz`; here it "
    "is given that name back."
)


def text(result: dict[str, Any]) -> str:
    rows = result["rows"]
    return "\n\n".join(part for part in [
        f"{result['pairs']} random pairs of data of each set in the plane, metrics of mixtures of "
        "eight Gaussians: the ones of MNIST in two principal components, and toy shapes. Ours in "
        "one batch, from its own first curves, with posteriors of curve and length; `solve_bvp` "
        "with a vectorised right-hand side one after the other, 20 nodes and at most 1000; "
        "geomstats with its `LogODESolver` on 20 nodes, which wraps `solve_bvp`, given the same "
        "right-hand side because its NumPy backend has no derivatives. Both start from the "
        "straight line."
        + ("" if result["numpy_has_trapz"] else TRAPZ),
        "A failure is what the solver itself reports. A false success is declared solved, but "
        "more than 1 % longer than the shortest curve known (of any solver, or of three "
        "independent polygons of 64 segments brought to their least energy), or off the geodesic "
        "next to it by more than a hundredth of its extent. Times are totals, failures included, "
        "over the number of pairs. Pairs for which a polygon was more than 1 % shorter than the "
        f"curves of all solvers: {result['shorter_polygons']}.",
        f"![Work against precision on geodesics](images/benchmarks/{PICTURE})",
        "All data sets together, by setting:",
        by_setting(rows),
        "\n".join(f"- {line}" for line in verdicts(rows)),
        broken(rows),
    ] if part)  # fmt: skip


def pooled(rows: list[dict]) -> dict[tuple[str, float], dict]:
    """All data sets together: mean time, counts, the largest median error."""
    found: dict[tuple[str, float], list[dict]] = {}
    for row in sweeps.measured(rows):
        found.setdefault((row["solver"], row["setting"]), []).append(row)
    return {
        key: {
            "time": sum(r["time"] * r["count"] for r in own) / sum(r["count"] for r in own),
            "count": sum(r["count"] for r in own),
            "failures": sum(r["failures"] for r in own),
            "false": sum(r["false"] for r in own),
            "median_error": max((r["median_error"] or 0.0) for r in own),
        }
        for key, own in found.items()
    }


def by_setting(rows: list[dict]) -> str:
    lines = []
    for (solver, setting), row in pooled(rows).items():
        bad = f"{100 * (row['failures'] + row['false']) / row['count']:.1f} %"
        lines.append([solver, f"{setting:.0e}", row["count"], milliseconds(row["time"]),
                      number(row["median_error"], ".1e"), row["failures"], row["false"],
                      bad])  # fmt: skip
    header = ["solver", "tolerance", "geodesics", "CPU ms each", "median error, worst set",
              "failures", "false successes", "bad"]  # fmt: skip
    return table(header, lines)


def headlines(result: dict[str, Any]) -> list[str]:
    return verdicts(result["rows"])


def verdicts(rows: list[dict]) -> list[str]:
    """Times at equal median error, failures included; how many are bad over all settings."""
    by_solver: dict[str, list[dict]] = {}
    for (solver, _), row in pooled(rows).items():
        by_solver.setdefault(solver, []).append(row)
    needed = {name: time_needed(own) for name, own in by_solver.items()}
    bad = {}
    for name, own in by_solver.items():
        count, wrong = (sum(sum(r[k] for k in keys) for r in own)
                        for keys in (("count",), ("failures", "false")))  # fmt: skip
        bad[name] = f"{100 * wrong / count:.1f} %"
    lines = []
    for name in by_solver:
        ratio = needed.get(OURS, np.nan) / needed[name]
        if name == OURS:
            continue
        speed = factor(ratio, name) if np.isfinite(ratio) else f"is not compared with {name}"
        lines.append(
            f"At a median error of {MEDIAN:g} {OURS} {speed}, failures included; of all settings "
            f"{bad.get(OURS, '-')} of our geodesics are bad, {bad[name]} of theirs."
        )
    return lines


def time_needed(rows: list[dict]) -> float:
    errors = [max(row["median_error"], 1e-300) for row in rows]
    return time_at_error(errors, [row["time"] for row in rows], MEDIAN)


def draw(result: dict[str, Any], folder: Path) -> None:
    sweeps.draw(result["rows"], folder / PICTURE, "a geodesic", error="median_error")
