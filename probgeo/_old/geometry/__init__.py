"""A metric in, a manifold out. Geodesics are ODEs."""

from probgeo._old.geometry import initial
from probgeo._old.geometry.check import MetricReport, check_metric
from probgeo._old.geometry.equation import (
    Metric,
    acceleration,
    as_metric,
    christoffel,
    printed_acceleration,
)
from probgeo._old.geometry.geodesic import Geodesic
from probgeo._old.geometry.length import ScalarGaussian
from probgeo._old.geometry.manifold import Manifold

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
