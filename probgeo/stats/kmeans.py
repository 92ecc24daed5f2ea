"""K-means with geodesic distances."""

from dataclasses import KW_ONLY, dataclass
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import ClusterMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from probgeo._checks import as_whole_number
from probgeo.gaussian import Gaussian, ScalarGaussian
from probgeo.geometry import Manifold
from probgeo.geometry.logarithms import Logs, logarithms
from probgeo.stats.estimator import DEVIATIONS, IterationsBar, ManifoldEstimator, as_random_state, merged
from probgeo.stats.mean import FrechetMean


class FromCentres(NamedTuple):
    """Distances of P points from K centres, (P, K), and their variances."""

    length: np.ndarray
    var: np.ndarray
    logs: list[Logs]  # at every centre

    @classmethod
    def at(
        cls, manifold: Manifold, centers: np.ndarray, X: np.ndarray, last: list[Logs] | None = None
    ) -> "FromCentres":
        """Distances from centres (K, D); `last` are the logarithms at centres nearby."""
        logs = [
            logarithms(manifold, center, X, None if last is None else last[k], doubt=True)
            for k, center in enumerate(centers)
        ]
        length = np.stack([found.length for found in logs], axis=1)
        var = np.stack([found.length_var for found in logs], axis=1)
        known = np.isfinite(length)
        # to where there is no geodesic it is infinitely far
        return cls(np.where(known, length, np.inf), np.where(known, var, 0.0), logs)

    def take(self, points: np.ndarray) -> "FromCentres":
        """Of some of the points."""
        logs = [found.take(points) for found in self.logs]
        return FromCentres(self.length[points], self.var[points], logs)

    @property
    def lost(self) -> int:
        """Geodesics that did not converge."""
        return sum(int(np.sum(~found.converged)) for found in self.logs)

    @property
    def doubtful(self) -> np.ndarray:
        """Points (P,) whose two nearest centres are equally far, as far as one can tell."""
        if self.length.shape[1] == 1:
            return np.zeros(len(self.length), dtype=bool)
        order = np.argsort(self.length, axis=1)[:, :2]
        first, second = np.take_along_axis(self.length, order, 1).T
        var = np.take_along_axis(self.var, order, 1).sum(axis=1)
        return second - first <= DEVIATIONS * np.sqrt(var)


@dataclass(eq=False, repr=False)
class GeodesicKMeans(TransformerMixin, ClusterMixin, ManifoldEstimator):
    """Clusters about Frechet means: each point belongs to the mean that is nearest to it.

    Parameters
    ----------
    manifold : Manifold, metric or learner of metrics, optional
        Flat space by default. A learner (`metrics.Mixture()`) is fitted to the data.
    n_clusters : int
    n_init : int
        How many times to start, from centres that are drawn far from each other (k-means++).
    max_iter : int
    mean : FrechetMean, optional
        How centres are found; its manifold and start are not used.
    random_state : int
    verbose : int
    n_jobs : int, optional
        See `Manifold.geodesic`.

    Attributes
    ----------
    cluster_centers_ : Gaussian (K, D)
        With numerical covariances.
    labels_ : array (P,)
    doubtful_ : bool array (P,)
        Points whose two nearest centres are equally far, as far as the numerics can tell.
    inertia_ : ScalarGaussian
        Sum of squared distances to the nearest centre.
    n_iter_, converged_, message_
    manifold_ : Manifold

    Examples
    --------
    >>> X = [[0.0, 0.0], [0.1, 0.0], [5.0, 5.0], [5.1, 5.0]]
    >>> GeodesicKMeans(n_clusters=2).fit_predict(X).tolist() in ([0, 0, 1, 1], [1, 1, 0, 0])
    True
    """

    manifold: Any = None
    n_clusters: int = 8
    _: KW_ONLY
    n_init: int = 1
    max_iter: int = 50
    mean: FrechetMean | None = None
    random_state: Any = 0
    verbose: int = 0
    n_jobs: int | None = None

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> "GeodesicKMeans":
        """Find clusters of X (P, D)."""
        points = self._points(X, reset=True)
        weights = self._weights(sample_weight, points)
        count = as_whole_number("n_clusters", self.n_clusters, 1)
        if count > len(points):
            raise ValueError(f"n_samples={len(points)} should be >= n_clusters={count}.")
        as_whole_number("max_iter", self.max_iter, 1)
        manifold = self._fit_manifold(points, y)
        rng = as_random_state(self.random_state)
        distinct, totals, which = merged(points, weights)
        runs = [self._run(manifold, distinct, totals, rng) for _ in range(as_whole_number("n_init", self.n_init, 1))]
        best, distances = min(runs, key=lambda run: run[0]["inertia_"].mean)
        for name, value in best.items():
            setattr(self, name, value)
        everyone = which.min() >= 0
        distances = distances.take(which) if everyone else self._from_centres(points)
        self.labels_ = np.argmin(distances.length, axis=1)
        self.doubtful_ = distances.doubtful
        if not self.converged_:
            self._warn(self.message_)
        return self

    def predict(self, X: Any) -> np.ndarray:
        """Numbers (P,) of the nearest centres."""
        return np.argmin(self.transform(X), axis=1)

    def transform(self, X: Any) -> np.ndarray:
        """Distances (P, K) to the centres."""
        check_is_fitted(self)
        return self._from_centres(self._points(X, reset=False)).length

    def fit_predict(self, X: Any, y: Any = None, sample_weight: Any = None) -> np.ndarray:
        return self.fit(X, sample_weight=sample_weight).labels_

    def _from_centres(self, points: np.ndarray) -> FromCentres:
        found = FromCentres.at(self.manifold_, self.cluster_centers_.mean, points)
        if found.lost:
            self._warn(f"{found.lost} of {found.length.size} geodesics are flagged")
        return found

    def _run(
        self, manifold: Manifold, X: np.ndarray, weights: np.ndarray, rng: Any
    ) -> tuple[dict[str, Any], FromCentres]:
        """What is learned from one start, and all distances."""
        centers, distances = _spread_out(manifold, X, weights, self.n_clusters, rng)
        covs = np.zeros((*centers.shape, X.shape[1]))
        labels, message, n_iter, settled = np.full(len(X), -1), "", 0, False
        with IterationsBar("GeodesicKMeans", self.verbose) as bar:
            while not settled and n_iter < self.max_iter:
                n_iter += 1
                new = np.argmin(distances.length, axis=1)
                bar.update(changed=int(np.sum(new != labels)))
                settled = np.array_equal(new, labels)
                labels = new
                if not settled:
                    update = self._update(manifold, X, weights, labels, centers, distances)
                    centers, covs, message = update
                    distances = FromCentres.at(manifold, centers, X, distances.logs)
        if not settled:
            message = f"labels still changed in the last of {n_iter} iterations"
        nearest = distances.length[np.arange(len(X)), labels]
        var = distances.var[np.arange(len(X)), labels]
        learned = {
            "cluster_centers_": Gaussian.unchecked(centers, covs),
            "inertia_": ScalarGaussian.unchecked(
                np.sum(weights * nearest**2), np.sum((2.0 * weights * nearest) ** 2 * var)
            ),
            "n_iter_": n_iter,
            "converged_": not message,
            "message_": message or "converged",
        }
        return learned, distances

    def _update(
        self,
        manifold: Manifold,
        X: np.ndarray,
        weights: np.ndarray,
        labels: np.ndarray,
        centers: np.ndarray,
        distances: FromCentres,
    ) -> tuple[np.ndarray, np.ndarray, str]:
        """The means of all clusters; one that has lost its points starts at the one farthest."""
        estimator = FrechetMean() if self.mean is None else self.mean
        centers, covs, problems = centers.copy(), np.zeros((*centers.shape, X.shape[1])), []
        far = distances.length[np.arange(len(X)), labels]
        for k in range(len(centers)):
            here = np.flatnonzero(labels == k)
            if not len(here):
                farthest = np.argmax(far)
                centers[k], far[farthest] = X[farthest], 0.0
                continue
            start = FrechetMean(**{**estimator.get_params(deep=False), "init": centers[k]})
            guess = distances.logs[k].take(here)
            found = start.centre(manifold, X[here], weights[here], guess)
            centers[k], covs[k] = found.point, found.cov
            if not found.converged:
                problems.append(f"centre {k}: {found.message}")
        return centers, covs, "; ".join(problems)

    def _summary(self) -> tuple[str, dict[str, Any]]:
        count = len(self.cluster_centers_.mean)
        doubtful = np.bincount(self.labels_[self.doubtful_], minlength=count)
        tensors = self.manifold_.metric.tensors_at(self.cluster_centers_.mean)
        return "cluster", {
            "points": np.bincount(self.labels_, minlength=count),
            "doubtful": doubtful,
            "numerical_std": np.sqrt(np.trace(tensors @ self.cluster_centers_.cov, 0, 1, 2)),
        }


def _spread_out(
    manifold: Manifold, X: np.ndarray, weights: np.ndarray, count: int, rng: Any
) -> tuple[np.ndarray, FromCentres]:
    """k-means++: each new centre is drawn with the square of its distance from the others."""
    shares = weights / weights.sum()
    chosen, found = [int(rng.choice(len(X), p=shares))], []
    while True:
        found.append(FromCentres.at(manifold, X[chosen[-1:]], X))
        length = np.concatenate([each.length for each in found], axis=1)
        if len(chosen) == count:
            var = np.concatenate([each.var for each in found], axis=1)
            return X[chosen], FromCentres(length, var, [each.logs[0] for each in found])
        mass = weights * np.min(length, axis=1) ** 2
        p = mass / mass.sum() if mass.sum() > 0 else shares  # all points are the same
        chosen.append(int(rng.choice(len(X), p=p)))
