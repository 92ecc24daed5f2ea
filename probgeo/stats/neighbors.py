"""Nearest neighbours by geodesic distance."""

from typing import Any, Literal

import numpy as np
from scipy.spatial.distance import cdist
from sklearn.base import ClassifierMixin, RegressorMixin
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from probgeo._checks import as_whole_number
from probgeo.gaussian import ScalarGaussian
from probgeo.stats.estimator import DEVIATIONS, ManifoldEstimator


class NeighborsEstimator(ManifoldEstimator):
    """The base: distances on the manifold, and scikit-learn's votes on them."""

    _voting: Any
    n_neighbors: int
    weights: Any

    def __init__(
        self,
        manifold: Any = None,
        n_neighbors: int = 5,
        *,
        weights: Literal["uniform", "distance"] = "uniform",
        verbose: int = 0,
        n_jobs: int | None = None,
    ) -> None:
        self.manifold = manifold
        self.n_neighbors = n_neighbors
        self.weights = weights
        self.verbose = verbose
        self.n_jobs = n_jobs

    def fit(self, X: Any, y: Any) -> Any:
        """Keep points X (P, D) and their targets y (P,) or (P, T)."""
        points, targets = validate_data(
            self, X, y, dtype=np.float64, multi_output=True, y_numeric=self._numeric
        )
        as_whole_number("n_neighbors", self.n_neighbors, 1)
        if self.n_neighbors > len(points):
            raise ValueError(f"n_samples={len(points)} should be >= n_neighbors={self.n_neighbors}")
        if not self._numeric:
            check_classification_targets(targets)
        self.points_ = np.ascontiguousarray(points)
        self._fit_manifold(self.points_, targets if targets.ndim == 1 else None)
        # scikit-learn wants the distances among the points, and does not use them
        nowhere = np.zeros((len(points), len(points)))
        voting = self._voting(self.n_neighbors, weights=self.weights, metric="precomputed")
        self.voting_ = voting.fit(nowhere, targets)
        return self

    def distances(self, X: Any) -> ScalarGaussian:
        """Distances (n, P) of X (n, D) from the points that were given to `fit`."""
        check_is_fitted(self)
        points, metric = self._points(X, reset=False), self.manifold_.metric
        if metric.is_flat:
            root = np.linalg.cholesky(metric.tensors_at(self.points_[:1])[0])
            length = cdist(points @ root, self.points_ @ root)
            return ScalarGaussian.unchecked(length, np.zeros_like(length))
        bar = True if self.verbose else None
        return self.manifold_.distance_matrix(points, self.points_, progress=bar)

    def kneighbors(self, X: Any) -> tuple[ScalarGaussian, np.ndarray]:
        """Distances (n, k) of the nearest neighbours, nearest first, and their numbers (n, k)."""
        all_of_them = self.distances(X)
        order = np.argsort(_finite(all_of_them.mean), axis=1, kind="stable")[:, : self.n_neighbors]
        nearest = (np.take_along_axis(x, order, 1) for x in (all_of_them.mean, all_of_them.cov))
        return ScalarGaussian.unchecked(*nearest), order

    def doubtful(self, X: Any) -> np.ndarray:
        """Whether it is open who the k nearest of X (n, D) are, as far as the numerics can tell."""
        found = self.distances(X)
        if found.mean.shape[1] == self.n_neighbors:
            return np.zeros(len(found.mean), dtype=bool)
        order = np.argsort(_finite(found.mean), axis=1, kind="stable")
        border = order[:, self.n_neighbors - 1 : self.n_neighbors + 1]
        last, first_out = np.take_along_axis(found.mean, border, 1).T
        var = np.take_along_axis(found.cov, border, 1).sum(axis=1)
        return ~(first_out - last > DEVIATIONS * np.sqrt(var))

    def predict(self, X: Any) -> np.ndarray:
        """Targets (n,) or (n, T) of X (n, D)."""
        distances = _finite(self.distances(X).mean)
        return self.voting_.predict(distances)

    def _summary(self) -> tuple[str, dict[str, Any]]:
        return "model", {"points": [len(self.points_)], "n_neighbors": [self.n_neighbors]}

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        tags.target_tags.multi_output = True
        return tags

    @property
    def _numeric(self) -> bool:
        return self._voting is KNeighborsRegressor


class GeodesicKNeighborsClassifier(ClassifierMixin, NeighborsEstimator):
    """The class that most of the k nearest neighbours have, by geodesic distance.

    All distances from a point to those of `fit` are solved for: P geodesics for a prediction.

    Parameters
    ----------
    manifold : Manifold, metric or learner of metrics, optional
        Flat space by default, where this is scikit-learn's `KNeighborsClassifier`. A learner
        (`metrics.Mixture()`) is fitted to the data.
    n_neighbors : int
    weights : "uniform" | "distance"
        Whether all neighbours count alike, or by the inverse of their distance.
    verbose : int
        A progress bar, if not zero.
    n_jobs : int, optional
        See `Manifold.geodesic`.

    Attributes
    ----------
    classes_ : array
    points_ : array (P, D)
    manifold_ : Manifold

    Examples
    --------
    >>> model = GeodesicKNeighborsClassifier(n_neighbors=1).fit([[0.0], [1.0]], ["low", "high"])
    >>> model.predict([[0.2]]).tolist()
    ['low']
    """

    _voting = KNeighborsClassifier

    def fit(self, X: Any, y: Any) -> "GeodesicKNeighborsClassifier":
        """Keep points X (P, D) and their classes y (P,) or (P, T)."""
        super().fit(X, y)
        self.classes_ = self.voting_.classes_
        return self

    def predict_proba(self, X: Any) -> np.ndarray:
        """Shares (n, C) of the classes among the neighbours of X (n, D)."""
        distances = _finite(self.distances(X).mean)
        return self.voting_.predict_proba(distances)


class GeodesicKNeighborsRegressor(RegressorMixin, NeighborsEstimator):
    """The mean of the targets of the k nearest neighbours, by geodesic distance.

    Parameters and attributes are those of `GeodesicKNeighborsClassifier`, but for the classes.

    Examples
    --------
    >>> model = GeodesicKNeighborsRegressor(n_neighbors=2).fit([[0.0], [1.0], [5.0]], [0, 1, 5])
    >>> model.predict([[0.2]]).tolist()
    [0.5]
    """

    _voting = KNeighborsRegressor


def _finite(distances: np.ndarray) -> np.ndarray:
    """To where there is no geodesic it is farther than to anywhere else."""
    known = np.isfinite(distances)
    farthest = 2.0 * np.max(distances, where=known, initial=1.0)
    return np.where(known, distances, farthest)
