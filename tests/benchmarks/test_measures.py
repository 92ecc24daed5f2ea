"""Times at equal error, counts of bad answers, and calibration, on numbers made up for it."""

import numpy as np
import pytest
from measures import calibration, judged, largest_errors, ratios, slope, time_at_error, time_needed


def sweep(problem, solver, pairs, **counts):
    zero = {"failures": 0, "false": 0}
    return [
        {"problem": problem, "solver": solver, "error": error, "time": time} | zero | counts for error, time in pairs
    ]


def test_times_are_interpolated_in_the_logarithms():
    assert time_at_error([1e-2, 1e-6], [1.0, 100.0], 1e-4) == pytest.approx(10.0)


def test_a_setting_that_is_slower_and_worse_does_not_count():
    assert time_at_error([1e-2, 1e-4, 1e-6], [1.0, 1e4, 100.0], 1e-4) == pytest.approx(10.0)


def test_an_error_that_is_never_reached_has_no_time():
    assert np.isnan(time_at_error([1e-2], [1.0], 1e-3))
    assert np.isnan(time_at_error([], [], 1e-3))


def test_more_accuracy_than_asked_for_is_not_extrapolated():
    assert time_at_error([1e-8], [3.0], 1e-3) == pytest.approx(3.0)


@pytest.mark.parametrize("kind", ["failures", "false"])
def test_settings_with_bad_members_do_not_count(kind):
    rows = sweep("p", "a", [(1e-6, 5.0)]) + sweep("p", "a", [(1e-6, 1.0)], **{kind: 1})
    assert time_needed(rows, 1e-5) == pytest.approx(5.0)


def test_ratios_are_ours_over_theirs_by_problem():
    rows = sweep("p", "ours", [(1e-6, 6.0)]) + sweep("p", "theirs", [(1e-6, 2.0)])
    rows += sweep("q", "ours", [(1e-6, 1.0)]) + sweep("q", "theirs", [(1e-2, 2.0)])
    found = ratios(rows, "ours", "theirs", 1e-5)
    assert found["p"] == pytest.approx(3.0)
    assert np.isnan(found["q"])


def test_failures_and_false_successes_are_counted_apart():
    found = judged([1e-5, 0.5, np.nan, 0.5, 3e-5], [True, True, True, False, True])
    assert (found["count"], found["failures"], found["false"]) == (5, 1, 2)
    assert judged([1e-5, 3e-5, 9.0], [True, True, False])["error"] == 3e-5
    assert judged([1.0], [False])["error"] is None


def test_errors_are_relative_to_each_solution():
    exact = np.array([[[1.0], [2.0]], [[10.0], [20.0]]])
    np.testing.assert_allclose(largest_errors(exact + 0.2, exact), [0.1, 0.01])


@pytest.mark.parametrize("spread", [0.5, 1.0, 2.0])
def test_calibration_of_gaussian_errors(spread):
    """Error bars that are right, or off by a known factor."""
    std = np.array([1.0, 0.3])
    errors = np.random.default_rng(0).normal(size=(20, 1000, 2)) * std
    coverage, square = calibration(errors, np.broadcast_to(spread * std, errors.shape))
    within = {0.5: 0.683, 1.0: 0.954, 2.0: 1.0}[spread]
    assert coverage == pytest.approx(within, abs=0.01)
    assert square == pytest.approx(spread**-2, rel=0.03)


def test_one_curve_that_is_off_does_not_hide_the_others():
    errors = np.array([[1.0, -1.0], [1.0, 1.0], [100.0, 100.0]])
    assert calibration(errors, np.ones((3, 2))) == (pytest.approx(2 / 3), 1.0)


def test_growth_is_that_of_the_largest_sizes():
    assert slope([1, 10, 100], [5.0, 1.0, 100.0]) == pytest.approx(2.0)
