"""Cubic elements: their order, their error by splitting, meshes."""

import numpy as np
import pytest

from probgeo import metrics
from probgeo.geometry.chains import minimise
from probgeo.geometry.elements import (
    calibrate,
    choose_nodes,
    extents,
    from_fine_polygons,
    from_polygons,
    halved,
    measured,
    refined,
)
from probgeo.geometry.starts import lines
from probgeo.ode.error_shape import ErrorShape
from probgeo.ode.piecewise import PiecewisePosterior, hermite_pieces
from tests.geometry.chains import random_chains

RNG = np.random.default_rng(2)
HALF = metrics.HalfPlane()
A = np.array([[-1.0, 0.5], [0.0, 1.0], [0.3, 0.6]])
B = np.array([[1.0, 1.0], [2.0, 1.0], [0.9, 0.4]])
T = np.linspace(0.0, 1.0, 101)


def curve(chains, t, derivative=0):
    pieces = hermite_pieces(chains.t, chains.offsets, chains.nodes)
    envelope = np.zeros((len(chains.t), chains.nodes.shape[2]))
    posterior = PiecewisePosterior(chains.t, chains.offsets, pieces, None, envelope, 2, True)
    return posterior.mean(t, derivative)


def solved(elements):
    return minimise(HALF, from_polygons(lines(A, B, elements)), 1e-13).chains


def exact(t):
    return np.stack([HALF.exp(A, s * HALF.log(A, B)) for s in t], axis=1)


def test_fourth_order_in_position_and_sixth_in_length():
    errors, lengths = [], []
    for elements in (8, 16):
        chains = solved(elements)
        errors.append(np.abs(curve(chains, T) - exact(T)).max())
        lengths.append(np.abs(measured(HALF, chains).length - HALF.distance(A, B)).max())
    assert 10 < errors[0] / errors[1] < 24
    assert 40 < lengths[0] / lengths[1] < 96


def test_splitting_and_one_step_give_the_error():
    """With its sign: what is left of it after the correction is a tenth at most."""
    chains = solved(8)
    made = measured(HALF, chains)
    assert made.definite.all()
    before = np.abs(curve(chains, T) - exact(T)).max(axis=(1, 2))
    after = np.abs(curve(made.corrected(), T) - exact(T)).max(axis=(1, 2))
    assert np.all(after < 0.1 * before)
    off = made.length - HALF.distance(A, B)
    np.testing.assert_allclose(made.excess, off, rtol=0.1)


@pytest.mark.loops
def test_splitting_leaves_curves_as_they_are():
    chains = random_chains(RNG, 2, 3)
    fine = halved(chains)
    assert np.diff(fine.offsets).tolist() == (2 * np.diff(chains.offsets) - 1).tolist()
    for derivative in (0, 1):
        np.testing.assert_allclose(curve(fine, T, derivative), curve(chains, T, derivative), atol=1e-12)


@pytest.mark.loops
def test_the_scale_is_that_of_the_shape():
    """k(t, t) at nodes and half-way, from `ode.error_shape`, which has tests of its own."""
    chains = random_chains(RNG, 2, 2)
    fine, count = halved(chains), len(chains)
    error = RNG.normal(size=fine.nodes.shape)
    scale, widest, density = np.empty(count), np.empty(count), np.empty(count)
    local = np.empty(len(chains.t) - count)
    calibrate(chains.t, chains.offsets, error, scale, widest, density, local)
    shape = ErrorShape.on(chains.t, chains.offsets, 2, True)
    for m in range(count):
        first, last = chains.offsets[m], chains.offsets[m + 1]
        k = np.empty(2 * (last - first) - 1)
        k[::2] = shape.variances()[first:last]
        middle = 0.5 * (chains.t[first : last - 1] + chains.t[first + 1 : last])
        k[1::2] = shape.cov(np.full(len(middle), m), middle, middle)[:, 0, 0]
        e, inner = error[fine.offsets[m] : fine.offsets[m + 1], 0], slice(1, -1)
        squared = np.mean(e[inner] ** 2 / k[inner, None])
        np.testing.assert_allclose(scale[m] ** 2, squared, rtol=1e-9)
        np.testing.assert_allclose(widest[m] ** 2, squared * k.max(), rtol=1e-9)
        logs = -0.5 * (np.log(2 * np.pi * squared * k[inner, None]) + e[inner] ** 2 / k[inner, None] / squared)
        np.testing.assert_allclose(density[m], np.sum(logs), rtol=1e-9)


@pytest.mark.loops
def test_local_errors_are_those_beyond_the_ends():
    """None where the error is a cubic between coarse nodes."""
    chains = random_chains(RNG, 2, 2)
    error = halved(chains)  # a smooth error, cubic on coarse elements
    out = [np.empty(len(chains)) for _ in range(3)]
    local = np.empty(len(chains.t) - len(chains))
    calibrate(chains.t, chains.offsets, error.nodes, *out, local)
    np.testing.assert_allclose(local, 0.0, atol=1e-12)


def test_meshes_get_nodes_where_the_error_is_made():
    chains = solved(8)
    made = measured(HALF, chains)
    finer = refined(chains, made, made.corrected(), 1e-12 * extents(chains), made.definite)
    for m in range(len(chains)):
        old = chains.t[chains.offsets[m] : chains.offsets[m + 1]]
        new = finer.t[finer.offsets[m] : finer.offsets[m + 1]]
        assert set(old) <= set(new)
        assert len(old) < len(new) <= 2 * len(old) - 1
        worst = np.argmax(made.local[8 * m : 8 * m + 8])
        assert 0.5 * (old[worst] + old[worst + 1]) in new


@pytest.mark.loops
def test_graded_meshes_are_fine_where_curves_bend():
    t = np.linspace(0.0, 1.0, 33)
    polygon = np.stack([t, np.tanh(20 * (t - 0.3))], axis=1)[None]
    chains = from_fine_polygons(polygon, np.array([1e-3]), 6)
    steps = np.diff(chains.t)
    assert chains.t[0] == 0.0
    assert chains.t[-1] == 1.0
    middle = 0.5 * (chains.t[1:] + chains.t[:-1])
    assert steps[np.abs(middle - 0.3) < 0.1].max() < 0.5 * steps[middle > 0.6].min()
    assert steps.max() <= 1 / 6 + 1 / 32
    straight = np.zeros((1, 33), dtype=bool)
    choose_nodes(np.stack([t, t], axis=1)[None], np.array([1e-3]), 4, straight)
    assert straight[0].nonzero()[0].tolist() == [0, 8, 16, 24, 32]
