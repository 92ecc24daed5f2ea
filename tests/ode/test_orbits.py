"""Curves of any order with parameters: what their loops compute, written out in NumPy."""

import numpy as np
import pytest

from probgeo.functions.in_numpy import derivative, derivative_at_once
from probgeo.ode.markov.general import _norm, _sizes
from probgeo.ode.markov.orbits import Orbits, Step
from probgeo.ragged import offsets_of


@pytest.fixture(params=[1, 2, 4])
def orbits(request):
    q, k, D, P = request.param, 5, 2, 1
    rng = np.random.default_rng(q)
    counts = [4, 3, 6]
    offsets = offsets_of(counts)
    t = np.concatenate([np.r_[0.0, np.sort(rng.uniform(size=n - 2)), 1.0] for n in counts])
    y, v = rng.normal(size=(len(t), q, D)), rng.normal(size=(len(t) - 3, k, D))
    kept = np.stack([offsets[:-1], offsets[1:] - 1], axis=1)
    return Orbits(t, offsets, y, v, rng.normal(size=(3, P)), kept)


def step_of(curves):
    rng = np.random.default_rng(9)
    return Step(*(rng.normal(size=x.shape) for x in (curves.y, curves.v, curves.p)))


def test_changed(orbits):
    step, by = step_of(orbits), np.array([1.0, 0.0, 0.3])
    found = orbits.changed(step, by)
    rows = np.repeat(by, orbits.sizes)[:, None, None]
    np.testing.assert_allclose(found.y, orbits.y + rows * step.z, rtol=1e-14)
    of_elements = by[orbits.member][:, None, None]
    np.testing.assert_allclose(found.v, orbits.v + of_elements * step.v, rtol=1e-14)
    np.testing.assert_allclose(found.p, orbits.p + by[:, None] * step.p, rtol=1e-14)


def test_steps_are_measured_by_sizes(orbits):
    step = step_of(orbits)
    found = _norm(orbits, step, _sizes(orbits, step))
    for m in range(orbits.count):
        rows = slice(orbits.offsets[m], orbits.offsets[m + 1])
        moves = np.abs(step.z[rows]).max(axis=(0, 2))
        sizes = np.maximum(np.abs(orbits.y[rows]).max(axis=(0, 2)), moves)
        of_states = (moves / np.maximum.accumulate(sizes)).max()
        of_p = np.abs(step.p[m]) / np.maximum(np.abs(step.p[m]), np.abs(orbits.p[m]))
        assert found[m] == pytest.approx(max(of_states, of_p.max()), rel=1e-14)


def test_a_step_that_is_not_a_number_has_no_length(orbits):
    step = step_of(orbits)
    step.z[orbits.offsets[1], 0, 1] = np.nan
    assert np.isnan(_norm(orbits, step, _sizes(orbits, step))).tolist() == [False, True, False]


def test_gaps_are_how_far_pieces_miss_the_next_node(orbits):
    powers = np.arange(orbits.pieces().shape[1])
    found = orbits.gaps().reshape(len(orbits.v), orbits.order, -1)
    for d in range(orbits.order):
        falling = np.prod([powers**0, *(powers - j for j in range(d))], axis=0)
        ends = np.einsum("k,ekd->ed", falling, orbits.pieces()) / orbits.h[:, None] ** d
        np.testing.assert_allclose(found[:, d], ends - orbits.y[orbits.left + 1, d], atol=1e-10)


def test_split_curves_are_the_same(orbits):
    fine = orbits.split()
    np.testing.assert_array_equal(fine.t[fine.kept], orbits.t[orbits.kept])
    assert np.abs(fine.gaps()[::2]).max() < 1e-11
    np.testing.assert_allclose(fine.gaps()[1::2], orbits.gaps(), atol=1e-11)
    at, states = fine.states(gauss_only=False)
    coarse = np.repeat(orbits.left, 2)
    share = (at - orbits.t[coarse][:, None]) / np.repeat(orbits.h, 2)[:, None]
    powers = share[..., None] ** np.arange(orbits.pieces().shape[1])
    expected = powers @ np.repeat(orbits.pieces(), 2, axis=0)
    np.testing.assert_allclose(states[:, :, 0], expected, atol=1e-11)


def test_derivatives_by_one_call():
    x = np.random.default_rng(0).normal(size=(4, 3))

    def g(rows):
        return np.stack([np.sin(rows[:, 0]) * rows[:, 1], rows[:, 2] ** 2], axis=1)

    np.testing.assert_allclose(derivative_at_once(g, x), derivative(g, x), rtol=1e-12, atol=1e-12)
