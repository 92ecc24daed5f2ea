"""`Dense`: the solver of Hennig & Hauberg (2014), Sec. 3."""

from typing import Any, Literal

import numpy as np

from probgeo._checks import as_float_array, as_positive, as_positive_definite, as_whole_number
from probgeo._repr import described
from probgeo.ode.curve import Curve
from probgeo.ode.dense.algorithm import infer
from probgeo.ode.dense.error_models import ErrorModel, JacobianError, LinearisedError, NoError
from probgeo.ode.dense.posterior import DensePosterior
from probgeo.ode.grids import GRIDS, GridName
from probgeo.ode.guess import guess_states
from probgeo.ode.kernels import Kernel, SquaredExponential, Stationary
from probgeo.ode.problem import Problem
from probgeo.ragged import in_chunks, members_at_a_time

ErrorName = Literal["jacobian", "bound", "none", "linearised"]
NAMED_ERRORS: dict[str, ErrorModel] = {
    "jacobian": JacobianError(),
    "bound": JacobianError(),  # the first sweep, which finds the bounds
    "none": NoError(),
    "linearised": LinearisedError(),
}


class Dense:
    """The paper's solver: Gaussian process regression on sequential evaluations of f.

    Cost O(N^3 D^3) a problem; O(N^3 + N^2 D), the first part shared by the whole batch, with error
    model "none" or a scalar bound, a fixed length scale and certain boundary values.

    Parameters
    ----------
    kernel : Kernel
        Prior covariance along the unit interval, `SquaredExponential(0.25)` by default.
    n_points : int
        Number N of nodes.
    grid : "sigmoid" | "linear" | "chebyshev" | array (N,)
        Where f is evaluated; an array holds increasing times in t_span. By default sigmoid for
        boundary and linear for initial value problems.
    error_model : "jacobian" | "bound" | "none" | "linearised" | ErrorModel
        How the error of evaluating f at an estimate is treated (Eq. 10). "jacobian": noise with
        the exact first-order covariance. "bound": Eq. 10 with the largest |Jacobian| found along
        a first solution; `BoundError(U, U_prime)` for your own bounds. "none": ignored.
        "linearised": f is linearised, sweeps become Gauss-Newton steps.
    refinements : int
        Most sweeps after the first one (Sec. 3.3.1); they end early at `tolerance`. They start
        from the first one (the paper's recursion, or the guess) or from the straight line,
        whichever has the smaller residual.
    tolerance : float
        Residual at the nodes, relative to the size of the solution, below which a curve counts as
        converged. For "linearised" it is that of the ODE, for the others the change of the
        evaluations in one more sweep. Without noise ("none") the two are the same; with noise the
        mean may leave the ODE by more, since it need not pass through its evaluations.
    V : "evidence" | "ends" | array (D, D)
        Covariance of the output dimensions. "evidence": S times the scale of highest evidence.
        "ends": [(a-b)' S^-1 (a-b)] S, for initial value problems with dy0 for a - b (Sec. 3.4).
    S : array (D, D), optional
        Shape of V, e.g. the covariance of a data set; the identity by default.
    fit_lengthscale : bool
        Choose the length scale of the kernel, problem by problem, by evidence.
    nugget : float
        Relative variance added to every evaluation, against round-off in the Gram matrix.

    Examples
    --------
    >>> import numpy as np
    >>> from probgeo import solve_bvp, solvers
    >>> solver = solvers.Dense(n_points=16, error_model="linearised")
    >>> curve = solve_bvp(lambda t, y, dy: -y, (0.0, 1.0), [0.0], [1.0], solver=solver)
    >>> bool(abs(curve.mean(0.5)[0] - np.sin(0.5) / np.sin(1.0)) < 1e-6)
    True
    """

    def __init__(
        self,
        kernel: Kernel | None = None,
        n_points: int = 20,
        grid: GridName | Any = None,
        error_model: ErrorName | ErrorModel = "jacobian",
        refinements: int = 10,
        tolerance: float = 1e-3,
        V: Literal["evidence", "ends"] | Any = "evidence",
        S: Any = None,
        fit_lengthscale: bool = False,
        nugget: float = 1e-12,
    ) -> None:
        self.kernel = SquaredExponential() if kernel is None else kernel
        if not isinstance(self.kernel, Kernel):
            raise TypeError(f"kernel must be a Kernel, got {type(kernel).__name__}")
        self.grid, self.grid_name = _as_grid(grid)
        self.n_points = as_whole_number("n_points", n_points, 1) if self.grid is None else self.grid.size
        self.error_model = _as_error_model(error_model)
        self.find_bounds = isinstance(error_model, str) and error_model == "bound"
        self.refinements = as_whole_number("refinements", refinements, 0)
        self.tolerance = as_positive("tolerance", tolerance)
        self.V, self.scale = _as_output_covariance(V)
        self.S = None if S is None else as_float_array("S", S)
        if self.V is not None and self.S is not None:
            raise ValueError("S shapes a V that is learned; give either V or S")
        self.fit_lengthscale = bool(fit_lengthscale)
        if fit_lengthscale and not isinstance(self.kernel, Stationary):
            raise ValueError(f"{type(self.kernel).__name__} has no length scale to fit")
        self.nugget = as_positive("nugget", nugget, or_zero=True)

    def __repr__(self) -> str:
        return described(self)

    def solve(self, problem: Problem, guess: Any = None) -> Curve:
        """Posterior curves for a batch of problems; `solve_ivp` and `solve_bvp` call this."""
        D = problem.dimension
        if problem.order > 2:
            raise ValueError(f"Dense is for ODEs of order 1 and 2, got {problem.order}: use Markov")
        self.error_model.check(problem.order, D)
        nodes, shape, states = self._nodes(problem), self._shape(D), None
        if guess is not None:  # with its derivatives by unit time
            units = problem.duration ** np.arange(problem.order)
            states = guess_states(guess, problem, problem.t0 + nodes * problem.duration) * units[:, None]

        def one_chunk(members: np.ndarray) -> tuple[DensePosterior, dict[str, np.ndarray]]:
            at = None if states is None else states[members]
            with np.errstate(all="ignore"):  # what is not finite is flagged
                return infer(self, problem, members, nodes, shape, at)

        parts = in_chunks(one_chunk, problem.count, most=self._most(problem))
        posteriors, diagnostics = zip(*parts, strict=True)
        columns = {
            name: np.concatenate([part[name] for part in diagnostics]).reshape(problem.batch_shape)
            for name in diagnostics[0]
        }
        return Curve(DensePosterior.joined(posteriors), (problem.t0, problem.t1), **columns)

    def _most(self, problem: Problem) -> int:
        """Members at a time."""
        rows = self.n_points * (1 if self.error_model.kronecker else problem.dimension)
        uncertain = problem.spread is not None or problem.with_args
        if self.error_model.shared and not self.fit_lengthscale and not uncertain:  # one Gram matrix for all
            each = 8 * 8 * self.n_points * problem.dimension * (problem.order + 1)
        else:
            each = 3 * 8 * (problem.order + 1) * rows**2
        return members_at_a_time(each)

    def _shape(self, dimension: int) -> np.ndarray:
        """V up to its scale."""
        if self.V is not None:
            return as_positive_definite("V", self.V, dimension)
        return np.eye(dimension) if self.S is None else as_positive_definite("S", self.S, dimension)

    def _nodes(self, problem: Problem) -> np.ndarray:
        if self.grid is None:
            default = "sigmoid" if problem.kind == "boundary" else "linear"
            return GRIDS[self.grid_name or default](self.n_points)
        nodes = (self.grid - problem.t0) / problem.duration
        if nodes.min() < -1e-12 or nodes.max() > 1 + 1e-12:
            t0, t1 = problem.t0, problem.t1
            raise ValueError(f"grid must lie in t_span [{t0:g}, {t1:g}], got {self.grid}")
        return np.clip(nodes, 0.0, 1.0)


def _as_grid(grid: Any) -> tuple[np.ndarray | None, str | None]:
    """The user's grid, or the name of one (None leaves the choice to the problem)."""
    if grid is None:
        return None, None
    if isinstance(grid, str):
        if grid not in GRIDS:
            raise ValueError(f"grid must be one of {sorted(GRIDS)} or an array, got {grid!r}")
        return None, grid
    points = as_float_array("grid", grid)
    if points.ndim != 1 or points.size < 1:
        raise ValueError(f"grid must be a vector of times, got shape {points.shape}")
    if np.any(np.diff(points) <= 0):
        raise ValueError("grid must be strictly increasing")
    return points, None


def _as_error_model(model: Any) -> ErrorModel:
    if isinstance(model, ErrorModel):
        return model
    if not isinstance(model, str) or model not in NAMED_ERRORS:
        raise ValueError(f"error_model must be one of {sorted(NAMED_ERRORS)}, got {model!r}")
    return NAMED_ERRORS[model]


def _as_output_covariance(V: Any) -> tuple[np.ndarray | None, str]:
    """V if it is given, and where its scale comes from."""
    if isinstance(V, str):
        if V not in ("evidence", "ends"):
            raise ValueError(f'V must be "evidence", "ends" or a (D, D) array, got {V!r}')
        return None, V
    return as_float_array("V", V), "given"
