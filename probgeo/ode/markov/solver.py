"""`Markov`: posteriors in time linear in the number of nodes."""

from dataclasses import dataclass
from typing import Any

from probgeo._checks import as_positive, as_whole_number
from probgeo.ode.curve import Curve
from probgeo.ode.problem import ConditionedProblem, Problem


@dataclass(frozen=True)
class Markov:
    """Gaussian process posteriors on adaptive meshes, in time linear in the number of nodes.

    The mean is a piecewise polynomial: elements that obey the ODE at Gauss's points for boundary
    value problems, the dense output of Runge-Kutta steps of order eight for initial value problems
    (implicit ones of order five if they are stiff). Its error is estimated, with its sign, by the
    linearised ODE, and sets the scale of the posterior's covariance.

    Parameters
    ----------
    order : int
        Degree of the polynomials of boundary value problems, 3 to 7: so many derivatives of the
        curve are modelled.
    n_points : int, optional
        Number of nodes, equally spaced, instead of a mesh that adapts.
    rtol, atol : float
        The mesh is refined until twice the largest numerical standard deviation is below
        atol + rtol max|y|.
    max_points : int
        Most nodes of one member.
    iterations : int
        Most steps of Newton's method on one mesh, meshes of one attempt, and attempts.
    stiff : bool
        Whether initial value problems are solved with implicit steps.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> from probgeo import solve_bvp, solvers
    >>> bratu = lambda t, y, dy: -jnp.exp(y)
    >>> curve = solve_bvp(bratu, (0.0, 1.0), [0.0], [0.0], solver=solvers.Markov(rtol=1e-6))
    >>> bool(abs(curve.mean(0.5)[0] - 0.1405392) < 1e-6)
    True
    """

    order: int = 5
    n_points: int | None = None
    rtol: float = 1e-5
    atol: float = 0.0
    max_points: int = 4096
    iterations: int = 30
    stiff: bool = False

    def __post_init__(self) -> None:
        if as_whole_number("order", self.order, 3) > 7:
            raise ValueError(f"order must be at most 7, got {self.order}")
        rtol = as_positive("rtol", self.rtol, or_zero=True)
        atol = as_positive("atol", self.atol, or_zero=True)
        if rtol == 0 and atol == 0:
            raise ValueError("rtol and atol must not both be zero")
        if self.n_points is not None:
            as_whole_number("n_points", self.n_points, 2)
        as_whole_number("max_points", self.max_points, 3)
        as_whole_number("iterations", self.iterations, 1)

    def solve(self, problem: Problem | ConditionedProblem, guess: Any = None) -> Curve:
        """Posterior curves for a batch of problems; `solve_ivp` and `solve_bvp` call this."""
        # imported here, because most callers need one of them only
        if isinstance(problem, Problem) and problem.kind == "initial":
            from probgeo.ode.markov.initial import solve_initial

            return solve_initial(problem, self)
        from probgeo.ode.markov.boundary import solve_boundary

        return solve_boundary(problem, self, guess)
