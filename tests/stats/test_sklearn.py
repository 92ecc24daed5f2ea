"""Estimators are citizens of scikit-learn."""

import pickle

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import parametrize_with_checks

from probgeo import metrics
from probgeo.stats import (
    FrechetMean,
    GeodesicKMeans,
    GeodesicRegression,
    GeometricMedian,
    PrincipalGeodesics,
    TangentSpace,
)

ALL = [FrechetMean, GeometricMedian, PrincipalGeodesics, TangentSpace, GeodesicKMeans]
X = np.random.default_rng(0).normal(size=(20, 2))


@parametrize_with_checks(
    [FrechetMean(), TangentSpace(), PrincipalGeodesics(n_components=1), GeodesicKMeans(n_clusters=2)]
)
def test_checks_of_scikit_learn(estimator, check):
    check(estimator)


@pytest.mark.parametrize("kind", ALL)
def test_copies(kind):
    metric = metrics.Flat([[2.0, 0.0], [0.0, 1.0]])
    estimator = kind(metric)
    if "n_clusters" in estimator.get_params():
        estimator.set_params(n_clusters=2)
    estimator.fit(X)
    again = clone(estimator)
    assert again.get_params().keys() == estimator.get_params().keys()
    assert not hasattr(again, "n_features_in_")
    loaded = pickle.loads(pickle.dumps(estimator))
    if hasattr(estimator, "transform"):
        np.testing.assert_allclose(loaded.transform(X), estimator.transform(X))


def test_regression_is_copied():
    estimator = GeodesicRegression().fit(X[:, 0], X)
    loaded = pickle.loads(pickle.dumps(estimator))
    np.testing.assert_allclose(loaded.predict([0.5]), estimator.predict([0.5]))
    assert clone(estimator).get_params().keys() == estimator.get_params().keys()


def test_pipelines():
    y = X[:, 0] > 0
    model = make_pipeline(TangentSpace(), PrincipalGeodesics(), LogisticRegression()).fit(X, y)
    assert model.score(X, y) > 0.9
    assert TangentSpace().fit(X).get_feature_names_out().tolist() == ["tangentspace0", "tangentspace1"]
