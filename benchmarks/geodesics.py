"""Geodesics on learned metrics: failures, speed and calibration, against SciPy and Diffrax.

    python benchmarks/geodesics.py [--quick] [--only digits,robustness,calibration,exp]

Times are CPU seconds of one thread, compilation apart, and include our posterior of curve and
length. Results go to benchmarks/results/geodesics.md, one section a part; parts that were not run
keep what they had.
"""

# ruff: noqa: E402  (threads have to be limited before JAX starts them)
from __future__ import annotations

import os

os.environ.setdefault("PROBGEO_COMPILE", "thorough")  # compilation is apart
os.environ.setdefault("XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false")
for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(name, "1")

import argparse
import sys
import time
import warnings
from pathlib import Path

ROOT = Path(__file__).parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "benchmarks")]

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from shortest import shortest_lengths
from sklearn.datasets import load_digits

from probgeo import ConvergenceWarning, Manifold, metrics, solvers
from probgeo.paper.classical import NumpyMetric, by_solve_bvp, by_solve_ivp, length_of
from tests.geometry import shapes
from tests.geometry.reference import calibration

RESULTS = ROOT / "benchmarks" / "results" / "geodesics.md"
COMPONENTS = 10  # of the mixtures on digits
COMPONENTS_OF_SHAPES = 16
LONGER = 1.01  # than the best known: a bad result
SOLVED = {2: 100, 5: 100, 10: 100, 30: 20, 50: 10}  # pairs, by dimension,
COMPARED = {2: 100, 5: 100, 10: 30, 30: 6, 50: 3}  # of which SciPy solves the first few
CHECKED = 20  # pairs whose path errors are looked at
OFF = 1e-2  # path error, relative to the extent of the path, of a false success
T = np.linspace(0.0, 1.0, 101)


def cpu(function):
    """What a function returns, and the CPU seconds it took."""
    start = time.process_time()
    out = function()
    return out, time.process_time() - start


def table(header, rows):
    lines = ["| " + " | ".join(header) + " |", "|" + " --- |" * len(header)]
    return "\n".join(lines + ["| " + " | ".join(map(str, row)) + " |" for row in rows])


def per_cent(values):
    return f"{100 * np.mean(values):.1f} %"


# --- digits ---------------------------------------------------------------------------------


def digits(only_ones, dimension):
    """The digits of scikit-learn, all or only the ones, in their first principal components."""
    X, y = load_digits(return_X_y=True)
    X = X[y == 1] if only_ones else X
    X = X - X.mean(axis=0)
    _, _, axes = np.linalg.svd(X, full_matrices=False)
    return X @ axes[:dimension].T


class Answer:
    """Curves of one solver: points (B, T, D), lengths, whether it says all is well, CPU time."""

    def __init__(self, points, lengths, converged, seconds):
        self.points, self.lengths = points, lengths
        self.converged, self.seconds = converged, seconds

    def bad(self, best, path_error):
        """Not converged, longer than the best known, or off the geodesic it claims to be."""
        off = self.converged & (path_error > OFF)
        return ~self.converged | ~(self.lengths <= LONGER * best) | off

    def silent(self, best, path_error):
        return self.bad(best, path_error) & self.converged


def ours(manifold, a, b):
    def solve():
        geodesic = manifold.geodesic(a, b, progress=False)
        jax.block_until_ready((geodesic.length.mean, geodesic.posterior))
        return geodesic

    _, first = cpu(solve)
    geodesic, seconds = cpu(solve)
    answer = Answer(
        np.asarray(geodesic.mean(T)),
        np.asarray(geodesic.length.mean),
        np.asarray(geodesic.converged),
        seconds,
    )
    return answer, first - seconds


def scipys(plain, a, b, tol):
    found, seconds = cpu(
        lambda: [by_solve_bvp(plain, x, y, tol) for x, y in zip(a, b, strict=True)]
    )
    D = a.shape[1]
    with np.errstate(all="ignore"):
        lengths = np.array([length_of(plain, f) for f in found])
    points = np.stack([f.sol(T)[:D].T for f in found])
    return Answer(points, lengths, np.array([f.status == 0 for f in found]), seconds)


def path_errors(plain, answer, a, b, count):
    """How far curves are from the geodesics next to them, of the first `count` members."""
    errors = np.zeros(len(a))
    for k in np.flatnonzero(answer.converged)[:count]:
        x = answer.points[k]
        extent = np.abs(x - x[0]).max()
        if extent == 0:
            continue
        v = np.gradient(x, T, axis=0)
        tight = by_solve_bvp(plain, a[k], b[k], 1e-5, guess=(T, x.T, v.T), max_nodes=3000)
        if tight.status == 0:
            errors[k] = np.abs(tight.sol(T)[: a.shape[1]].T - x).max() / extent
    return errors


def one_case(only_ones, dimension, count, compared):
    """`count` geodesics by us, of which SciPy solves the first `compared`."""
    X = digits(only_ones, dimension)
    metric = metrics.from_mixture(X, COMPONENTS)
    plain = NumpyMetric(metric)
    a, b = shapes.random_pairs(np.random.default_rng(0), X, count)
    kind = "ones" if only_ones else "all"
    mine, compiling = ours(Manifold(metric), a, b)
    answers = {"probgeo": mine}
    for tol in (1e-2, 1e-3):
        answers[f"SciPy {tol:.0e}"] = scipys(plain, a[:compared], b[:compared], tol)
    best = shortest_lengths(metric, X, a, b)
    for answer in answers.values():
        k = len(answer.lengths)
        found = np.where(answer.converged, answer.lengths, np.inf)
        best[:k] = np.minimum(best[:k], found)
    own = mine.seconds / count
    rows = []
    for name, answer in answers.items():
        k = len(answer.lengths)
        errors = path_errors(plain, answer, a[:k], b[:k], min(compared, CHECKED))
        excess = (answer.lengths / best[:k] - 1)[answer.converged]
        each = answer.seconds / k
        rows.append(
            [
                kind,
                dimension,
                name,
                k,
                f"{1e3 * each:.2f}",
                f"{each / own:.1f}",
                per_cent(answer.bad(best[:k], errors)),
                per_cent(~answer.converged),
                per_cent(answer.silent(best[:k], errors)),
                f"{np.median(np.abs(excess)):.1e}",
                f"{compiling:.0f}" if name == "probgeo" else "",
            ]
        )
        print("  ", *rows[-1], flush=True)
    return rows


def digits_part(quick):
    rows = []
    for dimension in (2, 10) if quick else SOLVED:
        compared = 20 if quick else COMPARED[dimension]
        for only_ones in (False, True):
            jax.clear_caches()  # a process may not hold that many programs
            rows += one_case(only_ones, dimension, 20 if quick else SOLVED[dimension], compared)
    header = ["digits", "D", "solver", "geodesics", "ms each", "time, ours = 1", "bad"]
    header += ["not converged", "silently bad", "median excess length", "compiling, s"]
    return (
        f"Random pairs of data, mixtures of {COMPONENTS} Gaussians. SciPy's `solve_bvp`: "
        "vectorised right-hand side, straight line of 20 nodes, `max_nodes=1000`; in many "
        "dimensions it solves the first few pairs only, because it takes so long. Times are totals "
        "over all pairs, failures included. Bad: not converged, more than 1 % longer than the best "
        "known curve, or declared converged with a path error above 1e-2 (checked on the first "
        f"{CHECKED} pairs at most).\n\n" + table(header, rows)
    )


# --- robustness -----------------------------------------------------------------------------


SHAPES = {**shapes.PLANE, "Swiss roll": shapes.swiss_roll}


def robustness_part(quick):
    seeds = range(2 if quick else 5)
    rows = []
    for name, make in SHAPES.items():
        found = [one_shape(make, seed) for seed in seeds]
        ratio, good = (np.concatenate(x) for x in zip(*found, strict=True))
        bad = ~(ratio <= LONGER)
        rows.append([name, len(ratio), int((~good).sum()), per_cent(~bad), int((bad & good).sum())])
        print("  ", *rows[-1], flush=True)
    header = ["shape", "geodesics", "flagged", "within 1 %", "silently wrong"]
    return (
        f"Mixtures of {COMPONENTS_OF_SHAPES} Gaussians, {len(seeds)} seeds, 40 random pairs each, "
        "in the plane (Swiss roll: in space). Lengths against the best of three independent "
        "solutions: polygons of 64 segments brought to their least "
        "energy from the line, from paths over all data, from smoother metrics.\n\n"
        + table(header, rows)
    )


def one_shape(make, seed):
    """Lengths over the best known, and which are not flagged."""
    rng = np.random.default_rng(seed)
    data = make(rng)
    metric = metrics.from_mixture(data, COMPONENTS_OF_SHAPES, seed=seed)
    a, b = shapes.random_pairs(rng, data, 40)
    geodesic = Manifold(metric).geodesic(a, b)
    best = shortest_lengths(metric, data, a, b)
    lengths = np.asarray(geodesic.length.mean)
    ratio = np.where(best > 0, lengths / np.where(best > 0, best, 1.0), 1.0)
    return ratio, np.asarray(geodesic.converged)


# --- calibration ----------------------------------------------------------------------------


def calibration_part(quick):
    rows = []
    cases = {"Markov, default": None, "Dense, default": solvers.Dense()}
    for name in ["half circle"] if quick else [*shapes.PLANE]:
        rng = np.random.default_rng(1)
        data = shapes.PLANE[name](rng)
        metric = metrics.from_mixture(data, 8, seed=1)
        a, b = shapes.random_pairs(rng, data, 40)
        first = Manifold(metric).geodesic(a, b)
        tight = Manifold(metric, TIGHT).geodesic(a, b, guess=first)
        for label, solver in cases.items():
            found = first if solver is None else Manifold(metric, solver).geodesic(a, b)
            rows.append([name, label, *calibrated(found, tight)])
            print("  ", *rows[-1], flush=True)
    header = ["metric", "solver", "compared", "position", "length", "logarithm"]
    return (
        "Coverage at two standard deviations, and normalised squared error (ANEES), against a mesh "
        "of 80 nodes of order 7. Members that are flagged, or whose reference does not claim to "
        "be ten times better, are left out.\n\n" + table(header, rows)
    )


TIMES = np.array([0.13, 0.37, 0.5, 0.71, 0.94])
TIGHT = solvers.Markov(order=7, n_points=80)


def calibrated(found, tight):
    """How many could be compared, and coverage and ANEES of position, length and logarithm."""
    at, exact = found(TIMES), tight(TIMES)
    better = exact.std.max(axis=(1, 2)) < 0.1 * at.std.max(axis=(1, 2))
    use = np.asarray(better & tight.converged & found.converged)
    if not use.any():
        return f"0 of {use.size}", "-", "-", "-"
    some, other = found[use], tight[use]
    length, log = some.length, some.log()
    pairs = [
        ((at.mean - exact.mean)[use], at.cov[use]),
        ((length.mean - other.length.mean)[:, None], length.cov[:, None, None]),
        (log.mean - other.log().mean, log.cov),
    ]
    return f"{use.sum()} of {use.size}", *(
        "{:.3f}, {:.2g}".format(*calibration(*pair)) for pair in pairs
    )


# --- exponential maps -----------------------------------------------------------------------


def exp_part(quick):
    count = 100 if quick else 1000
    rows = []
    for dimension in (2, 10):
        X = digits(False, dimension)
        metric = metrics.from_mixture(X, COMPONENTS)
        a, b = shapes.random_pairs(np.random.default_rng(0), X, count)
        for row in exponentials(metric, a, 0.5 * (b - a)):
            rows.append([dimension, *row])
            print("  ", *rows[-1], flush=True)
    header = ["D", "solver", "CPU s", "median relative error"]
    return f"{count} exponential maps at once, mixture on all digits.\n\n" + table(header, rows)


def exponentials(metric, a, v):
    """Name, CPU time and median error of every solver."""
    plain = NumpyMetric(metric)
    exact, _ = by_solve_ivp(plain, a, v, 1e-11)

    def ours(solver):
        return np.asarray(Manifold(metric, solver).exp(a, v).mean)

    answers = {
        "probgeo, rtol 1e-6, with posterior": lambda: ours(solvers.Markov(rtol=1e-6)),
        "probgeo, default (rtol 1e-3)": lambda: ours(None),
        "Diffrax Dopri5, vmap, 1e-6": lambda: by_diffrax(metric, a, v, diffrax.Dopri5()),
        "Diffrax Dopri8, vmap, 1e-6": lambda: by_diffrax(metric, a, v, diffrax.Dopri8()),
        "SciPy DOP853, stacked, 1e-6": lambda: by_solve_ivp(plain, a, v, 1e-6)[0],
        "SciPy RK45, stacked, 1e-6": lambda: by_solve_ivp(plain, a, v, 1e-6, "RK45")[0],
    }
    for name, solve in answers.items():
        solve()
        ends, seconds = cpu(solve)
        error = np.linalg.norm(ends - exact, axis=1) / np.linalg.norm(v, axis=1)
        yield name, f"{seconds:.3f}", f"{np.nanmedian(error):.1e}"


def by_diffrax(metric, a, v, solver):
    return np.asarray(_by_diffrax(metric, jnp.asarray(a), jnp.asarray(v), solver))


@eqx.filter_jit
def _by_diffrax(metric, a, v, solver):
    def one(a, v):
        term = diffrax.ODETerm(lambda t, y, _: (y[1], metric.acceleration(*y)))
        controller = diffrax.PIDController(rtol=1e-6, atol=1e-6)
        found = diffrax.diffeqsolve(
            term,
            solver,
            0.0,
            1.0,
            None,
            (a, v),
            stepsize_controller=controller,
            max_steps=4096,
            throw=False,
        )
        return found.ys[0][-1]

    return jax.vmap(one)(a, v)


# --- the report -----------------------------------------------------------------------------


PARTS = {
    "digits": ("Digits, against SciPy", digits_part),
    "robustness": ("Robustness", robustness_part),
    "calibration": ("Calibration", calibration_part),
    "exp": ("Exponential maps", exp_part),
}


def sections():
    """What the report holds, by title."""
    if not RESULTS.exists():
        return {}
    parts = RESULTS.read_text().split("\n## ")[1:]
    return {p.split("\n", 1)[0]: p.split("\n", 1)[1].strip() for p in parts}


def write(found):
    titles = [title for title, _ in PARTS.values() if title in found]
    text = "# Geodesics\n\nWritten by `benchmarks/geodesics.py`. CPU time of one thread.\n"
    text += "".join(f"\n## {title}\n\n{found[title]}\n" for title in titles)
    RESULTS.write_text(text)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--only", default=",".join(PARTS), help="parts, with commas between")
    options = parser.parse_args()
    warnings.simplefilter("ignore", ConvergenceWarning)
    for name in options.only.split(","):
        title, part = PARTS[name]
        print(title, flush=True)
        text = part(options.quick)
        if options.quick:
            text = "Quick run, fewer cases.\n\n" + text
        write(sections() | {title: text})


if __name__ == "__main__":
    main()
