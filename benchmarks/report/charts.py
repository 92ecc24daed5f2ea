"""Geodesics of spheres and ellipsoids in a chart: GEORCE's own test, with its published times."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from report.scale import Scale
from report.writing import listed, milliseconds, number, table

TITLE = "Spheres and ellipsoids in a chart"
# seconds on its authors' machine for the sphere of a dimension, a polygon of 100 segments
PUBLISHED = {2: 7.8e-3, 10: 0.32, 50: 4.1}
SEGMENTS = 100  # of the polygon
TIGHT = 1e-8  # tolerance of the reference where there is no closed form


def run(scale: Scale) -> dict[str, Any]:
    from probgeo import metrics

    rows = [row("sphere", D, metrics.Sphere(D)) for D in scale.charts]
    rows += [row("ellipsoid", D, metrics.Pullback(ellipsoid(D))) for D in scale.charts]
    return {"rows": rows}


def ellipsoid(D: int):
    """Half axes from a half to one; stereographic coordinates of the unit sphere, stretched."""
    import jax.numpy as jnp

    axes = np.linspace(0.5, 1.0, D + 1)

    def decoder(x):
        square = x @ x
        return axes * jnp.append(2 * x, 1 - square) / (1 + square)

    return decoder


def row(space: str, D: int, metric: Any) -> dict[str, Any]:
    """One geodesic alone, between the points that GEORCE was tested with."""
    from measures import timed

    from probgeo import Manifold, solvers

    a, b = -np.linspace(0.0, 1.0, D), np.full(D, 0.5)

    def solve():
        found = Manifold(metric).geodesic(a, b)
        return found, float(found.length.mean), float(found.length.std)

    (found, length, std), seconds = timed(solve)
    if space == "sphere":
        exact = float(metric.distance(a, b))
    else:
        exact = float(Manifold(metric, solvers.Markov(rtol=TIGHT)).distance(a, b).mean)
    steps = np.diff(found.mean(np.linspace(0.0, 1.0, SEGMENTS + 1)), axis=0)
    out = {
        "space": space,
        "D": D,
        "time": seconds,
        "converged": bool(found.converged),
        "error": abs(length - exact) / exact,
        "std": std / exact,
        "published": PUBLISHED.get(D) if space == "sphere" else None,
        "turn": float(np.degrees(np.arccos(cosine(steps[0], steps[-1])))),
    }
    print("   ", *out.values(), flush=True)
    return out


def cosine(u: np.ndarray, v: np.ndarray) -> float:
    return float(np.clip(u @ v / (np.linalg.norm(u) * np.linalg.norm(v)), -1.0, 1.0))


def text(result: dict[str, Any]) -> str:
    cells = [
        [r["space"], r["D"], milliseconds(r["time"]), number(r["error"], ".1e"),
         number(r["std"], ".1e"), number(r["turn"], ".0f"), milliseconds(r["published"]),
         number((r["published"] or np.nan) / r["time"], ".0f")]
        for r in result["rows"]
    ]  # fmt: skip
    header = ["", "D", "ms alone", "relative error of length", "its error bar", "turn, degrees",
              "GEORCE, ms", "over ours"]  # fmt: skip
    return "\n\n".join([
        "One geodesic at a time, at default settings and with its posterior, in stereographic "
        "coordinates: from -(0, ..., 1) at equal steps to (1/2, ..., 1/2). Half axes of the "
        "ellipsoids go from 1/2 to 1; they are the pullback of a decoder written in JAX. The judge "
        f"is the closed form on spheres, our own solution at a tolerance of {TIGHT:g} on "
        "ellipsoids. GEORCE: times that its authors published for spheres (polygons of "
        f"{SEGMENTS} segments, compiled, their machine): what they say is the order of magnitude.",
        table(header, cells),
        "\n".join(f"- {line}" for line in headlines(result)),
    ])  # fmt: skip


def headlines(result: dict[str, Any]) -> list[str]:
    known = [r for r in result["rows"] if r["published"]]
    slower = [f"D = {r['D']}" for r in known if r["time"] >= r["published"]]
    least = min(r["published"] / r["time"] for r in known)
    lost = [f"{r['space']}, D = {r['D']}" for r in result["rows"] if not r["converged"]]
    said = f"slower than the published time at {listed(slower)}" if slower else (
        f"faster than every published time, by {least:.0f} times at least")  # fmt: skip
    errors = [r["error"] for r in result["rows"] if r["space"] == "sphere"]
    return [
        f"On spheres probgeo is {said}; the largest error of a length is {max(errors):.1e}.",
        f"Not solved: {listed(lost)}." if lost else "Every geodesic is solved.",
    ]


def draw(result: dict[str, Any], folder: Path) -> None:
    """A table says it all."""
