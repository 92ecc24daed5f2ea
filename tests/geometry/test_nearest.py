"""The nearest neighbours are those that all distances would tell, for fewer geodesics."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.datasets import make_blobs

from probgeo import ConvergenceWarning, Manifold, metrics

DATA = np.random.default_rng(1).normal(size=(80, 2)) * [2.0, 0.7]
LOCAL = metrics.from_mixture(DATA, n_components=3, seed=0)
METRICS = {
    "local": LOCAL,
    "sharp": LOCAL.with_rho(3.0),
    "ball": metrics.PoincareBall(2),
    "ensemble": metrics.Ensemble([LOCAL, LOCAL.with_rho(0.3)]),
}


def same(found, matrix, k, itself):
    """As sorting all distances tells; where two are equal to round-off either may come first."""
    lengths = np.array(matrix.mean)
    if itself:
        np.fill_diagonal(lengths, np.inf)
    expected = np.sort(lengths, axis=1)[:, :k]
    np.testing.assert_allclose(found.distance.mean, expected, rtol=1e-9)
    np.testing.assert_allclose(np.take_along_axis(lengths, found.index, 1), expected, rtol=1e-9)
    std = np.take_along_axis(matrix.std, found.index, 1)
    np.testing.assert_allclose(found.distance.std, std, rtol=1e-6, atol=1e-12)


@pytest.mark.parametrize("kind", METRICS)
@settings(max_examples=8)
@given(st.integers(0, 2**31), st.integers(2, 24), st.integers(1, 5), st.integers(0, 20))
def test_as_all_distances_tell(kind, seed, n, k, m):
    """Among themselves if m is zero, else those of other points."""
    manifold, rng = Manifold(METRICS[kind]), np.random.default_rng(seed)
    size = 0.6 if kind == "ball" else 2.0
    X, Y = rng.uniform(-size, size, (n, 2)), rng.uniform(-size, size, (m, 2)) if m else None
    k = min(k, m or n - 1)
    found = manifold.nearest(X, k, Y)
    same(found, manifold.distance_matrix(X, Y), k, itself=Y is None)
    assert found.converged.all()
    assert all(len(set(row)) == k for row in found.index.tolist())


@pytest.mark.parametrize("itself", [True, False])
@pytest.mark.parametrize("with_floors", [True, False])
def test_few_pairs_of_clusters_are_solved(monkeypatch, with_floors, itself):
    X, _ = make_blobs(150, centers=12, center_box=(-20.0, 20.0), random_state=0)
    metric = metrics.from_mixture(X, n_components=12, rho=0.1, seed=0)
    if not with_floors:
        monkeypatch.setattr(metrics.LocalMetrics, "floors", metrics.Metric.floors)
    manifold = Manifold(metric)
    X, Y = (X[:60], None) if itself else (X[:20], X[20:])
    found = manifold.nearest(X, 3, Y)
    same(found, manifold.distance_matrix(X, Y), 3, itself)
    assert 3 / 130 < found.solved < (0.25 if with_floors else 0.6)


@pytest.mark.parametrize("dimension", [1, 2, 5])
def test_floors_are_below_the_metric(dimension):
    rng = np.random.default_rng(0)
    roots = rng.normal(size=(4, dimension, dimension))
    tensors = roots @ roots.swapaxes(1, 2) + 0.1 * np.eye(dimension)
    metric = metrics.LocalMetrics(rng.normal(size=(4, dimension)), tensors)
    x = 3.0 * rng.normal(size=(200, dimension))
    for floor in metric.floors(dimension):
        slack = np.linalg.eigvalsh(metric.tensors_at(x) - floor)
        assert slack.min() > -1e-12
        assert np.linalg.eigvalsh(tensors - floor).min() < 1e-9  # and as large as can be
    assert np.linalg.eigvalsh(metric.floors(dimension)).min() > 0


def test_flat_space_solves_no_more_than_it_must():
    found = Manifold(metrics.Flat([[4.0, 0.0], [0.0, 1.0]])).nearest(DATA[:50], 2)
    assert found.solved <= 2 * 50 / (50 * 49 / 2)


def test_points_without_a_metric_are_last():
    half_plane = Manifold(metrics.HalfPlane())
    with pytest.warns(ConvergenceWarning, match="^3 geodesics .* or points have no metric"):
        found = half_plane.nearest([[0.0, 1.0], [0.0, -1.0]], 3, [[0, -2.0], [0, -3.0], [0, 3.0]])
    assert found.index[0, 0] == 2
    assert np.isnan(found.distance.mean[0, 1:]).all()
    assert np.isnan(found.distance.mean[1]).all()
    assert found.converged.sum() == 1


@pytest.mark.parametrize(("k", "among", "most"), [(3, None, 2), (3, DATA[:2], 2), (0, None, 2)])
def test_more_neighbours_than_there_are(k, among, most):
    with pytest.raises(ValueError, match=f"k must be at most {most}|k must be a whole number >= 1"):
        Manifold(LOCAL).nearest(DATA[:3], k, among)
