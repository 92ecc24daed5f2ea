"""Metrics that `Manifold` takes as an argument: learned, pulled back, or in closed form."""

from probgeo.metrics.charts import HalfPlane, PoincareBall, Sphere
from probgeo.metrics.conformal import Conformal
from probgeo.metrics.density import DensityMetric, from_density
from probgeo.metrics.ensemble import Ensemble, bootstrap
from probgeo.metrics.equation import acceleration, christoffel, printed_acceleration
from probgeo.metrics.flat import Flat
from probgeo.metrics.function import Diagonal, FunctionMetric
from probgeo.metrics.learners import Learner, LocalPCA, Mixture, from_local_pca, from_mixture
from probgeo.metrics.lmnn import LargeMargin, LMNNFit, from_lmnn, lmnn_diagonal
from probgeo.metrics.local import LocalMetrics
from probgeo.metrics.local_covariance import LocalCovariance
from probgeo.metrics.loops import EnergyTerms
from probgeo.metrics.metric import Metric, as_metric
from probgeo.metrics.metric_report import MetricReport, check_metric
from probgeo.metrics.precision import RadialPrecision, radial_std
from probgeo.metrics.pullback import Pullback
from probgeo.metrics.score import ScoreMetric, from_score

__all__ = [
    "Conformal",
    "DensityMetric",
    "Diagonal",
    "EnergyTerms",
    "Ensemble",
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
    "RadialPrecision",
    "ScoreMetric",
    "Sphere",
    "acceleration",
    "as_metric",
    "bootstrap",
    "check_metric",
    "christoffel",
    "from_density",
    "from_lmnn",
    "from_local_pca",
    "from_mixture",
    "from_score",
    "lmnn_diagonal",
    "printed_acceleration",
    "radial_std",
]
