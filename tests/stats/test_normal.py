"""The normal distribution on a manifold against closed forms and quadrature."""

import numpy as np
import pytest
from scipy.stats import multivariate_normal
from sklearn.utils.estimator_checks import parametrize_with_checks

from probgeo import metrics
from probgeo.stats import NormalOnManifold

RNG = np.random.default_rng(0)
CHARTS = {  # volume of the manifold over that of its tangent space, at a distance r
    "half plane": (metrics.HalfPlane(), lambda r: np.sinh(r) / r),
    "sphere": (metrics.Sphere(), lambda r: np.sin(r) / r),
}


def points(metric, n=60):
    """Normal in the tangent space of one point."""
    v = RNG.normal(size=(n, 2)) @ np.array([[0.5, 0.2], [0.0, 0.3]])
    base = np.array([0.2, 1.0])
    scale = np.sqrt(metric(base)[0, 0])
    return np.asarray(metric.exp(base, v / scale))


def grid(reach=3.0, steps=400):
    """Points (n, 2) of the tangent space, and the area of each."""
    x = (np.arange(steps) + 0.5) * 2 * reach / steps - reach
    return np.stack(np.meshgrid(x, x), axis=-1).reshape(-1, 2), (2 * reach / steps) ** 2


@parametrize_with_checks([NormalOnManifold(n_draws=100)])
def test_checks_of_scikit_learn(estimator, check):
    check(estimator)


def test_in_flat_space_it_is_the_normal_distribution():
    X = RNG.normal(size=(50, 2)) @ [[2.0, 0.3], [0.0, 0.5]]
    A = np.array([[2.0, 0.5], [0.5, 1.0]])
    normal = NormalOnManifold(metrics.Flat(A), n_draws=20, regularisation=0).fit(X)
    exact = multivariate_normal(X.mean(axis=0), np.cov(X.T, bias=True)).logpdf(X)
    found = normal.logpdf(X)
    by_volume = exact - 0.5 * np.linalg.slogdet(A)[1]
    np.testing.assert_allclose(found.mean, by_volume, atol=1e-10)
    assert float(normal.log_constant_.std) < 1e-10


@pytest.mark.parametrize("name", CHARTS)
def test_constant_and_moments_by_quadrature(name):
    """p integrates to one, and has the second moments of the data."""
    metric, volume = CHARTS[name]
    X = points(metric)
    normal = NormalOnManifold(metric, n_draws=4000).fit(X)
    assert normal.converged_
    u, area = grid()
    mass = np.exp(-0.5 * np.einsum("ni,ij,nj->n", u, normal.precision_, u))
    mass = mass * volume(np.linalg.norm(u, axis=1)) * area
    off = np.log(mass.sum()) - normal.log_constant_.mean
    assert abs(off) < 4 * normal.log_constant_.std
    logs = np.asarray(metric.log(normal.mean_.mean, X)) @ normal.root_
    expected = logs.T @ logs / len(logs)
    moments = (mass * u.T) @ u / mass.sum()
    # the covariance of second moments of 4000 normal numbers is 2 / 4000, and the volume adds to it
    np.testing.assert_allclose(moments, expected, atol=5 * np.sqrt(2 / 4000) * expected.max())


@pytest.mark.parametrize("name", CHARTS)
def test_samples_have_the_moments_of_the_data(name):
    metric, _ = CHARTS[name]
    X = points(metric)
    normal = NormalOnManifold(metric).fit(X)
    drawn = normal.sample(1000, seed=1)
    np.testing.assert_array_equal(drawn, normal.sample(1000, seed=1))
    moments = []
    for some in (X, drawn):
        u = np.asarray(metric.log(normal.mean_.mean, some)) @ normal.root_
        moments.append(u.T @ u / len(u))
    np.testing.assert_allclose(moments[1], moments[0], atol=0.2 * moments[0].max())


def test_the_density_on_a_learned_metric():
    """Error bars, and a better fit to data like these than to others."""
    X = np.random.default_rng(1).normal(size=(60, 2)) * [1.0, 0.3]
    X[:, 1] += X[:, 0] ** 2
    normal = NormalOnManifold(metrics.Mixture(3), n_draws=300).fit(X)
    found = normal.logpdf(X)
    assert np.all(np.asarray(found.std) >= normal.log_constant_.std)
    assert normal.score(X) > normal.score(X - np.array([0.0, 1.0]))
    assert normal.score_samples(X).shape == (60,)


def test_data_in_a_plane_have_no_density():
    with pytest.raises(ValueError, match="spread in all 2 directions"):
        NormalOnManifold(regularisation=0.0).fit([[0.0, 0.0], [1.0, 1.0], [2.0, 2.0]])
