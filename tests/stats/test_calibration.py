"""Whether error bars of means, directions and variances along them are right, from both sides."""

import numpy as np
import pytest

from probgeo import FrechetMean, Manifold, PrincipalGeodesics, data, metrics, solvers

PROBLEMS = 180
FRACTIONS = (0.1, 0.01, 1e-4)
TIGHT = solvers.Markov(rtol=1e-7)


def problem(seed):
    """Points along a bow, four local tensors."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(20, 2)) * [2.0, 1.0]
    X[:, 1] += 0.5 * X[:, 0] ** 2
    centers, roots = rng.normal(size=(4, 2)) * [2.0, 1.0], rng.normal(size=(4, 2, 2))
    tensors = roots @ roots.transpose(0, 2, 1) + 0.3 * np.eye(2)
    return X, metrics.LocalMetrics(centers, tensors, rho=0.5)


@pytest.fixture(scope="module")
def deviations():
    """Errors over their error bars, problem by problem.

    What dominates depends on the fraction: what the iteration leaves over, or the geodesics.
    """
    found = {"mean": [], "square": [], "direction": [], "variance": []}
    for seed in range(PROBLEMS):
        X, metric = problem(seed)
        mean = FrechetMean(fraction=FRACTIONS[seed % len(FRACTIONS)])
        rough = PrincipalGeodesics(metric, 2, mean=mean).fit(X)
        mean = FrechetMean(fraction=1e-7, init=rough.mean_.mean)
        tight = PrincipalGeodesics(Manifold(metric, TIGHT), 2, mean=mean).fit(X)
        error = rough.mean_.mean - tight.mean_.mean
        found["mean"].append(error / rough.mean_.std)
        found["square"].append(error @ np.linalg.solve(rough.mean_.cov, error) / 2)
        # a direction and its opposite are the same
        sides = np.sign(np.sum(rough.components_.mean * tight.components_.mean, axis=1))
        turned = rough.components_.mean - sides[:, None] * tight.components_.mean
        found["direction"].append(turned / rough.components_.std)
        more = rough.explained_variance_ - tight.explained_variance_
        found["variance"].append(more / rough.explained_variance_std_)
    return {name: np.array(values) for name, values in found.items()}


@pytest.mark.filterwarnings("ignore::probgeo.ConvergenceWarning")
@pytest.mark.parametrize("name", ["mean", "direction", "variance"])
def test_deviations_from_a_tight_result_are_covered(deviations, name):
    """Not too narrow, and not too wide."""
    assert 0.90 <= np.mean(np.abs(deviations[name]) <= 2.0) <= 0.99
    assert 0.2 <= np.mean(deviations[name] ** 2) <= 4.0


@pytest.mark.filterwarnings("ignore::probgeo.ConvergenceWarning")
def test_coordinates_of_a_mean_are_correlated_as_its_covariance_says(deviations):
    assert 0.2 <= np.mean(deviations["square"]) <= 4.0


def test_means_on_a_sharp_metric_are_covered():
    """Rough geodesics do not know how logarithms change there, so that Newton's step leaves more than its square."""
    moons = data.two_moons(400)
    metric, deviations = metrics.from_mixture(moons, 8), []
    for seed in range(20):
        X = moons[np.random.default_rng(seed).choice(400, 24, replace=False)]
        rough = FrechetMean(metric).fit(X)
        mean = FrechetMean(Manifold(metric, TIGHT), fraction=1e-5, init=rough.mean_)
        deviations.append((rough.mean_.mean - mean.fit(X).mean_.mean) / rough.mean_.std)
    assert np.mean(np.abs(deviations) <= 2.0) >= 0.9
