"""Geodesics of a sphere that pass by the pole at which its chart ends."""

import numpy as np
import pytest

from probgeo import Manifold, metrics


@pytest.mark.parametrize("D", [2, 10, 20, 50])
def test_curves_do_not_slide_over_the_pole(D):
    """Far out the metric is next to nothing, and a long step of Newton's method is lost there."""
    sphere, a, b = metrics.Sphere(D), -np.linspace(0.0, 1.0, D), np.full(D, 0.5)
    found = Manifold(sphere).geodesic(a, b)
    assert found.converged
    exact = sphere.distance(a, b)
    # lengths are of sixth order where curves are of fourth: far below the tolerance of curves, 1e-3
    assert abs(found.length.mean - exact) < 1e-4 * exact
    assert abs(found.length.mean - exact) < 3.0 * found.length.std
