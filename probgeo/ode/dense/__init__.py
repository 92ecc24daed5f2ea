"""The paper's solver."""

from probgeo.ode.dense.errors import BoundError, ErrorModel
from probgeo.ode.dense.solver import Dense

__all__ = ["BoundError", "Dense", "ErrorModel"]
