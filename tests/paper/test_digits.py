"""Figs. 3, 4 and 5 in tiny settings, against SciPy."""

import numpy as np
import pytest

from probgeo.paper import figure3_right, figure4, figure5
from probgeo.paper.experiment import Settings
from tests.paper.tiny import outcome


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("digits")


def test_figure_3(folder):
    found = outcome("fig3", folder)["numbers"]
    theirs, ours = found["scipy"], found["default"]
    assert theirs["lost"] == 0
    # ours may be off by a tenth of the standard error of 16 points, SciPy's geodesics by 1e-3
    off = 0.1 / np.sqrt(16) + 1e-3  # of the spread
    assert ours["distance_of_means"] < off * ours["spread"]
    assert ours["angle_degrees"] < np.rad2deg(off)
    assert ours["explained_variance"] == pytest.approx(theirs["variance"], rel=2 * off)


def test_figure_4(folder):
    record = outcome("fig4", folder)
    found = record["numbers"]
    assert found["scipy_failed"] == 0
    # twice the standard deviation is below a thousandth of the extent
    assert found["default"]["median_relative_difference"] < 1e-3
    assert found["default"]["coverage"] >= 0.8  # of 16
    assert found["coarse"]["coverage"] >= 0.7
    assert found["default"]["longer_by_1_percent"] == 0
    assert len(record["claims"]) == 3


def test_figure_5(folder):
    found = outcome("fig5", folder)["numbers"]
    assert found["timed"] == 3
    assert found["in_batch"] == 16
    for name in ("paper's", "default"):
        assert found[name]["ms_in_batch"] > 0
        ratio = found["scipy"]["ms"] / found[name]["ms_alone"]
        assert found[name]["ratio_alone"] == pytest.approx(ratio)


def test_run_time_of_means(folder):
    rows = outcome("fig3-right", folder)["numbers"]["rows"]
    assert [row["D"] for row in rows] == [2]
    ours, theirs = rows[0]["default"]["mean"], rows[0]["scipy"]["mean"]
    # five steps of the same descent, geodesics to 1e-3 on both sides, points about three apart
    np.testing.assert_allclose(ours, theirs, atol=1e-2)
    assert rows[0]["scipy"]["lost"] == 0


def test_what_takes_too_long_is_extrapolated():
    rng = np.random.default_rng(0)

    class Flat:
        def field(self, t, y):
            return np.concatenate([y[2:], 0 * y[2:]])

    bases = np.zeros(2), np.ones(2)
    found = figure3_right._by_scipy(Flat(), rng.normal(size=(10, 2)), bases, 0.0)
    assert found["extrapolated"]
    assert found["sample"] == 2  # one from each end of the descent
    assert found["seconds"] > 0


def test_settings_have_three_sizes():
    assert [Settings(*s).choose(3, 2, 1) for s in ((), (True,), (False, 0, True))] == [3, 2, 1]


@pytest.mark.parametrize(
    ("ratios", "verdict"),
    [
        ({2: 3.0, 10: 9.0}, "agrees"),
        ({2: 3.0, 10: 9.0, 50: 4.0}, "partly"),
        ({2: 1.5, 10: 9.0}, "partly"),
        ({2: 0.5, 10: 0.9}, "disagrees"),
    ],
)
def test_the_verdict_on_run_times_of_means(ratios, verdict):
    """Faster everywhere, and the more so the more dimensions."""
    assert figure3_right._claim(ratios).verdict == verdict


@pytest.mark.parametrize(
    ("coverage", "squared", "verdict"),
    [(0.95, 1.0, "agrees"), (1.0, 0.9, "agrees"), (1.0, 1e-6, "partly"), (0.8, 1.0, "disagrees")],
)
def test_the_verdict_on_error_bars(coverage, squared, verdict):
    """They cover, and they are no longer than need be."""
    numbers = {"coverage": coverage, "normalised_squared_error": squared, "flagged": 0}
    numbers |= {"mean_relative_difference": 1e-3, "mean_relative_std": 1e-3}
    claim = figure4._claim("default", numbers)
    assert claim.verdict == verdict
    assert ("1000 times" in claim.why) == (verdict == "partly")


@pytest.mark.parametrize(
    ("batch", "alone", "verdict"), [(20.0, 6.0, "agrees"), (20.0, 1.3, "partly"), (0.5, 0.2, "disagrees")]
)
def test_the_verdict_on_speed(batch, alone, verdict):
    """Both in one batch and one at a time."""
    found = {"ratio_in_batch": batch, "ratio_alone": alone, "slow_over_median": 1.1}
    claims = figure5._claims({"paper's": found, "default": found}, 2.5)
    assert [claim.verdict for claim in claims] == [verdict, verdict, "agrees"]
