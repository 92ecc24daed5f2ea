"""Frechet means with error bars."""

from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar, Literal

import numpy as np

from probgeo._checks import as_float_array, as_positive, as_whole_number, one_of
from probgeo.gaussian import Gaussian
from probgeo.geometry import Manifold
from probgeo.geometry.logarithms import Logs
from probgeo.stats.descent import Centre, Descent, Iterate
from probgeo.stats.estimator import ManifoldEstimator, Sample, as_random_state, iterations, mean_square, standard_errors


@dataclass(eq=False, repr=False)
class CentreEstimator(ManifoldEstimator):
    """The base of `FrechetMean` and `GeometricMedian`."""

    _power: ClassVar[float]

    _: KW_ONLY
    step: Literal["newton", "fixed"] = "newton"
    alpha: float = 1.0
    max_iter: int = 30
    fraction: float = 0.1
    tol: float = 1e-8
    init: Any = None
    n_init: int = 1
    random_state: Any = 0

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Any:
        """Find the centre of X (P, D); weights (P,) count like repetitions of a point."""
        sample = self._fit_sample(X, y, sample_weight)
        found = self._find(self.manifold_, sample.points, sample.weights)
        logs = found.logs
        self._centre = Gaussian.unchecked(found.point, found.cov)
        self.statistical_cov_ = found.statistical
        self.standard_error_ = standard_errors(found.statistical)
        self.variance_ = mean_square(sample.weights / sample.weights.sum(), logs.length, logs.length_var)
        self.history_ = found.history
        self.n_lost_ = int(np.sum(~logs.converged))
        of_members = self._fit_members(found, sample)
        self._conclude(found.problem or of_members, len(found.history))
        return self

    def _fit_members(self, centre: Centre, sample: Sample) -> str:
        """The centre by each member of an ensemble of metrics, from that of all of them; what did not converge."""
        members = self.manifold_.members
        if not members:
            return ""
        settings = self._settings()
        found = [Descent(m, sample.points, sample.weights, **settings).run(centre.point, centre.logs) for m in members]
        self.members_ = np.stack([one.point for one in found])
        off = self.members_ - self.members_.mean(axis=0)
        self.model_cov_ = off.T @ off / max(len(off) - 1, 1)
        lost = (f"member {k} of the ensemble: {one.problem}" for k, one in enumerate(found) if one.problem)
        return next(lost, "")

    def _find(self, manifold: Manifold, X: np.ndarray, weights: np.ndarray, guess: Logs | None = None) -> Centre:
        """The centre of points (P, D) of positive weight, all different, and its logarithms.

        `guess` are logarithms of these points at `init`, or nearby.
        """
        settings, found = self._settings(), list[Centre]()
        starts = _first_points(X, weights, self.init, self.n_init, self.random_state)
        with iterations(type(self).__name__, self.verbose) as update:

            def report(line: Iterate, expected: int) -> None:
                earlier = sum([len(one.history) for one in found])
                update(earlier + expected, step=f"{line.step:.1e}", numerical=f"{line.numerical:.1e}")

            for start in starts:
                if len(X) > 128 and self.init is None and self.step == "newton":
                    # the centre of 64 points is off by an eighth of the spread
                    some = _sample(X, weights, 64, self.random_state)
                    first = Descent(manifold, some, np.ones(len(some)), **settings, last_look=False)
                    start = first.run(start).point
                found.append(Descent(manifold, X, weights, **settings, report=report).run(start, guess))
        return min(found, key=lambda one: (bool(one.problem), one.history[-1].value))

    def _settings(self) -> dict[str, Any]:
        one_of("step", self.step, ("newton", "fixed"))
        as_whole_number("n_init", self.n_init, 1)
        return {
            "power": self._power,
            "max_iter": as_whole_number("max_iter", self.max_iter, 1),
            "fraction": as_positive("fraction", self.fraction, or_zero=True),
            "tol": as_positive("tol", self.tol),
            "alpha": as_positive("alpha", self.alpha) if self.step == "fixed" else None,
        }

    def _summary(self) -> tuple[str, dict[str, Any]]:
        columns = {"mean": self._centre.mean, "numerical_std": self._centre.std, "standard_error": self.standard_error_}
        if hasattr(self, "model_cov_"):
            columns["model_std"] = np.sqrt(np.diagonal(self.model_cov_))
        return "coordinate", columns


def _sample(X: np.ndarray, weights: np.ndarray, count: int, seed: Any) -> np.ndarray:
    """Some of the data, those of much weight more often, perhaps repeatedly."""
    chosen = as_random_state(seed).choice(len(X), count, p=weights / weights.sum())
    return np.ascontiguousarray(X[np.sort(chosen)])


def _first_points(X: np.ndarray, weights: np.ndarray, init: Any, count: int, seed: Any) -> np.ndarray:
    """Where to start: a given point, or the data nearest to their average, then random ones."""
    if init is not None:
        point = as_float_array("init", init.mean if isinstance(init, Gaussian) else init)
        if point.shape != X.shape[1:]:
            raise ValueError(f"init must be a finite point of shape {X.shape[1:]}, got {init!r}")
        return point[None]
    average = np.average(X, axis=0, weights=weights)
    nearest = X[np.argmin(np.sum((X - average) ** 2, axis=1))]
    others = as_random_state(seed).permutation(len(X))[: count - 1]
    return np.concatenate([nearest[None], X[others]])


class FrechetMean(CentreEstimator):
    """The point with the least sum of squared geodesic distances to the data.

    Its numerical uncertainty, that of all the geodesics, is in `mean_`; how much it would change with other data of the
    same kind is in `standard_error_`. Geodesics are solved roughly at first, and more precisely only until the first is
    a small fraction of the second.

    Parameters
    ----------
    manifold : Manifold, metric or learner of metrics, optional
        Flat space by default. A learner (`metrics.Mixture()`) is fitted to the data. If the manifold has a solver, that
        one is used throughout.
    step : "newton" | "fixed"
        Newton's method with a line search, or `max_iter` steps exp_mu(alpha v), v the mean of the logarithms, as in the
        paper (Eq. 5).
    alpha : float
        The fixed rate.
    max_iter : int
    fraction : float
        Of the statistical standard error: the largest numerical standard deviation that is good enough.
    tol : float
        Where the standard error is zero, as for equal points: the same, relative to the root mean square distance.
    init : array (D,), optional
        Where to start; by default the data point nearest to the average.
    n_init : int
        How many starts, all but the first at random points of the data. The best is kept: on a manifold there may be
        several local (Karcher) means.
    random_state : int
    verbose : int or function
        A progress bar, if not zero. A function is called after every iteration with the numbers of those done and
        expected; an exception in it ends the fit.
    n_jobs : int, optional
        See `Manifold.geodesic`.

    Attributes
    ----------
    mean_ : Gaussian (D,)
        With the numerical covariance.
    standard_error_ : array (D,)
        Statistical; the whole covariance is `statistical_cov_` (D, D). NaN for one point.
    variance_ : ScalarGaussian
        Mean squared distance to the data.
    members_, model_cov_ : array (K, D), array (D, D)
        With a `metrics.Ensemble`: the mean by each member's own metric, and the covariance of these.
    n_iter_ : int
    converged_, message_
        Whether the iteration has settled and the numerical standard deviation is as small as `fraction` asks for, or
        why not.
    manifold_ : Manifold
    n_lost_ : int
        Geodesics to different points that did not converge; they count as far as they got.
    history_ : list
        Value, length of step, numerical and statistical standard deviations and precision of the geodesics, iteration
        by iteration.

    Examples
    --------
    >>> from probgeo import metrics
    >>> X = [[-1.0, 1.0], [1.0, 1.0]]
    >>> mean = FrechetMean(metrics.HalfPlane()).fit(X).mean_.mean
    >>> bool(abs(mean[0]) < 1e-3), round(float(mean[1]), 2)  # on the circle through both
    (True, 1.41)
    """

    _power = 2.0

    @property
    def mean_(self) -> Gaussian:
        return self._centre


class GeometricMedian(CentreEstimator):
    """The point with the least sum of geodesic distances to the data: outliers pull it little.

    Parameters and attributes are those of `FrechetMean`, with `median_` instead of `mean_`. Where the median is one of
    the data the sum has a kink, and error bars mean little.

    Examples
    --------
    >>> GeometricMedian().fit([[0.0], [1.0], [100.0]]).median_.mean.round(6).tolist()
    [1.0]
    """

    _power = 1.0

    @property
    def median_(self) -> Gaussian:
        return self._centre
