"""Statistics that marginalise the solver: what geodesics do not know reaches the result."""

from probgeo.stats.kmeans import GeodesicKMeans
from probgeo.stats.mean import FrechetMean, GeometricMedian
from probgeo.stats.neighbors import GeodesicKNeighborsClassifier, GeodesicKNeighborsRegressor
from probgeo.stats.normal import NormalOnManifold
from probgeo.stats.principal import PrincipalGeodesics
from probgeo.stats.regression import GeodesicRegression
from probgeo.stats.tangent import TangentSpace

__all__ = [
    "FrechetMean",
    "GeodesicKMeans",
    "GeodesicKNeighborsClassifier",
    "GeodesicKNeighborsRegressor",
    "GeodesicRegression",
    "GeometricMedian",
    "NormalOnManifold",
    "PrincipalGeodesics",
    "TangentSpace",
]
