"""Metrics that `Manifold` takes as an argument: learned, pulled back, or in closed form."""

from probgeo.metrics.base import Metric, as_metric
from probgeo.metrics.local import LocalMetrics
from probgeo.metrics.terms import EnergyTerms

__all__ = ["EnergyTerms", "LocalMetrics", "Metric", "as_metric"]
