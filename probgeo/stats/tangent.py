"""The tangent space at the mean: where statistics on a manifold become linear."""

from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_array, check_is_fitted

from probgeo.gaussian import Gaussian
from probgeo.geometry.logarithms import Logs, logarithms
from probgeo.stats.descent import tensor_at
from probgeo.stats.estimator import ManifoldEstimator, merged, naming
from probgeo.stats.mean import FrechetMean


class AtTheMean(ManifoldEstimator):
    """The base of estimators that look at data from their mean.

    Coordinates in the tangent space are u = R' v with M(mean) = R R', so that their Euclidean
    inner product is that of the manifold (erratum 9).
    """

    mean: Any
    fraction: float

    def _fit_mean(self, X: Any, y: Any, sample_weight: Any) -> tuple[Logs, np.ndarray]:
        """Logarithms of the different points at the mean, and their weights."""
        points = self._points(X, reset=True)
        weights = self._weights(sample_weight, points)
        manifold = self._fit_manifold(points, y)
        distinct, totals, which = merged(points, weights)
        estimator = self.mean
        if estimator is None:
            estimator = FrechetMean(fraction=self.fraction, verbose=self.verbose)
        if not isinstance(estimator, FrechetMean):
            raise TypeError(f"mean must be a FrechetMean or None, got {estimator!r}")
        found = estimator.centre(manifold, distinct, totals)
        self.mean_ = Gaussian.unchecked(found.point, found.cov)
        self.root_ = np.linalg.cholesky(tensor_at(manifold.metric, found.point))
        self.statistical_cov_ = found.statistical
        self.converged_, self.message_ = found.converged, found.message
        self.n_iter_ = len(found.history)
        self._seen = points, which, found.logs
        return found.logs, totals

    def _logs(self, X: Any) -> Logs:
        """At the mean; near those of the fit, if it saw the same points."""
        check_is_fitted(self)
        points = self._points(X, reset=False)
        seen, which, known = self._seen
        same = np.array_equal(points, seen) and which.min() >= 0
        guess = known.take(which) if same else None
        logs = logarithms(self.manifold_, self.mean_.mean, points, guess, doubt=True)
        lost = int(np.sum(~logs.converged))
        if lost:
            self._warn(f"{lost} of {len(points)} geodesics from the mean are flagged")
        return logs

    def _exponential(self, vectors: np.ndarray) -> np.ndarray:
        """Where geodesics from the mean with these velocities are after unit time."""
        return self.manifold_.exp(self.mean_.mean, vectors).mean

    def _summary(self) -> tuple[str, dict[str, Any]]:
        return "coordinate", {
            "mean": self.mean_.mean,
            "numerical_std": self.mean_.std,
            "standard_error": np.sqrt(np.maximum(np.diagonal(self.statistical_cov_), 0.0)),
        }

    def _coordinates(self, Z: Any, count: int) -> np.ndarray:
        check_is_fitted(self)
        with naming("Z"):
            given = check_array(Z, dtype=np.float64)
        if given.shape[1] != count:
            raise ValueError(f"Z must have shape (P, {count}), got {given.shape}")
        return given


@dataclass(eq=False, repr=False)
class TangentSpace(ClassNamePrefixFeaturesOutMixin, TransformerMixin, AtTheMean):
    """Logarithms at the mean, in orthonormal coordinates: features for linear methods.

    Parameters
    ----------
    manifold : Manifold, metric or learner of metrics, optional
        Flat space by default. A learner (`metrics.Mixture()`) is fitted to the data.
    mean : FrechetMean, optional
        How the mean is found; its manifold is not used.
    fraction : float
        See `FrechetMean`.
    verbose : int
    n_jobs : int, optional
        See `Manifold.geodesic`.

    Attributes
    ----------
    mean_ : Gaussian (D,)
    root_ : array (D, D)
        R with M(mean) = R R'.
    manifold_ : Manifold
    n_iter_, converged_, message_
        Of the mean.

    Examples
    --------
    >>> from sklearn.linear_model import LinearRegression
    >>> from sklearn.pipeline import make_pipeline
    >>> X = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0], [2.0, 1.0]])
    >>> model = make_pipeline(TangentSpace(), LinearRegression()).fit(X, X[:, 0])
    >>> bool(np.allclose(model.predict(X), X[:, 0]))
    True
    """

    manifold: Any = None
    _: KW_ONLY
    mean: FrechetMean | None = None
    fraction: float = 0.1
    verbose: int = 0
    n_jobs: int | None = None

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> "TangentSpace":
        """Find the mean of X (P, D)."""
        self._fit_mean(X, y, sample_weight)
        if not self.converged_:
            self._warn(self.message_)
        return self

    def transform(self, X: Any) -> np.ndarray:
        """Coordinates (P, D) of the logarithms of X (P, D)."""
        return self._logs(X).vectors @ self.root_

    def features(self, X: Any) -> Gaussian:
        """The same with their numerical covariances, those of the mean included."""
        logs, root = self._logs(X), self.root_
        cov = logs.cov_with_base(self.mean_.cov)
        return Gaussian.unchecked(logs.vectors @ root, root.T @ cov @ root)

    def inverse_transform(self, Z: Any) -> np.ndarray:
        """Points (P, D) with given coordinates."""
        given = self._coordinates(Z, len(self.root_) if hasattr(self, "root_") else 0)
        return self._exponential(np.linalg.solve(self.root_.T, given.T).T)

    @property
    def _n_features_out(self) -> int:
        return len(self.root_)
