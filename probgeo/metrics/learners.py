"""Metrics that estimators learn from the data they see.

A metric is tied to the coordinates of the data it was learned from. Behind a `StandardScaler`, or
in each fold of a cross-validation, it has to be learned anew: so that is what an estimator with a
learner does in `fit`. Learners have scikit-learn's `get_params` and `set_params`: a grid search
tunes `manifold__n_components`, `manifold__rho`, ...
"""

import inspect
from abc import ABC, abstractmethod
from typing import Any, Self

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
