"""What all estimators share: how data, weights and manifolds are checked, progress, conclusions and tables."""

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import KW_ONLY, dataclass
from functools import wraps
from inspect import isfunction
from itertools import count
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from sklearn.base import BaseEstimator, clone
from sklearn.utils import check_random_state
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from probgeo.gaussian import ScalarGaussian
from probgeo.geometry import Manifold
from probgeo.metrics import Flat, as_metric
from probgeo.metrics.learners import Learner
from probgeo.ode.curve import READING_CONVERGED, ConvergenceWarning
from probgeo.ragged import jobs

if TYPE_CHECKING:
    import pandas

# no bar, a bar, or a function that is told how many iterations are done, of how many expected
Verbose = int | Callable[[int, int | None], None]

DEVIATIONS = 2.0  # standard deviations within which the numerics cannot tell numbers apart


class Sample(NamedTuple):
    """Different points (n, D), sorted, and their weights (n,), so that neither order nor repetition matters.

    Points of weight zero are left out: those that are kept are worth solving geodesics for. `which` (P,) says which of
    them each of the data `all` (P, D) is, -1 for none.
    """

    points: np.ndarray
    weights: np.ndarray
    which: np.ndarray
    all: np.ndarray


@dataclass(eq=False, repr=False)
class ManifoldEstimator(BaseEstimator):
    """The base: a parameter `manifold`, and `manifold_`, which the data are seen on.

    The parameter may be a manifold, a metric, a learner of metrics, fitted to the data, or None for flat space.
    """

    manifold: Any = None
    _: KW_ONLY
    verbose: Verbose = 0
    n_jobs: int | None = None

    def __init_subclass__(cls, **options: Any) -> None:
        """All methods that users call divide their work as `n_jobs` says."""
        super().__init_subclass__(**options)
        for name, method in list(vars(cls).items()):
            if isfunction(method) and not name.startswith("_"):
                setattr(cls, name, _divided(method))

    def _fit_manifold(self, X: np.ndarray, y: Any = None) -> Manifold:
        """The manifold for points X (P, D); it becomes `manifold_`."""
        given = self.manifold
        if isinstance(given, Learner):
            given = clone(given).fit(X, y).metric_
        if not isinstance(given, Manifold):
            given = Manifold(Flat() if given is None else as_metric(given))
        as_metric(given.metric, X.shape[1])
        self.manifold_ = given
        return given

    def _points(self, X: Any, *, reset: bool, least: int = 1) -> np.ndarray:
        with naming("X"):
            points = validate_data(self, X, reset=reset, dtype=np.float64, ensure_min_samples=least)
        return np.ascontiguousarray(points)

    def _weights(self, sample_weight: Any, X: np.ndarray) -> np.ndarray:
        with naming("sample_weight"):
            weights = _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
        if not np.any(weights):  # scikit-learn refuses that since 1.9 only
            raise ValueError("sample_weight must hold at least one non-zero number, got only zeros")
        return weights

    def _fit_sample(self, X: Any, y: Any, sample_weight: Any, least: int = 1) -> Sample:
        """What is fitted to, and `manifold_`."""
        points = self._points(X, reset=True, least=least)
        weights = self._weights(sample_weight, points)
        self._fit_manifold(points, y)
        used, which = weights > 0, np.full(len(points), -1)
        distinct, inverse = np.unique(points[used], axis=0, return_inverse=True)
        which[used] = inverse.ravel()
        return Sample(distinct, np.bincount(which[used], weights=weights[used]), which, points)

    def _conclude(self, message: str, n_iter: int) -> None:
        """The end of a fit: no message if it converged."""
        self.n_iter_, self.converged_, self.message_ = n_iter, not message, message or "converged"
        if message:
            self._warn(message, 1)

    def _warn(self, message: str, deeper: int = 0) -> None:
        warnings.warn(
            f"{type(self).__name__} did not converge: {message}. See `converged_`, `message_` and {READING_CONVERGED}.",
            ConvergenceWarning,
            stacklevel=4 + deeper,
        )

    def summary(self) -> "pandas.DataFrame":
        """What was found and how well it is known, as a table of pandas."""
        from probgeo.export import table

        check_is_fitted(self)
        index, columns = self._summary()
        frame = table(columns, (len(next(iter(columns.values()))),))
        return frame.rename_axis(index)

    def _summary(self) -> tuple[str, dict[str, Any]]:
        """What a row of the table is, and its columns."""
        raise NotImplementedError

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = False
        return tags


def _divided(method: Callable) -> Callable:
    @wraps(method)
    def within(self: ManifoldEstimator, *args: Any, **options: Any) -> Any:
        with jobs(self.n_jobs):
            return method(self, *args, **options)

    return within


def as_random_state(seed: Any) -> np.random.RandomState:
    """What scikit-learn makes of `random_state`."""
    with naming("random_state"):
        return check_random_state(seed)


@contextmanager
def naming(argument: str) -> Iterator[None]:
    """Errors of scikit-learn's checks, with the argument that they are about."""
    try:
        yield
    except (OverflowError, TypeError, ValueError) as error:
        kind = TypeError if isinstance(error, TypeError) else ValueError
        raise kind(f"{argument}: {error}") from error


def standard_errors(cov: np.ndarray) -> np.ndarray:
    return np.sqrt(np.maximum(np.diagonal(cov), 0.0))


def mean_square(shares: np.ndarray, length: np.ndarray, var: np.ndarray) -> ScalarGaussian:
    """sum_i shares_i length_i^2, for lengths with such variances."""
    return ScalarGaussian.unchecked(np.sum(shares * length**2), np.sum((2.0 * shares * length) ** 2 * var))


@contextmanager
def iterations(name: str, verbose: Verbose) -> Iterator[Callable]:
    """A function to call after every iteration, which moves a bar or tells `verbose`, if that is wanted.

    `expected` is how many it will be, and `shown` stands beside the bar.
    """
    from tqdm.auto import tqdm

    told = verbose if callable(verbose) else None
    with tqdm(desc=name, unit=" iterations", disable=not verbose or told is not None, leave=False) as bar:
        done = count(1)

        def update(expected: int | None = None, **shown: Any) -> None:
            if told is not None:
                told(next(done), expected)
            bar.total = expected
            bar.set_postfix(shown, refresh=False)
            bar.update()

        yield update
