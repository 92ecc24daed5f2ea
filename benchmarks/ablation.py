"""Which tuning numbers of a room matter: halve and double each, and see which problems notice.

    python benchmarks/ablation.py probgeo.ode [--only NAME,NAME] [--write]

A tuning number is one that a module of the room assigns to a name in capitals. It is changed
wherever it was imported to, all problems are solved, and it is put back. Counted are members
solved, false successes, evaluations (what a solve costs, the same on every machine; the geometric
mean over the problems), coverage of two standard deviations, and the median normalised squared
error, both of members that are near the reference. A room has its problems in `ROOMS`. Numbers that
a compiled loop has read are compiled in, and are listed as such.
"""

from __future__ import annotations

import argparse
import ast
import importlib
import pkgutil
import signal
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

FACTORS = {"half": 0.5, "double": 2.0}
FLOOR = 1e-12  # error of references, relative to the size of the solution
WRONG = 1e-2  # relative error of a false success
LIMIT = 120  # seconds for all problems, which take two (ode, geometry) to ten (stats)
NOTES = "\n## Notes\n"  # what follows was written by hand, and stays
RESULTS = Path(__file__).parent / "results"


class Number(NamedTuple):
    module: str
    name: str
    value: Any

    def changed(self, factor: float) -> Any:
        """The number times a factor: counts stay whole, and at least one."""
        if isinstance(self.value, int):
            return max(1, round(self.value * factor))
        return self.value * factor


class Outcome(NamedTuple):
    """What came of a batch: errors relative to the solution (P,), errors over bars (P, ...)."""

    errors: np.ndarray
    converged: np.ndarray
    evaluations: int
    z: np.ndarray


class Score(NamedTuple):
    solved: float
    false: int
    evaluations: float
    coverage: float
    square: float
    print: tuple  # of all outcomes: equal if nothing at all has changed


Case = Callable[[], Outcome]


def tuning_numbers(room: str) -> list[Number]:
    """All of a package."""
    package = importlib.import_module(room)
    paths = [m.name for m in pkgutil.walk_packages(package.__path__, room + ".")]
    return [number for path in paths for number in _of_module(path)]


def _of_module(path: str) -> Iterator[Number]:
    module = importlib.import_module(path)
    assert module.__file__ is not None
    for node in ast.parse(Path(module.__file__).read_text()).body:
        if not isinstance(node, ast.Assign):
            continue
        (target,) = node.targets
        names = target.elts if isinstance(target, ast.Tuple) else [target]
        for name in names:
            if not isinstance(name, ast.Name) or not name.id.isupper():
                continue
            value = getattr(module, name.id)
            literal = all(not isinstance(x, ast.Name | ast.Attribute) for x in ast.walk(node.value))
            if isinstance(value, int | float) and literal:
                yield Number(path, name.id, value)


def holders(number: Number) -> list[Any]:
    """Modules that know the number by its name, its own first."""
    loaded = [m for path, m in list(sys.modules.items()) if path.startswith("probgeo")]
    return [m for m in loaded if vars(m).get(number.name, None) is getattr(
        sys.modules[number.module], number.name)]  # fmt: skip


def is_compiled_in(number: Number) -> bool:
    functions = [getattr(f, "py_func", None) for m in holders(number) for f in vars(m).values()]
    return any(f is not None and number.name in f.__code__.co_names for f in functions)


@contextmanager
def changed(number: Number, value: Any) -> Iterator[None]:
    modules = holders(number)
    try:
        for module in modules:
            setattr(module, number.name, value)
        yield
    finally:
        for module in modules:
            setattr(module, number.name, number.value)


@contextmanager
def at_most(seconds: int) -> Iterator[None]:
    """TimeoutError after so many seconds: with some values a solve never ends."""

    def stop(*_: object) -> None:
        raise TimeoutError

    signal.signal(signal.SIGALRM, stop)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)


def score(cases: list[Case]) -> Score:
    """All cases, with one weight for each member."""
    outcomes = [case() for case in cases]
    converged = np.concatenate([o.converged for o in outcomes])
    errors = np.nan_to_num(np.concatenate([o.errors for o in outcomes]), nan=np.inf)
    z = [row for o in outcomes for row, good in zip(o.z, o.converged, strict=True) if good and np.isfinite(row).all()]
    inside = [np.mean(np.abs(row) <= 2) for row in z]
    squares = [np.mean(row**2) for row in z]
    evaluations = np.array([max(1, o.evaluations) for o in outcomes])
    return Score(
        float(converged.mean()),
        int((errors[converged] > WRONG).sum()),
        float(np.exp(np.log(evaluations).mean())),
        float(np.mean(inside)),
        float(np.median(squares)),
        (evaluations.tobytes(), converged.tobytes(), np.round(np.log(errors + 1e-300), 6).tobytes(),
         np.round(squares, 6).tobytes()),
    )  # fmt: skip


def judged(curve: Any, exact: np.ndarray | None, t: np.ndarray) -> Outcome:
    """A curve against its solution (P, T, D); where there is none, every success is a false one."""
    mean, std = curve.mean(t), curve.std(t)
    count = int(np.sum(curve.n_evaluations))
    converged = np.atleast_1d(curve.converged)
    if exact is None:
        return Outcome(np.full(len(converged), np.inf), converged, count, np.full(mean.shape, 9.0))
    size = np.abs(exact).max(axis=(1, 2), keepdims=True)
    off = mean - exact
    errors = np.abs(off / size).max(axis=(1, 2))
    z = off / np.hypot(std, FLOOR * size)
    return Outcome(errors, converged, count, z[:, 1:-1])  # the ends are given


def times(t_span: tuple[float, float]) -> np.ndarray:
    """Random times, and both ends: a solution may be large in a layer there, and nowhere else."""
    inside = np.random.default_rng(0).uniform(*t_span, 60)
    return np.concatenate([t_span[:1], np.sort(inside), t_span[1:]])


# --- the problems of `probgeo.ode` ----------------------------------------------------------


def ode_cases() -> list[Case]:
    from probgeo import solvers

    markov = [solvers.Markov(rtol=rtol) for rtol in (1e-2, 1e-4, 1e-7)]
    models = (("jacobian", True), ("linearised", False), ("bound", False))
    dense = [solvers.Dense(n_points=12, error_model=model, fit_lengthscale=fit) for model, fit in models]
    easy = ("bratu", "hyperbolic", "pendulum")
    return [
        *boundary_cases(markov, 0.1, 4),
        *boundary_cases([solvers.Markov(rtol=rtol) for rtol in (1e-2, 1e-5)], 1e-3, 2),
        *boundary_cases([solvers.Markov(rtol=1e-4)], 1e-4, 2),
        *boundary_cases([solvers.Markov(n_points=30), *dense], 0.1, 4, easy),
        *singular_cases(),
        *initial_cases(markov, ("harmonic", "damped", "logistic", "lotka_volterra", "van_der_pol",
                                "arenstorf", "pleiades")),
        *initial_cases([solvers.Markov(rtol=1e-4, stiff=True)], ("stiff_van_der_pol", "damped")),
        *initial_cases([solvers.Markov(n_points=60), *dense], ("damped", "logistic")),
    ]  # fmt: skip


def boundary_cases(of_solvers: list, epsilon: float, copies: int, names: tuple[str, ...] | None = None) -> list[Case]:
    from baselines import bvp_families, perturbed, solve_copies

    def case(problems: list, solver: Any) -> Case:
        t = times(problems[0].t_span)
        exact = np.array([problem.solution(t) for problem in problems])
        return lambda: judged(solve_copies(problems, solver), exact, t)

    families = bvp_families(epsilon)
    chosen = [perturbed(families[name], copies) for name in names or families]
    return [case(problems, solver) for problems in chosen for solver in of_solvers]


def singular_cases() -> list[Case]:
    """y'' = -(n pi)^2 y between values that no solution has."""
    from probgeo import solve_bvp

    def case(n: int) -> Case:
        t = np.linspace(0.0, 1.0, 9)
        ends = np.zeros((1, 1)), np.ones((1, 1))
        return lambda: judged(solve_bvp(lambda t, y, dy: -((n * np.pi) ** 2) * y, (0.0, 1.0), *ends), None, t)

    return [case(n) for n in (1, 2, 5)]


def initial_cases(of_solvers: list, names: tuple[str, ...]) -> list[Case]:
    import problems

    from probgeo import solve_ivp

    def case(problem: Any, solver: Any) -> Case:
        t = times(problem.t_span)
        exact = problem.solution(t)[None]
        starts = [v[None] for v in (problem.y0, problem.dy0) if v is not None]
        return lambda: judged(solve_ivp(problem.f, problem.t_span, *starts, solver=solver), exact, t)

    return [case(getattr(problems, name)(), solver) for name in names for solver in of_solvers]


# --- the problems of `probgeo.geometry` -----------------------------------------------------

PAIRS = 24  # geodesics of each metric


def geometry_cases() -> list[Case]:
    """Geodesics between random data, cold, and from those between points close by."""
    return [case for X, metric in learned_metrics() for case in geodesic_cases(X, metric)]


def learned_metrics() -> list[tuple[np.ndarray, Any]]:
    from learned import SHAPES, digits, learned

    from probgeo import data, metrics

    roll = data.swiss_roll()
    plane = [learned(name) for name in SHAPES]
    return [*plane, (roll, metrics.from_mixture(roll, 10)), digits("ones", 2), digits("all", 5)]


def geodesic_cases(X: np.ndarray, metric: Any) -> list[Case]:
    from learned import random_pairs

    from probgeo import Manifold

    a, b = random_pairs(X, PAIRS)
    near = Manifold(metric).geodesic(a + 0.02 * (X[:PAIRS] - a), b)
    best = Manifold(metric, thoroughness="thorough").geodesic(a, b)
    known = Manifold(metric).with_precision(1e-8)
    t = times((0.0, 1.0))

    def case(guess: Any, rtol: float | None) -> Case:
        manifold = Manifold(metric) if rtol is None else Manifold(metric).with_precision(rtol)

        def solve() -> Outcome:
            found = manifold.geodesic(a, b, guess=guess)
            # precisely the same curve, whether or not it is the shortest
            exact = known.geodesic(a, b, guess=found)
            error = np.maximum(found.mean_length / best.mean_length - 1.0, 0.0)
            z = ((found.mean(t) - exact.mean(t)) / found.std(t))[:, 1:-1]
            z[np.abs(found.mean_length / exact.mean_length - 1.0) > 1e-3] = np.nan
            return Outcome(error, found.converged, int(np.sum(found.n_evaluations)), z)

        return solve

    return [case(None, None), case(None, 1e-6), case(near, None)]


# --- the problems of `probgeo.stats` --------------------------------------------------------

POINTS = 24  # of each data set
PRECISE = 1e-6  # fraction of the standard error that the references are wrong by


def stats_cases() -> list[Case]:
    """Each estimator on some of the data of each metric, against itself with tight geodesics."""
    return [case for X, metric in learned_metrics() for case in estimator_cases(X, metric)]


def estimator_cases(X: np.ndarray, metric: Any) -> list[Case]:
    from probgeo import Manifold, solvers, stats

    tight = Manifold(metric, solvers.Markov(rtol=1e-8))
    some = np.random.default_rng(1).choice(len(X), POINTS, replace=False)
    many = np.random.default_rng(2).choice(len(X), 150, replace=False)
    numbers = np.linalg.norm(X - X[0], axis=1)

    def case(make: Callable[[Any, Any], Any], answer: Callable[[Any], Any], chosen: Any) -> Case:
        def fitted(manifold: Any, mean: Any) -> tuple[Any, int]:
            with counted_evaluations() as count:
                estimator = make(manifold, mean)
                if isinstance(estimator, stats.GeodesicRegression):
                    return estimator.fit(numbers[chosen], X[chosen]), count[0]
                return estimator.fit(X[chosen]), count[0]

        ours, _ = fitted(metric, None)
        start = answer(ours).mean if answer is not _labels else None
        precise = stats.FrechetMean(fraction=PRECISE, init=None if np.ndim(start) != 1 else start)
        exact, _ = fitted(tight, precise)
        reference = answer(exact).mean

        def solve() -> Outcome:
            found, count = fitted(metric, None)
            got = answer(found)
            off, spread = got.mean - reference, np.linalg.norm(np.std(X[chosen], axis=0))
            z = (off / np.where(got.std > 0, got.std, 1.0)).reshape(1, -1)
            error = np.linalg.norm(off) / spread
            z[:, error > WRONG] = np.nan  # another local mean
            return Outcome(np.array([error]), np.array([found.converged_]), count, z)

        return solve

    def mean(m: Any, _: Any) -> Any:
        tightly = isinstance(m, Manifold)
        return stats.FrechetMean(m, fraction=PRECISE if tightly else 0.1)

    def precise_mean(m: Any, _: Any) -> Any:
        return stats.FrechetMean(m, fraction=PRECISE if isinstance(m, Manifold) else 1e-3)

    def median(m: Any, _: Any) -> Any:
        return stats.GeometricMedian(m, fraction=PRECISE if isinstance(m, Manifold) else 0.1)

    return [
        case(mean, lambda e: e.mean_, some),
        case(mean, lambda e: e.mean_, many),
        case(precise_mean, lambda e: e.mean_, some),
        case(median, lambda e: e.median_, some),
        case(lambda m, p: stats.PrincipalGeodesics(m, 1, mean=p), _direction, some),
        case(lambda m, p: stats.GeodesicKMeans(m, 2, mean=p), _labels, some),
        case(lambda m, _: stats.GeodesicRegression(m), lambda e: e.intercept_, some),
        case(lambda m, p: stats.NormalOnManifold(m, mean=p, n_draws=100), _deviations, some),
    ]


def _direction(pga: Any) -> Any:
    from probgeo import Gaussian

    return Gaussian.unchecked(pga.components_.mean[0], pga.components_.cov[0])


def _labels(clusters: Any) -> Any:
    """Centres in the order of their first coordinate."""
    from probgeo import Gaussian

    order = np.argsort(clusters.cluster_centers_.mean[:, 0])
    return Gaussian.unchecked(clusters.cluster_centers_.mean[order],
                              clusters.cluster_centers_.cov[order])  # fmt: skip


def _deviations(normal: Any) -> Any:
    """Standard deviations in the tangent space, which have no error bar of their own."""
    from probgeo import Gaussian

    D = len(normal.covariance_)
    return Gaussian.unchecked(np.sqrt(np.diagonal(normal.covariance_)), np.zeros((D, D)))


@contextmanager
def counted_evaluations() -> Iterator[list[int]]:
    """Evaluations of all geodesics that are solved within."""
    from probgeo import Manifold

    count, solve = [0], Manifold.geodesic

    def counting(*args: Any, **kwargs: Any) -> Any:
        found = solve(*args, **kwargs)
        count[0] += int(np.sum(found.n_evaluations))
        return found

    Manifold.geodesic = counting
    try:
        yield count
    finally:
        Manifold.geodesic = solve


ROOMS: dict[str, Callable[[], list[Case]]] = {
    "probgeo.ode": ode_cases,
    "probgeo.geometry": geometry_cases,
    "probgeo.stats": stats_cases,
}


# --- the table ------------------------------------------------------------------------------


def line(label: str, value: Any, score: Score, base: Score) -> str:
    if score.print == base.print:
        return f"| {label} | {value:g} | nothing changes | | | | |"
    return f"| {label} | {value:g} | {cells(score, f'{score.evaluations / base.evaluations:.3f}')} |"


def cells(score: Score, evaluations: str) -> str:
    shown = (f"{score.solved:.3f}", str(score.false), evaluations, f"{score.coverage:.3f}",
             f"{score.square:.2f}")  # fmt: skip
    return " | ".join(shown)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("room", choices=sorted(ROOMS))
    parser.add_argument("--only", default="", help="names of numbers, separated by commas")
    parser.add_argument("--cases", default="", help="only those made by functions so named")
    parser.add_argument("--write", action="store_true", help="keep the table in results")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    cases = [c for c in ROOMS[options.room]() if c.__qualname__.startswith(options.cases)]
    numbers = tuning_numbers(options.room)
    base = score(cases)
    lines = [
        "| number | value | solved | false | evaluations | coverage | squared error |",
        "|---|---|---|---|---|---|---|",
        f"| as they are | | {cells(base, f'{base.evaluations:.1f}')} |",
    ]

    def add(text: str) -> None:
        lines.append(text)
        print(text, flush=True)

    print(*lines, sep="\n", flush=True)
    for number in numbers:
        short = number.module.removeprefix(options.room + ".") + "." + number.name
        if options.only and number.name not in options.only.split(","):
            continue
        if is_compiled_in(number):
            add(f"| {short} | {number.value:g} | compiled in | | | | |")
            continue
        for label, factor in FACTORS.items():
            value = number.changed(factor)
            if value == number.value:
                continue
            try:
                with changed(number, value), at_most(LIMIT):
                    found = score(cases)
            except Exception as error:  # noqa: BLE001  (that is a finding, too)
                add(f"| {short}, {label} | {value:g} | {type(error).__name__} | | | | |")
            else:
                add(line(f"{short}, {label}", value, found, base))
    if options.write:
        heading = f"# Tuning numbers of `{options.room}`, halved and doubled\n\n"
        about = (
            f"Made by `python benchmarks/ablation.py {options.room} --write`. Evaluations are "
            "relative to those of the first row, which is the room as it is.\n\n"
        )
        path = RESULTS / f"ablation_{options.room.removeprefix('probgeo.')}.md"
        _, mark, notes = path.read_text().partition(NOTES) if path.exists() else ("", "", "")
        path.write_text(heading + about + "\n".join(lines) + "\n" + mark + notes)
    return 0


if __name__ == "__main__":
    sys.exit(main())
