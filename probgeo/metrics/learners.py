"""Metrics that estimators learn from the data they see.

A metric is tied to the coordinates of the data it was learned from. Behind a `StandardScaler`, or
in each fold of a cross-validation, it has to be learned anew: so that is what an estimator with a
learner does in `fit`. Learners have scikit-learn's `get_params` and `set_params`: a grid search
tunes `manifold__n_components`, `manifold__rho`, ...
"""

import inspect
from abc import ABC, abstractmethod
from dataclasses import KW_ONLY, dataclass
from typing import Any, Literal, Self

from probgeo.metrics.base import Metric


class Learner(ABC):
    """Settings of a metric that is still to be learned; `fit` learns `metric_`.

    A learner of one's own stores the arguments of its constructor under their own names, and
    defines `learn`.
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


@dataclass(eq=False, repr=False)
class Mixture(Learner):
    """A metric from a mixture of Gaussians, see `from_mixture` for the settings.

    Examples
    --------
    >>> import numpy as np
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

    def learn(self, X: Any, y: Any = None) -> Metric:
        from probgeo.metrics import from_mixture

        return from_mixture(X, **self.get_params())


@dataclass(eq=False, repr=False)
class LocalPCA(Learner):
    """A metric from the covariances of neighbouring data, see `from_local_pca` for the settings.

    Examples
    --------
    >>> import numpy as np
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

    def learn(self, X: Any, y: Any = None) -> Metric:
        from probgeo.metrics import from_local_pca

        return from_local_pca(X, **self.get_params())


@dataclass(eq=False, repr=False)
class LargeMargin(Learner):
    """Diagonal metrics that tell labels y apart, see `from_lmnn` for the settings.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.random.default_rng(0).normal(size=(40, 2))
    >>> LargeMargin().fit(X, X[:, 0] > 0).metric_.centers.shape
    (2, 2)
    """

    n_clusters: int | None = None
    rho: float = 1.0
    _: KW_ONLY
    n_neighbors: int = 3
    mu: float = 0.5
    floor: float = 1e-2
    tolerance: float = 1e-4
    seed: int = 0

    def learn(self, X: Any, y: Any = None) -> Metric:
        from probgeo.metrics import from_lmnn

        if y is None:
            raise ValueError("LargeMargin learns from labels: y must be given")
        return from_lmnn(X, y, **self.get_params())
