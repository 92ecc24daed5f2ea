"""The normal distribution on a manifold, with the error bar of its constant."""

from dataclasses import KW_ONLY, dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy.stats import multivariate_normal
from sklearn.base import DensityMixin
from sklearn.utils.validation import check_is_fitted

from probgeo._checks import as_positive, as_whole_number
from probgeo.gaussian import Gaussian, ScalarGaussian, covariance_factor
from probgeo.stats.tangent import AtTheMean


class Draws(NamedTuple):
    """Points u (n, D) of the tangent space, and how much volume the manifold has there.

    log_density (n,) : of the normal distribution that they are drawn from
    volume (n,) : sqrt(det M) |det d exp| over what it is at the mean, 1 in flat space
    points (n, D) : exp(u)
    """

    u: np.ndarray
    log_density: np.ndarray
    volume: np.ndarray
    points: np.ndarray

    def volume_under(self, C: np.ndarray) -> np.ndarray:
        """Weighted as if they were drawn from N(0, C)."""
        return self.volume * np.exp(multivariate_normal.logpdf(self.u, cov=C) - self.log_density)


@dataclass(eq=False, repr=False)
class NormalOnManifold(DensityMixin, AtTheMean):
    """p(x) = exp(-1/2 u' P u) / C, with u the logarithm of x at the mean, a density by volume.

    u are orthonormal coordinates of the tangent space. The mean is the Frechet mean; the precision P is the most likely
    one for it, so that the second moments of p are those of the data. The volume of the manifold enters by Monte Carlo:
    C is an average over the tangent space. Other parameters and attributes are those of `FrechetMean`.

    Parameters
    ----------
    mean : FrechetMean, optional
        How the mean is found; its manifold is not used.
    n_draws : int
        Exponential maps that the constant is averaged over.
    regularisation : float
        Added to the variances of the data, as a fraction of their mean over all directions: data in fewer directions
        have no density without it.
    random_state : int

    Attributes
    ----------
    mean_ : Gaussian (D,)
    root_ : array (D, D)
        R with M(mean) = R R'; u = R' Log(x).
    covariance_, precision_ : array (D, D)
        P^-1 and P, in the coordinates u.
    log_constant_ : ScalarGaussian
        log C, with the variance of the average.

    References
    ----------
    Arvanitidis, Hansen & Hauberg (2016), A locally adaptive normal distribution.

    Examples
    --------
    >>> X = np.random.default_rng(0).normal(size=(200, 2))
    >>> normal = NormalOnManifold().fit(X)
    >>> normal.logpdf([[0.0, 0.0]]).mean.round(1).tolist()
    [-1.8]
    >>> normal.sample(5).shape
    (5, 2)
    """

    _: KW_ONLY
    n_draws: int = 1000
    regularisation: float = 1e-6
    random_state: int = 0

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> "NormalOnManifold":
        """Mean and precision of X (P, D); weights count like repetitions."""
        mean, sample = self._fit_mean(X, y, sample_weight, least=2)
        u, shares, D = mean.logs.vectors @ self.root_, sample.weights / sample.weights.sum(), len(self.root_)
        moments = (shares * u.T) @ u
        nugget = as_positive("regularisation", self.regularisation, or_zero=True)
        moments += nugget * np.trace(moments) / D * np.eye(D)
        if not np.linalg.eigvalsh(moments)[0] > 1e-12 * np.trace(moments):
            raise ValueError(
                f"X must spread in all {D} directions: its covariance is singular; regularisation would help"
            )
        draws = self._draws(moments, as_whole_number("n_draws", self.n_draws, 2 * D + 2), int(self.random_state))
        self.covariance_, settled = matched(moments, draws)
        self.precision_ = np.linalg.inv(self.covariance_)
        # the mean volume over N(0, covariance), and that normal's constant
        volume, normal = draws.volume_under(self.covariance_), multivariate_normal(cov=self.covariance_)
        self.log_constant_ = ScalarGaussian.unchecked(
            np.log(np.mean(volume)) - normal.logpdf(np.zeros(D)), np.var(volume) / len(volume) / np.mean(volume) ** 2
        )
        problems = [mean.problem, "" if settled else "the precision has not settled: n_draws may be too small"]
        self._conclude("; ".join(filter(None, problems)), len(mean.history))
        return self

    def logpdf(self, X: Any) -> ScalarGaussian:
        """Log densities (n,) of X (n, D) by the volume of the manifold.

        Their variances are those of logarithms, mean and constant, by the numerics.
        """
        check_is_fitted(self)
        logs, R, P = self._logs(X), self.root_, self.precision_
        u = logs.vectors @ R
        slope = u @ P @ R.T
        cov = logs.cov_with_base(self.mean_.cov)
        variance = np.einsum("pi,pij,pj->p", slope, cov, slope) + self.log_constant_.cov
        value = -0.5 * np.einsum("pi,ij,pj->p", u, P, u) - self.log_constant_.mean
        return ScalarGaussian.unchecked(value, variance)

    def score_samples(self, X: Any) -> np.ndarray:
        """Log densities (n,) of X (n, D)."""
        return self.logpdf(X).mean

    def score(self, X: Any, y: Any = None) -> float:
        """Mean log density of X (n, D)."""
        return float(np.mean(self.score_samples(X)))

    def sample(self, n: int = 1, seed: int = 0, *, proposals: int = 4) -> np.ndarray:
        """`n` points (n, D), the same for the same seed.

        Of `proposals` times as many from the tangent space, some are kept, by their volume.
        """
        check_is_fitted(self)
        count = as_whole_number("n", n, 1)
        proposed = count * as_whole_number("proposals", proposals, 1)
        D = len(self.covariance_)
        draws = self._draws(self.covariance_, max(proposed, 2 * D + 2), seed)
        chance = draws.volume / draws.volume.sum()
        rng = np.random.default_rng([seed, 1])
        few = np.count_nonzero(chance) < count
        return draws.points[rng.choice(len(chance), size=count, replace=bool(few), p=chance)]

    def _draws(self, covariance: np.ndarray, count: int, seed: int) -> Draws:
        """From N(0, covariance) in the tangent space."""
        D = len(covariance)
        u = _exact_normal(count, D, seed) @ covariance_factor(covariance).T
        log_density = multivariate_normal.logpdf(u, cov=covariance)
        mean, metric, v = self.mean_.mean, self.manifold_.metric, u @ np.linalg.inv(self.root_)
        if metric.is_flat:
            return Draws(u, log_density, np.ones(count), mean + v)
        # moving with uncertain velocities is depending on them
        velocity = Gaussian.unchecked(v, np.tile(np.eye(D), (count, 1, 1)))
        curves = self.manifold_.shoot(mean, velocity, progress=False)
        points = curves.mean(1.0)
        slopes = curves.posterior.boundary_columns(np.ones(1), 0)[:, 0, :, -D:]
        _, tensors = np.linalg.slogdet(metric.tensors_at(np.ascontiguousarray(points)))
        _, turns = np.linalg.slogdet(slopes)
        volume = np.exp(0.5 * tensors + turns) / np.prod(np.diagonal(self.root_))
        return Draws(u, log_density, np.where(np.isfinite(volume), volume, 0.0), points)

    def _summary(self) -> tuple[str, dict[str, Any]]:
        index, columns = super()._summary()
        return index, {**columns, "std_in_tangent_space": np.sqrt(np.diagonal(self.covariance_))}


def _exact_normal(count: int, D: int, seed: int) -> np.ndarray:
    """Normal numbers (count, D) in opposite pairs, whose second moments are exactly the identity.

    In flat space, averages over them are then exact, and nearly so where it is nearly flat.
    """
    half = np.random.default_rng(seed).standard_normal(((count + 1) // 2, D))
    noise = np.concatenate([half, -half])[:count]
    root = np.linalg.cholesky(noise.T @ noise / count)
    return np.linalg.solve(root, noise.T).T


def matched(moments: np.ndarray, draws: Draws, most: int = 50) -> tuple[np.ndarray, bool]:
    """The covariance for which the second moments of p are those of the data, and whether the iteration has settled.

    Fixed point, usually in a handful of rounds: where p has too large moments E in some directions, C gets smaller
    there. Draws are weighted for every C anew.
    """
    C, change = moments.copy(), np.inf
    enough = 1e-3 / np.sqrt(len(draws.u))  # a thousandth of what averages are wrong by
    for _ in range(most):
        weights = draws.volume_under(C)
        E = (weights * draws.u.T) @ draws.u / weights.sum()
        root = np.linalg.cholesky(C)
        back = np.linalg.inv(root)
        values, vectors = np.linalg.eigh(back @ E @ back.T)
        turned = root @ (vectors / np.sqrt(values)) @ vectors.T @ back
        following = turned @ moments @ turned.T
        change = np.abs(following - C).max() / np.abs(C).max()
        if not np.isfinite(change):
            break
        C = 0.5 * (following + following.T)
        if change <= enough:
            break
    return C, bool(change <= enough)
