"""The paper's solver."""

from probgeo._old.ode.dense.errors import BoundError, ErrorModel
from probgeo._old.ode.dense.solver import Dense

__all__ = ["BoundError", "Dense", "ErrorModel"]
