"""Diagonal LMNN metrics, and local metrics of the clusters of a target."""

import numpy as np
import pytest
from scipy.optimize import linprog

from probgeo import ConvergenceWarning, metrics
from probgeo.metrics import lmnn


def problem(seed, size=24, dimension=3):
    """Three classes that lie apart along the first coordinate, with some overlap."""
    rng = np.random.default_rng(seed)
    labels = np.arange(size) % 3
    X = rng.normal(size=(size, dimension)) * [1.0, 3.0, 0.2][:dimension]
    X[:, 0] += 2.0 * labels
    return X, labels


def triplets(X, labels, anchors, n_neighbors):
    """Squared differences to neighbours (P, D), and pairs of them with impostors, one by one."""
    Z = X / X.std(axis=0)
    pull, push = [], []
    for i in np.flatnonzero(np.isin(labels, anchors)):
        same = [j for j in np.flatnonzero(labels == labels[i]) if j != i]
        for j in sorted(same, key=lambda j: np.sum((Z[i] - Z[j]) ** 2))[:n_neighbors]:
            pull.append((X[i] - X[j]) ** 2)
            for other in np.flatnonzero(labels != labels[i]):
                push.append(((X[i] - X[j]) ** 2, (X[i] - X[other]) ** 2))
    return np.array(pull), np.array(push)


def objective(w, pull, push, mu):
    hinges = 1.0 + (push[:, 0] - push[:, 1]) @ w
    return (1.0 - mu) * np.sum(pull @ w) + mu * np.sum(np.maximum(hinges, 0.0))


def linear_programme(pull, push, mu, least):
    """The optimum, with a slack variable for every triplet."""
    P = len(push)
    costs = np.concatenate([(1.0 - mu) * pull.sum(axis=0), np.full(P, mu)])
    rows = np.hstack([push[:, 0] - push[:, 1], -np.eye(P)])
    bounds = [(low, None) for low in least] + [(0.0, None)] * P
    answer = linprog(costs, A_ub=rows, b_ub=-np.ones(P), bounds=bounds)
    assert answer.success
    return answer.fun


@pytest.mark.parametrize("anchor", [None, 1])
@pytest.mark.parametrize("seed", range(3))
def test_the_optimum_is_that_of_a_linear_programme(seed, anchor):
    X, labels = problem(seed)
    mu, floor, tolerance = 0.4, 0.05, 1e-5
    fit = metrics.lmnn_diagonal(X, labels, anchor=anchor, n_neighbors=2, mu=mu, floor=floor, tolerance=tolerance)
    pull, push = triplets(X, labels, [0, 1, 2] if anchor is None else [anchor], 2)
    best = linear_programme(pull, push, mu, floor / (3 * X.var(axis=0)))
    assert fit.converged
    np.testing.assert_allclose(fit.objective, objective(fit.weights, pull, push, mu), rtol=1e-10)
    np.testing.assert_allclose(fit.objective, best, rtol=tolerance)
    assert fit.lower_bound <= best * (1 + 1e-9)


@pytest.mark.parametrize("width", [1.0, 0.1])
def test_the_lower_bound_holds_wherever_it_is_computed(width):
    """Also far from the optimum, where the slopes as they are would not be feasible."""
    X, labels = problem(6)
    X, least = X / X.std(axis=0), np.full(3, 0.1)
    best = linear_programme(*triplets(X, labels, [0, 1, 2], 2), 0.5, least)
    search = lmnn._Problem(X, labels, np.arange(len(X)), 2, 0.5)
    rng = np.random.default_rng(0)
    for w in least + rng.exponential(size=(20, 3)):
        search.objective(w, activate=True)
        assert search.lower_bound(w, width, least) <= best * (1 + 1e-9)


def test_the_objective_never_rises():
    fit = metrics.lmnn_diagonal(*problem(0, size=120))
    assert fit.converged
    assert np.all(np.diff(fit.history) <= 0.0)
    assert fit.history[-1] == fit.objective < fit.history[0]


def test_informative_dimensions_get_larger_weights():
    rng = np.random.default_rng(0)
    labels = np.arange(200) % 2
    X = rng.normal(size=(200, 4))
    X[:, 2] = 0.1 * X[:, 2] + labels
    weights = metrics.lmnn_diagonal(X, labels).weights * X.var(axis=0)
    assert np.argmax(weights) == 2
    assert weights[2] > 3.0 * np.delete(weights, 2).max()


def test_the_units_of_a_column_do_not_matter():
    X, labels = problem(3, size=60)
    units = np.array([8.0, 0.25, 1024.0])  # powers of two: no round-off
    fit = metrics.lmnn_diagonal(X, labels, tolerance=1e-6)
    scaled = metrics.lmnn_diagonal(X * units, labels, tolerance=1e-6)
    np.testing.assert_allclose(scaled.objective, fit.objective, rtol=2e-6)
    # the optimum need not be unique, but these are the same steps in other units
    np.testing.assert_allclose(scaled.weights * units**2, fit.weights, rtol=1e-6)


def test_the_floor_keeps_the_metric_positive_definite():
    X, labels = problem(4, size=60)
    fit = metrics.lmnn_diagonal(X, labels, floor=0.3)
    assert np.all(fit.weights >= 0.3 / (3 * X.var(axis=0)) * (1 - 1e-12))


def test_a_constant_column_does_no_harm():
    X, labels = problem(5, size=60)
    X = np.column_stack([X, np.ones(60)])
    fit = metrics.lmnn_diagonal(X, labels)
    assert fit.converged
    assert np.all(np.isfinite(fit.weights))
    assert np.all(fit.weights > 0)


def test_too_few_rounds_are_not_silent(monkeypatch):
    X, labels = problem(0, size=60)
    fit = metrics.lmnn_diagonal(X, labels, max_rounds=1, tolerance=1e-9)
    assert not fit.converged
    assert fit.lower_bound <= fit.objective
    monkeypatch.setattr(lmnn, "lmnn_diagonal", lambda *args, **options: fit)
    with pytest.warns(ConvergenceWarning, match="LMNN did not reach its tolerance"):
        metrics.from_lmnn(X, labels)


def test_clusters_of_a_real_target():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(150, 5))
    metric = metrics.from_lmnn(X, y=X[:, 3] + 0.05 * rng.normal(size=150), n_clusters=4)
    assert metric.tensors.shape == (4, 5)
    assert np.all(np.argmax(metric.tensors, axis=1) == 3)
    # the clusters are intervals of the target: their means lie apart along that coordinate
    assert np.ptp(metric.centers[:, 3]) > 2.0 * np.ptp(np.delete(metric.centers, 3, 1), axis=0).max()


def test_labels_are_clusters_already():
    X, labels = problem(0, size=60)
    names = np.array(["low", "middle", "top"])[labels]
    metric = metrics.from_lmnn(X, names)
    same = metrics.from_lmnn(X, labels, n_clusters=3)
    np.testing.assert_array_equal(metric.tensors, same.tensors)
    np.testing.assert_allclose(metric.centers[1], X[labels == 1].mean(axis=0), rtol=1e-12)
