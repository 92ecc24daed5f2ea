"""Metrics that `Manifold` takes as an argument: learned, pulled back, or in closed form."""

from probgeo._old.geometry.check import MetricReport, check_metric
from probgeo._old.geometry.equation import (
    Metric,
    acceleration,
    as_metric,
    christoffel,
    printed_acceleration,
)
from probgeo._old.geometry.metrics import (
    Conformal,
    Diagonal,
    Flat,
    HalfPlane,
    LMNNFit,
    LocalCovariance,
    LocalMetrics,
    PoincareBall,
    Pullback,
    Sphere,
    from_lmnn,
    from_local_pca,
    from_mixture,
    lmnn_diagonal,
)

__all__ = [
    "Conformal",
    "Diagonal",
    "Flat",
    "HalfPlane",
    "LMNNFit",
    "LocalCovariance",
    "LocalMetrics",
    "Metric",
    "MetricReport",
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
