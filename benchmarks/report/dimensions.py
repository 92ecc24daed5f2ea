"""Geodesics of the paper's metrics of digits, by dimension, against SciPy."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from report.pictures import STYLES, plt, save
from report.scale import Scale
from report.writing import milliseconds, number, table, two_digits

TITLE = "Geodesics by dimension"
PICTURE = "dimensions.png"
KINDS = ("all", "ones")
TOL = 1e-2  # of SciPy
LONGER = 1.01  # than the shortest known: bad
GOAL = 10.0  # times faster than SciPy, in every row


def run(scale: Scale) -> dict[str, Any]:
    return {"rows": [row(kind, *sizes) for sizes in scale.digits for kind in KINDS]}


def row(kind: str, D: int, pairs: int, compared: int) -> dict[str, Any]:
    """Our geodesics, of which SciPy solves the first few, held against the shortest known."""
    from learned import digits, random_pairs
    from measures import cpu_seconds
    from shortest import shortest_lengths

    from probgeo import Manifold
    from probgeo.paper.classical import NumpyMetric, by_solve_bvp, length_of

    X, metric = digits(kind, D)
    plain = NumpyMetric(metric)
    a, b = random_pairs(X, pairs)
    manifold = Manifold(metric)

    def ours():
        found = manifold.geodesic(a, b, progress=False)
        return found, found.length.mean, found.length.std

    manifold.geodesic(a[:1], b[:1])  # compiles
    (found, lengths, _), seconds = cpu_seconds(ours)
    scipys, theirs = cpu_seconds(lambda: [by_solve_bvp(plain, a[i], b[i], TOL) for i in range(compared)])
    solved = np.array([f.status == 0 for f in scipys])
    with np.errstate(all="ignore"):
        scipy_lengths = np.array([length_of(plain, f) for f in scipys])
    best = shortest_lengths(metric, X, a, b)
    best = np.fmin(best, np.where(found.converged, lengths, np.inf))
    best[:compared] = np.fmin(best[:compared], np.where(solved, scipy_lengths, np.inf))
    longer, scipy_longer = lengths > LONGER * best, scipy_lengths > LONGER * best[:compared]
    out = {
        "kind": kind,
        "D": D,
        "pairs": pairs,
        "compared": compared,
        "time": seconds / pairs,
        "scipy": theirs / compared,
        "flagged": int((~found.converged).sum()),
        "silent": int((longer & found.converged).sum()),
        "scipy_failed": int((~solved).sum()),
        "scipy_silent": int((scipy_longer & solved).sum()),
    }
    print("   ", *out.values(), flush=True)
    return out


def text(result: dict[str, Any]) -> str:
    header = ["digits", "D", "geodesics", "ms each", "flagged", "silently > 1 % too long",
              "SciPy's", "ms each", "failed", "too long", "SciPy's time over ours"]  # fmt: skip
    cells = [
        [r["kind"], r["D"], r["pairs"], milliseconds(r["time"]), r["flagged"], r["silent"],
         r["compared"], milliseconds(r["scipy"]), r["scipy_failed"], r["scipy_silent"],
         number(r["scipy"] / r["time"], ".0f")]
        for r in result["rows"]
    ]  # fmt: skip
    return "\n\n".join([
        "Random pairs of the digits of scikit-learn, all of them or the ones, in their first D "
        "principal components; metrics of mixtures of ten Gaussians, rho = 1, as in the paper. "
        "Ours at default settings in one batch, with posteriors of curve and length. SciPy's "
        "`solve_bvp`: vectorised right-hand side, 20 nodes on the straight line, a tolerance of "
        f"{TOL:g}, at most 1000 nodes, on the first few pairs, because it takes so long. Times "
        "are CPU milliseconds over all pairs, failures included. The shortest known curve is that "
        "of any of the two, or of three independent polygons brought to their least energy.",
        f"![Time against dimension](images/benchmarks/{PICTURE})",
        table(header, cells),
        "\n".join(f"- {line}" for line in headlines(result)),
    ])  # fmt: skip


def headlines(result: dict[str, Any]) -> list[str]:
    rows = result["rows"]
    faster = np.array([r["scipy"] / r["time"] for r in rows])
    count, flagged, silent = (sum(r[k] for r in rows) for k in ("pairs", "flagged", "silent"))
    tried, failed, wrong = (sum(r[k] for r in rows) for k in ("compared", "scipy_failed", "scipy_silent"))
    worst = rows[int(faster.argmin())]
    return [
        f"Over all rows probgeo is {two_digits(np.exp(np.log(faster).mean()))} times faster than "
        f"SciPy in the geometric mean, {two_digits(faster.min())} times where it gains least "
        f"({worst['kind']}, D = {worst['D']}; the goal is {GOAL:g} everywhere).",
        f"Flagged, and silently more than 1 % too long: {flagged} and {silent} of our {count} "
        f"geodesics, {failed} and {wrong} of SciPy's {tried}.",
    ]


def draw(result: dict[str, Any], folder: Path) -> None:
    figure, axes = plt.subplots(1, 2, figsize=(8.0, 3.4), sharey=True, layout="constrained")
    for axis, kind in zip(axes, KINDS, strict=True):
        own = [r for r in result["rows"] if r["kind"] == kind]
        D = [r["D"] for r in own]
        lines = {"probgeo": "time", "SciPy solve_bvp": "scipy"}
        for style, (label, key) in zip(STYLES, lines.items(), strict=False):
            axis.plot(D, [1e3 * r[key] for r in own], **style, label=label)
        axis.set(xscale="log", yscale="log", xlabel="dimensions D", title=f"{kind} digits")
        axis.set_xticks(D, map(str, D))
        axis.minorticks_off()
        axis.legend()
    axes[0].set_ylabel("CPU ms a geodesic")
    save(figure, folder / PICTURE)
