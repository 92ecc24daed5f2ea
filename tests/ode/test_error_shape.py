"""The correlation of errors along a mesh, against its definition by quadrature."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from probgeo.ode.error_shape import ErrorShape, find_rows
from probgeo.ragged import offsets_of

FINE = 2000
pytestmark = pytest.mark.loops


def mesh(seed, size):
    rng = np.random.default_rng(seed)
    t = np.cumsum(rng.uniform(0.3, 1.0, size))
    return 1.5 + 2.0 * (t - t[0]) / (t[-1] - t[0])


def by_quadrature(t, order, pinned, s, r, i, j):
    """Cov of derivatives i and j: double integrals of the bridges' covariance, midpoint rule."""
    u = t[0] + (t[-1] - t[0]) * (np.arange(FINE) + 0.5) / FINE
    du = (t[-1] - t[0]) / FINE
    element = np.searchsorted(t, u, side="right") - 1
    a, h = t[element], np.diff(t)[element]
    inside = np.minimum.outer(u, u) - a[:, None] - np.outer(u - a, u - a) / h[:, None]
    cov = np.where(element[:, None] == element, inside, 0.0)

    def weights(x, times):
        return np.where(u < x, np.maximum(x - u, 0.0) ** (times - 1), 0.0) * du

    def functional(x, derivative):
        w = weights(x, order - derivative)
        if pinned:
            line = (x - t[0]) / (t[-1] - t[0]) if derivative == 0 else 1.0 / (t[-1] - t[0])
            w = w - line * weights(t[-1], order)
        return w

    return functional(s, i) @ cov @ functional(r, j)


@pytest.mark.parametrize(("order", "pinned"), [(1, False), (2, False), (2, True)])
@pytest.mark.parametrize("seed", range(3))
def test_covariances_are_integrals_of_bridges(order, pinned, seed):
    t = mesh(seed, 6)
    shape = ErrorShape.on(t, offsets_of([6]), order, pinned)
    s, r = np.random.default_rng(seed).uniform(t[0], t[-1], (2, 3))
    found = shape.cov(np.zeros(3, dtype=int), s, r)
    size = np.abs(shape.cov(np.zeros(6, dtype=int), t, t)).max(axis=0)
    for n in range(3):
        for i in range(order):
            for j in range(order):
                expected = by_quadrature(t, order, pinned, s[n], r[n], i, j)
                # kinks of the integrand cost the midpoint rule a term of first order in its step
                assert abs(found[n, i, j] - expected) < 5.0 / FINE * size[i, j]


@given(st.integers(0, 10**6), st.integers(2, 9), st.booleans())
def test_joint_covariances_are_positive_semidefinite_and_symmetric(seed, size, pinned):
    t = mesh(seed, size)
    shape = ErrorShape.on(t, offsets_of([size]), 2, pinned)
    at = np.sort(np.random.default_rng(seed).uniform(t[0], t[-1], 5))
    i, j = (x.ravel() for x in np.meshgrid(range(5), range(5), indexing="ij"))
    blocks = shape.cov(np.zeros(25, dtype=int), at[i], at[j]).reshape(5, 5, 3, 3)
    joint = blocks.transpose(0, 2, 1, 3).reshape(15, 15)
    scale = np.sqrt(np.maximum(np.diag(joint), 1e-300))
    correlation = joint / np.outer(scale, scale)
    np.testing.assert_allclose(correlation, correlation.T, atol=1e-10)
    assert np.linalg.eigvalsh(correlation)[0] > -1e-9


def test_ends_and_nodes_are_known():
    t = mesh(0, 7)
    offsets, member = offsets_of([7]), np.zeros(7, dtype=int)
    pinned = ErrorShape.on(t, offsets, 2, True).cov(member, t, t)
    np.testing.assert_allclose(pinned[[0, -1], 0, 0], 0.0, atol=1e-15)
    np.testing.assert_allclose(pinned[:, 2, 2], 0.0, atol=1e-14)  # c'' is known at the nodes
    free = ErrorShape.on(t, offsets, 2, False).cov(member, t, t)
    np.testing.assert_array_equal(free[0, :2, :2], 0.0)
    assert np.all(np.diff(free[:, 0, 0]) > 0)


def test_members_do_not_know_of_each_other():
    meshes = [mesh(k, n) for k, n in enumerate((3, 9, 5))]
    together = ErrorShape.on(np.concatenate(meshes), offsets_of([3, 9, 5]), 2, True)
    alone = [ErrorShape.on(t, offsets_of([len(t)]), 2, True).variances() for t in meshes]
    np.testing.assert_array_equal(together.variances(), np.concatenate(alone))


@given(st.integers(0, 10**6))
def test_times_are_found_on_their_mesh(seed):
    rng = np.random.default_rng(seed)
    sizes = rng.integers(2, 6, 4)
    meshes = [mesh(seed + k, n) for k, n in enumerate(sizes)]
    nodes, offsets = np.concatenate(meshes), offsets_of(sizes)
    member = rng.integers(0, 4, 20)
    t = np.array([rng.choice([meshes[m][0], meshes[m][-1], rng.uniform(1.5, 3.5)]) for m in member])
    for m, time, row in zip(member, t, find_rows(nodes, offsets, member, t), strict=True):
        expected = min(np.searchsorted(meshes[m], time, side="right") - 1, sizes[m] - 2)
        assert row - offsets[m] == expected
