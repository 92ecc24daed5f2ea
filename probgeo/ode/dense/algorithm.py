"""Some problems, from their prior to their posterior: the algorithm of Sec. 3 in order."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from probgeo.ode.curve import NOT_FINITE, OK, UNFAITHFUL
from probgeo.ode.dense.error_models import ErrorModel, FoundBounds, LinearisedError
from probgeo.ode.dense.evidence import best_lengthscales, evidence
from probgeo.ode.dense.gram import Regression, SplitCovariance, with_member_axis
from probgeo.ode.dense.posterior import DensePosterior, Sensitivity
from probgeo.ode.dense.sweeps import Sweeps, relative_size, sweep_until_settled
from probgeo.ode.dense.unit import UnitProblem, mean_basis
from probgeo.ode.kernels import Kernel, Pinned, Stationary

if TYPE_CHECKING:
    from probgeo.ode.dense.solver import Dense


@dataclass(frozen=True)
class Inference:
    """What the posterior of P problems is inferred from.

    Attributes
    ----------
    solver : the user's settings
    nodes (N,) : on the unit interval
    shape (D, D) : V up to its scale
    guess (P, N, order, D) : states to begin with, if there are any
    """

    solver: "Dense"
    problem: UnitProblem
    nodes: np.ndarray
    shape: np.ndarray
    guess: np.ndarray | None

    def posterior(self) -> tuple[DensePosterior, dict[str, np.ndarray]]:
        """The posterior, and diagnostics (P,) by the names they have in a `Curve`."""
        kernel, model = self.solver.kernel, self.solver.error_model
        evaluations = np.zeros(len(self.problem.values), dtype=np.int64)
        if self.solver.find_bounds:
            model = self._found_bounds()
            evaluations += self.nodes.size
        if self.solver.fit_lengthscale:
            kernel, used = self._fitted_lengthscale(model)
            evaluations += used

        regression = self._regression(kernel, model)
        tolerance = self.solver.tolerance
        observations, L, refined = sweep_until_settled(
            regression, model, self.guess, self.solver.refinements, tolerance
        )
        states = regression.states(observations, L)
        values = regression.evaluate(states)
        defect = relative_size(regression, states[:, :, -1] - values, values)

        surprise = regression.surprise(observations)
        fit = evidence(L, surprise, regression.V)
        scale2 = self._scale2()
        scale2 = np.where(np.isnan(scale2), fit.best_scale2(), scale2)
        weights = regression.weights(observations.maps, L, surprise)
        posterior = DensePosterior(
            kernel=Pinned(kernel, self.problem.conditions),
            t0=self.problem.problem.t0,
            duration=self.problem.problem.duration,
            unit_nodes=self.nodes,
            values=self.problem.values,
            scale2=scale2,
            V=regression.V,
            L=L,
            maps=observations.maps,
            weights=weights.reshape(regression.prior_mean.shape),
            sensitivity=self._sensitivity(kernel, states),
        )
        log_evidence = fit.log(scale2)
        finite = np.isfinite(log_evidence) & np.isfinite(weights).all(axis=(1, 2, 3, 4))
        # noise on the evaluations lets the mean deviate from the ODE, but not by more than a tenth
        far = (refined.status == OK) & (defect > max(0.1, tolerance))
        status = np.where(far, UNFAITHFUL, refined.status)
        evaluations += self._count(refined) + self.nodes.size  # the last for the defect
        return posterior, {
            "status": np.where(finite, status, NOT_FINITE),
            "log_evidence": log_evidence,
            "n_evaluations": evaluations,
            "residual": refined.residual,
            "scale": np.sqrt(scale2),
        }

    def _basis(self) -> np.ndarray:
        """The prior mean of the states as a linear map (N m, C) of the data."""
        orders = range(self.problem.order + 1)
        parts = [mean_basis(self.problem.conditions, d, self.nodes) for d in orders]
        return np.stack(parts, axis=1).reshape(len(self.nodes) * len(orders), -1)

    def _regression(self, kernel: Kernel, model: ErrorModel) -> Regression:
        """The prior on the nodes."""
        orders = tuple(range(self.problem.order + 1))
        mean = (self._basis() @ self.problem.values).reshape(-1, len(self.nodes), len(orders), self.problem.dimension)
        pinned = Pinned(kernel, self.problem.conditions)
        K = with_member_axis(pinned.matrix(orders, self.nodes, orders, self.nodes), 5)
        V = SplitCovariance.of(self.shape, model.kronecker)
        return Regression(self.problem, self.nodes, K, V, mean, self.solver.nugget)

    def _scale2(self) -> np.ndarray:
        """Squares (P,) of the scale of V, NaN where the evidence is to choose it."""
        count = len(self.problem.values)
        if self.solver.scale != "ends":
            return np.full(count, np.nan if self.solver.scale == "evidence" else 1.0)
        # Sec. 3.4 with erratum 3: V = [(a-b)' S^-1 (a-b)] S; without a direction there is no scale
        slope = (mean_basis(self.problem.conditions, 1, np.zeros(1)) @ self.problem.values)[:, 0]
        size = np.sum(slope * np.linalg.solve(self.shape, slope.T).T, axis=-1)
        return np.where(size > 0, size, np.nan)

    def _found_bounds(self) -> FoundBounds:
        """Elementwise largest |Jacobian| along first solutions: U and U' of Eq. 9."""
        model = self.solver.error_model
        regression = self._regression(self.solver.kernel, model)
        states = regression.states(*regression.sweep(model, self.guess))
        J = self.problem.evaluate(self.nodes, states[:, :, :-1], jacobians=True).jacobians
        assert J is not None
        along = np.abs(J).reshape(*states.shape[:2], *J.shape[1:])
        return FoundBounds(np.swapaxes(along.max(axis=1), -1, -2))  # U[i, j] bounds |d f_j / d c_i|

    def _fitted_lengthscale(self, model: ErrorModel, rounds: int = 4) -> tuple[Stationary, np.ndarray]:
        """Alternate sweeps with the best length scales for their evaluations; counts of these (P,).

        The evaluations are refined first: those of the recursion alone are rough where a length
        scale is short, and rough evaluations ask for a shorter one still. On two kinds of pendulum
        the largest change still to come is, after 1, 2, 3, 4 rounds, 14, 1.2, .2 and .04 per cent
        where evaluations have no noise; with noise it takes up to 8 rounds.
        """
        kernel = self.solver.kernel
        assert isinstance(kernel, Stationary)
        scale2 = None if self.solver.scale == "evidence" else self._scale2()
        lengthscales = np.full(len(self.problem.values), kernel.lengthscale)
        used = np.zeros(len(self.problem.values), dtype=np.int64)
        for _ in range(rounds):
            regression = self._regression(kernel.with_lengthscale(lengthscales), model)
            observations, _, refined = sweep_until_settled(
                regression, model, self.guess, self.solver.refinements, self.solver.tolerance
            )
            used += self._count(refined)
            lengthscales = best_lengthscales(kernel, regression, observations, scale2, lengthscales)
        return kernel.with_lengthscale(lengthscales), used

    def _count(self, refined: Sweeps) -> np.ndarray:
        """Evaluations (P,) of f: the recursion, the check of where to start, the sweeps."""
        return self.nodes.size * (refined.sweeps + (4 if self.guess is None else 2))

    def _sensitivity(self, kernel: Kernel, states: np.ndarray) -> Sensitivity | None:
        """How the user's uncertain data move the curve, through the ODE linearised about it.

        One linear problem for each direction in which the data (or, if asked for, the parameters
        of f) may move.
        """
        P, C, D = self.problem.values.shape
        lines, with_args = self.problem.lines(), self.problem.problem.with_args
        if lines is None and not with_args:
            return None
        model = LinearisedError()
        regression = self._regression(kernel, model)
        linearised = regression.observe(model, states)
        lines = np.zeros((P, C, D, 0)) if lines is None else lines
        N, m, moving = self.nodes.size, self.problem.order + 1, lines.shape[-1]
        along = (self._basis() @ lines.reshape(P, C, D * moving)).reshape(P, N, m * D, moving)
        forced = -(linearised.maps.reshape(P, N, D, m * D) @ along)
        if with_args:
            by_args = self.problem.by_args(self.nodes, states[:, :, :-1])
            forced = np.concatenate([forced, by_args], axis=-1)
            lines = np.concatenate([lines, np.zeros((P, C, D, by_args.shape[-1]))], axis=-1)
        L = regression.factor(linearised)
        weights = regression.weights(linearised.maps, L, forced.reshape(P, N * D, -1))
        return Sensitivity(lines, weights)
