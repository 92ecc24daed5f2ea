"""First curves from which the geodesic equation is solved, each an object that can be chosen.

A solver started from the straight line loses geodesics: it finds none, or one that is not
shortest. Here the energy of a discretised curve is lowered first.
"""

from probgeo._old.geometry.initial.base import Start, Starts, StraightLine
from probgeo._old.geometry.initial.continuation import Continuation
from probgeo._old.geometry.initial.descent import EnergyDescent
from probgeo._old.geometry.initial.graph import DataGraph
from probgeo._old.geometry.initial.multistart import MetricGraph, MultiStart, default_start

__all__ = [
    "Continuation",
    "DataGraph",
    "EnergyDescent",
    "MetricGraph",
    "MultiStart",
    "Start",
    "Starts",
    "StraightLine",
    "default_start",
]
