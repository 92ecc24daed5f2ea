"""Figs. 1 and 2, and the figure of the errata, in tiny settings; and how runs are kept."""

import json

import matplotlib.pyplot as plt
import numpy as np
import pytest

from probgeo import metrics, paper
from probgeo.paper import classical, errata, figure1
from probgeo.paper.experiment import Outcome, Settings
from tests.paper.tiny import outcome


def test_figure_1(tmp_path):
    found = outcome("fig1", tmp_path)["numbers"]
    # the error of both solvers is one their error bars know of
    for name in ("paper", "default"):
        assert found["converged"][name] == [True]
        assert found["largest_error"][name][0] < 3 * found["largest_std"][name][0]
    assert found["own_error"] < 1e-3  # the default tolerance, of an extent of about two
    assert (tmp_path / "fig1_animated.gif").read_bytes()[:3] == b"GIF"


def test_before_any_evaluation_there_is_a_bridge_between_the_ends():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(50, 2))
    _, first, second = figure1.bridge(X, Settings())
    for draws in (first, second):
        np.testing.assert_allclose(draws[:, [0, -1]], np.tile(figure1.ENDS, (20, 1, 1)), atol=1e-5)
    assert np.std(first[:, 50]) > 0.1


def test_figure_2(tmp_path):
    record = outcome("fig2", tmp_path)
    ours, theirs = record["numbers"]["default solver"], record["numbers"]["scipy"]
    same = np.array(theirs["converged"]) & np.array(ours["converged"])
    assert same.sum() >= 4
    lengths = np.array([ours["length"], theirs["length"]])[:, same]
    # to the tolerance of SciPy, 1e-3; we may have found a shorter one
    assert np.all(lengths[0] <= 1.002 * lengths[1])
    # only the fifth has an uncertain end
    assert ours["length_std"][4] > 10 * max(ours["length_std"][:4])


def test_errata(tmp_path):
    record = outcome("errata", tmp_path)
    excess = record["numbers"]["mean_excess_percent"]
    assert excess["right"] < 0.01 < excess["printed"]
    # both conserve the speed, up to the tolerance
    assert max(record["numbers"]["largest_relative_change_of_speed"].values()) < 1e-2
    assert record["claims"][0]["verdict"] == "disagrees"


def test_in_one_dimension_the_printed_equation_is_right():
    rng = np.random.default_rng(0)
    tensors = np.array([1.0, 2.0, 5.0])[:, None, None]
    metric = classical.NumpyMetric(metrics.LocalMetrics(rng.normal(size=(3, 1)), tensors, rho=1.0))
    y = rng.normal(size=(2, 7))
    np.testing.assert_allclose(metric.field(0.0, y, printed=True), metric.field(0.0, y), rtol=1e-12)


class TestKeeping:
    """What is finished is not run again; what fails does not cost the rest."""

    @pytest.fixture
    def runs(self, monkeypatch):
        calls = []

        def run(settings: Settings) -> Outcome:
            calls.append(settings)
            if settings.seed == 13:
                raise FloatingPointError("no luck")
            figure, ax = plt.subplots()
            ax.plot([0.0, 1.0])
            return Outcome({"errata": figure}, {"value": np.arange(3.0)}, {"n": 1})

        monkeypatch.setattr(errata, "run", run)
        return calls

    def test_finished_experiments_are_kept(self, runs, tmp_path):
        for _ in range(2):
            found = paper.reproduce(["errata"], tmp_path, progress=False)
        assert len(runs) == 1
        assert found["errata"]["numbers"]["value"] == [0.0, 1.0, 2.0]
        assert json.loads((tmp_path / "results.json").read_text())["errata"]["numbers"]
        paper.reproduce(["errata"], tmp_path, progress=False, again=True)
        paper.reproduce(["errata"], tmp_path, progress=False, seed=1)
        (tmp_path / "errata.png").unlink()
        paper.reproduce(["errata"], tmp_path, progress=False, seed=1)
        assert len(runs) == 4

    def test_failures_are_reported_and_tried_again(self, runs, tmp_path, capsys):
        for _ in range(2):
            found = paper.reproduce(["errata"], tmp_path, seed=13)
        assert found["errata"]["error"] == "FloatingPointError: no luck"
        assert "no luck" in (tmp_path / "index.html").read_text()
        assert "no luck" in capsys.readouterr().err
        assert len(runs) == 2

    def test_experiments_in_processes_of_their_own(self, tmp_path):
        found = paper.reproduce(["errata", "fig2"], tmp_path, tiny=True, jobs=2)
        assert [name for name, record in found.items() if "error" not in record] == list(found)
        assert set(found) == {"errata", "fig2"}

    def test_unknown_figures_are_named(self, tmp_path):
        with pytest.raises(ValueError, match="unknown figure 'fig7'; there are fig1, fig2"):
            paper.reproduce(["fig7"], tmp_path)
