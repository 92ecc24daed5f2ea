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
from probgeo.stats.estimator import DEVIATIONS, ManifoldEstimator, Sample, as_random_state, iterations, mean_square
from probgeo.stats.mean import FrechetMean


class Clusters(NamedTuple):
    """Centres (K, D) and how far P points are from each, (P, K): infinitely, where there is no geodesic."""

    centers: np.ndarray
    covs: np.ndarray
    logs: list[Logs]  # of all points at each centre
    length: np.ndarray
    var: np.ndarray

    @classmethod
    def of(cls, centers: np.ndarray, logs: list[Logs], covs: np.ndarray | None = None) -> "Clusters":
        length, var = (np.stack([getattr(x, name) for x in logs], axis=1) for name in ("length", "length_var"))
        known, D = np.isfinite(length), centers.shape[1]
        covs = np.zeros((len(centers), D, D)) if covs is None else covs
        return cls(centers, covs, logs, np.where(known, length, np.inf), np.where(known, var, 0.0))

    def take(self, points: np.ndarray) -> "Clusters":
        """As some of the points see them."""
        return Clusters.of(self.centers, [found.take(points) for found in self.logs], self.covs)

    @property
    def labels(self) -> np.ndarray:
        return np.argmin(self.length, axis=1)

    @property
    def nearest(self) -> np.ndarray:
        """Distances (P,) from the nearest centres."""
        return np.min(self.length, axis=1)

    def inertia(self, weights: np.ndarray) -> ScalarGaussian:
        return mean_square(weights, self.nearest, np.take_along_axis(self.var, self.labels[:, None], 1)[:, 0])

    @property
    def doubtful(self) -> np.ndarray:
        """Points (P,) whose two nearest centres are equally far within numerical error."""
        if len(self.centers) == 1:
            return np.zeros(len(self.length), dtype=bool)
        order = np.argsort(self.length, axis=1)[:, :2]
        first, second = np.take_along_axis(self.length, order, 1).T
        return second - first <= DEVIATIONS * np.sqrt(np.take_along_axis(self.var, order, 1).sum(axis=1))


@dataclass(eq=False, repr=False)
class GeodesicKMeans(TransformerMixin, ClusterMixin, ManifoldEstimator):
    """Clusters about Frechet means: each point belongs to the mean that is nearest to it.

    Other parameters and attributes are those of `FrechetMean`.

    Parameters
    ----------
    n_clusters : int
    n_init : int
        How many times to start, from centres that are drawn far from each other (k-means++).
    max_iter : int
    mean : FrechetMean, optional
        How centres are found; its manifold and start are not used.
    random_state : int

    Attributes
    ----------
    cluster_centers_ : Gaussian (K, D)
        With numerical covariances.
    labels_ : array (P,)
    doubtful_ : bool array (P,)
        Points whose two nearest centres are equally far within numerical error.
    inertia_ : ScalarGaussian
        Sum of squared distances to the nearest centre.

    Examples
    --------
    >>> X = [[0.0, 0.0], [0.1, 0.0], [5.0, 5.0], [5.1, 5.0]]
    >>> GeodesicKMeans(n_clusters=2).fit_predict(X).tolist() in ([0, 0, 1, 1], [1, 1, 0, 0])
    True
    """

    n_clusters: int = 8
    _: KW_ONLY
    n_init: int = 1
    max_iter: int = 50
    mean: FrechetMean | None = None
    random_state: Any = 0

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> "GeodesicKMeans":
        """Find clusters of X (P, D)."""
        sample = self._fit_sample(X, y, sample_weight)
        count = as_whole_number("n_clusters", self.n_clusters, 1)
        if count > len(sample.all):
            raise ValueError(f"n_samples={len(sample.all)} should be >= n_clusters={count}.")
        as_whole_number("max_iter", self.max_iter, 1)
        rng = as_random_state(self.random_state)
        runs = [self._run(sample, count, rng) for _ in range(as_whole_number("n_init", self.n_init, 1))]
        best, message, n_iter = min(runs, key=lambda run: run[0].inertia(sample.weights).mean)
        self.cluster_centers_ = Gaussian.unchecked(best.centers, best.covs)
        self.inertia_ = best.inertia(sample.weights)
        everyone = best.take(sample.which) if sample.which.min() >= 0 else self._from_centres(sample.all)
        self.labels_, self.doubtful_ = everyone.labels, everyone.doubtful
        self._conclude(message, n_iter)
        return self

    def predict(self, X: Any) -> np.ndarray:
        """Numbers (P,) of the nearest centres."""
        return np.argmin(self.transform(X), axis=1)

    def transform(self, X: Any) -> np.ndarray:
        """Distances (P, K) to the centres."""
        check_is_fitted(self)
        return self._from_centres(self._points(X, reset=False)).length

    def _from_centres(self, points: np.ndarray) -> Clusters:
        centers = self.cluster_centers_.mean
        found = Clusters.of(centers, [logarithms(self.manifold_, center, points) for center in centers])
        lost = sum(int(np.sum(~logs.converged)) for logs in found.logs)
        if lost:
            self._warn(f"{lost} of {found.length.size} geodesics are flagged")
        return found

    def _run(self, sample: Sample, count: int, rng: Any) -> tuple[Clusters, str, int]:
        """Clusters from one start, what did not converge, and after how many iterations."""
        clusters = _spread_out(self.manifold_, sample, count, rng)
        labels, message = np.full(len(sample.points), -1), ""
        with iterations("GeodesicKMeans", self.verbose) as update:
            for n_iter in range(1, self.max_iter + 1):
                before, labels = labels, clusters.labels
                update(changed=int(np.sum(labels != before)))
                if np.array_equal(labels, before):
                    return clusters, message, n_iter
                clusters, message = self._updated(clusters, sample)
        return clusters, f"labels still changed in the last of {n_iter} iterations", n_iter

    def _updated(self, clusters: Clusters, sample: Sample) -> tuple[Clusters, str]:
        """About the means of all clusters; one that has lost its points starts at the one farthest."""
        options = (FrechetMean() if self.mean is None else self.mean).get_params(deep=False)
        centers, covs, problems = clusters.centers.copy(), np.zeros_like(clusters.covs), []
        labels, far = clusters.labels, clusters.nearest
        for k in range(len(centers)):
            here = np.flatnonzero(labels == k)
            if not len(here):
                farthest = np.argmax(far)
                centers[k], far[farthest] = sample.points[farthest], 0.0
                continue
            start, guess = FrechetMean(**{**options, "init": centers[k]}), clusters.logs[k].take(here)
            found = start._find(self.manifold_, sample.points[here], sample.weights[here], guess)
            centers[k], covs[k] = found.point, found.cov
            if found.problem:
                problems.append(f"centre {k}: {found.problem}")
        pairs = zip(centers, clusters.logs, strict=True)
        logs = [logarithms(self.manifold_, center, sample.points, near, doubt=True) for center, near in pairs]
        return Clusters.of(centers, logs, covs), "; ".join(problems)

    def _summary(self) -> tuple[str, dict[str, Any]]:
        count = len(self.cluster_centers_.mean)
        tensors = self.manifold_.metric.tensors_at(self.cluster_centers_.mean)
        return "cluster", {
            "points": np.bincount(self.labels_, minlength=count),
            "doubtful": np.bincount(self.labels_[self.doubtful_], minlength=count),
            "numerical_std": np.sqrt(np.trace(tensors @ self.cluster_centers_.cov, 0, 1, 2)),
        }


def _spread_out(manifold: Manifold, sample: Sample, count: int, rng: Any) -> Clusters:
    """k-means++: each new centre is drawn with a probability proportional to its squared distance from the others."""
    X, shares = sample.points, sample.weights / sample.weights.sum()
    chosen = [int(rng.choice(len(X), p=shares))]
    logs = [logarithms(manifold, X[chosen[0]], X)]
    while len(chosen) < count:
        mass = shares * Clusters.of(X[chosen], logs).nearest ** 2
        p = mass / mass.sum() if mass.sum() > 0 else shares  # all points are the same
        chosen.append(int(rng.choice(len(X), p=p)))
        logs.append(logarithms(manifold, X[chosen[-1]], X))
    return Clusters.of(X[chosen], logs)
