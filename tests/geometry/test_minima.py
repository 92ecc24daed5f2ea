"""`Manifold.minima`: the shortest curve and its rivals."""

import numpy as np
import pytest

from probgeo import Gaussian, Manifold, data, metrics

A, B = np.array([-1.0, 0.0]), np.array([1.0, 0.0])


@pytest.fixture(scope="module")
def moons():
    X = data.two_moons(400, noise=0.1)
    return X, metrics.from_mixture(X, 7, rho=0.3)


def hill(height, aside=0.0):
    """A place between A and B that is dear to cross, `aside` of the line between them."""
    centers = [[0.0, aside], [-1.0, 0.0], [1.0, 0.0], [0.0, 1.0], [0.0, -1.0]]
    tensors = [[height, height], [1.0, 1.0], [1.0, 1.0], [1.0, 1.0], [1.0, 1.0]]
    return metrics.LocalMetrics(centers, tensors, rho=4.0)


def test_by_symmetry_there_are_two_of_one_length():
    curves = Manifold(hill(20.0), thoroughness="thorough").minima(A, B)
    assert curves.batch_shape == (2,)
    assert curves.length.mean[0] == pytest.approx(curves.length.mean[1], rel=1e-5)
    up, down = curves.mean(0.5)[np.argsort(-curves.mean(0.5)[:, 1])]
    # two standard deviations within a thousandth of the extent, each
    assert np.allclose(up, down * [1.0, -1.0], atol=2e-3 * 2.0)


def test_where_there_is_one_that_is_all():
    curves = Manifold(metrics.Flat(np.eye(2))).minima(A, B)
    assert curves.batch_shape == (1,)
    assert curves.length.mean[0] == pytest.approx(2.0)


@pytest.mark.parametrize("k", range(6))
def test_they_are_sorted_distinct_minima_and_the_first_is_the_geodesic(moons, k):
    X, metric = moons
    manifold = Manifold(metric, thoroughness="thorough")
    a, b = X[k], X[-k - 1]
    curves, best = manifold.minima(a, b), manifold.geodesic(a, b)
    assert np.all(curves.converged)
    assert np.all(np.diff(curves.mean_length) >= 0)
    assert curves.mean_length[0] == pytest.approx(best.mean_length, rel=1e-5)
    if best.n_minima > 1:
        assert len(curves.mean_length) <= best.n_minima
    # a minimum is not shortened by its neighbours: small bows on either side are longer
    t = np.linspace(0.0, 1.0, 400)[:, None]
    bow = 0.01 * np.sin(np.pi * t) * np.array([-(b - a)[1], (b - a)[0]])
    for x in curves.mean(t[:, 0]):
        lengths = []
        for side in (-1.0, 0.0, 1.0):
            steps = np.diff(x + side * bow, axis=0)
            middles = 0.5 * (x[1:] + x[:-1]) + side * 0.5 * (bow[1:] + bow[:-1])
            lengths.append(np.sum(manifold.norm(middles, steps)))
        assert lengths[1] < min(lengths[0], lengths[2])


def test_uncertain_ends_are_kept():
    end = Gaussian(A, 0.01 * np.eye(2))
    curves = Manifold(hill(20.0)).minima(end, B)
    assert len(curves.mean_length) == 2
    assert np.allclose(curves.cov(0.0, 0.0, source="boundary"), end.cov, rtol=1e-3, atol=1e-6)


def test_a_batch_is_refused():
    with pytest.raises(ValueError, match=r"single points \(D,\), got \(2, 2\) and \(2,\)"):
        Manifold(hill(20.0)).minima([A, B], B)
