"""However many workers there are, and whoever they are: the same numbers to the last bit."""

import jax.numpy as jnp
import joblib
import numpy as np
import pytest
from sklearn.base import clone

from probgeo import FrechetMean, Manifold, metrics, ragged
from probgeo.stats import TangentSpace

DATA = np.random.default_rng(0).normal(size=(80, 2))
X = DATA[:16]
DECODING = np.random.default_rng(1).normal(size=(2, 7))
METRICS = {
    "local": metrics.from_mixture(DATA, n_components=3, seed=0),
    # products of matrices may round differently in other company
    "NumPy": metrics.Pullback(lambda x: np.tanh(x @ DECODING)),
    "JAX": metrics.as_metric(lambda x: jnp.eye(2) * (1.0 + x @ x)),
}


@pytest.fixture(params=METRICS)
def manifold(request):
    return Manifold(METRICS[request.param])


def same(found, expected):
    np.testing.assert_array_equal(found.mean, expected.mean)
    np.testing.assert_array_equal(found.std, expected.std)


def test_threads(manifold, monkeypatch):
    monkeypatch.setattr(ragged, "WORTH_DIVIDING", 3.0)  # more chunks than one
    pairs = X[:, None], X[None, ::3]
    with ragged.jobs(1):
        alone = manifold.distance(*pairs), manifold.log(*pairs), manifold.distance_matrix(X)
    for n_jobs in (2, 5):
        same(manifold.distance(*pairs, n_jobs=n_jobs), alone[0])
        same(manifold.log(*pairs, n_jobs=n_jobs), alone[1])
        same(manifold.distance_matrix(X, n_jobs=n_jobs), alone[2])


def test_processes(manifold, monkeypatch):
    monkeypatch.setattr(ragged, "WORTH_DIVIDING", 3.0)
    alone = manifold.distance_matrix(X, n_jobs=1)
    log = manifold.log(X[:, None], X[None, 5:9], n_jobs=1)
    with joblib.parallel_config("loky", n_jobs=2):
        same(manifold.distance_matrix(X), alone)
        same(manifold.log(X[:, None], X[None, 5:9]), log)


def test_estimators_hand_it_on(monkeypatch):
    asked = []
    real = ragged.who_works

    def heard():
        asked.append(real())
        return asked[-1]

    monkeypatch.setattr(ragged, "who_works", heard)
    manifold = Manifold(METRICS["local"])
    for estimator in (FrechetMean(manifold), TangentSpace(manifold)):
        models = [clone(estimator).set_params(n_jobs=n).fit(X) for n in (1, 2)]
        assert {(1, False), (2, False)} == set(asked)
        asked.clear()
        first, second = (model.summary() for model in models)
        assert first.equals(second)
    assert np.array_equal(*(model.transform(X) for model in models))
    assert (2, False) in asked
