"""Geometry: shortest curves, distances, exponential and logarithm maps of a metric."""

from probgeo.geometry.ensembles import EnsembleDistance
from probgeo.geometry.geodesic import Geodesic
from probgeo.geometry.manifold import Manifold

__all__ = ["EnsembleDistance", "Geodesic", "Manifold"]
