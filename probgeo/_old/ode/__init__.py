"""ODEs with uncertain data in, posteriors over their solutions out. Knows nothing of geometry."""

from probgeo._old.ode import kernels
from probgeo._old.ode.curve import ConvergenceWarning, Curve
from probgeo._old.ode.solve import solve_bvp, solve_ivp

__all__ = ["ConvergenceWarning", "Curve", "kernels", "solve_bvp", "solve_ivp"]
