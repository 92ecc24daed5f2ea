"""Compiled loops against plain NumPy, at random sizes."""

import numpy as np
import pytest

from probgeo.metrics import local_loops, loops
from tests.metrics.reference import assert_near, random_rows, random_tensors

pytestmark = pytest.mark.loops
SEEDS = range(6)


def weights_and_slopes(x, centers, tensors, rho):
    """w (n, K), and the slopes of log w less their mean (n, K, D)."""
    offsets = x[:, None] - centers
    slopes = -rho * np.einsum("kij,nkj->nki", tensors, offsets)
    logs = 0.5 * np.sum(slopes * offsets, axis=-1)
    w = np.exp(logs - logs.max(axis=1, keepdims=True))
    w /= w.sum(axis=1, keepdims=True)
    return w, slopes - np.einsum("nk,nki->ni", w, slopes)[:, None]


def local_twin(x, v, centers, tensors, rho):
    w, c = weights_and_slopes(x, centers, tensors, rho)
    p = np.einsum("kij,nj->nki", tensors, v)
    q = np.einsum("nki,ni->nk", p, v)
    rise = 0.5 * w * (q - np.sum(w * q, axis=1, keepdims=True))
    xx = np.einsum("nk,nki,nkj->nij", rise, c, c) - rho * np.einsum("nk,kij->nij", rise, tensors)
    xv = np.einsum("nk,nki,nkj->nij", w, c, p)
    vv = np.einsum("nk,kij->nij", w, tensors)
    by_x, by_v = np.einsum("nk,nki->ni", rise, c), np.einsum("nk,nki->ni", w, p)
    return 0.5 * np.sum(w * q, axis=1), by_x, by_v, xx, xv, vv


def random_local(seed, largest):
    rng = np.random.default_rng(seed)
    n, K, D = rng.integers(1, 40), rng.integers(1, 9), rng.integers(1, largest + 1)
    # from weights that all count to one that does
    centers, rho = 10.0 ** rng.uniform(-1, 0.7) * rng.normal(size=(K, D)), rng.uniform(0.2, 2.0)
    return rng, centers, random_tensors(rng, K, D), rho, *random_rows(rng, D, n)


def assert_levels(loop, arguments, twin):
    """That a loop writes at every level what it should, and nothing else."""
    energy, by_x, by_v, xx, xv, vv = twin
    force = by_x - np.einsum("nij,ni->nj", xv, arguments[1])
    expected = {
        loops.ENERGY: (energy, by_x[:0], by_v[:0], xx[:0], xv[:0], vv[:0]),
        loops.FIRST: (energy, by_x, by_v, xx[:0], xv[:0], vv[:0]),
        loops.FORCE: (energy, force, by_v, xx[:0], xv[:0], vv),
        loops.SECOND: twin,
    }
    for level, wanted in expected.items():
        terms = loops.filled(loop, arguments, level)
        for name, found, right in zip(terms._fields, terms, wanted, strict=True):
            assert_near(found, right, 1e-11, f"{name} at level {level}")


@pytest.mark.parametrize("seed", SEEDS)
def test_local_terms(seed):
    _, centers, tensors, rho, x, v = random_local(seed, largest=5)
    D = centers.shape[1]
    i, j = np.tril_indices(D)
    packed = (np.where(i == j, 0.5, 1.0) * tensors[:, i, j]).T.copy()
    arrays = (x, v, centers, tensors, centers.T.copy(), packed, rho, (0,) * D)
    assert_levels(local_loops.local_terms, arrays, local_twin(x, v, centers, tensors, rho))


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("rows", [1, 8])
def test_local_terms_by_blocks(seed, rows):
    _, centers, tensors, rho, x, v = random_local(seed, largest=12)
    arrays = (x, v, centers, tensors, rho, rows)
    twin = local_twin(x, v, centers, tensors, rho)
    assert_levels(local_loops.local_terms_by_blocks, arrays, twin)


@pytest.mark.parametrize("seed", SEEDS)
def test_local_terms_of_diagonal_tensors(seed):
    rng, centers, _, rho, x, v = random_local(seed, largest=12)
    diagonals = np.exp(rng.normal(size=centers.shape))
    full = diagonals[:, :, None] * np.eye(centers.shape[1])
    arrays = (x, v, centers, diagonals, rho)
    assert_levels(local_loops.local_terms_diagonal, arrays, local_twin(x, v, centers, full, rho))


@pytest.mark.parametrize("seed", SEEDS)
def test_local_force_jacobians(seed):
    rng, centers, tensors, rho, x, v = random_local(seed, largest=5)
    n, D = x.shape
    a = rng.normal(size=(n, D))
    J = np.empty((n, 2, D, D))
    local_loops.local_force_jacobians(x, v, a, centers, tensors, rho, J)
    _, _, by_v, xx, xv, _ = local_twin(x, v, centers, tensors, rho)
    w, c = weights_and_slopes(x, centers, tensors, rho)
    p, Ma = (np.einsum("kij,nj->nki", tensors, y) for y in (v, a))
    r = w * np.einsum("nki,ni->nk", c, v)
    t = np.einsum("nk,nki->ni", r, c) - rho * by_v
    moved = r[:, :, None] * c - w[:, :, None] * (rho * p + t[:, None])
    by_x = xx - np.einsum("nki,nkj->nij", p, moved) - np.einsum("nk,nki,nkj->nij", w, Ma, c)
    by_v = xv - xv.swapaxes(1, 2) - np.einsum("nk,kij->nij", r, tensors)
    assert_near(J, np.stack([by_x, by_v], axis=1), 1e-11)


def kernel_twin(x, v, data, sigma, rho):
    """With S_d (n, D), its slopes (n, D, D), [i, d], and second derivatives (n, D, D, D)."""
    D = x.shape[1]
    e, identity = data - x[:, None], np.eye(D)
    w = np.exp(-0.5 * np.sum(e**2, axis=-1) / sigma**2)
    m = 1.0 / (np.einsum("nk,nkd->nd", w, e**2) + rho)
    slopes = np.einsum("nk,nki,nkd->nid", w, e, e**2) / sigma**2
    slopes -= 2.0 * np.einsum("nk,nkd,id->nid", w, e, identity)
    second = np.einsum("nk,nki,nkj,nkd->nijd", w, e, e, e**2) / sigma**4
    second -= np.einsum("nk,ij,nkd->nijd", w, identity, e**2) / sigma**2
    mixed = np.einsum("nk,nkd,jd,nki->nijd", w, e, identity, e) * 2.0 / sigma**2
    second -= mixed + mixed.swapaxes(1, 2)
    second += 2.0 * np.einsum("nk,ij,jd->nijd", w, identity, identity)
    by_x = -0.5 * np.einsum("nd,nid->ni", (v * m) ** 2, slopes)
    xx = np.einsum("nd,nid,njd->nij", v**2 * m**3, slopes, slopes)
    xx -= 0.5 * np.einsum("nd,nijd->nij", (v * m) ** 2, second)
    xv = -np.einsum("nd,nid->nid", m**2 * v, slopes)
    return 0.5 * np.sum(m * v**2, axis=1), by_x, m * v, xx, xv, m[:, :, None] * identity


@pytest.mark.parametrize("seed", SEEDS)
def test_kernel_terms(seed):
    rng = np.random.default_rng(seed)
    n, N, D = rng.integers(1, 20), rng.integers(1, 30), rng.integers(1, 6)
    x, v = random_rows(rng, D, n)
    arrays = (x, v, rng.normal(size=(N, D)), rng.uniform(0.3, 1.0), rng.uniform(0.1, 1.0))
    assert_levels(loops.kernel_terms, arrays, kernel_twin(*arrays))


@pytest.mark.parametrize("dimension", [1, 3, 12])
@pytest.mark.parametrize("columns", [1, 4])
def test_solving_with_rows_of_matrices(dimension, columns):
    rng = np.random.default_rng(dimension)
    M, B = random_tensors(rng, 5, dimension), rng.normal(size=(5, dimension, columns))
    np.testing.assert_allclose(loops.solve_rows(M, B), np.linalg.solve(M, B), rtol=1e-10)


def test_an_indefinite_matrix_gives_nan_not_numbers():
    M = np.stack([np.eye(3), np.diag([1.0, -1.0, 1.0]), np.full((3, 3), np.nan)])
    X = loops.solve_rows(M, np.ones((3, 3, 1)))
    np.testing.assert_array_equal(X[0], 1.0)
    assert np.isnan(X[1:]).all()
