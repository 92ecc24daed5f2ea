"""Nearest neighbours by geodesic distance."""

import numpy as np
import pytest
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor
from sklearn.utils.estimator_checks import parametrize_with_checks

from probgeo import ConvergenceWarning, data, metrics
from probgeo.stats import GeodesicKNeighborsClassifier, GeodesicKNeighborsRegressor

RNG = np.random.default_rng(0)
X, NEW = RNG.normal(size=(40, 3)), RNG.normal(size=(20, 3))
Y = X[:, 0] + 0.5 * RNG.normal(size=40) > 0


@parametrize_with_checks([GeodesicKNeighborsClassifier(n_neighbors=3), GeodesicKNeighborsRegressor(n_neighbors=3)])
def test_checks_of_scikit_learn(estimator, check):
    check(estimator)


@pytest.mark.parametrize("weights", ["uniform", "distance"])
def test_in_flat_space_it_is_scikit_learns(weights):
    ours = GeodesicKNeighborsClassifier(weights=weights).fit(X, Y)
    other = KNeighborsClassifier(weights=weights).fit(X, Y)
    np.testing.assert_array_equal(ours.predict(NEW), other.predict(NEW))
    np.testing.assert_allclose(ours.predict_proba(NEW), other.predict_proba(NEW))
    ours = GeodesicKNeighborsRegressor(weights=weights).fit(X, X)
    other = KNeighborsRegressor(weights=weights).fit(X, X)
    np.testing.assert_allclose(ours.predict(NEW), other.predict(NEW))
    distances, numbers = ours.kneighbors(NEW)
    expected, same = other.kneighbors(NEW)
    np.testing.assert_allclose(distances.mean, expected)
    np.testing.assert_array_equal(numbers, same)


def test_neighbours_along_a_spiral():
    """The arm that a point lies on, where straight lines lead to the next one."""
    S = data.spiral(200, noise=0.0)
    radius = np.linalg.norm(S, axis=1)  # grows along the arm
    train, test = np.arange(0, 200, 10), np.arange(5, 200, 20)
    metric, known = metrics.from_mixture(S, 10), (S[train], radius[train])
    ours = GeodesicKNeighborsRegressor(metric, 1).fit(*known).score(S[test], radius[test])
    flat = GeodesicKNeighborsRegressor(None, 1).fit(*known).score(S[test], radius[test])
    assert ours > max(flat, 0.8)


def test_points_between_two_neighbours_are_doubtful():
    model = GeodesicKNeighborsClassifier(metrics.HalfPlane(), 1).fit([[-1, 1], [1, 1]], [0, 1])
    assert model.doubtful([[0.0, 1.0], [0.5, 1.0]]).tolist() == [True, False]


def test_where_there_is_no_geodesic_it_is_far():
    disc = metrics.Conformal(lambda x: 1.5 - x @ x)
    model = GeodesicKNeighborsClassifier(disc, 1).fit([[3.0, 0.0], [0.0, 0.0]], [0, 1])
    with pytest.warns(ConvergenceWarning):
        assert model.predict([[0.9, 0.0]]).tolist() == [1]


def test_bad_settings_are_named():
    with pytest.raises(ValueError, match="should be >= n_neighbors=9"):
        GeodesicKNeighborsClassifier(n_neighbors=9).fit(X[:3], Y[:3])
