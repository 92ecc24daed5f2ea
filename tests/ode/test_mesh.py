"""Meshes: equal shares of the error, limits of growth, curves that stay what they are."""

import numpy as np
import pytest

from probgeo.ode.markov.collocation import Splines
from probgeo.ode.markov.mesh import MOST, distribute, graded, on_mesh, remeshed, wanted
from probgeo.ode.piecewise import PiecewisePosterior
from probgeo.ragged import offsets_of
from tests.ode.test_collocation import ends_of, random_chains, random_sizes


def test_an_error_64_times_too_large_needs_twice_the_elements():
    numbers = wanted(np.array([64.0, 1.0, 1e30, 0.0, np.nan]), np.ones(5), 6)
    np.testing.assert_allclose(numbers, [2.0, 1.0, MOST, 1 / MOST, MOST])


@pytest.mark.loops
class TestLoops:
    @random_sizes
    def test_distribute(self, seed):
        """Nodes are where the wanted elements, summed up, are equal shares of their total."""
        curves, rng = random_chains(seed)
        numbers = rng.uniform(0.2, 4.0, len(curves.v))
        counts = rng.integers(2, 12, curves.count)
        offsets, t = offsets_of(counts), np.empty(counts.sum())
        distribute(curves.t, curves.kept, numbers, np.stack([offsets[:-1], offsets[1:] - 1], axis=1), t)
        for m in range(curves.count):
            old = curves.t[curves.offsets[m] : curves.offsets[m + 1]]
            share = np.cumsum(np.append(0.0, numbers[curves.member == m]))
            expected = np.interp(np.linspace(0.0, share[-1], counts[m]), share, old)
            np.testing.assert_allclose(t[offsets[m] : offsets[m + 1]], expected, rtol=1e-12)

    @random_sizes
    def test_graded(self, seed):
        """The smallest numbers above the wanted ones whose elements grow no faster than allowed."""
        curves, rng = random_chains(seed)
        numbers = rng.uniform(0.1, 5.0, len(curves.v))
        found = numbers.copy()
        graded(curves.elements, curves.h, found, 0.5)
        for m in range(curves.count):
            own = curves.member == m
            h, want = curves.h[own], numbers[own]
            middle = np.cumsum(h) - h / 2
            far = 0.5 * np.abs(middle[:, None] - middle)
            expected = h / np.min(h / want + far, axis=1)
            np.testing.assert_allclose(found[own], expected, rtol=1e-12)


@pytest.mark.parametrize("q", [1, 2, 4])
@random_sizes
def test_curves_stay_what_they_are_on_finer_meshes(seed, q):
    curves, rng = random_chains(seed, q=q, given=False)
    # elements that end where the next begins
    starts = rng.normal(size=(curves.count, q, curves.v.shape[2]))
    for n in range(len(curves.t)):
        m = np.searchsorted(curves.offsets, n, side="right") - 1
        first = n == curves.offsets[m]
        curves.z[n] = starts[m] if first else ends_of(curves)[n - m - 1]
    halves = np.concatenate(
        [np.sort(np.concatenate([t, (t[1:] + t[:-1]) / 2])) for t in np.split(curves.t, curves.offsets[1:-1])]
    )
    offsets = offsets_of(2 * curves.sizes - 1)
    fine = on_mesh(curves, halves, offsets, np.stack([offsets[:-1], offsets[1:] - 1], axis=1))
    assert np.abs(fine.gaps()).max() < 1e-9 * np.abs(fine.z).max()
    for m in range(curves.count):
        begin, end = curves.t[curves.offsets[m]], curves.t[curves.offsets[m + 1] - 1]
        t = np.linspace(begin, end, 31)
        means = [_posterior(one.take(np.array([m]))).mean(t, 0) for one in (curves, fine)]
        np.testing.assert_allclose(means[0], means[1], atol=1e-10 * np.abs(means[0]).max())


def _posterior(curves: Splines) -> PiecewisePosterior:
    envelope = np.ones_like(curves.z[:, 0])
    return PiecewisePosterior(curves.t, curves.offsets, curves.pieces(), None, envelope, 2, True)


@random_sizes
def test_ends_stay_and_numbers_are_kept_within_limits(seed):
    curves, rng = random_chains(seed)
    finer = remeshed(curves, rng.uniform(0.1, 5.0, len(curves.v)), 3, 9)
    np.testing.assert_array_equal(finer.t[finer.kept], curves.t[curves.kept])
    left = finer.kept[:, 0], curves.kept[:, 0]
    np.testing.assert_allclose(finer.z[left[0]], curves.z[left[1]], atol=1e-12)
    assert np.all((finer.sizes >= 3) & (finer.sizes <= 9))
    assert np.all(finer.h > 0)


def test_times_of_conditions_stay():
    t = np.array([0.0, 0.1, 0.3, 0.7, 1.0])
    none, kept = np.zeros((1, 0)), np.array([[0, 2, 4]])
    curves = Splines(t, np.array([0, 5]), np.zeros((5, 2, 1)), np.zeros((4, 4, 1)), none, kept, False)
    finer = remeshed(curves, np.full(4, 2.6), 3, 100)
    np.testing.assert_array_equal(finer.t[finer.kept], [[0.0, 0.3, 1.0]])
    assert finer.sizes == [13]
