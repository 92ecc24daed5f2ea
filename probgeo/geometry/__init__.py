"""A metric in, a manifold out. Geodesics are ODEs."""

from probgeo.geometry.check import MetricReport, check_metric
from probgeo.geometry.equation import (
    Metric,
    acceleration,
    as_metric,
    christoffel,
    printed_acceleration,
)

__all__ = [
    "Metric",
    "MetricReport",
    "acceleration",
    "as_metric",
    "check_metric",
    "christoffel",
    "printed_acceleration",
]
