"""Local metrics from local principal components."""

from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np

from probgeo._checks import as_positive, as_whole_number
from probgeo.metrics.inputs import as_distinct_points
from probgeo.metrics.learners import Learner
from probgeo.metrics.local import LocalMetrics


def from_local_pca(
    X: Any,
    n_centers: int,
    *,
    n_neighbors: int | None = None,
    n_components: int | None = None,
    rho: Any = 1.0,
    regularisation: float = 1e-3,
    seed: int = 0,
) -> LocalMetrics:
    """At centres found by k-means, the inverse covariance of the nearest data.

    Parameters
    ----------
    X : array (N, D)
    n_centers : int
        Number K of centres.
    n_neighbors : int, optional
        How many data nearest to a centre make up its covariance; by default 2 N / K, so that
        neighbouring centres share data, but at least D + 1.
    n_components : int, optional
        Keep this many principal components of each covariance and replace the variance along all
        others by their mean (probabilistic PCA, Tipping & Bishop 1999). By default all are kept.
    rho : float
        Sharpness, see `LocalMetrics`.
    regularisation : float
        Added to the diagonal of every covariance, as a fraction of the mean variance of the data
        over the dimensions.
    seed : int
        Of k-means.

    Examples
    --------
    >>> t = np.linspace(0.0, np.pi, 200)
    >>> metric = from_local_pca(np.stack([np.cos(t), np.sin(t)], axis=1), n_centers=5)
    >>> metric.tensors.shape
    (5, 2, 2)
    """
    count = as_whole_number("n_centers", n_centers, 1)
    data = as_distinct_points("X", X, least=max(count, 2))
    N, D = data.shape
    near = min(N, max(2 * N // count, D + 1))
    if n_neighbors is not None:
        near = as_whole_number("n_neighbors", n_neighbors, 2)
        if near > N:
            raise ValueError(f"n_neighbors must not exceed the {N} points of X, got {near}")
    seed = as_whole_number("seed", seed, 0)
    kept = D if n_components is None else as_whole_number("n_components", n_components, 1)
    if kept > D:
        raise ValueError(f"n_components must not exceed the {D} dimensions of X, got {kept}")
    nugget = as_positive("regularisation", regularisation) * data.var(axis=0).mean()
    from sklearn.cluster import KMeans  # slow to import, and needed only here

    centers = KMeans(count, n_init=1, random_state=seed).fit(data).cluster_centers_
    tensors = []
    for center in centers:
        order = np.argsort(np.sum((data - center) ** 2, axis=1), kind="stable")
        tensors.append(_inverse_covariance(data[order[:near]], kept, nugget))
    return LocalMetrics(centers, np.stack(tensors), rho)


@dataclass(eq=False, repr=False)
class LocalPCA(Learner):
    """A metric from the covariances of neighbouring data, see `from_local_pca` for the settings.

    Examples
    --------
    >>> X = np.random.default_rng(0).normal(size=(50, 2))
    >>> LocalPCA(n_centers=4).fit(X).metric_.centers.shape
    (4, 2)
    """

    n_centers: int = 10
    rho: float = 1.0
    _: KW_ONLY
    n_neighbors: int | None = None
    n_components: int | None = None
    regularisation: float = 1e-3
    seed: int = 0

    def learn(self, X: Any, y: Any = None) -> LocalMetrics:
        return from_local_pca(X, **self.get_params())


def _inverse_covariance(points: np.ndarray, kept: int, nugget: float) -> np.ndarray:
    variances, directions = np.linalg.eigh(np.cov(points.T, bias=True).reshape(2 * points.shape[1:]))
    variances = np.maximum(variances, 0.0)
    rest = len(variances) - kept  # eigh sorts in ascending order: the first ones are left out
    if rest:
        variances[:rest] = variances[:rest].mean()
    return (directions / (variances + nugget)) @ directions.T
