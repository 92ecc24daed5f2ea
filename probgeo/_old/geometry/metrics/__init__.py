"""Metrics: learned from data, pulled back by decoders, and in closed form."""

from probgeo._old.geometry.metrics.charts import Flat, HalfPlane, PoincareBall, Sphere
from probgeo._old.geometry.metrics.clusters import from_lmnn
from probgeo._old.geometry.metrics.conformal import Conformal
from probgeo._old.geometry.metrics.diagonal import Diagonal
from probgeo._old.geometry.metrics.lmnn import LMNNFit, lmnn_diagonal
from probgeo._old.geometry.metrics.local import LocalMetrics
from probgeo._old.geometry.metrics.local_covariance import LocalCovariance
from probgeo._old.geometry.metrics.local_pca import from_local_pca
from probgeo._old.geometry.metrics.mixture import from_mixture
from probgeo._old.geometry.metrics.pullback import Pullback

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
