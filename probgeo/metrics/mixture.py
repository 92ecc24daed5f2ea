"""Local metrics from a mixture of Gaussians: the inverse covariances (Sec. 5.1)."""

from dataclasses import KW_ONLY, dataclass
from typing import Any, Literal

import numpy as np

from probgeo._checks import as_positive, as_whole_number, one_of
from probgeo.metrics.inputs import as_distinct_points
from probgeo.metrics.learners import Learner
from probgeo.metrics.local import LocalMetrics


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
        Added to the diagonal of every covariance, as a fraction of the mean variance of the data
        over the dimensions. It bounds the condition number of the metric where a component has
        fewer points than dimensions.
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
