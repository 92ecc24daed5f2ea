"""ODEs with uncertain data in, posteriors over their solutions out. Knows nothing of geometry."""

from probgeo.ode import kernels
from probgeo.ode.curve import ConvergenceWarning, Curve
from probgeo.ode.solve import solve_bvp, solve_ivp

__all__ = ["ConvergenceWarning", "Curve", "kernels", "solve_bvp", "solve_ivp"]
