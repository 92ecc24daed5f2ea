"""The paper's solver."""

from probgeo.ode.dense.error_models import BoundError, ErrorModel
from probgeo.ode.dense.solver import Dense

__all__ = ["BoundError", "Dense", "ErrorModel"]
