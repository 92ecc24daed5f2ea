"""Logarithms in the weak form."""

import numpy as np
import pytest

from probgeo import metrics
from probgeo.geometry.chains import Chains, minimise
from probgeo.geometry.elements import measured
from probgeo.geometry.momentum import start_velocities

RNG = np.random.default_rng(0)


def geodesics(metric, a, b, elements):
    """Curves of least energy from a (D,) to b (P, D), on equal steps."""
    t, count = np.linspace(0.0, 1.0, elements + 1), len(b)
    rise = (b - a)[:, None] * np.ones((1, len(t), 1))
    nodes = np.stack([a + t[:, None] * rise, rise], axis=2).reshape(-1, 2, len(a))
    chains = Chains(nodes, np.tile(t, count), np.arange(count + 1) * len(t))
    return minimise(metric, chains, 1e-15).chains


@pytest.mark.parametrize("metric", [metrics.HalfPlane(), metrics.Sphere()])
def test_closed_forms(metric):
    """Sixty-four times better on twice as many elements, where the slope is eight times better."""
    a = np.array([0.3, 0.8])
    b = np.stack([0.7 * RNG.normal(size=6), np.exp(0.4 * RNG.normal(size=6))], axis=1)
    exact, weak, slope = np.asarray(metric.log(a, b)), [], []
    for elements in (2, 4):
        chains = geodesics(metric, a, b, elements)
        weak.append(np.linalg.norm(start_velocities(metric, chains) - exact))
        slope.append(np.linalg.norm(chains.nodes[chains.offsets[:-1], 1] - exact))
    assert weak[0] / weak[1] == pytest.approx(64.0, rel=0.5)
    assert slope[0] / slope[1] == pytest.approx(8.0, rel=0.5)
    assert weak[1] < 1e-2 * slope[1]


def test_the_error_by_splitting_is_the_true_one():
    metric, a = metrics.HalfPlane(), np.array([0.3, 0.8])
    b = np.stack([RNG.normal(size=20), np.exp(0.7 * RNG.normal(size=20))], axis=1)
    chains = geodesics(metric, a, b, 4)
    made = measured(metric, chains)
    found = start_velocities(metric, chains)
    corrected = Chains(made.fine.nodes + made.error, made.fine.t, made.fine.offsets)
    error = start_velocities(metric, corrected) - found
    true = np.asarray(metric.log(a, b)) - found
    left = np.linalg.norm(error - true, axis=1) / np.linalg.norm(true, axis=1)
    assert np.median(left) < 0.15
    assert np.max(left) < 0.5
