"""How time grows with the number of nodes, of dimensions, and of members of a batch."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from report.pictures import STYLES, plt, save
from report.scale import Scale
from report.writing import milliseconds, number, table

TITLE = "Scaling"
PICTURE = "scaling.png"
MEMBERS = 20
APART = 1.6  # ratio of sizes whose labels do not touch
NODES = 32  # where dimensions grow
AXES = {"N": "nodes N", "D": "dimensions D", "P": "batch size P"}


def run(scale: Scale) -> dict[str, Any]:
    return {"rows": nodes(scale) + dimensions(scale) + batches(scale)}


def row(axis: str, solver: str, size: int, seconds: float) -> dict[str, Any]:
    print("   ", axis, size, solver, milliseconds(seconds), "ms", flush=True)
    return {"axis": axis, "solver": solver, "size": size, "time": seconds}


def hyperbolic(solver, count: int) -> float:
    """Seconds a member for geodesics of the hyperbolic half-plane."""
    from baselines import bvp_families, perturbed, solve_copies
    from measures import timed

    copies = perturbed(bvp_families()["hyperbolic"], count)
    _, seconds = timed(lambda: solve_copies(copies, solver))
    return seconds / count


def nodes(scale: Scale) -> list[dict]:
    from probgeo import solvers

    rows = [row("N", "Markov", n, hyperbolic(solvers.Markov(n_points=n), MEMBERS))
            for n in scale.nodes]  # fmt: skip
    return rows + [row("N", "Dense", n, hyperbolic(solvers.Dense(n_points=n), MEMBERS))
                   for n in scale.dense_nodes]  # fmt: skip


def pendulums(t, y, dy):
    """A ring of pendulums, each pulled towards its two neighbours."""
    import jax.numpy as jnp

    return -jnp.sin(y) + 0.5 * (jnp.roll(y, 1) + jnp.roll(y, -1) - 2 * y)


def dimensions(scale: Scale) -> list[dict]:
    import numpy as np
    from measures import timed

    from probgeo import solve_bvp, solvers

    rows, solver = [], solvers.Markov(n_points=NODES)
    for D in scale.dimensions:
        yb = np.random.default_rng(0).uniform(0.5, 1.0, (MEMBERS, D))
        _, seconds = timed(lambda y=yb: solve_bvp(pendulums, (0.0, 1.0), np.zeros_like(y), y, solver=solver))
        rows.append(row("D", "Markov", D, seconds / MEMBERS))
    return rows


def batches(scale: Scale) -> list[dict]:
    from baselines import bvp_families, perturbed, solve_with_scipy
    from measures import cpu_seconds

    from probgeo import solvers

    rows = [row("P", "Markov", P, hyperbolic(solvers.Markov(), P)) for P in scale.batches]
    copies = perturbed(bvp_families()["hyperbolic"], 20)
    _, seconds = cpu_seconds(lambda: [solve_with_scipy(p, 1e-5, 10) for p in copies])
    return rows + [row("P", "SciPy solve_bvp", P, seconds / len(copies)) for P in scale.batches]


def text(result: dict[str, Any]) -> str:
    rows = result["rows"]
    parts = [
        "CPU milliseconds a problem, with the posterior. N and P: geodesics of the hyperbolic "
        f"half-plane, D = 2; D: a ring of pendulums on {NODES} nodes. {MEMBERS} members in a "
        "batch, unless its size is what changes. SciPy, at a tolerance of 1e-5, solves one after "
        "the other, so its time a problem does not depend on P. The exponent is that "
        "between the two largest sizes.",
        f"![Time against size](images/benchmarks/{PICTURE})",
    ]
    for axis, words in AXES.items():
        own = [r for r in rows if r["axis"] == axis]
        sizes = sorted({r["size"] for r in own})
        lines = []
        for solver in dict.fromkeys(r["solver"] for r in own):
            known = {r["size"]: r["time"] for r in own if r["solver"] == solver}
            cells = [milliseconds(known.get(size)) for size in sizes]
            lines.append([solver, *cells, number(exponent(known), "z.1f")])
        parts.append(table([words, *map(str, sizes), "exponent"], lines))
    return "\n\n".join([*parts, "\n".join(f"- {line}" for line in headlines(result))])


def exponent(known: dict[int, float]) -> float | None:
    from measures import slope

    return slope(list(known), list(known.values())) if len(known) > 1 else None


def headlines(result: dict[str, Any]) -> list[str]:
    """Where one problem at a time is a loss, and from which size of batch on it is none."""
    rows = result["rows"]
    ours, theirs = ({r["size"]: r["time"] for r in rows if (r["axis"], r["solver"]) == ("P", name)}
                    for name in ("Markov", "SciPy solve_bvp"))  # fmt: skip
    few, many = min(ours), max(ours)
    lines = [
        f"In a batch of {P} our time a problem is {ours[P] / theirs[P]:.2g} times that of SciPy."
        for P in dict.fromkeys((few, many))
    ]
    faster = [P for P in sorted(ours) if ours[P] < theirs[P]]
    lines.append(f"Of the sizes tried, ours is faster from {faster[0]} on." if faster
                 else "SciPy is faster at every size that was tried.")  # fmt: skip
    return lines


def legible(sizes: list[int]) -> list[int]:
    """Those sizes, from the largest down, whose labels do not touch on a logarithmic axis."""
    kept = sizes[-1:]
    for size in sizes[-2::-1]:
        if kept[0] / size >= APART:
            kept.insert(0, size)
    return kept


def draw(result: dict[str, Any], folder: Path) -> None:
    rows = result["rows"]
    figure, axes = plt.subplots(1, 3, figsize=(10.5, 3.4), sharey=True, layout="constrained")
    for axis, (key, words) in zip(axes, AXES.items(), strict=True):
        own = [r for r in rows if r["axis"] == key]
        names = list(dict.fromkeys(r["solver"] for r in own))
        for style, solver in zip(STYLES, names, strict=False):
            known = [r for r in own if r["solver"] == solver]
            x, y = [r["size"] for r in known], [1e3 * r["time"] for r in known]
            axis.plot(x, y, **style, label=solver)
        axis.set(xscale="log", yscale="log", xlabel=words)
        sizes = legible(sorted({r["size"] for r in own}))
        axis.set_xticks(sizes, map(str, sizes))
        axis.minorticks_off()
        axis.legend(fontsize=8.5)
    axes[0].set_ylabel("CPU ms a problem")
    save(figure, folder / PICTURE)
