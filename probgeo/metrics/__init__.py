"""Metrics that `Manifold` takes as an argument: learned, pulled back, or in closed form."""

from probgeo.metrics.base import Metric, as_metric
from probgeo.metrics.charts import HalfPlane, PoincareBall, Sphere
from probgeo.metrics.check import MetricReport, check_metric
from probgeo.metrics.clusters import from_lmnn
from probgeo.metrics.conformal import Conformal
from probgeo.metrics.diagonal import Diagonal
from probgeo.metrics.equation import acceleration, christoffel, printed_acceleration
from probgeo.metrics.flat import Flat
from probgeo.metrics.function import FunctionMetric
from probgeo.metrics.learners import LargeMargin, Learner, LocalPCA, Mixture
from probgeo.metrics.lmnn import LMNNFit, lmnn_diagonal
from probgeo.metrics.local import LocalMetrics
from probgeo.metrics.local_covariance import LocalCovariance
from probgeo.metrics.local_pca import from_local_pca
from probgeo.metrics.loops import EnergyTerms
from probgeo.metrics.mixture import from_mixture
from probgeo.metrics.pullback import Pullback

__all__ = [
    "Conformal",
    "Diagonal",
    "EnergyTerms",
    "Flat",
    "FunctionMetric",
    "HalfPlane",
    "LMNNFit",
    "LargeMargin",
    "Learner",
    "LocalCovariance",
    "LocalMetrics",
    "LocalPCA",
    "Metric",
    "MetricReport",
    "Mixture",
    "PoincareBall",
    "Pullback",
    "Sphere",
    "acceleration",
    "as_metric",
    "check_metric",
    "christoffel",
    "from_lmnn",
    "from_local_pca",
    "from_mixture",
    "lmnn_diagonal",
    "printed_acceleration",
]
