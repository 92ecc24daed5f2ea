"""The solvers that `solve_ivp`, `solve_bvp` and `Manifold` take as an argument."""

from probgeo._old.ode.dense import BoundError, Dense, ErrorModel
from probgeo._old.ode.markov import Markov, MaternPrior, WienerPrior

__all__ = ["BoundError", "Dense", "ErrorModel", "Markov", "MaternPrior", "WienerPrior"]
