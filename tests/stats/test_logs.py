"""Logarithms of many points, and how they change with their base."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from probgeo import Manifold, metrics
from probgeo.stats import logs
from probgeo.stats.logs import logs_at, slope_of_log

BASE, END = jnp.array([0.3, 0.8]), jnp.array([1.2, 1.4])


@pytest.mark.parametrize("metric", [metrics.HalfPlane(), metrics.Sphere()])
def test_slopes_are_those_of_the_closed_form(metric):
    """Central differences: four times better on twice as many steps."""
    exact = jax.jacfwd(lambda a: metric.log(a, END))(BASE)
    errors = []
    for steps in (32, 64):
        t = np.linspace(0.0, 1.0, steps + 1)[1:, None]
        v = metric.log(BASE, END)
        c = metric.exp(BASE, t * v)
        dc = -metric.log(c, BASE) / t  # looking back
        c, dc = (jnp.concatenate([x[None], y]) for x, y in ((BASE, c), (v, dc)))
        errors.append(np.abs(slope_of_log(metric, c, dc) - exact).max())
    assert errors[0] < 1e-3
    assert errors[0] / errors[1] == pytest.approx(4.0, rel=0.2)


def test_logarithms_in_chunks_are_those_of_the_closed_form(monkeypatch):
    metric, rng = metrics.HalfPlane(), np.random.default_rng(0)
    X = np.stack([rng.normal(size=7), np.exp(0.5 * rng.normal(size=7))], axis=1)
    monkeypatch.setattr(logs, "AT_ONCE", 4)
    found = logs_at(Manifold(metric), np.asarray(BASE), X)
    exact = np.asarray(metric.log(BASE, X))
    std = np.sqrt(np.einsum("pii->pi", found.cov))
    assert found.converged.all()
    assert np.all(np.abs(found.vectors - exact) < 4 * std + 1e-9)
    np.testing.assert_allclose(found.length, metric.distance(BASE, X), rtol=1e-3)
    step = np.array([1e-3, -2e-3])
    moved = metric.log(BASE + step, X)
    np.testing.assert_allclose(found.moved(step).vectors, moved, atol=2e-5 + 4 * std.max())


def test_flat_space_needs_no_solver():
    A = np.array([[2.0, 0.5], [0.5, 1.0]])
    X = np.random.default_rng(1).normal(size=(5, 2))
    found = logs_at(Manifold(metrics.Flat(A)), np.zeros(2), X)
    np.testing.assert_array_equal(found.vectors, X)
    np.testing.assert_allclose(found.length, np.sqrt(np.einsum("pi,ij,pj->p", X, A, X)))
    assert not found.cov.any()
