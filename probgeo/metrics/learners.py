"""Metrics that are learned from data, by functions and by learners that estimators fit to the data they see.

A metric is tied to the coordinates of the data it was learned from. Behind a `StandardScaler`, or in each fold of a
cross-validation, it has to be learned anew: so that is what an estimator with a learner does in `fit`. Learners have
scikit-learn's `get_params` and `set_params`: a grid search tunes `manifold__n_components`, `manifold__rho`, ...
"""

import inspect
import warnings
from abc import ABC, abstractmethod
from dataclasses import KW_ONLY, dataclass
from typing import Any, Literal, Self

import numpy as np

from probgeo._checks import as_positive, as_whole_number, one_of
from probgeo.metrics.arguments import as_distinct_points
from probgeo.metrics.local import LocalMetrics
from probgeo.metrics.metric import Metric
from probgeo.ragged import blas_on_one_thread


class Learner(ABC):
    """Settings of a metric that is still to be learned; `fit` learns `metric_`.

    Your own learner stores the arguments of its constructor under their names, and defines `learn`.
    """

    metric_: Metric

    @abstractmethod
    def learn(self, X: Any, y: Any = None) -> Metric:
        """The metric for data X (N, D), perhaps with labels y (N,)."""

    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn `metric_` from X (N, D)."""
        self.metric_ = self.learn(X, y)
        return self

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The arguments of the constructor."""
        return {name: getattr(self, name) for name in inspect.signature(type(self)).parameters}

    def set_params(self, **params: Any) -> Self:
        """Change some arguments."""
        for name, value in params.items():
            if name not in self.get_params():
                known = ", ".join(self.get_params())
                raise ValueError(f"{type(self).__name__} has no {name!r}, only {known}")
            setattr(self, name, value)
        return self

    def __repr__(self) -> str:
        listed = ", ".join(f"{name}={value!r}" for name, value in self.get_params().items())
        return f"{type(self).__name__}({listed})"


def from_mixture(
    X: Any,
    n_components: int,
    *,
    rho: Any = 1.0,
    regularisation: float = 1e-3,
    covariance_type: Literal["full", "diag"] = "full",
    n_init: int = 1,
    max_iter: int = 500,
    seed: int = 0,
) -> LocalMetrics:
    """Fit a Gaussian mixture by EM; its means are the centres, its inverse covariances the tensors.

    Parameters
    ----------
    X : array (N, D)
    n_components : int
        Number K of Gaussians.
    rho : float
        Sharpness, see `LocalMetrics`.
    regularisation : float
        Added to the diagonal of every covariance, as a fraction of the mean variance of the data over the dimensions.
        It bounds the condition number of the metric where a component has fewer points than dimensions.
    covariance_type : "full" | "diag"
    n_init, max_iter : int
        Runs of EM, of which the likeliest is kept, and most iterations of each.
    seed : int
        Of the k-means that starts EM.

    Examples
    --------
    >>> X = np.random.default_rng(0).normal(size=(200, 2)) * [3.0, 0.5]
    >>> metric = from_mixture(X, n_components=1)
    >>> np.round(1.0 / np.diag(metric.tensors[0]), 1)  # the variances
    array([8.6, 0.3])
    """
    count = as_whole_number("n_components", n_components, 1)
    runs = as_whole_number("n_init", n_init, 1)
    steps = as_whole_number("max_iter", max_iter, 1)
    seed = as_whole_number("seed", seed, 0)
    one_of("covariance_type", covariance_type, ("full", "diag"))
    data = as_distinct_points("X", X, least=max(count, 2))
    nugget = as_positive("regularisation", regularisation)
    from sklearn.mixture import GaussianMixture  # slow to import, and needed only here

    # in units of the data's own scale, so that the result does not depend on the user's
    origin, scale = data.mean(axis=0), np.sqrt(data.var(axis=0).mean())
    mixture = GaussianMixture(
        count, covariance_type=covariance_type, reg_covar=nugget, n_init=runs, max_iter=steps, random_state=seed
    ).fit((data - origin) / scale)
    return LocalMetrics(origin + scale * mixture.means_, mixture.precisions_ / scale**2, rho)


def preferred_components(X: np.ndarray, seed: int) -> int:
    """How many Gaussians, of 1 to 40, have the least BIC for X (P, D), each with more points than dimensions.

    Counts are compared until three in a row are worse: on a spiral 7 are worse than 5, and 20 best. 2000 points will
    do: 40 Gaussians in the plane have 239 parameters.
    """
    from sklearn.mixture import GaussianMixture

    if len(X) > 2000:
        X = np.random.default_rng(seed).choice(X, 2000, replace=False)
    X = (X - X.mean(axis=0)) / np.sqrt(X.var(axis=0).mean())
    most = max(1, len(np.unique(X, axis=0)) // (X.shape[1] + 1))
    tried: dict[int, float] = {}
    with warnings.catch_warnings(), blas_on_one_thread:
        warnings.simplefilter("ignore")  # EM that has not converged is compared as it is
        for count in (k for k in (1, 2, 3, 5, 7, 10, 14, 20, 28, 40) if k <= most):
            tried[count] = GaussianMixture(count, reg_covar=1e-3, random_state=seed).fit(X).bic(X)
            if min(list(tried.values())[-3:]) > min(tried.values()):
                break
    return min(tried, key=tried.__getitem__)


@dataclass(eq=False, repr=False)
class Mixture(Learner):
    """A metric from a mixture of Gaussians, see `from_mixture` for the settings.

    Examples
    --------
    >>> from probgeo import FrechetMean
    >>> X = np.random.default_rng(0).normal(size=(50, 2))
    >>> mean = FrechetMean(Mixture(n_components=2)).fit(X)
    >>> mean.manifold_.metric.centers.shape
    (2, 2)
    """

    n_components: int = 10
    rho: float = 1.0
    _: KW_ONLY
    regularisation: float = 1e-3
    covariance_type: Literal["full", "diag"] = "full"
    n_init: int = 1
    max_iter: int = 500
    seed: int = 0

    def learn(self, X: Any, y: Any = None) -> LocalMetrics:
        return from_mixture(X, **self.get_params())


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
        Added to the diagonal of every covariance, as a fraction of the mean variance of the data over the dimensions.
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
