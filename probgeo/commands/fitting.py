"""What the commands `fit` and `geodesic` compute, write to files, and say in the end."""

import math
import platform
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

import probgeo
from probgeo._json import write_json
from probgeo._repr import duration
from probgeo.commands.learned import Space
from probgeo.commands.tables import InputError, Table, write_table
from probgeo.geometry import Geodesic, Manifold
from probgeo.ragged import progress_bar

TIMES = np.linspace(0.0, 1.0, 101)


@contextmanager
def heard() -> Iterator[list[str]]:
    """Collect warnings as plain lines, each once."""
    lines: list[str] = []

    def hear(message: Any, *_: Any, **__: Any) -> None:
        line = " ".join(str(message).split())
        if line not in lines:
            lines.append(line)

    with warnings.catch_warnings():
        warnings.simplefilter("always", UserWarning)  # of convergence, here and in scikit-learn
        warnings.showwarning = hear
        yield lines


def sampled(count: int, most: int | None, seed: int) -> np.ndarray:
    """Which rows to use: all, or a random sample in increasing order."""
    if most is None or count <= most:
        return np.arange(count)
    return np.sort(np.random.default_rng(seed).choice(count, most, replace=False))


def fit(
    table: Table, space: Space, modes: int | None, tell: Callable[[str], None], bars: bool
) -> tuple[Any, dict[str, Any], np.ndarray]:
    """Principal geodesics, the numbers for `results.json`, and scores (P, K, 2) with their std."""
    from probgeo.stats import PrincipalGeodesics

    points = space.coordinates(table)
    X, count = points.values, min(2, space.dimension) if modes is None else modes
    if count > space.dimension:
        raise InputError(f"--modes must be at most {space.dimension}, the dimensions, got {count}")
    manifold = Manifold(space.metric)
    of, gaussians = _counted(len(X), "point"), _counted(len(space.metric.centers), "Gaussian")
    seconds = expected_seconds(manifold, X)
    told = "some seconds" if seconds < 10.0 else f"about {duration(10 * round(seconds / 10))}"
    tell(f"mean and modes of {of}, metric of {gaussians}: {told}")
    pga = PrincipalGeodesics(manifold, n_components=count, verbose=int(bars)).fit(X)
    parts = []
    with progress_bar(len(X), bars, "scores") as bar:
        for some in np.array_split(X, -(-len(X) // 1024)):
            found = pga.scores(some)
            parts.append(np.stack([found.mean, found.std], axis=-1))
            bar.update(len(some))
    results = {
        "columns": points.columns,
        "mean": pga.mean_.mean,
        "mean_std": pga.mean_.std,
        "spread": X.std(axis=0),
        "standard_error": np.sqrt(np.maximum(np.diagonal(pga.statistical_cov_), 0.0)),
        "components": pga.components_.mean,
        "components_std": pga.components_.std,
        "explained_variance": pga.explained_variance_,
        "explained_variance_std": pga.explained_variance_std_,
        "explained_variance_ratio": pga.explained_variance_ratio_,
        "tied": pga.tied_,
        "scores": "scores.csv",
        "converged": bool(pga.converged_),
        "message": pga.message_,
    }
    if space.basis is not None and space.origin is not None:
        results["projection"] = {
            "kept_variance": X.var(axis=0).sum() / table.values.var(axis=0).sum(),
            "columns": table.columns,
            "mean": space.origin + pga.mean_.mean @ space.basis,
        }
    return pga, results, np.concatenate(parts)


def expected_seconds(manifold: Manifold, X: np.ndarray) -> float:
    """About how long `fit` takes, from up to 128 geodesics to the middle of the data.

    It takes about twice as long as one from every point: 1.4 times on a helix, 2.4 on a spiral (6 with rho = 1).
    """
    middle = X[np.argmin(np.sum((X - X.mean(axis=0)) ** 2, axis=1))]
    some = X[:: -(-len(X) // 128)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", probgeo.ConvergenceWarning)
        manifold.geodesic(middle, some[:2], progress=False)  # loads what is compiled
        start = time.perf_counter()
        manifold.geodesic(middle, some, progress=False)
    return 2.0 * (time.perf_counter() - start) * len(X) / len(some)


def save_fit(folder: Path, space: Space, results: dict[str, Any], scores: np.ndarray, rows: np.ndarray) -> None:
    """`results.json`, `scores.csv` and `metric.npz`."""
    versions = {name: version(name) for name in ("numba", "numpy")}
    versions |= {"probgeo": probgeo.__version__, "python": platform.python_version()}
    write_json(folder / "results.json", results | {"versions": versions})
    names = [f"score{k + 1}{end}" for k in range(scores.shape[1]) for end in ("", "_std")]
    cells = zip(rows.tolist(), scores.reshape(len(scores), -1).tolist(), strict=True)
    write_table(folder / "scores.csv", ["row", *names], ([row, *own] for row, own in cells))
    space.save(folder / "metric.npz")


def check_ends(table: Table, ends: tuple[int, int]) -> None:
    """Raise unless the two rows exist and are different points."""
    count = len(table.values)
    for name, row in zip(("--from", "--to"), ends, strict=True):
        if not 0 <= row < count:
            raise InputError(f"{name} must be a row from 0 to {count - 1}, counted without the header, got {row}")
    if np.array_equal(*table.values[list(ends)]):
        raise InputError(f"--from {ends[0]} and --to {ends[1]} are the same point")


def save_geodesic(folder: Path, curve: Geodesic, columns: tuple[str, ...]) -> None:
    """`geodesic.csv`: times, the mean and its standard deviations."""
    values = np.column_stack([TIMES, curve.mean(TIMES), curve.std(TIMES)])
    write_table(folder / "geodesic.csv", ["t", *columns, *(f"{name}_std" for name in columns)], values.tolist())


def sample_note(count: int, used: int, seed: int) -> list[str]:
    if used == count:
        return []
    return [f"learned from {used} of {count} points, drawn with seed {seed}; --sample all uses all"]


def fit_summary(results: dict[str, Any]) -> list[str]:
    """The lines printed at the end: the most important numbers, and up to six coordinates of the mean."""
    settings, dimension = results["settings"], len(results["columns"])
    lines = [
        f"{_counted(settings['points'], 'point')} in {_counted(dimension, 'dimension')}, "
        f"metric of {_counted(settings['components'], 'Gaussian')}, rho {settings['rho']:g}"
    ]
    lines += sample_note(settings["points"], settings["sample"], settings["seed"])
    if "projection" in results:
        before, kept = (results["projection"][name] for name in ("columns", "kept_variance"))
        lines += [f"projected from {len(before)} columns, which keeps {kept:.1%} of the variance"]
    lines += ["mean +- 2 numerical standard deviations (statistical standard error)"]
    parts = (results[name] for name in ("columns", "mean", "mean_std", "spread", "standard_error"))
    for name, mean, std, spread, error in list(zip(*parts, strict=True))[:6]:
        lines += [f"  {name}: {plus_minus(mean, 2 * std, spread)} ({error:.2g})"]
    if dimension > 6:
        lines += [f"  and {dimension - 6} more in results.json"]
    parts = (results[name] for name in ("explained_variance", "explained_variance_std", "explained_variance_ratio"))
    largest = max(results["explained_variance"])
    for k, (variance, std, ratio) in enumerate(zip(*parts, strict=True)):
        of_all = f"{ratio:.1%} of all" + (", direction tied" if results["tied"][k] else "")
        lines += [f"mode {k + 1}: variance {plus_minus(variance, 2 * std, largest)}, {of_all}"]
    return [*lines, _verdict(results["converged"], results["message"])]


def geodesic_summary(curve: Geodesic, ends: tuple[int, int]) -> list[str]:
    length = plus_minus(curve.length.mean, 2 * curve.length.std)
    told = f"length from row {ends[0]} to row {ends[1]}: {length} (2 standard deviations)"
    return [told, _verdict(curve.converged, curve.message)]


def plus_minus(value: Any, error: Any, scale: Any = 0.0) -> str:
    """A value with two digits of its error; an error below a billionth of the value, or of `scale`, is only bounded.

    >>> plus_minus(1.23456, 0.0123), plus_minus(1.0, 3e-28), plus_minus(1e-20, 3e-28, 2.0)
    ('1.235 +- 0.012', '1 +- below 1e-09', '0 +- below 2e-09')
    """
    value, error = float(value), float(error)
    least = 1e-9 * max(abs(value), float(scale))
    if not (math.isfinite(value) and math.isfinite(error)):
        return f"{value:.6g} +- {error:.2g}"
    if error <= least:
        if least == 0.0:
            return f"{value:g} +- 0"
        digits = 1 + math.floor(math.log10(max(abs(value) / least, 1.0)))
        shown = value if abs(value) > least else 0.0
        return f"{shown:.{min(digits, 9)}g} +- below {least:.0e}"
    digits = min(max(1 - math.floor(math.log10(error)), 0), 12)
    return f"{value:.{digits}f} +- {error:{'.1e' if digits > 5 else f'.{digits}f'}}"


def _counted(count: int, what: str) -> str:
    return f"{count} {what}" + ("" if count == 1 else "s")


def _verdict(converged: Any, message: str) -> str:
    return "converged" if converged else f"not converged: {message}"
