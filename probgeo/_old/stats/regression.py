"""Geodesic regression: points on a manifold that follow a number.

c(t) = exp_p((t - t0) v) is fitted to points x_i at t_i, so that sum_i w_i d(c(t_i), x_i)^2 is
least. Gauss-Newton: the curve moves by X_i (dp, dv) at t_i, with X the solution of the geodesic
equation linearised along the curve, and what is wanted there are the logarithms r_i of x_i.
"""

from typing import Any, NamedTuple

import diffrax
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from sklearn.base import RegressorMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from probgeo._old._checks import as_positive, as_whole_number
from probgeo._old._compile import compiled_quickly
from probgeo._old.gaussian import Gaussian
from probgeo._old.geometry import Manifold, Metric, ScalarGaussian
from probgeo._old.geometry.rows import filled
from probgeo._old.ode.curve import Curve
from probgeo._old.stats.estimator import ManifoldEstimator, progress_of
from probgeo._old.stats.logs import Logs, logs_at
from probgeo._old.stats.mean import FrechetMean

HALVINGS = 8
PRECISION = 1e-8  # of the classical solver for the curve that is fitted
MOST_STEPS = 4096


class Fitted(NamedTuple):
    """A curve and how well it fits."""

    p: np.ndarray
    v: np.ndarray
    logs: Logs  # from the curve to the points
    turns: np.ndarray  # (P, D, 2 D): how the curve moves with (p, v)
    roots: np.ndarray  # (P, D, D): R with M = R R' on the curve
    value: float  # mean squared distance


class GeodesicRegression(RegressorMixin, ManifoldEstimator):
    """A geodesic that follows a number: `fit(t, x)` with t (P,) or (P, 1) and points x (P, D).

    Parameters
    ----------
    manifold : Manifold or metric, optional
        Flat space by default, where this is linear regression.
    max_iter : int
    tol : float
        Length of a step, over the root mean square distance of the data from their mean, that is
        not worth another one.
    verbose : int

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
    n_iter_, converged_, message_

    Examples
    --------
    >>> t = np.array([0.0, 1.0, 2.0])
    >>> model = GeodesicRegression().fit(t, np.stack([t, 1.0 - 2.0 * t], axis=1))
    >>> model.coef_.mean.round(6).tolist(), model.predict([3.0]).round(6).tolist()
    ([1.0, -2.0], [[3.0, -5.0]])
    """

    def __init__(
        self, manifold: Any = None, *, max_iter: int = 50, tol: float = 1e-5, verbose: int = 0
    ) -> None:
        self.manifold = manifold
        self.max_iter = max_iter
        self.tol = tol
        self.verbose = verbose

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> "GeodesicRegression":
        """Fit the curve to points y (P, D) at the numbers X (P,) or (P, 1)."""
        t, points = validate_data(
            self, _column(X), y, multi_output=True, y_numeric=True, dtype=np.float64
        )
        if t.shape[1] != 1:
            raise ValueError(f"X must be one number for each point, got shape {t.shape}")
        points = points[:, None] if points.ndim == 1 else points
        weights = self._weights(sample_weight, t)
        if np.ptp(t[weights > 0]) == 0:
            raise ValueError("X must have at least two different values of positive weight")
        manifold = self._manifold(points.shape[1])
        shares = weights / weights.sum()
        self.t_mean_ = float(shares @ t[:, 0])
        times = t[:, 0] - self.t_mean_
        mean = FrechetMean(manifold).found(manifold, points[shares > 0], weights[shares > 0])
        around = mean.logs.length**2 @ shares[shares > 0]
        slopes = shares[shares > 0] * times[shares > 0] / (shares @ times**2)
        current = _fitted(manifold, mean.point, slopes @ mean.logs.vectors, times, points, shares)
        tolerance = float(as_positive("tol", self.tol)) * np.sqrt(around)
        message = f"the last of {self.max_iter} steps was longer than `tol` allows"
        n_iter = 0
        with progress_of("GeodesicRegression", self.verbose) as bar:
            while n_iter < as_whole_number("max_iter", self.max_iter, 1):
                n_iter += 1
                bar.update()
                step = _gauss_newton(current, shares)
                length = np.sqrt(np.sum(shares * np.sum(_moved(current, step) ** 2, axis=1)))
                if length <= tolerance:
                    message = ""
                    break
                following = _line_search(manifold, current, step, times, points, shares)
                if following is None:
                    message = f"no step from one of length {length:.2g} on brings the curve closer"
                    break
                current = following
        self._keep(current, shares, weights, around)
        lost = int(np.sum(~current.logs.converged))
        message = message or (f"{lost} geodesics did not converge" if lost else "")
        self.n_iter_, self.converged_, self.message_ = n_iter, not message, message or "converged"
        self._flat_output = y is not None and np.ndim(y) == 1
        if message:
            self._warn(message)
        return self

    def predict(self, X: Any) -> np.ndarray:
        """Points (P, D) of the curve at X (P,) or (P, 1)."""
        check_is_fitted(self)
        t = validate_data(self, _column(X), reset=False, dtype=np.float64)[:, 0]
        p, v = np.asarray(self.intercept_.mean), np.asarray(self.coef_.mean)
        points, _ = _along(self._manifold(len(p)).metric, p, v, t - self.t_mean_)
        return points[:, 0] if self._flat_output else points

    def geodesic(self, t: float) -> Curve:
        """The curve from `t_mean_` to t, on [0, 1], with the uncertainty of point and velocity."""
        check_is_fitted(self)
        reach = float(t) - self.t_mean_
        velocity = Gaussian.unchecked(reach * self.coef_.mean, reach**2 * self.coef_.cov)
        return self._manifold(len(self.coef_.mean)).shoot(self.intercept_, velocity)

    def _keep(self, found: Fitted, shares: np.ndarray, weights: np.ndarray, around: float) -> None:
        design = _design(found)
        D, total = len(found.p), weights.sum()
        inverse = np.linalg.pinv(np.einsum("p,pai,paj->ij", shares, design, design))
        noise = found.roots.transpose(0, 2, 1) @ found.logs.cov @ found.roots
        spread = np.einsum("p,pai,pab,pbj->ij", shares**2, design, noise, design)
        numerical = inverse @ spread @ inverse
        self.intercept_ = Gaussian.unchecked(jnp.asarray(found.p), jnp.asarray(numerical[:D, :D]))
        self.coef_ = Gaussian.unchecked(jnp.asarray(found.v), jnp.asarray(numerical[D:, D:]))
        each = found.value / D * total / max(total - 2.0, 1.0)
        self.statistical_cov_ = each * inverse / total
        logs = found.logs
        self.residual_variance_ = ScalarGaussian.unchecked(
            jnp.asarray(found.value),
            jnp.asarray(np.sum((2.0 * shares * logs.length) ** 2 * logs.length_var)),
        )
        self.r2_ = float(1.0 - found.value / around) if around > 0 else 0.0


def _column(X: Any) -> Any:
    return np.asarray(X)[:, None] if np.ndim(X) == 1 else X


def _fitted(
    manifold: Manifold,
    p: np.ndarray,
    v: np.ndarray,
    times: np.ndarray,
    points: np.ndarray,
    shares: np.ndarray,
    paths: np.ndarray | None = None,
) -> Fitted:
    curve, turns = _along(manifold.metric, p, v, times)
    if not np.isfinite(curve).all():
        curve = np.where(np.isfinite(curve), curve, p)
        return Fitted(p, v, logs_at(manifold, curve, points), turns, turns, np.inf)
    logs = logs_at(manifold, curve, points, paths)
    roots = np.linalg.cholesky(np.asarray(_tensors(manifold.metric, jnp.asarray(curve))))
    return Fitted(p, v, logs, turns, roots, float(shares @ logs.length**2))


def _design(found: Fitted) -> np.ndarray:
    return found.roots.transpose(0, 2, 1) @ found.turns


def _gauss_newton(found: Fitted, shares: np.ndarray) -> np.ndarray:
    """(dp, dv) of the linear least squares problem."""
    wanted = np.einsum("pij,pi->pj", found.roots, found.logs.vectors)
    scale = np.sqrt(shares)
    rows = (scale[:, None, None] * _design(found)).reshape(-1, 2 * len(found.p))
    return np.linalg.lstsq(rows, (scale[:, None] * wanted).ravel(), rcond=None)[0]


def _moved(found: Fitted, step: np.ndarray) -> np.ndarray:
    """How far the curve moves at all t_i, in orthonormal coordinates."""
    return _design(found) @ step


def _line_search(
    manifold: Manifold,
    found: Fitted,
    step: np.ndarray,
    times: np.ndarray,
    points: np.ndarray,
    shares: np.ndarray,
) -> Fitted | None:
    D, size = len(found.p), 1.0
    for _ in range(HALVINGS):
        p, v = found.p + size * step[:D], found.v + size * step[D:]
        new = _fitted(manifold, p, v, times, points, shares, found.logs.paths)
        if new.value < found.value:
            return new
        size *= 0.5
    return None


def _along(
    metric: Metric, p: np.ndarray, v: np.ndarray, times: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """exp_p(t v) at all times, (P, D), and its derivatives by (p, v), (P, D, 2 D)."""
    points = np.empty((len(times), len(p)))
    turns = np.empty((len(times), len(p), 2 * len(p)))
    for sign in (1.0, -1.0):
        here = np.flatnonzero(sign * times >= 0.0)
        if not here.size:
            continue
        order = here[np.argsort(sign * times[here])]
        # a few numbers of times, or every prediction would be compiled anew
        fill = np.pad(order, (0, len(filled(order)) - len(order)), mode="edge")
        found = _shoot(
            metric, jnp.asarray(p), jnp.asarray(sign * v), jnp.asarray(sign * times[fill])
        )
        x, X = (np.asarray(y)[: len(order)] for y in found)
        points[order] = x
        turns[order] = np.concatenate([X[:, :, : len(p)], sign * X[:, :, len(p) :]], axis=2)
    return points, turns


@compiled_quickly
def _shoot(metric: Metric, p: Array, v: Array, times: Float[Array, " t"]) -> tuple[Array, Array]:
    """By a classical solver, with the equation linearised along the curve; times from 0 on."""
    D = p.size

    def field(t: Any, state: Any, _: Any) -> tuple:
        x, dx, X, dX = state
        J = metric.acceleration_jacobian(x, dx)
        return dx, metric.acceleration(x, dx), dX, J[:, 0] @ X + J[:, 1] @ dX

    one, zero = jnp.eye(D), jnp.zeros((D, D))
    start = (p, v, jnp.concatenate([one, zero], 1), jnp.concatenate([zero, one], 1))
    found = diffrax.diffeqsolve(
        diffrax.ODETerm(field),
        diffrax.Tsit5(),
        t0=0.0,
        t1=jnp.maximum(times[-1], 1e-12),
        dt0=None,
        y0=start,
        saveat=diffrax.SaveAt(ts=times),
        stepsize_controller=diffrax.PIDController(rtol=PRECISION, atol=PRECISION),
        max_steps=MOST_STEPS,
        throw=False,
    )
    return found.ys[0], found.ys[2]


@compiled_quickly
def _tensors(metric: Metric, x: Float[Array, "p d"]) -> Float[Array, "p d d"]:
    return jax.vmap(metric)(x)
