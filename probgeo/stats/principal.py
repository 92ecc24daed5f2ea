"""Principal geodesics: the directions in which data on a manifold vary most, with error bars."""

from dataclasses import KW_ONLY, dataclass
from typing import Any, Literal

import numpy as np
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from probgeo._checks import as_whole_number, one_of
from probgeo.gaussian import Gaussian
from probgeo.ode.curve import Curve
from probgeo.stats.eigen import Moments, eigenvectors, sampled_eigenvectors
from probgeo.stats.estimator import DEVIATIONS
from probgeo.stats.tangent import AtTheMean


@dataclass(eq=False, repr=False)
class PrincipalGeodesics(ClassNamePrefixFeaturesOutMixin, TransformerMixin, AtTheMean):
    """Principal component analysis of the logarithms at the mean, in the inner product M(mean).

    In flat space this is ordinary PCA. Other parameters and attributes are those of `FrechetMean`.

    Parameters
    ----------
    n_components : int, optional
        All, if None.
    mean : FrechetMean, optional
        How the mean is found; its manifold is not used.
    method : "linearised" | "sampled"
        How the uncertainty of directions is found: by first-order perturbation of eigenvectors, or from the
        eigenvectors of `n_draws` draws of all logarithms.
    n_draws, random_state : int

    Attributes
    ----------
    mean_ : Gaussian (D,)
    components_ : Gaussian (K, D)
        Tangent vectors at the mean, orthonormal in M(mean), with their numerical covariances. The sign is such that the
        coordinate largest in size is positive.
    explained_variance_, explained_variance_std_ : array (K,)
        Along each, and its numerical standard deviation.
    explained_variance_ratio_ : array (K,)
    tied_ : bool array (K,)
        Whether a direction cannot be told from the next one: any other in their plane would do.

    Examples
    --------
    >>> X = np.array([[0.0, 0.0], [2.0, 0.1], [4.0, -0.1], [6.0, 0.0]])
    >>> pga = PrincipalGeodesics(n_components=1).fit(X)
    >>> round(float(pga.components_.mean[0, 0]), 2), pga.transform(X).shape
    (1.0, (4, 1))
    """

    n_components: int | None = 2
    _: KW_ONLY
    method: Literal["linearised", "sampled"] = "linearised"
    n_draws: int = 100
    random_state: int = 0

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> "PrincipalGeodesics":
        """Mean and principal directions of X (P, D); weights count like repetitions."""
        one_of("method", self.method, ("linearised", "sampled"))
        mean, sample = self._fit_mean(X, y, sample_weight, least=2)
        logs, R, D = mean.logs, self.root_, len(self.root_)
        count = D if self.n_components is None else as_whole_number("n_components", self.n_components, 1)
        if count > D:
            raise ValueError(f"n_components must be at most {D}, the dimension, got {count}")
        u, lowered = logs.vectors @ R, np.linalg.inv(R)
        # the change of M v with x, for all unit vectors v, is dM; N is R^-1 dM R'^-1
        dM = self.manifold_.metric.energy_terms(np.tile(self.mean_.mean, (D, 1)), np.eye(D)).xv.transpose(0, 2, 1)
        N = np.tensordot(lowered, lowered @ dM, (1, 0))
        moments = Moments(
            u=u,
            f=sample.weights / max(sample.weights.sum() - 1.0, 1.0),
            T=R.T @ logs.cov @ R,
            K=R.T @ logs.slopes + 0.5 * np.tensordot(u, N, (1, 1)),
            S=self.mean_.cov,
            N=N,
        )
        if self.method == "sampled":
            n = as_whole_number("n_draws", self.n_draws, 2)
            found = sampled_eigenvectors(moments, count, int(self.random_state), n)
        else:
            found = eigenvectors(moments, count)
        vectors = found.vectors @ lowered
        largest = np.argmax(np.abs(vectors), axis=1)
        signs = np.sign(vectors[np.arange(count), largest])
        self.components_ = Gaussian.unchecked(signs[:, None] * vectors, lowered.T @ found.cov @ lowered)
        self.n_components_ = count
        self.explained_variance_ = np.maximum(found.values, 0.0)
        self.explained_variance_std_ = found.values_std
        total = max(float(np.sum(np.maximum(found.all_values, 0.0))), np.finfo(float).tiny)
        self.explained_variance_ratio_ = self.explained_variance_ / total
        self.tied_ = _tied(found.all_values, found.gap_std, count)
        self._conclude(mean.problem, len(mean.history))
        return self

    def transform(self, X: Any) -> np.ndarray:
        """Scores (P, K) of X (P, D): inner products of logarithms and components."""
        return self._logs(X).vectors @ self._duals

    def scores(self, X: Any) -> Gaussian:
        """The same with their numerical covariances (P, K, K), of mean and components too."""
        logs, duals = self._logs(X), self._duals
        cov = logs.cov_with_base(self.mean_.cov)
        lowered = logs.vectors @ self._metric_at_mean
        turned = np.einsum("kpj,pj->pk", lowered @ self.components_.cov, lowered)
        total = duals.T @ cov @ duals + turned[:, :, None] * np.eye(self.n_components_)
        return Gaussian.unchecked(logs.vectors @ duals, total)

    def inverse_transform(self, Z: Any) -> np.ndarray:
        """Points (P, D) with given scores (P, K)."""
        check_is_fitted(self)
        return self._exponential(Z, self.components_.mean)

    def geodesic(self, k: int, reach: float = 1.0) -> Curve:
        """exp_mean(t reach v_k) for t in [0, 1], with the uncertainty of mean and direction.

        v_k has unit length; a negative `reach` goes the other way. Three standard deviations of the data are
        `3 * explained_variance_[k] ** 0.5`.
        """
        check_is_fitted(self)
        k = as_whole_number("k", k, 0)
        if k >= self.n_components_:
            raise ValueError(f"k must be from 0 to {self.n_components_ - 1}, got {k!r}")
        v = self.components_
        velocity = Gaussian.unchecked(reach * v.mean[k], reach**2 * v.cov[k])
        return self.manifold_.shoot(self.mean_, velocity)

    def _summary(self) -> tuple[str, dict[str, Any]]:
        return "component", {
            "explained_variance": self.explained_variance_,
            "explained_variance_std": self.explained_variance_std_,
            "explained_variance_ratio": self.explained_variance_ratio_,
            "direction_std": np.sqrt(np.trace(self._metric_at_mean @ self.components_.cov, 0, 1, 2)),
            "tied": self.tied_,
        }

    @property
    def _metric_at_mean(self) -> np.ndarray:
        return self.root_ @ self.root_.T

    @property
    def _duals(self) -> np.ndarray:
        """M v_k as columns (D, K)."""
        check_is_fitted(self)
        return self._metric_at_mean @ self.components_.mean.T

    @property
    def _n_features_out(self) -> int:
        return self.n_components_


def _tied(values: np.ndarray, gap_std: np.ndarray, count: int) -> np.ndarray:
    """Whether the gap to the next eigenvalue is no larger than what the numerics may do to it."""
    following = np.append(values[1:], -np.inf)[:count]
    round_off = 1e-10 * max(values[0], 0.0)
    tied = values[:count] - following <= DEVIATIONS * gap_std + round_off
    # the last of a pair is as undetermined as the first
    return tied | np.concatenate([[False], tied[:-1]])
