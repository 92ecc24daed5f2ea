"""Nearest neighbours by geodesic distance."""

from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar, Literal

import numpy as np
from sklearn.base import ClassifierMixin, RegressorMixin
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from probgeo._checks import as_whole_number
from probgeo.gaussian import ScalarGaussian
from probgeo.stats.estimator import DEVIATIONS, ManifoldEstimator


@dataclass(eq=False, repr=False)
class NeighborsEstimator(ManifoldEstimator):
    """The base: distances on the manifold, and scikit-learn's votes on them."""

    _voting: ClassVar[Any]

    n_neighbors: int = 5
    _: KW_ONLY
    weights: Literal["uniform", "distance"] = "uniform"

    def fit(self, X: Any, y: Any) -> Any:
        """Keep points X (P, D) and their targets y (P,) or (P, T)."""
        points, targets = validate_data(self, X, y, dtype=np.float64, multi_output=True, y_numeric=self._numeric)
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
        points = self._points(X, reset=False)
        return self.manifold_.distance_matrix(points, self.points_, progress=self._bar)

    def kneighbors(self, X: Any) -> tuple[ScalarGaussian, np.ndarray]:
        """Distances (n, k) of the nearest neighbours, nearest first, and their numbers (n, k)."""
        return self._nearest(X, self.n_neighbors)

    def doubtful(self, X: Any) -> np.ndarray:
        """Whether numerical error leaves open which points are the k nearest of X (n, D)."""
        k = self.n_neighbors
        if len(self.points_) == k:
            return np.zeros(len(X), dtype=bool)
        found, _ = self._nearest(X, k + 1)
        apart = found.mean[:, k] - found.mean[:, k - 1]
        return ~(apart > DEVIATIONS * np.sqrt(found.cov[:, k - 1 : k + 1].sum(axis=1)))

    def predict(self, X: Any) -> np.ndarray:
        """Targets (n,) or (n, T) of X (n, D)."""
        near = self._near(X)
        return self.voting_.predict(near)

    def _nearest(self, X: Any, k: int) -> tuple[ScalarGaussian, np.ndarray]:
        check_is_fitted(self)
        found = self.manifold_.nearest(self._points(X, reset=False), k, self.points_, progress=self._bar)
        return found.distance, found.index

    def _near(self, X: Any) -> np.ndarray:
        """Distances (n, P) of the nearest neighbours; all others are farther than these."""
        found, index = self.kneighbors(X)
        known = np.isfinite(found.mean)
        farthest = 2.0 * np.max(found.mean, where=known, initial=1.0)
        distances = np.full((len(index), len(self.points_)), farthest)
        np.put_along_axis(distances, index, np.where(known, found.mean, farthest), axis=1)
        return distances

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

    @property
    def _bar(self) -> bool | None:
        return True if self.verbose else None


class GeodesicKNeighborsClassifier(ClassifierMixin, NeighborsEstimator):
    """The class that most of the k nearest neighbours have, by geodesic distance.

    For a prediction geodesics are solved for to those points of `fit` that may be among the nearest, see
    `Manifold.nearest`.

    In flat space this is scikit-learn's `KNeighborsClassifier`. Other parameters are those of `FrechetMean`.

    Parameters
    ----------
    n_neighbors : int
    weights : "uniform" | "distance"
        Whether all neighbours count alike, or by the inverse of their distance.

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
        near = self._near(X)
        return self.voting_.predict_proba(near)


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
