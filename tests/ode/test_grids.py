"""Where f is evaluated. Erratum 7: the printed sigmoid grid is not symmetric, ours is."""

import numpy as np
import pytest
from scipy.special import erf

from probgeo.ode.grids import GRIDS

SIZES = range(1, 51)


@pytest.mark.parametrize("name", sorted(GRIDS))
def test_grids_are_increasing_and_as_long_as_asked(name):
    for n in SIZES:
        nodes = GRIDS[name](n)
        assert nodes.shape == (n,)
        assert (np.diff(nodes) > 0).all()


@pytest.mark.parametrize("name", ["sigmoid", "chebyshev"])
def test_grids_are_symmetric_and_strictly_inside(name):
    for n in SIZES:
        nodes = GRIDS[name](n)
        np.testing.assert_allclose(nodes + nodes[::-1], 1.0, atol=1e-15)
        assert nodes[0] > 0.0
        assert nodes[-1] < 1.0


def test_the_linear_grid_has_equal_steps_from_end_to_end():
    for n in SIZES[1:]:
        nodes = GRIDS["linear"](n)
        np.testing.assert_allclose(np.diff(nodes), 1.0 / (n - 1), rtol=1e-12)
        np.testing.assert_array_equal(nodes[[0, -1]], [0.0, 1.0])
    # one evaluation belongs to the start, where an initial value problem knows its state
    assert GRIDS["linear"](1)[0] == 0.0


def test_the_sigmoid_grid_crowds_towards_the_ends():
    steps = np.diff(GRIDS["sigmoid"](20))
    assert steps[0] < 0.3 * steps.max()
    assert steps[-1] < 0.3 * steps.max()


def test_erratum_7_the_printed_grid_is_not_symmetric():
    """t_i = (1 + erf(-1.5 + 3 i / N)) / 2 for i = 1..N, as printed, leans to the right."""
    for n in (2, 5, 20):
        printed = 0.5 * (1.0 + erf(-1.5 + 3.0 * np.arange(1, n + 1) / n))
        assert np.abs(printed + printed[::-1] - 1.0).max() > 0.01
        # the last node is the same in both; the first one moves to its mirror image
        ours = GRIDS["sigmoid"](n)
        np.testing.assert_allclose(ours[-1], printed[-1], rtol=1e-12)
        np.testing.assert_allclose(ours[0], 1.0 - printed[-1], rtol=1e-9)
