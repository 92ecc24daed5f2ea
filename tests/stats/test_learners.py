"""Metrics that estimators learn from the data they see."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from probgeo import metrics
from probgeo.stats import FrechetMean, GeodesicRegression, PrincipalGeodesics, TangentSpace

RNG = np.random.default_rng(0)
X = RNG.normal(size=(40, 2)) * [30.0, 0.1]
X[:, 1] += 1e-4 * X[:, 0] ** 2


def test_a_learner_is_fitted_to_the_data():
    learner = metrics.Mixture(2)
    found = FrechetMean(learner).fit(X)
    other = FrechetMean(metrics.from_mixture(X, 2)).fit(X)
    np.testing.assert_array_equal(found.mean_.mean, other.mean_.mean)
    np.testing.assert_array_equal(found.manifold_.metric.centers, other.manifold_.metric.centers)
    assert not hasattr(learner, "metric_")  # what is given stays as it is


def test_behind_a_scaler_it_lives_in_scaled_coordinates():
    model = make_pipeline(StandardScaler(), PrincipalGeodesics(metrics.Mixture(2), 1)).fit(X)
    centers = model[-1].manifold_.metric.centers
    expected = metrics.from_mixture(StandardScaler().fit_transform(X), 2).centers
    np.testing.assert_allclose(centers, expected)


def test_a_grid_search_tunes_it():
    y = X[:, 1] > X[:, 1].mean()
    model = make_pipeline(TangentSpace(metrics.Mixture()), LogisticRegression())
    grid = {"tangentspace__manifold__n_components": [1, 2], "tangentspace__manifold__rho": [0.1, 1.0]}
    search = GridSearchCV(model, grid, cv=2).fit(X, y)
    assert search.best_params_.keys() == grid.keys()
    best = search.best_estimator_[0]
    assert len(best.manifold_.metric.centers) == best.manifold.n_components


def test_labels_reach_a_learner_that_wants_them():
    y = RNG.normal(size=40) > 0
    space = TangentSpace(metrics.LargeMargin()).fit(X, y)
    np.testing.assert_allclose(space.manifold_.metric.tensors, metrics.from_lmnn(X, y).tensors)
    with pytest.raises(ValueError, match="y must be given"):
        FrechetMean(metrics.LargeMargin()).fit(X)


def test_points_of_a_regression_are_what_is_learned_from():
    model = GeodesicRegression(metrics.Mixture(1)).fit(X[:, 0], X)
    np.testing.assert_allclose(model.manifold_.metric.centers[0], X.mean(axis=0))


@pytest.mark.parametrize("kind", [metrics.Mixture, metrics.LocalPCA, metrics.LargeMargin])
def test_parameters_are_those_of_the_constructor(kind):
    learner = kind(3, 0.5)
    again = clone(learner)
    assert again is not learner
    assert again.get_params() == learner.get_params()
    assert again.set_params(rho=2.0).rho == 2.0
    assert f"{kind.__name__}(" in repr(learner)
    with pytest.raises(ValueError, match=f"{kind.__name__} has no 'width', only "):
        learner.set_params(width=1)


def test_an_invented_learner():
    class Constant(metrics.Learner):
        def __init__(self, scale=1.0):
            self.scale = scale

        def learn(self, X, y=None):
            return metrics.Flat(self.scale * np.eye(X.shape[1]))

    found = FrechetMean(Constant(4.0)).fit(X)
    squares = np.sum((X - X.mean(axis=0)) ** 2, axis=1)
    assert float(found.variance_.mean) == pytest.approx(4.0 * squares.mean())
