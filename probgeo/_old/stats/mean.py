"""Frechet means with error bars."""

from typing import Any, Literal

import jax.numpy as jnp
import numpy as np

from probgeo._old._checks import as_positive, as_whole_number
from probgeo._old.gaussian import Gaussian
from probgeo._old.geometry import Manifold, ScalarGaussian
from probgeo._old.stats.descent import Found, Settings
from probgeo._old.stats.estimator import ManifoldEstimator, find_centre, first_points, merged

POWER = {"mean": 2.0, "median": 1.0}


class Centre(ManifoldEstimator):
    """The base of `FrechetMean` and `GeometricMedian`."""

    _power: float

    def __init__(
        self,
        manifold: Any = None,
        *,
        step: Literal["newton", "fixed"] = "newton",
        alpha: float = 1.0,
        max_iter: int = 30,
        fraction: float = 0.1,
        tol: float = 1e-8,
        init: Any = None,
        n_init: int = 1,
        random_state: Any = 0,
        verbose: int = 0,
    ) -> None:
        self.manifold = manifold
        self.step = step
        self.alpha = alpha
        self.max_iter = max_iter
        self.fraction = fraction
        self.tol = tol
        self.init = init
        self.n_init = n_init
        self.random_state = random_state
        self.verbose = verbose

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Any:
        """Find the centre of X (P, D); weights (P,) count like repetitions of a point."""
        points = self._points(X, reset=True)
        weights = self._weights(sample_weight, points)
        manifold = self._manifold(points.shape[1])
        distinct, totals = merged(points, weights)
        found = self.found(manifold, distinct, totals)
        self._keep(found, totals)
        if not found.converged:
            self._warn(found.message)
        return self

    def found(self, manifold: Manifold, X: np.ndarray, weights: np.ndarray) -> Found:
        """The centre of points (P, D) of positive weight, all different, and its logarithms."""
        settings = self._settings()
        starts = first_points(X, weights, self.init, self.n_init, self.random_state)
        name = type(self).__name__
        return find_centre(manifold, X, weights, settings, starts, self.verbose, name)

    def _settings(self) -> Settings:
        if self.step not in ("newton", "fixed"):
            raise ValueError(f"step must be 'newton' or 'fixed', got {self.step!r}")
        as_whole_number("n_init", self.n_init, 1)
        return Settings(
            power=self._power,
            max_iter=as_whole_number("max_iter", self.max_iter, 1),
            fraction=float(as_positive("fraction", self.fraction, or_zero=True)),
            tol=float(as_positive("tol", self.tol)),
            alpha=float(as_positive("alpha", self.alpha)) if self.step == "fixed" else None,
        )

    def _keep(self, found: Found, weights: np.ndarray) -> None:
        shares, logs = weights / weights.sum(), found.logs
        self._centre = Gaussian.unchecked(jnp.asarray(found.point), jnp.asarray(found.cov))
        self.statistical_cov_ = found.statistical
        self.standard_error_ = np.sqrt(np.maximum(np.diagonal(found.statistical), 0.0))
        self.variance_ = ScalarGaussian.unchecked(
            jnp.asarray(np.sum(shares * logs.length**2)),
            jnp.asarray(np.sum((2.0 * shares * logs.length) ** 2 * logs.length_var)),
        )
        self.history_ = found.history
        self.n_iter_ = len(found.history)
        self.n_lost_ = int(np.sum(~logs.converged))
        self.converged_ = found.converged
        self.message_ = found.message


class FrechetMean(Centre):
    """The point with the least sum of squared geodesic distances to the data.

    Its numerical uncertainty, that of all the geodesics, is in `mean_`; how much it would change
    with other data of the same kind is in `standard_error_`. Geodesics are solved roughly at first,
    and more precisely only until the first is a small fraction of the second.

    Parameters
    ----------
    manifold : Manifold or metric, optional
        Flat space by default. A manifold with a solver of its own is solved with just that.
    step : "newton" | "fixed"
        Newton's method with a line search, or `max_iter` steps exp_mu(alpha v), v the mean of the
        logarithms, as in the paper (Eq. 5).
    alpha : float
        The fixed rate.
    max_iter : int
    fraction : float
        Of the statistical standard error: the largest numerical standard deviation that is good
        enough.
    tol : float
        Where the standard error is zero, as for one point: the same, relative to the root mean
        square distance.
    init : array (D,), optional
        Where to start; by default the data point nearest to the average.
    n_init : int
        How many starts, all but the first at random points of the data. The best is kept: on a
        manifold there may be several local (Karcher) means.
    random_state : int
    verbose : int
        A progress bar, if not zero.

    Attributes
    ----------
    mean_ : Gaussian (D,)
        With the numerical covariance.
    standard_error_ : array (D,)
        Statistical; the whole covariance is `statistical_cov_` (D, D).
    variance_ : ScalarGaussian
        Mean squared distance to the data.
    n_iter_, converged_, message_
    n_lost_ : int
        Geodesics to different points that did not converge; they count with what they have.
    history_ : list
        Value, length of step, numerical and statistical standard deviations and precision of the
        geodesics, iteration by iteration.

    Examples
    --------
    >>> from probgeo import metrics
    >>> X = [[-1.0, 1.0], [1.0, 1.0]]
    >>> mean = FrechetMean(metrics.HalfPlane()).fit(X).mean_.mean
    >>> bool(abs(mean[0]) < 1e-3), round(float(mean[1]), 2)  # on the circle through both
    (True, 1.41)
    """

    _power = POWER["mean"]

    @property
    def mean_(self) -> Gaussian:
        return self._centre


class GeometricMedian(Centre):
    """The point with the least sum of geodesic distances to the data: outliers pull it little.

    Parameters and attributes are those of `FrechetMean`, with `median_` instead of `mean_`. Where
    the median is one of the data the sum has a kink, and error bars mean little.

    Examples
    --------
    >>> GeometricMedian().fit([[0.0], [1.0], [100.0]]).median_.mean.round(6).tolist()
    [1.0]
    """

    _power = POWER["median"]

    @property
    def median_(self) -> Gaussian:
        return self._centre
