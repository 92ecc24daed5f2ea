"""The solvers that `solve_ivp`, `solve_bvp` and `Manifold` take as an argument."""

from probgeo.ode.dense import BoundError, Dense, ErrorModel
from probgeo.ode.markov import Markov

__all__ = ["BoundError", "Dense", "ErrorModel", "Markov"]
