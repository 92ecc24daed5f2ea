"""Compiled loops on chains against plain NumPy: points, Hessians, block-tridiagonal systems."""

import numpy as np
import pytest

from probgeo.geometry import loops
from probgeo.geometry.chains import Chains
from tests.geometry.chains import plain_energies, plain_points, random_chains, random_metric

pytestmark = pytest.mark.loops
RNG = np.random.default_rng(0)
SIZES = [(1, 1), (1, 3), (2, 1), (2, 2), (2, 7)]  # the last is beyond where BLAS takes over


@pytest.mark.parametrize(("J", "D"), SIZES)
def test_points_and_integrals(J, D):
    chains, metric = random_chains(RNG, J, D), random_metric(RNG, D)
    for found, plain in zip(chains.points(), plain_points(chains), strict=True):
        np.testing.assert_allclose(found, plain, atol=1e-12)
    energies = chains.integrals(metric.energies(*chains.points()))
    np.testing.assert_allclose(energies, plain_energies(metric, chains), rtol=1e-12)


def assembled(metric, chains, damping):
    """Diagonal and upper blocks, and the right-hand side."""
    rows, J, D = chains.nodes.shape
    F, element, everyone = J * D, chains.element, np.ones(len(chains), dtype=bool)
    blocks = np.empty((rows, F, F)), np.empty((rows, F, F)), np.empty((rows, F))
    tables = element.shape, element.slope, element.weight
    terms = chains.terms(metric)
    loops.assemble_hessian(chains.t, chains.offsets, everyone, damping, *tables, *terms[1:], *blocks)
    return blocks


def dense(diagonal, upper, first, last):
    """The matrix of one chain, from the upper triangles of its diagonal blocks."""
    F, size = diagonal.shape[1], last - first
    H = np.zeros((size, F, size, F))
    for i in range(size):
        triangle = np.triu(diagonal[first + i])
        H[i, :, i] = triangle + np.triu(triangle, 1).T
        if i + 1 < size:
            H[i, :, i + 1], H[i + 1, :, i] = upper[first + i], upper[first + i].T
    return H.reshape(size * F, size * F)


@pytest.mark.parametrize(("J", "D"), SIZES[:4])
def test_hessian_and_gradient_are_those_of_the_energy(J, D):
    """By central differences, whose error is of second order in the step."""
    chains, metric, h = random_chains(RNG, J, D), random_metric(RNG, D), 1e-4
    diagonal, upper, right = assembled(metric, chains, np.zeros(len(chains)))
    for m in range(len(chains)):
        one = chains.take(np.array([m]))

        def energy(u, one=one):
            moved = Chains(u.reshape(one.nodes.shape), one.t, one.offsets)
            return plain_energies(metric, moved)[0]

        u, steps = one.nodes.ravel(), h * np.eye(one.nodes.size)
        first, last = chains.offsets[m], chains.offsets[m + 1]
        slope = [(energy(u + e) - energy(u - e)) / (2 * h) for e in steps]
        np.testing.assert_allclose(-right[first:last].ravel(), slope, rtol=1e-4, atol=1e-4)
        H = dense(diagonal, upper, first, last)
        along = RNG.normal(size=u.size)
        up, down = (energy(u + s * h * along) for s in (1.0, -1.0))
        second = (up - 2 * energy(u) + down) / h**2
        np.testing.assert_allclose(along @ H @ along, second, rtol=1e-4, atol=1e-3)


def test_damping_adds_to_the_definite_part():
    """Twice as much of it with damping one: the Hessian is that of a sum, not scaled."""
    chains, metric = random_chains(RNG, 2, 2), random_metric(RNG)
    plain, once, twice = (assembled(metric, chains, np.full(len(chains), value))[0] for value in (0.0, 1.0, 2.0))
    np.testing.assert_allclose(twice - once, once - plain, atol=1e-9)
    definite = once - plain
    definite = np.triu(definite) + np.swapaxes(np.triu(definite, 1), 1, 2)
    assert np.all(np.linalg.eigvalsh(definite) > 0)


@pytest.mark.parametrize("F", [1, 2, 5, 14, 45])
def test_block_tridiagonal_systems(F):
    counts = np.array([2, 5, 3])
    offsets = np.concatenate([[0], np.cumsum(counts)])
    rows, C = offsets[-1], 3
    roots = RNG.normal(size=(rows, F, F)) + 3.0 * np.sqrt(F) * np.eye(F)
    upper = 0.3 * RNG.normal(size=(rows, F, F))
    diagonal = roots @ np.swapaxes(roots, 1, 2)
    right, columns = RNG.normal(size=(rows, F)), RNG.normal(size=(rows, F, C))
    expected = []
    for m in range(3):
        own = slice(offsets[m], offsets[m + 1])
        H, g = dense(diagonal, upper, offsets[m], offsets[m + 1]), right[own].ravel()
        u, many = np.linalg.solve(H, g), np.linalg.solve(H, columns[own].reshape(len(g), C))
        expected.append((u, g @ u, many))
    which, good = np.array([True, False, True]), np.zeros(3, dtype=bool)
    blocks, solution, decrement = (diagonal.copy(), upper.copy()), right.copy(), np.zeros(3)
    loops.solve_chains(offsets, which, *blocks, solution, decrement, good)
    for m in (0, 2):
        own = slice(offsets[m], offsets[m + 1])
        np.testing.assert_allclose(solution[own].ravel(), expected[m][0], rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(decrement[m], expected[m][1], rtol=1e-9)
        assert good[m]
    np.testing.assert_array_equal(solution[offsets[1] : offsets[2]], right[offsets[1] : offsets[2]])
    which[:], blocks = True, (diagonal.copy(), upper.copy())
    loops.solve_chains(offsets, which, *blocks, right.copy(), decrement, good)
    loops.solve_columns(offsets, *blocks, columns)
    for m in range(3):
        own = slice(offsets[m], offsets[m + 1])
        np.testing.assert_allclose(columns[own].reshape(-1, C), expected[m][2], rtol=1e-9, atol=1e-12)


def test_what_is_not_positive_definite_is_told():
    offsets, diagonal = np.array([0, 2, 4]), np.tile(np.eye(2), (4, 1, 1))
    diagonal[3, 1, 1] = -1.0
    good, which = np.zeros(2, dtype=bool), np.ones(2, dtype=bool)
    loops.solve_chains(offsets, which, diagonal, np.zeros((4, 2, 2)), np.ones((4, 2)), np.zeros(2), good)
    assert good.tolist() == [True, False]


def test_ends_are_taken_out():
    chains, metric, D = random_chains(RNG, 2, 2, members=1), random_metric(RNG), 2
    diagonal, upper, right = assembled(metric, chains, np.full(1, 1e3))
    H, g, n = dense(diagonal, upper, 0, len(chains.t)), right.ravel().copy(), right.size
    columns = np.empty((len(chains.t), 4, 2 * D))
    loops.end_columns(chains.offsets, D, diagonal, upper, columns)
    loops.fix_ends(chains.offsets, np.ones(1, dtype=bool), D, diagonal, upper, right)
    ends = np.r_[0:D, n - 4 : n - 4 + D]
    free = np.setdiff1d(np.arange(n), ends)
    good = np.zeros(1, dtype=bool)
    loops.solve_chains(chains.offsets, np.ones(1, dtype=bool), diagonal, upper, right, np.zeros(1), good)
    loops.solve_columns(chains.offsets, diagonal, upper, columns)
    inner = H[np.ix_(free, free)]
    np.testing.assert_allclose(right.ravel()[free], np.linalg.solve(inner, g[free]), rtol=1e-8)
    np.testing.assert_array_equal(right.ravel()[ends], 0.0)
    moved = columns.reshape(n, 2 * D)
    np.testing.assert_allclose(moved[ends], np.eye(2 * D), atol=1e-12)
    np.testing.assert_allclose(moved[free], -np.linalg.solve(inner, H[np.ix_(free, ends)]), rtol=1e-7, atol=1e-9)


def test_steps_are_judged_by_what_they_promise():
    """Accepted and trusted, accepted and not trusted, refused, and the first step of all."""
    offsets, trial, nodes = np.arange(0, 9, 2), np.ones((8, 1, 1)), np.zeros((8, 1, 1))
    energy, decrement = np.array([2.0, 2.0, 2.0, np.inf]), np.array([1.0, 1.0, 1.0, 0.0])
    size, damping, accepted = np.ones(4), np.array([0.05, 0.0, 0.0, 0.0]), np.zeros(4, dtype=bool)
    tried = np.array([1.5, 1.99, 2.1, 7.0])
    loops.line_search(offsets, tried, trial, nodes, energy, decrement, size, damping, accepted)
    assert accepted.tolist() == [True, True, False, True]
    np.testing.assert_array_equal(energy, [1.5, 1.99, 2.0, 7.0])
    np.testing.assert_array_equal(damping, [0.0, 0.5, 0.0, 0.0])
    np.testing.assert_array_equal(size, [1.0, 1.0, 0.4, 1.0])
    np.testing.assert_array_equal(nodes[:, 0, 0], [1, 1, 1, 1, 0, 0, 1, 1])


def test_no_step_goes_further_than_the_curve():
    offsets, nodes = np.array([0, 2, 4]), np.array([0.0, 4.0, 0.0, 1.0]).reshape(4, 1, 1)
    trial, step = np.empty((4, 1, 1)), np.array([[0.0], [2.0], [0.0], [2.0]])
    loops.propose(offsets, nodes, step, np.array([0.4, 1.0]), trial)
    np.testing.assert_allclose(trial[:, 0, 0], [0.0, 4.8, 0.0, 2.0])
