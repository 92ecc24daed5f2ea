"""What all estimators share: how data, weights and manifolds are checked, and progress."""

import warnings
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils.validation import _check_sample_weight, validate_data
from tqdm.auto import tqdm

from probgeo._old.geometry import Manifold, as_metric
from probgeo._old.geometry.arguments import check_dimensions
from probgeo._old.geometry.metrics.flat import Flat
from probgeo._old.ode.curve import ConvergenceWarning
from probgeo._old.stats.descent import Found, Iterate, Settings, minimise


class ManifoldEstimator(BaseEstimator):
    """The base: a parameter `manifold`, which may be a metric, or None for flat space."""

    manifold: Any
    verbose: int

    def _manifold(self, dimension: int) -> Manifold:
        given = self.manifold
        if given is None:
            given = Manifold(Flat())
        elif not isinstance(given, Manifold):
            given = Manifold(as_metric(given))
        check_dimensions(given.metric, {"X": (1, dimension)})
        return given

    def _points(self, X: Any, *, reset: bool, least: int = 1) -> np.ndarray:
        return validate_data(self, X, reset=reset, dtype=np.float64, ensure_min_samples=least)

    def _weights(self, sample_weight: Any, X: np.ndarray) -> np.ndarray:
        return _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)

    def _warn(self, message: str) -> None:
        warnings.warn(
            f"{type(self).__name__} did not converge: {message}. See `converged_` and `message_`.",
            ConvergenceWarning,
            stacklevel=3,
        )

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = False
        return tags


def merged(X: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Different points, sorted, and their weights, so that neither order nor repetition matters.

    Points of weight zero are left out: those that are kept are worth solving geodesics for.
    """
    used = weights > 0
    distinct, inverse = np.unique(X[used], axis=0, return_inverse=True)
    return distinct, np.bincount(inverse.ravel(), weights=weights[used])


def progress_of(name: str, verbose: int) -> tqdm:
    """A bar that counts iterations, if that is wanted."""
    return tqdm(desc=name, unit=" iterations", disable=not verbose, leave=False)


def find_centre(
    manifold: Manifold,
    X: np.ndarray,
    weights: np.ndarray,
    settings: Settings,
    starts: np.ndarray,
    verbose: int = 0,
    name: str = "mean",
) -> Found:
    """The best of several starts (S, D)."""
    best: Found | None = None
    with progress_of(name, verbose) as bar:

        def report(line: Iterate) -> None:
            bar.set_postfix(step=f"{line.step:.1e}", numerical=f"{line.numerical:.1e}")
            bar.update()

        for start in starts:
            found = minimise(manifold, X, weights, start, settings, report)
            if best is None or _is_better(found, best):
                best = found
    assert best is not None
    return best


def _is_better(new: Found, old: Found) -> bool:
    if new.converged != old.converged:
        return new.converged
    return new.history[-1].value < old.history[-1].value


def first_points(
    X: np.ndarray, weights: np.ndarray, init: Any, count: int, seed: Any
) -> np.ndarray:
    """Where to start: a given point, or the data nearest to their average, then random ones."""
    if init is not None:
        point = np.asarray(init.mean if hasattr(init, "cov") else init, dtype=float)
        if point.shape != X.shape[1:] or not np.isfinite(point).all():
            raise ValueError(f"init must be a finite point of shape {X.shape[1:]}, got {init!r}")
        return point[None]
    average = np.average(X, axis=0, weights=weights)
    nearest = X[np.argmin(np.sum((X - average) ** 2, axis=1))]
    others = check_random_state(seed).permutation(len(X))[: count - 1]
    return np.concatenate([nearest[None], X[others]])
