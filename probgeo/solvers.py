"""The solvers that `solve_ivp`, `solve_bvp` and `Manifold` take as an argument."""

from probgeo.ode.dense import BoundError, Dense, ErrorModel

__all__ = ["BoundError", "Dense", "ErrorModel"]
