"""Newton's method on the energy of curves."""

import numpy as np

from probgeo import metrics
from probgeo.geometry.chains import Chains, minimise
from probgeo.geometry.search import as_chains
from probgeo.geometry.starts import lines
from tests.geometry.chains import plain_energies, random_chains, random_metric

RNG = np.random.default_rng(1)
HALF = metrics.HalfPlane()
A = np.array([[-1.0, 0.5], [0.0, 1.0], [0.3, 2.0], [1.0, 1.0]])
B = np.array([[1.0, 1.0], [2.0, 1.0], [0.3, 0.4], [1.0, 1.0]])


def test_straight_lines_are_optimal_in_flat_space():
    done = minimise(metrics.Flat(), as_chains(lines(A, B)), 1e-12)
    np.testing.assert_allclose(done.chains.nodes[:, 0], lines(A, B).reshape(-1, 2), atol=1e-14)
    assert done.settled.all()
    assert done.steps.max() <= 2
    np.testing.assert_allclose(2 * done.energy, np.sum((B - A) ** 2, axis=1), atol=1e-14)


def test_energy_falls_and_ends_stay():
    metric, chains = random_metric(RNG, rho=3.0), random_chains(RNG, 2, 2, members=20)
    before, nodes = plain_energies(metric, chains), chains.nodes.copy()
    done = minimise(metric, chains, 1e-8)
    np.testing.assert_array_equal(chains.nodes, nodes)  # what is given is not written to
    np.testing.assert_allclose(done.energy, plain_energies(metric, done.chains), rtol=1e-6)
    assert np.all(done.energy <= before)
    for end in (chains.offsets[:-1], chains.offsets[1:] - 1):
        np.testing.assert_array_equal(done.chains.nodes[end, 0], nodes[end, 0])


def test_polygons_come_to_the_geodesics_of_the_half_plane():
    """The error of their length is of second order."""
    exact, errors = np.asarray(HALF.distance(A, B)), []
    for segments in (16, 32):
        done = minimise(HALF, as_chains(lines(A, B, segments)), 1e-10)
        errors.append(np.abs(np.sqrt(2 * done.energy) - exact).max())
    assert errors[1] < 1e-3
    assert 3.0 < errors[0] / errors[1] < 5.0


def test_members_do_not_see_each_other():
    """Bit by bit the same alone, in another order, or in a larger batch."""
    metric, chains = random_metric(RNG, rho=3.0), random_chains(RNG, 2, 2, members=12)
    together = minimise(metric, chains, 1e-8)
    order = RNG.permutation(12)
    shuffled = minimise(metric, chains.take(order), 1e-8)
    back = shuffled.chains.take(np.argsort(order))
    np.testing.assert_array_equal(back.nodes, together.chains.nodes)
    for m in (0, 7):
        alone = minimise(metric, chains.take(np.array([m])), 1e-8)
        rows = slice(chains.offsets[m], chains.offsets[m + 1])
        np.testing.assert_array_equal(alone.chains.nodes, together.chains.nodes[rows])


def test_what_is_not_finite_does_not_disturb_the_others():
    polygons = lines(A, B)
    polygons[1, 3] = np.nan
    done = minimise(HALF, as_chains(polygons), 1e-8)
    assert done.settled.tolist() == [True, False, True, True]
    assert done.energy[1] == np.inf


def test_take():
    chains = random_chains(RNG, 1, 2)
    two = chains.take(np.array([2, 0]))
    assert isinstance(two, Chains)
    sizes = np.diff(chains.offsets)
    assert np.diff(two.offsets).tolist() == [sizes[2], sizes[0]]
    np.testing.assert_array_equal(two.t[sizes[2] :], chains.t[: sizes[0]])
