"""What Figs. 3, 4 and 5 share: a thousand ones in two dimensions, a metric, means, geodesics."""

from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import numpy as np

from probgeo import FrechetMean, Geodesic, Manifold, PrincipalGeodesics, data, metrics
from probgeo.metrics import LocalMetrics
from probgeo.paper.classical import NumpyMetric
from probgeo.paper.experiment import ITERATIONS, Settings, paper_solver

# with rho = 1 and less regularisation the paper's solver would flag half of its curves
LEARNED: Any = {"n_components": 5, "rho": 0.5, "regularisation": 0.01}
SETTINGS = {
    "data": "the first 1000 training images of the digit 1 of MNIST, two principal components",
    "metric": "mixture of 5 Gaussians (EM), inverse covariances, rho = 0.5, regularised by a hundredth of the variance",
    "paper's solver": "squared exponential kernel, length scale 0.25, 20 evaluations, V from the "
    "ends, at most 50 refinements",
    "default solver": "curves of least energy, nodes until twice the standard deviation is below a "
    "thousandth of the extent",
}


def principal_components(vectors: np.ndarray, count: int) -> np.ndarray:
    centred = vectors - vectors.mean(axis=0)
    return centred @ np.linalg.svd(centred, full_matrices=False)[2][:count].T


@dataclass(frozen=True, eq=False)
class Ones:
    """Data X (P, 2), its metric, and principal geodesics by both solvers.

    few : some of the points, for the paper's solver, which is slow.
    ends : where the geodesics of Figs. 4 and 5 end.
    """

    X: np.ndarray
    few: np.ndarray
    ends: np.ndarray
    metric: LocalMetrics
    manifolds: dict[str, Manifold]
    pgas: dict[str, PrincipalGeodesics]

    @property
    def plain(self) -> NumpyMetric:
        return NumpyMetric(self.metric)

    @property
    def mean(self) -> np.ndarray:
        return self.pgas["default"].mean_.mean

    @cached_property
    def curves(self) -> dict[str, Geodesic]:
        """From the mean to `ends`, by both solvers."""
        return {name: m.geodesic(self.mean, self.ends, progress=False) for name, m in self.manifolds.items()}


@lru_cache(maxsize=1)
def ones(settings: Settings) -> Ones:
    everything = principal_components(data.mnist_ones().vectors, 2)
    metric = metrics.from_mixture(everything, **LEARNED, seed=settings.seed)
    count = settings.choose(1000, 120, 16)
    X = everything[settings.rng.choice(len(everything), count, replace=False)]
    few, ends = (X[: settings.choose(*sizes)] for sizes in ((300, 60, 16), (400, 60, 16)))
    manifolds = {"paper's": Manifold(metric, paper_solver(X)), "default": Manifold(metric)}
    descent = FrechetMean(manifolds["paper's"], step="fixed", max_iter=ITERATIONS)
    pgas = {
        "paper's": PrincipalGeodesics(manifolds["paper's"], 1, mean=descent).fit(few),
        "default": PrincipalGeodesics(manifolds["default"], 1).fit(X),
    }
    return Ones(X, few, ends, metric, manifolds, pgas)
