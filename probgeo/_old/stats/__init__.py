"""Statistics that marginalise the solver: what geodesics do not know reaches the result."""

from probgeo._old.stats.kmeans import GeodesicKMeans
from probgeo._old.stats.mean import FrechetMean, GeometricMedian
from probgeo._old.stats.principal import PrincipalGeodesics
from probgeo._old.stats.regression import GeodesicRegression
from probgeo._old.stats.tangent import TangentSpace

__all__ = [
    "FrechetMean",
    "GeodesicKMeans",
    "GeodesicRegression",
    "GeometricMedian",
    "PrincipalGeodesics",
    "TangentSpace",
]
