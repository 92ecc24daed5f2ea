"""Metrics: learned from data, pulled back by decoders, and in closed form."""

from probgeo.geometry.metrics.charts import Flat, HalfPlane, PoincareBall, Sphere
from probgeo.geometry.metrics.clusters import from_lmnn
from probgeo.geometry.metrics.conformal import Conformal
from probgeo.geometry.metrics.diagonal import Diagonal
from probgeo.geometry.metrics.lmnn import LMNNFit, lmnn_diagonal
from probgeo.geometry.metrics.local import LocalMetrics
from probgeo.geometry.metrics.local_covariance import LocalCovariance
from probgeo.geometry.metrics.local_pca import from_local_pca
from probgeo.geometry.metrics.mixture import from_mixture
from probgeo.geometry.metrics.pullback import Pullback

__all__ = [
    "Conformal",
    "Diagonal",
    "Flat",
    "HalfPlane",
    "LMNNFit",
    "LocalCovariance",
    "LocalMetrics",
    "PoincareBall",
    "Pullback",
    "Sphere",
    "from_lmnn",
    "from_local_pca",
    "from_mixture",
    "lmnn_diagonal",
]
