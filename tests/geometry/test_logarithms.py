"""Logarithms of many points at one base, and how they change with it."""

import numpy as np
import pytest

from probgeo import Manifold, data, metrics
from probgeo.geometry.logarithms import eliminate_backwards, logarithms, replaced

BASE = np.array([0.3, 0.8])
RNG = np.random.default_rng(0)
X = np.stack([RNG.normal(size=9), np.exp(0.5 * RNG.normal(size=9))], axis=1)
HALF = metrics.HalfPlane()


@pytest.mark.parametrize("metric", [HALF, metrics.Sphere()])
def test_closed_forms(metric):
    found, h = logarithms(Manifold(metric), BASE, X), 1e-5
    std = np.sqrt(np.einsum("pii->pi", found.cov))
    assert found.converged.all()
    assert np.all(np.abs(found.vectors - metric.log(BASE, X)) < 4 * std + 1e-9)
    np.testing.assert_allclose(found.length, metric.distance(BASE, X), rtol=1e-6)
    slopes = [(metric.log(BASE + e, X) - metric.log(BASE - e, X)) / (2 * h) for e in h * np.eye(2)]
    np.testing.assert_allclose(found.slopes, np.stack(slopes, axis=2), atol=1e-4)


def test_a_small_step_further():
    """First order: halving the step leaves a quarter of the error."""
    found, step, errors = logarithms(Manifold(HALF), BASE, X), np.array([0.02, -0.04]), []
    for size in (1.0, 0.5):
        there = BASE + size * step
        moved = found.moved(size * step, HALF(there))
        errors.append(np.abs(moved.vectors - HALF.log(there, X)).max())
        np.testing.assert_allclose(moved.length, HALF.distance(there, X), rtol=2e-2)
    assert errors[0] / errors[1] == pytest.approx(4.0, rel=0.2)


def test_those_that_are_followed_are_those_of_a_search():
    manifold, there = Manifold(HALF), BASE + np.array([0.1, 0.2])
    first = logarithms(manifold, BASE, X)
    followed = logarithms(manifold, there, X, first)
    searched = logarithms(manifold, there, X)
    std = np.sqrt(np.einsum("pii->pi", followed.cov + searched.cov))
    assert np.all(np.abs(followed.vectors - searched.vectors) < 5 * std + 1e-9)
    # those that come nearer by as much as the base has moved keep their lead, others lose it twice
    lost, moved = first.lead - followed.lead, HALF.distance(BASE, there)
    assert np.all((-0.2 * moved < lost) & (lost < 2.2 * moved))


def test_after_a_rough_search_nothing_is_known_of_others():
    """Until there is a doubt; curves that are known take part in the search that follows."""
    S = data.spiral(100)
    manifold = Manifold(metrics.from_mixture(S, 10))
    rough = logarithms(manifold.with_precision(1e-2, rough=True), S[20], S)
    followed = logarithms(manifold, S[21], S, rough)
    again = logarithms(manifold, S[21], S, rough, doubt=True)
    assert np.all(np.isneginf(rough.lead))
    assert np.all(np.isneginf(followed.lead))
    assert np.all(again.lead[np.any(S[21] != S, axis=1)] > 0)
    assert np.all(again.length <= 1.003 * followed.length)
    searched = logarithms(manifold, S[21], S)
    assert np.all(again.length <= 1.003 * searched.length)


def test_flat_space_needs_no_solver():
    A = np.array([[2.0, 0.5], [0.5, 1.0]])
    found = logarithms(Manifold(metrics.Flat(A)), np.zeros(2), X)
    np.testing.assert_array_equal(found.vectors, X)
    np.testing.assert_allclose(found.length, np.sqrt(np.einsum("pi,ij,pj->p", X, A, X)))
    assert not found.cov.any()
    assert found.geodesics is None


def test_a_point_that_is_met():
    for away in (0.0, 1e-15):
        found = logarithms(Manifold(HALF), BASE, np.concatenate([X, [BASE + away]]))
        assert found.converged.all()
        np.testing.assert_array_equal(found.vectors[-1], [0.0, 0.0])
        np.testing.assert_allclose(found.slopes[-1], -np.eye(2), atol=1e-12)


def test_geodesics_that_have_changed_much_are_searched_for_anew():
    """On a spiral the base moves from one arm to another."""
    S = data.spiral(100)
    manifold = Manifold(metrics.from_mixture(S, 10))
    followed = logarithms(manifold, S[60], S, logarithms(manifold, S[20], S))
    searched = logarithms(manifold, S[60], S)
    assert np.mean(followed.length <= 1.01 * searched.length) > 0.9
    assert max(map(len, followed.geodesics.nodes)) <= 2 * max(map(len, searched.geodesics.nodes))


def test_in_doubt_the_shortest_is_found_again(monkeypatch):
    """Curves that are followed as far as it takes stay behind: the base moves to another arm."""
    monkeypatch.setattr("probgeo.geometry.manifold.FEW_STEPS", 30)
    S = data.spiral(100)
    manifold = Manifold(metrics.from_mixture(S, 10))
    first = logarithms(manifold, S[20], S)
    followed = logarithms(manifold, S[60], S, first)
    again = logarithms(manifold, S[60], S, first, doubt=True)
    searched = logarithms(manifold, S[60], S)
    assert np.any(followed.length > 1.01 * searched.length)
    assert np.all(again.length <= (1 + 1e-9) * followed.length)
    assert np.mean(again.length <= 1.01 * searched.length) > 0.97
    np.testing.assert_allclose(again.geodesics.mean(1.0), S, atol=1e-12)


def test_some_curves_of_a_batch_are_replaced():
    manifold = Manifold(HALF)
    batch, others = manifold.geodesic(BASE, X), manifold.geodesic(BASE, X[::-1])
    mixed = replaced(batch, np.array([1, 4]), others[[1, 4]])
    ends = X.copy()
    ends[[1, 4]] = X[::-1][[1, 4]]
    np.testing.assert_allclose(mixed.mean(1.0), ends, atol=1e-12)
    np.testing.assert_allclose(mixed.length.mean, HALF.distance(BASE, ends), rtol=1e-5)
    np.testing.assert_array_equal(mixed.velocity[[1, 4]], others.velocity[[1, 4]])


@pytest.mark.loops
@pytest.mark.parametrize("seed", range(5))
def test_elimination_leaves_the_schur_complement(seed):
    rng = np.random.default_rng(seed)
    D = int(rng.integers(1, 5))
    counts, F = rng.integers(2, 6, size=3), 2 * D
    offsets = np.concatenate([[0], np.cumsum(counts)])
    diagonal, upper = np.zeros((offsets[-1], F, F)), np.zeros((offsets[-1], F, F))
    expected = np.empty((len(counts), F, F))
    for m, count in enumerate(counts):
        root = rng.normal(size=(count * F, count * F))
        full = (root @ root.T + count * F * np.eye(count * F)).reshape(count, F, count, F)
        for i in range(count):
            for j in range(count):
                if abs(i - j) > 1:
                    full[i, :, j] = 0.0
            full[i, :, i] += count * F * np.eye(F)
            diagonal[offsets[m] + i] = np.triu(full[i, :, i])  # nobody looks below
            if i + 1 < count:
                upper[offsets[m] + i] = full[i, :, i + 1]
        flat = full.reshape(count * F, count * F)
        free = np.r_[F : (count - 1) * F, (count - 1) * F + D : count * F]  # the last end is held
        inner = np.linalg.solve(flat[np.ix_(free, free)], flat[free, :F])
        expected[m] = flat[:F, :F] - flat[:F, free] @ inner
    left = np.empty_like(expected)
    eliminate_backwards(offsets, D, diagonal, upper, left)
    np.testing.assert_allclose(left, expected, rtol=1e-10, atol=1e-10)


@pytest.mark.loops
def test_what_is_not_positive_definite_has_no_schur_complement():
    left = np.zeros((1, 2, 2))
    diagonal, upper = np.array([np.eye(2), -np.eye(2)]), np.zeros((2, 2, 2))
    eliminate_backwards(np.array([0, 2]), 1, diagonal, upper, left)
    assert np.isnan(left).all()
