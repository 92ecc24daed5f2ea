"""Geodesic regression: points on a manifold that follow a number.

c(t) = exp_p((t - t0) v) is fitted to points x_i at t_i, so that sum_i w_i d(c(t_i), x_i)^2 is least. Gauss-Newton: the
curve moves by X_i (dp, dv) at t_i, with X the solution of the geodesic equation linearised along the curve, and what is
wanted there are the logarithms r_i of x_i.
"""

from dataclasses import KW_ONLY, dataclass
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from probgeo._checks import as_positive, as_whole_number
from probgeo.gaussian import Gaussian
from probgeo.geometry import Manifold
from probgeo.geometry.logarithms import Logs, logarithms
from probgeo.ode.curve import Curve
from probgeo.stats.descent import STEP_SIZES
from probgeo.stats.estimator import ManifoldEstimator, iterations, mean_square, standard_errors
from probgeo.stats.mean import FrechetMean


class Fitted(NamedTuple):
    """A curve and how well it fits; tangent vectors on it are R' v, with M = R R'."""

    p: np.ndarray
    v: np.ndarray
    logs: Logs  # from the curve to the points
    residuals: np.ndarray  # (P, D): the same
    noise: np.ndarray  # (P, D, D): their numerical covariances
    design: np.ndarray  # (P, D, 2 D): how the curve moves with (p, v)
    value: float  # mean squared distance


class LeastSquares(NamedTuple):
    """What a curve is fitted to: points (P, D) at times (P,), which count by shares (P,)."""

    manifold: Manifold
    precise: Manifold  # for the curve
    times: np.ndarray
    points: np.ndarray
    shares: np.ndarray

    def fitted(self, p: np.ndarray, v: np.ndarray, guess: Logs | None = None) -> Fitted | None:
        """The curve with point p and velocity v, if there is one."""
        curve, turns = _along(self.precise, p, v, self.times)
        if not np.isfinite(curve).all():
            return None
        logs = logarithms(self.manifold, curve, self.points, guess)
        roots = np.linalg.cholesky(self.manifold.metric.tensors_at(curve))
        lifted = roots.transpose(0, 2, 1)
        residuals = np.einsum("pij,pj->pi", lifted, logs.vectors)
        return Fitted(p, v, logs, residuals, lifted @ logs.cov @ roots, lifted @ turns, self.shares @ logs.length**2)

    def gauss_newton(self, found: Fitted) -> tuple[np.ndarray, float]:
        """(dp, dv) of the linear least squares problem, and by how much that moves the curve."""
        scale = np.sqrt(self.shares)
        rows = (scale[:, None, None] * found.design).reshape(-1, 2 * len(found.p))
        step = np.linalg.lstsq(rows, (scale[:, None] * found.residuals).ravel(), rcond=None)[0]
        return step, float(np.linalg.norm(rows @ step))

    def first_of(self, p: Any, v: Any, dp: Any, dv: Any, below: float, guess: Logs | None = None) -> Fitted | None:
        """The longest step by which the curve gets where there is a metric, and below that value."""
        for size in STEP_SIZES:
            new = self.fitted(p + size * dp, v + size * dv, guess)
            if new is not None and new.value < below:
                return new
        return None

    def covariances(self, found: Fitted) -> tuple[np.ndarray, np.ndarray]:
        """Of (p, v) by residuals of unit variance, divided by the total weight, and by the numerics."""
        weighted = self.shares[:, None, None] * found.design
        inverse = np.linalg.pinv(np.tensordot(weighted, found.design, ((0, 1), (0, 1))))
        return inverse, inverse @ np.tensordot(weighted, found.noise @ weighted, ((0, 1), (0, 1))) @ inverse


@dataclass(eq=False, repr=False)
class GeodesicRegression(RegressorMixin, ManifoldEstimator):
    """A geodesic that follows a number: `fit(t, x)` with t (P,) or (P, 1) and points x (P, D).

    In flat space this is linear regression. Other parameters and attributes are those of `FrechetMean`.

    Parameters
    ----------
    max_iter : int
    tol : float
        Length of a step, over the root mean square distance of the data from their mean, that is not worth another one.
        The curve itself is a thousand times as precise.

    Attributes
    ----------
    intercept_ : Gaussian (D,)
        The point of the curve at `t_mean_`, the mean of t, with its numerical covariance.
    coef_ : Gaussian (D,)
        Its velocity there.
    statistical_cov_ : array (2 D, 2 D)
        Of intercept and velocity over data sets like this one.
    residual_variance_ : ScalarGaussian
        Mean squared distance of the data from the curve.
    r2_ : float
        One minus that over the mean squared distance from the Frechet mean.

    Examples
    --------
    >>> t = np.array([0.0, 1.0, 2.0])
    >>> model = GeodesicRegression().fit(t, np.stack([t, 1.0 - 2.0 * t], axis=1))
    >>> model.coef_.mean.round(6).tolist(), model.predict([3.0]).round(6).tolist()
    ([1.0, -2.0], [[3.0, -5.0]])
    """

    _: KW_ONLY
    max_iter: int = 50
    tol: float = 1e-5

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> "GeodesicRegression":
        """Fit the curve to points y (P, D) at the numbers X (P,) or (P, 1)."""
        t, points = validate_data(self, _column(X), y, multi_output=True, y_numeric=True, dtype=np.float64)
        if t.shape[1] != 1:
            raise ValueError(f"X must be one number for each point, got shape {t.shape}")
        points = _column(points)
        weights = self._weights(sample_weight, t)
        used, shares = weights > 0, weights / weights.sum()
        if np.ptp(t[used]) == 0:
            raise ValueError("X must have at least two different values of positive weight")
        manifold = self._fit_manifold(points)
        self.t_mean_ = float(shares @ t[:, 0])
        times = t[:, 0] - self.t_mean_
        mean = FrechetMean()._find(manifold, points[used], weights[used])
        around = mean.logs.length**2 @ shares[used]
        slope = (shares * times)[used] @ mean.logs.vectors / (shares @ times**2)
        problem = LeastSquares(manifold, self._precise, times, points, shares)
        first = problem.first_of(mean.point, 0.0, 0.0, slope, np.inf)
        if first is None:
            raise ValueError("no geodesic from the mean of y reaches as far as X does")
        found, message, n_iter = self._descend(problem, first, np.sqrt(around))
        lost = int(np.sum(~found.logs.converged))

        total, D, logs = weights.sum(), points.shape[1], found.logs
        inverse, numerical = problem.covariances(found)
        self.intercept_ = Gaussian.unchecked(found.p, numerical[:D, :D])
        self.coef_ = Gaussian.unchecked(found.v, numerical[D:, D:])
        self.statistical_cov_ = found.value / D / max(total - 2.0, 1.0) * inverse
        self.residual_variance_ = mean_square(shares, logs.length, logs.length_var)
        self.r2_ = float(1.0 - found.value / around) if around > 0 else 0.0
        self._flat_output = np.ndim(y) == 1
        self._conclude(message or (f"{lost} geodesics did not converge" if lost else ""), n_iter)
        return self

    def _descend(self, problem: LeastSquares, found: Fitted, spread: float) -> tuple[Fitted, str, int]:
        """The best fit, what did not converge, and after how many iterations."""
        most = as_whole_number("max_iter", self.max_iter, 1)
        with iterations("GeodesicRegression", self.verbose) as update:
            for n_iter in range(1, most + 1):
                step, length = problem.gauss_newton(found)
                update(step=f"{length:.1e}")
                if length <= self.tol * spread:
                    return found, "", n_iter
                dp, dv = np.split(step, 2)
                closer = problem.first_of(found.p, found.v, dp, dv, found.value, found.logs)
                if closer is None:
                    return found, f"no step from one of length {length:.2g} on brings the curve closer", n_iter
                found = closer
        return found, f"the last of {most} steps was longer than `tol` allows", most

    def predict(self, X: Any) -> np.ndarray:
        """Points (P, D) of the curve at X (P,) or (P, 1)."""
        check_is_fitted(self)
        t = validate_data(self, _column(X), reset=False, dtype=np.float64)[:, 0]
        points, _ = _along(self._precise, self.intercept_.mean, self.coef_.mean, t - self.t_mean_)
        return points[:, 0] if self._flat_output else points

    def geodesic(self, t: float) -> Curve:
        """The curve from `t_mean_` to t, on [0, 1], with the uncertainty of point and velocity."""
        check_is_fitted(self)
        reach = float(t) - self.t_mean_
        velocity = Gaussian.unchecked(reach * self.coef_.mean, reach**2 * self.coef_.cov)
        return self.manifold_.shoot(self.intercept_, velocity)

    @property
    def _precise(self) -> Manifold:
        """On which the curve is found."""
        tol = float(as_positive("tol", self.tol))
        return Manifold(self.manifold_.metric).with_precision(1e-3 * tol)

    def _summary(self) -> tuple[str, dict[str, Any]]:
        columns, errors = dict[str, Any](), np.split(standard_errors(self.statistical_cov_), 2)
        for name, found, error in zip(("intercept", "coef"), (self.intercept_, self.coef_), errors, strict=True):
            columns |= {name: found.mean, f"{name}_numerical_std": found.std, f"{name}_standard_error": error}
        return "coordinate", columns


def _column(X: Any) -> Any:
    return np.asarray(X)[:, None] if np.ndim(X) == 1 else X


def _along(precise: Manifold, p: np.ndarray, v: np.ndarray, times: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """exp_p(t v) at all times, (P, D), and its derivatives by (p, v), (P, D, 2 D)."""
    D = len(p)
    points = np.tile(p, (len(times), 1))
    turns = np.tile(np.eye(D, 2 * D), (len(times), 1, 1))
    # moving with uncertain p and v is depending on them
    start = Gaussian.unchecked(p, np.eye(D))
    for sign in (1.0, -1.0):
        here = sign * times > 0.0
        if not here.any():
            continue
        reach = sign * np.max(np.abs(times[here]))
        curve = precise.shoot(start, Gaussian.unchecked(reach * v, np.eye(D)), progress=False)
        part = times[here] / reach
        points[here] = curve.mean(part)
        turns[here] = curve.posterior.boundary_columns(part, 0).reshape(-1, D, 2 * D)
        turns[here, :, D:] *= reach
    return points, turns
