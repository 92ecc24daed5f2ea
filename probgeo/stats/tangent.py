"""The tangent space at the mean: where statistics on a manifold become linear."""

from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_array, check_is_fitted

from probgeo.gaussian import Gaussian
from probgeo.geometry.logarithms import Logs, logarithms
from probgeo.stats.descent import Centre, tensor_at
from probgeo.stats.estimator import ManifoldEstimator, Sample, naming, standard_errors
from probgeo.stats.mean import FrechetMean


@dataclass(eq=False, repr=False)
class AtTheMean(ManifoldEstimator):
    """The base of estimators that look at data from their mean.

    Coordinates in the tangent space are u = R' v with M(mean) = R R', so that their Euclidean inner product is that of
    the manifold (erratum 9).
    """

    _: KW_ONLY
    mean: FrechetMean | None = None
    fraction: float = 0.1

    def _fit_mean(self, X: Any, y: Any, sample_weight: Any, least: int = 1) -> tuple[Centre, Sample]:
        """The mean, with the logarithms of what it was found from."""
        sample = self._fit_sample(X, y, sample_weight, least)
        estimator = FrechetMean(fraction=self.fraction, verbose=self.verbose) if self.mean is None else self.mean
        if not isinstance(estimator, FrechetMean):
            raise TypeError(f"mean must be a FrechetMean or None, got {estimator!r}")
        found = estimator._find(self.manifold_, sample.points, sample.weights)
        self.mean_ = Gaussian.unchecked(found.point, found.cov)
        self.root_ = np.linalg.cholesky(tensor_at(self.manifold_.metric, found.point))
        self.statistical_cov_ = found.statistical
        self._seen = sample.all, sample.which, found.logs
        return found, sample

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

    def _exponential(self, Z: Any, basis: np.ndarray) -> np.ndarray:
        """Where geodesics from the mean are after unit time whose velocities have coordinates Z (P, K) in a basis."""
        with naming("Z"):
            given = check_array(Z, dtype=np.float64)
        if given.shape[1] != len(basis):
            raise ValueError(f"Z must have shape (P, {len(basis)}), got {given.shape}")
        return self.manifold_.exp(self.mean_.mean, given @ basis).mean

    def _summary(self) -> tuple[str, dict[str, Any]]:
        return "coordinate", {
            "mean": self.mean_.mean,
            "numerical_std": self.mean_.std,
            "standard_error": standard_errors(self.statistical_cov_),
        }


class TangentSpace(ClassNamePrefixFeaturesOutMixin, TransformerMixin, AtTheMean):
    """Logarithms at the mean, in orthonormal coordinates: features for linear methods.

    Other parameters and attributes are those of `FrechetMean`.

    Parameters
    ----------
    mean : FrechetMean, optional
        How the mean is found; its manifold is not used.

    Attributes
    ----------
    mean_ : Gaussian (D,)
    root_ : array (D, D)
        R with M(mean) = R R'.

    Examples
    --------
    >>> from sklearn.linear_model import LinearRegression
    >>> from sklearn.pipeline import make_pipeline
    >>> X = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0], [2.0, 1.0]])
    >>> model = make_pipeline(TangentSpace(), LinearRegression()).fit(X, X[:, 0])
    >>> bool(np.allclose(model.predict(X), X[:, 0]))
    True
    """

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> "TangentSpace":
        """Find the mean of X (P, D)."""
        found, _ = self._fit_mean(X, y, sample_weight)
        self._conclude(found.problem, len(found.history))
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
        check_is_fitted(self)
        return self._exponential(Z, np.linalg.inv(self.root_))

    @property
    def _n_features_out(self) -> int:
        return len(self.root_)
