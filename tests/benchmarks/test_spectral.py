"""The spectral fixed point, which others are measured against, finds closed-form solutions."""

import numpy as np
import pytest
import spectral
from baselines import bvp_families, perturbed
from measures import largest_errors
from numpy.polynomial import chebyshev


def solved(name, tol, count=3, **options):
    copies = perturbed(bvp_families(0.1)[name], count)
    ya, yb, args = (np.array([getattr(p, k) for p in copies]) for k in ("ya", "yb", "parameters"))
    found = spectral.solve(copies[0].field, copies[0].t_span, ya, yb, args, tol, **options)
    t = np.linspace(*copies[0].t_span, 101)
    return found, largest_errors(found.position(t), np.array([p.solution(t) for p in copies]))


@pytest.mark.parametrize("name", ["bratu", "coupled", "cash01"])
def test_it_converges_to_the_closed_form(name):
    found, errors = solved(name, 1e-9)
    assert found.converged.all()
    assert errors.max() < 1e-9


def test_a_smaller_tolerance_brings_smaller_errors():
    loose, tight = (solved("hyperbolic", tol)[1].max() for tol in (1e-2, 1e-8))
    assert tight < 1e-3 * loose


def test_too_few_nodes_are_a_failure_and_not_a_success():
    found, errors = solved("hyperbolic", 1e-9, sizes=(4,))
    assert errors.max() > 1e-6
    assert not found.converged.any()


def test_maps_integrate_polynomials_exactly():
    """y'' = 12 t^2 - 6 t with y(0) = y(2) = 0 has y = t^4 - t^3 - 4 t."""
    span = (0.0, 2.0)
    t = 1 + chebyshev.chebpts2(5)
    s = np.linspace(-1.0, 1.0, 7)
    maps = spectral.maps(5, s, span)
    a = 12 * t**2 - 6 * t
    u = maps.t
    np.testing.assert_allclose(maps.acceleration @ a, 12 * u**2 - 6 * u, atol=1e-12)
    np.testing.assert_allclose(maps.velocity @ a, 4 * u**3 - 3 * u**2 - 4, atol=1e-12)
    np.testing.assert_allclose(maps.position @ a, u**4 - u**3 - 4 * u, atol=1e-12)
