"""A metric in, a manifold out. Geodesics are ODEs."""

from probgeo.geometry import initial
from probgeo.geometry.check import MetricReport, check_metric
from probgeo.geometry.equation import (
    Metric,
    acceleration,
    as_metric,
    christoffel,
    printed_acceleration,
)
from probgeo.geometry.geodesic import Geodesic
from probgeo.geometry.length import ScalarGaussian
from probgeo.geometry.manifold import Manifold

__all__ = [
    "Geodesic",
    "Manifold",
    "Metric",
    "MetricReport",
    "ScalarGaussian",
    "acceleration",
    "as_metric",
    "check_metric",
    "christoffel",
    "initial",
    "printed_acceleration",
]
