"""Polygons that geodesics are held against: closed forms, and never longer than at the start."""

import numpy as np
import pytest
import shortest

from probgeo import metrics


def ends(count, D, seed=0):
    return np.random.default_rng(seed).uniform(-0.4, 0.4, (2, count, D))


@pytest.mark.parametrize("D", [2, 3])
def test_they_find_the_closed_form(D):
    """The error of a polygon of 64 segments is of the order of 1e-4."""
    ball = metrics.PoincareBall(D)
    a, b = ends(5, D)
    data = np.random.default_rng(1).uniform(-0.4, 0.4, (100, D))
    found = shortest.shortest_lengths(ball, data, a, b)
    np.testing.assert_allclose(found, ball.distance(a, b), rtol=1e-3)
    assert np.all(found > (1 - 1e-6) * ball.distance(a, b))


def test_the_same_point_twice():
    a = ends(3, 2)[0]
    assert np.all(shortest.shortest_lengths(metrics.PoincareBall(2), ends(30, 2)[1], a, a) == 0)


def test_block_tridiagonal_systems_against_dense_ones():
    rng = np.random.default_rng(0)
    T, D = 5, 3
    L = np.eye(T * D) * 4 + np.tril(rng.normal(size=(T * D, T * D)), -1)
    for t in range(2, T):
        L[t * D : (t + 1) * D, : (t - 1) * D] = 0
    H = (L @ L.T).reshape(T, D, T, D).swapaxes(1, 2)
    right = rng.normal(size=(T, D))
    below = np.array([H[t + 1, t] for t in range(T - 1)])
    found = shortest.solved(np.array([H[t, t] for t in range(T)]), below, right)
    np.testing.assert_allclose(found.ravel(), np.linalg.solve(L @ L.T, right.ravel()), rtol=1e-9)


def test_energy_never_rises():
    ball = metrics.PoincareBall(2)
    rng = np.random.default_rng(0)
    points = np.linspace([-0.5, 0.1], [0.5, 0.2], 17) + 0.05 * rng.normal(size=(17, 2))
    energies = [shortest.energy_of(ball, shortest.lowered(ball, points, n)) for n in range(5)]
    assert np.all(np.diff(energies) <= 0)
