"""Whether error bars of means and principal directions are right, from both sides."""

import numpy as np
import pytest

from probgeo import FrechetMean, Manifold, PrincipalGeodesics, metrics, solvers

PROBLEMS = 90
TIGHT = solvers.Markov(rtol=1e-7)


def problem(seed):
    """Points along a bow, four local tensors."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(20, 2)) * [2.0, 1.0]
    X[:, 1] += 0.5 * X[:, 0] ** 2
    centers, roots = rng.normal(size=(4, 2)) * [2.0, 1.0], rng.normal(size=(4, 2, 2))
    tensors = roots @ roots.transpose(0, 2, 1) + 0.3 * np.eye(2)
    return X, metrics.LocalMetrics(centers, tensors, rho=0.5)


@pytest.mark.filterwarnings("ignore::probgeo.ConvergenceWarning")
def test_deviations_from_a_tight_result_are_covered():
    """Dominated by what the iteration leaves over, or by the geodesics, as the fraction is."""
    means, squares, directions = [], [], []
    for seed in range(PROBLEMS):
        X, metric = problem(seed)
        mean = FrechetMean(fraction=(0.1, 0.01, 1e-4)[seed % 3])
        rough = PrincipalGeodesics(metric, 1, mean=mean).fit(X)
        mean = FrechetMean(fraction=1e-7, init=rough.mean_.mean)
        tight = PrincipalGeodesics(Manifold(metric, TIGHT), 1, mean=mean).fit(X)
        error = rough.mean_.mean - tight.mean_.mean
        means.append(error / rough.mean_.std)
        squares.append(error @ np.linalg.solve(rough.mean_.cov, error) / 2)
        turned = rough.components_.mean - tight.components_.mean
        directions.append(turned[0] / rough.components_.std[0])
    # not too narrow, and not too wide
    for deviations in (means, directions):
        assert np.mean(np.abs(deviations) <= 2.0) >= 0.9
    assert 0.2 <= np.mean(squares) <= 4.0
    assert 0.1 <= np.median(np.square(directions)) <= 4.0
