"""Whether error bars of means and principal directions are right, for a rough solver."""

import numpy as np
import pytest

from probgeo import FrechetMean, Manifold, PrincipalGeodesics, metrics, solvers

PROBLEMS = 30
ROUGH, TIGHT = solvers.Markov(order=3, n_points=12), solvers.Markov(order=7, n_points=80)


def problem(seed):
    """Points along a bow, four local tensors."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(20, 2)) * [2.0, 1.0]
    X[:, 1] += 0.5 * X[:, 0] ** 2
    centers, roots = rng.normal(size=(4, 2)) * [2.0, 1.0], rng.normal(size=(4, 2, 2))
    tensors = roots @ roots.transpose(0, 2, 1) + 0.3 * np.eye(2)
    return X, metrics.LocalMetrics(centers, tensors, rho=0.5)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::probgeo.ConvergenceWarning")
def test_deviations_from_a_tight_result_are_covered():
    means, directions, squares = [], [], []
    for seed in range(PROBLEMS):
        X, metric = problem(seed)
        mean = FrechetMean(fraction=1e-3)
        rough = PrincipalGeodesics(Manifold(metric, ROUGH), 1, mean=mean).fit(X)
        mean = FrechetMean(fraction=1e-3, init=rough.mean_.mean)
        tight = PrincipalGeodesics(Manifold(metric, TIGHT), 1, mean=mean).fit(X)
        error = np.asarray(rough.mean_.mean - tight.mean_.mean)
        means.append(error / rough.mean_.std)
        squares.append(error @ np.linalg.solve(np.asarray(rough.mean_.cov), error) / 2)
        turned = rough.components_.mean - tight.components_.mean
        directions.append(turned[0] / rough.components_.std[0])
    for deviations in (means, directions):
        assert 0.88 <= np.mean(np.abs(deviations) <= 2.0) <= 0.999
    assert 0.2 <= np.mean(squares) <= 5.0
