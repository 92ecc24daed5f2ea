"""The command line, as a user types it."""

import csv
import json
import signal
import subprocess
import sys
import types
import warnings
from dataclasses import replace

import numpy as np
import pytest
from matplotlib.figure import Figure

import probgeo
from probgeo import ConvergenceWarning, Manifold, cluster, data, metrics, paper, save
from probgeo._json import plain
from probgeo.cli import main
from probgeo.commands import figures, fitting
from probgeo.commands.figures import draw_fit, draw_geodesic
from probgeo.commands.fitting import fit_summary, heard, plus_minus, sampled
from probgeo.commands.learned import Space
from probgeo.commands.tables import Table, read_table
from probgeo.stats import PrincipalGeodesics

X = data.half_circle(14)
METRIC = metrics.from_mixture(X, 2, rho=0.5)
SIMPLE = {"mean": [0.0, 0.0], "converged": True}
SMALL = ("--components", "2", "--rho", "0.5", "--quiet")


def write_csv(path, rows, header=None):
    with path.open("w", newline="") as file:
        csv.writer(file).writerows(([header] if header else []) + [list(row) for row in rows])
    return path


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with data."""
    folder = tmp_path_factory.mktemp("cli")
    write_csv(folder / "points.csv", X, ("width", "cost $"))
    np.save(folder / "points.npy", X)
    return folder


@pytest.fixture(scope="module")
def fitted(folder):
    """What `fit` makes of them."""
    assert main(["fit", f"{folder}/points.csv", *SMALL, "--out", f"{folder}/fit"]) == 0
    return folder / "fit"


@pytest.fixture(scope="module")
def results(fitted):
    return json.loads((fitted / "results.json").read_text())


@pytest.fixture(scope="module")
def saved(folder):
    """A file with the metric, as `fit` writes it."""
    Space(METRIC).save(folder / "metric.npz")
    return folder / "metric.npz"


@pytest.fixture(scope="module")
def pga():
    return PrincipalGeodesics(Manifold(METRIC)).fit(X)


def complaint(capsys, *arguments):
    """What is said about bad input: on stderr, in the words of the command, without traceback."""
    assert main([str(a) for a in arguments]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert f"probgeo {arguments[0]}: error: " in said.err
    assert "Traceback" not in said.err
    return said.err


def test_help_as_a_program():
    done = subprocess.run([sys.executable, "-m", "probgeo", "--help"], capture_output=True, text=True, check=True)
    for command in ("reproduce", "fit", "geodesic"):
        assert command in done.stdout


def test_version(capsys):
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"probgeo {probgeo.__version__}\n"


@pytest.mark.slow
class TestFit:
    def test_is_what_the_estimator_says(self, results, pga):
        np.testing.assert_allclose(results["mean"], pga.mean_.mean, rtol=1e-10)
        np.testing.assert_allclose(results["mean_std"], pga.mean_.std, rtol=1e-6)
        error = np.sqrt(np.diagonal(pga.statistical_cov_))
        np.testing.assert_allclose(results["standard_error"], error)
        np.testing.assert_allclose(results["components"], pga.components_.mean, rtol=1e-8)
        np.testing.assert_allclose(results["components_std"], pga.components_.std, rtol=1e-6)
        np.testing.assert_allclose(results["explained_variance"], pga.explained_variance_)
        np.testing.assert_allclose(results["explained_variance_std"], pga.explained_variance_std_)
        ratio = pga.explained_variance_ratio_
        np.testing.assert_allclose(results["explained_variance_ratio"], ratio)
        assert results["converged"] is bool(pga.converged_) is True
        assert (results["message"], results["warnings"]) == (pga.message_, [])

    def test_says_how(self, results, folder):
        assert results["columns"] == ["width", "cost $"]
        assert results["settings"] == {
            "data": f"{folder}/points.csv",
            "columns": ["width", "cost $"],
            "points": 14,
            "sample": 14,
            "components": 2,
            "rho": 0.5,
            "modes": 2,
            "dimensions": None,
            "seed": 0,
        }
        assert results["notes"] == ["header: width, cost $ (--no-header if that is a point)"]
        assert results["seconds"] > 0
        assert set(results["versions"]) == {"probgeo", "numba", "numpy", "python"}

    def test_scores(self, results, fitted, pga):
        table = read_table(fitted / results["scores"])
        assert table.columns == ("row", "score1", "score1_std", "score2", "score2_std")
        scores = pga.scores(X)
        np.testing.assert_array_equal(table.values[:, 0], np.arange(14))
        np.testing.assert_allclose(table.values[:, [1, 3]], scores.mean, rtol=1e-8)
        np.testing.assert_allclose(table.values[:, [2, 4]], scores.std, rtol=1e-6)

    def test_metric_round_trips(self, fitted):
        space = Space.load(fitted / "metric.npz")
        assert space.origin is space.basis is None
        for name in ("centers", "tensors", "rho"):
            np.testing.assert_array_equal(getattr(space.metric, name), getattr(METRIC, name))

    def test_figures(self, fitted):
        assert (fitted / "fit.png").read_bytes().startswith(b"\x89PNG")
        assert (fitted / "fit.pdf").read_bytes().startswith(b"%PDF")

    def test_a_sample_keeps_the_numbers_of_rows(self, folder, tmp_path, capsys):
        call = ["fit", f"{folder}/points.csv", *SMALL, "--sample", "9", "--out", str(tmp_path)]
        assert main(call) == 0
        assert "learned from 9 of 14 points, drawn with seed 0" in capsys.readouterr().out
        scores = read_table(tmp_path / "scores.csv").values
        rows = scores[:, 0].astype(int)
        np.testing.assert_array_equal(rows, sampled(14, 9, 0))
        space = Space.load(tmp_path / "metric.npz")
        again = PrincipalGeodesics(Manifold(space.metric)).fit(X[rows]).scores(X[rows])
        np.testing.assert_allclose(scores[:, [1, 3]], again.mean, rtol=1e-8)

    def test_after_projection(self, tmp_path, capsys):
        """Data in a plane of three dimensions: the same manifold, turned."""
        turn = np.linalg.qr(np.random.default_rng(0).normal(size=(3, 3)))[0][:2]
        shifted = X @ turn + [1.0, 2.0, 3.0]
        np.save(tmp_path / "turned.npy", shifted)
        call = ["fit", f"{tmp_path}/turned.npy", *SMALL, "--dimensions", "2", "--out", tmp_path]
        assert main([str(a) for a in call]) == 0
        said = capsys.readouterr().out
        assert "projected from 3 columns, which keeps 100.0% of the variance" in said
        assert "pc1: " in said
        results = json.loads((tmp_path / "results.json").read_text())
        space = Space.load(tmp_path / "metric.npz")
        np.testing.assert_allclose(space.basis @ space.basis.T, np.eye(2), atol=1e-12)
        np.testing.assert_allclose(space.origin, shifted.mean(axis=0))
        back = space.origin + np.array(results["mean"]) @ space.basis
        np.testing.assert_allclose(results["projection"]["mean"], back)
        table = Table(shifted, ("x1", "x2", "x3"))
        points = space.coordinates(table).values
        np.testing.assert_allclose(space.origin + points @ space.basis, shifted, atol=1e-12)
        again = Space.learn(table, 2, 0.5, 2, 0)
        np.testing.assert_allclose(again.metric.centers, space.metric.centers)

    def test_summary(self, results):
        lines = fit_summary(results)
        assert lines[0] == "14 points in 2 dimensions, metric of 2 Gaussians, rho 0.5"
        mean, std, spread = (results[name][0] for name in ("mean", "mean_std", "spread"))
        assert lines[2].startswith(f"  width: {plus_minus(mean, 2 * std, spread)} (")
        assert f"{results['explained_variance_ratio'][0]:.1%} of all" in lines[4]
        assert lines[-1] == "converged"
        failed = fit_summary(results | {"converged": False, "message": "a reason"})
        assert failed[-1] == "not converged: a reason"
        names = ("columns", "mean", "mean_std", "spread", "standard_error")
        many = fit_summary(results | {name: 9 * results[name] for name in names})
        assert "  and 12 more in results.json" in many
        few = fit_summary(results | {"settings": results["settings"] | {"points": 99}})
        assert few[1] == "learned from 14 of 99 points, drawn with seed 0; --sample all uses all"


class TestGeodesic:
    @pytest.mark.slow
    def test_from_a_saved_metric(self, folder, saved, tmp_path, capsys):
        call = ["geodesic", folder / "points.npy", "--from", 0, "--to", 3, "--out", tmp_path]
        assert main([str(a) for a in [*call, "--metric", saved]]) == 0
        said = capsys.readouterr()
        geodesic = Manifold(METRIC).geodesic(X[0], X[3])
        length = Manifold(METRIC).distance(X[0], X[3])
        wanted = plus_minus(length.mean, 2 * length.std)
        assert f"length from row 0 to row 3: {wanted} (2 standard deviations)" in said.out
        assert "\nconverged\n" in said.out
        table = read_table(tmp_path / "geodesic.csv")
        assert table.columns == ("t", "x1", "x2", "x1_std", "x2_std")
        t = table.values[:, 0]
        np.testing.assert_allclose(t, np.linspace(0.0, 1.0, 101))
        np.testing.assert_allclose(table.values[:, 1:3], geodesic.mean(t), atol=1e-10)
        np.testing.assert_allclose(table.values[:, 3:], geodesic.std(t), atol=1e-10)
        np.testing.assert_allclose(table.values[[0, -1], 1:3], X[[0, 3]], atol=1e-8)
        for suffix in ("png", "pdf"):
            assert (tmp_path / f"geodesic.{suffix}").exists()

    @pytest.mark.slow
    def test_learns_the_same_metric(self, folder, tmp_path, capsys):
        call = ["geodesic", folder / "points.csv", *SMALL, "--from", 3, "--to", 0]
        assert main([str(a) for a in [*call, "--out", tmp_path]]) == 0
        length = Manifold(METRIC).distance(X[3], X[0])
        assert plus_minus(length.mean, 2 * length.std) in capsys.readouterr().out

    @pytest.mark.parametrize("row", [-1, 14])
    def test_rows_out_of_range(self, folder, tmp_path, capsys, row):
        call = ("geodesic", folder / "points.csv", "--from", 0, "--to", row, "--out", tmp_path)
        said = complaint(capsys, *call)
        assert f"--to must be a row from 0 to 13, counted without the header, got {row}" in said

    def test_no_way_to_go(self, folder, tmp_path, capsys):
        call = ("geodesic", folder / "points.csv", "--from", 5, "--to", 5, "--out", tmp_path)
        assert "--from 5 and --to 5 are the same point" in complaint(capsys, *call)

    def test_no_row_at_all(self, folder, capsys):
        assert "--from" in complaint(capsys, "geodesic", folder / "points.csv", "--to", 5)
        call = ("geodesic", folder / "points.csv", "--from", "first", "--to", 5)
        assert "invalid int value: 'first'" in complaint(capsys, *call)

    def test_bad_metric_files(self, folder, saved, tmp_path, capsys):
        call = ("geodesic", folder / "points.csv", "--from", 0, "--to", 1, "--out", tmp_path)
        said = complaint(capsys, *call, "--metric", tmp_path / "none.npz")
        assert f"there is no file {tmp_path}/none.npz" in said
        save([1.0], tmp_path / "other.npz")
        said = complaint(capsys, *call, "--metric", tmp_path / "other.npz")
        assert "other.npz is not a metric that `fit` has written, but a list" in said
        for bad in (folder / "points.csv", folder / "points.npy"):
            said = complaint(capsys, *call, "--metric", bad)
            assert f"{bad} was not written by probgeo.save" in said
        (tmp_path / "half.npz").write_bytes(saved.read_bytes()[:300])
        said = complaint(capsys, *call, "--metric", tmp_path / "half.npz")
        assert "half.npz is damaged: its end is missing" in said
        write_csv(tmp_path / "wide.csv", np.random.default_rng(0).normal(size=(5, 3)))
        said = complaint(capsys, call[0], tmp_path / "wide.csv", *call[2:], "--metric", saved)
        assert "the metric was learned from 2 columns, the data have 3" in said
        said = complaint(capsys, *call, "--metric", saved, "--rho", 2)
        assert "--rho is for a metric yet to be learned" in said


class TestTables:
    def read(self, folder, text, name="a.csv"):
        (folder / name).write_text(text)
        return read_table(folder / name)

    @pytest.mark.parametrize(
        ("text", "columns"),
        [
            ("1,2\n3,4\n", ("x1", "x2")),
            ("height,weight\n1,2\n3,4\n", ("height", "weight")),
            ("\ufeffa;b\n1;2\n\n3;4\n", ("a", "b")),
            ("a\tb\n1\t2\n3\t4", ("a", "b")),
            ('"a, b",1990\n1,2\n 3 , 4e0\n', ("a, b", "1990")),
            ("# a,b\n1,2\n3,4", ("a", "b")),
            ("0,1\n1,2\n3,4\n", ("0", "1")),  # as pandas writes columns without names,
            (",0,1\n0,1,2\n1,3,4\n", ("0", "1")),  # with its index,
            (",a,b\n0,1,2\n1,3,4\n", ("a", "b")),  # and with names
        ],
    )
    def test_ways_to_write_it(self, tmp_path, text, columns):
        table = self.read(tmp_path, text)
        assert table.columns == columns
        np.testing.assert_array_equal(table.values, [[1.0, 2.0], [3.0, 4.0]])

    def test_headers_are_told(self, tmp_path):
        text = "0,1\n1.5,2\n3,4\n"
        table = self.read(tmp_path, text)
        assert table.notes == ("header: 0, 1 (--no-header if that is a point)",)
        assert len(read_table(tmp_path / "a.csv", header=False).values) == 3
        assert self.read(tmp_path, "0,2\n1.5,2\n").notes == ("no header: the first point is 0, 2",)
        assert read_table(tmp_path / "a.csv", header=True).columns == ("0", "2")
        notes = self.read(tmp_path, ",0,1\n0,1,2\n1,3,4\n").notes
        assert notes[0].startswith("header: (no name), 0, 1")
        assert notes[1] == "left out: the first column, which has no name and counts the rows"

    @pytest.mark.parametrize(("rows", "count"), [("0\n1.5\n2.5\n", 2), ("0\n1\n2\n", 3)])
    def test_a_single_zero(self, tmp_path, rows, count):
        """Pandas' name of a column, if no number has the form of one."""
        assert len(self.read(tmp_path, rows).values) == count

    def test_a_point_at_zero_and_one(self, tmp_path):
        """Of a file with nothing but such points: the first is not a name."""
        assert len(self.read(tmp_path, "0,1\n0,1\n2,3\n").values) == 3

    def test_constant_columns(self):
        constant = Table(np.column_stack([X, np.ones(14)]), ("a", "b", "c")).without_constants()
        assert constant.columns == ("a", "b")
        assert constant.notes == ("left out: column 'c', which is 1 in every row",)
        np.testing.assert_array_equal(constant.values, X)

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ("x,kind\n1,cat\n2,dog\n", "column 'kind' of .* holds text, 'cat' in line 2"),
            ("1,cat\n2,dog\n", "column 'x2' of .* holds text, 'cat' in line 1"),
            ("x,y\n1,2\n3,4\n5,six\n", "column 'y' of .* holds text, 'six' in line 4"),
            ("name\nbob\n", "column 'name' of .* holds text, 'bob' in line 2"),
            ("1,2\n3\n", "1 columns in line 2, 2 in the first"),
            ("x;y\n1,5;2\n", "decimal commas, '1,5' in line 2: write 1.5 .pandas: read_csv"),
            ("1,5;2,3\n2,5;3,5\n", "decimal commas, '1,5' in line 1: write 1.5"),
            ("1.5 2.5\n3.5 4.5\n", "separated by spaces in line 2: columns must be separated by"),
            ("", "is empty"),
            ("x,y\n", "has no points"),
            ('1,2\n"3,4\n', "is not a .csv file"),
            ("x,y\n1,2\n3,nan\n4,5\n,6\n", "values in rows 1, 3 .counted from 0"),
            ("1,inf\n", "values in row 0 .counted from 0"),
            ("x\n" + 7 * "nan\n", "in rows 0, 1, 2, 3, 4 and 2 more"),
        ],
    )
    def test_bad_csv(self, tmp_path, text, message):
        with pytest.raises(ValueError, match=message):
            self.read(tmp_path, text)

    @pytest.mark.parametrize(
        ("array", "message"),
        [
            (np.array(["a", "b"]), "must hold real numbers, got <U1"),
            (np.ones((2, 2)) * 1j, "must hold real numbers, got complex128"),
            (np.array([{}]), "is not an array of numbers"),
            (np.ones(3), r"shape \(P, D\), got \(3,\)"),
            (np.array([[1.0], [np.nan]]), "values in row 1"),
        ],
    )
    def test_bad_npy(self, tmp_path, array, message):
        np.save(tmp_path / "a.npy", array)
        with pytest.raises(ValueError, match=message):
            read_table(tmp_path / "a.npy")

    def test_not_what_the_name_says(self, tmp_path):
        with pytest.raises(ValueError, match="is not an array of numbers"):
            self.read(tmp_path, "1,2\n", "a.npy")
        (tmp_path / "a.csv").write_bytes(b"\xff\xfe\x00")
        with pytest.raises(ValueError, match="is not a text file in UTF-8"):
            read_table(tmp_path / "a.csv")


class TestBadInput:
    """Exit code 2 and one line on stderr; `complaint` checks both."""

    @pytest.mark.parametrize("command", [("fit",), ("geodesic", "--from", "0", "--to", "1")])
    def test_files(self, tmp_path, capsys, command):
        name, *rows = command
        assert "there is no file nowhere.csv" in complaint(capsys, name, "nowhere.csv", *rows)
        said = complaint(capsys, name, "table.xlsx", *rows)
        assert "must be a .csv or a .npy file, got the suffix '.xlsx'" in said
        (tmp_path / "folder.csv").mkdir()
        assert "is a folder" in complaint(capsys, name, tmp_path / "folder.csv", *rows)
        text = write_csv(tmp_path / "a.csv", [("x", "kind"), (1, "cat")])
        assert "column 'kind' of" in complaint(capsys, name, text, *rows)
        nan = write_csv(tmp_path / "b.csv", [(1, 2), (3, "nan")])
        assert "NaN or infinite values in row 1" in complaint(capsys, name, nan, *rows)

    def test_nothing_is_left_behind(self, folder, tmp_path, capsys):
        call = ("fit", folder / "points.csv", "--components", "15", "--quiet")
        complaint(capsys, *call, "--out", tmp_path / "new" / "and" / "newer")
        assert not list(tmp_path.iterdir())
        (tmp_path / "mine").mkdir()
        complaint(capsys, *call, "--out", tmp_path / "mine")
        assert list(tmp_path.iterdir()) == [tmp_path / "mine"]

    @pytest.mark.parametrize("where", [(fitting, "save_fit"), (Space, "save")])
    def test_interrupted(self, folder, tmp_path, capsys, monkeypatch, where):
        """Until all files are complete, what was there before stays."""

        def stop(*arguments):
            signal.raise_signal(signal.SIGINT)

        monkeypatch.setattr(*where, stop)
        monkeypatch.setattr(fitting, "fit", lambda *_: (None, SIMPLE, np.zeros((14, 2, 2))))
        monkeypatch.setattr(figures, "draw_fit", lambda path, *_: path.write_text("a picture"))
        out = tmp_path / "out"
        out.mkdir()
        (out / "results.json").write_text("older")
        assert main(["fit", f"{folder}/points.csv", *SMALL, "--out", str(out)]) == 130
        assert capsys.readouterr().err == "probgeo fit: stopped, nothing written\n"
        assert list(out.iterdir()) == [out / "results.json"]
        assert (out / "results.json").read_text() == "older"

    def test_folder_for_results(self, folder, capsys):
        path = folder / "points.csv"
        assert "File exists" in complaint(capsys, "fit", path, "--out", path)

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            (("--components", "0"), "--components: must be a whole number >= 1, got '0'"),
            (("--components", "two"), "--components: must be a whole number >= 1, got 'two'"),
            (("--rho", "-1"), "--rho: must be a number >= 0, got '-1'"),
            (("--rho", "nan"), "--rho: must be a number >= 0, got 'nan'"),
            (("--modes", "1.5"), "--modes: must be a whole number >= 1, got '1.5'"),
            (("--sample", "few"), "--sample: must be a whole number >= 1, got 'few'; or `all`"),
            (("--seed", "-3"), "--seed: must be a whole number from 0 to 4294967295, got '-3'"),
            (("--dimensions", "0"), "--dimensions: must be a whole number >= 1, got '0'"),
            (("--dimensions", "3", "--components", "2"), "--dimensions must be at most 2 for 14"),
            (("--modes", "3", "--components", "2"), "--modes must be at most 2, the dimensions"),
            (("--components", "15"), "15 components need at least 15 different points, got 14"),
        ],
    )
    def test_numbers(self, folder, tmp_path, capsys, options, message):
        call = ("fit", folder / "points.csv", "--out", tmp_path, *options)
        assert message in complaint(capsys, *call)

    def test_too_few_points(self, tmp_path, capsys):
        rows = [(0.0, 1.0), (1.0, 2.0), (1.0, 2.0), (0.0, 1.0)]
        call = ("fit", write_csv(tmp_path / "a.csv", rows), "--out", tmp_path, "--components", 1)
        assert "1 components need at least 3 different points, got 2" in complaint(capsys, *call)
        said = complaint(capsys, *call[:-2])
        assert "a metric needs at least 3 different points, got 2: give more data" in said

    def test_numbers_too_large(self, tmp_path, capsys):
        path = write_csv(tmp_path / "a.csv", 1e300 * X)
        call = ("fit", path, "--components", 2, "--out", tmp_path)
        assert "no metric can be learned from these data" in complaint(capsys, *call)

    def test_no_command(self, capsys):
        assert main([]) == 2
        assert "COMMAND" in capsys.readouterr().err


class TestFigures:
    """Those that are not in the plane, without solving anything."""

    def test_scores_and_variances(self, tmp_path):
        results = {"explained_variance": [3.0, 1.0], "explained_variance_std": [0.1, 0.1]}
        results["explained_variance_ratio"] = [0.6, 0.2]
        scores = np.abs(np.random.default_rng(0).normal(size=(9, 2, 2)))
        table = Table(np.zeros((9, 3)), ("a", "b", "c"))
        for count in (2, 1):
            some = {name: value[:count] for name, value in results.items()}
            draw_fit(tmp_path / f"{count}", None, some, scores[:, :count], table)
            assert {p.suffix for p in tmp_path.glob(f"{count}.*")} == {".png", ".pdf"}

    @pytest.mark.parametrize("dimension", [1, 3, 9])
    def test_coordinates(self, tmp_path, dimension):
        curve = types.SimpleNamespace(
            mean=lambda t: np.outer(t, np.arange(dimension)),
            std=lambda t: np.full((len(t), dimension), 0.1),
            converged=np.array(False),
            dimension=dimension,
            t_span=(0.0, 1.0),
            batch_shape=(),
        )
        names = tuple(f"x${d}" for d in range(dimension))
        draw_geodesic(tmp_path / "path", curve, None, Table(np.zeros((2, dimension)), names))
        assert (tmp_path / "path.png").exists()

    def test_legends_say_what_dashed_means(self, pga):
        ax = Figure().subplots()
        figures.draw_modes(ax, Table(X, ("a", "b")), pga, pga.transform(X))
        assert not any("dashed" in label for label in ax.get_legend_handles_labels()[1])
        lost = types.SimpleNamespace(
            mean_=pga.mean_,
            statistical_cov_=pga.statistical_cov_,
            geodesic=lambda k, reach: replace(pga.geodesic(k, reach), status=np.array(1)),
        )
        ax = Figure().subplots()
        figures.draw_modes(ax, Table(X, ("a", "b")), lost, pga.transform(X))
        assert "dashed: not converged" in ax.get_legend_handles_labels()[1]


class TestWarnings:
    def test_are_plain_lines(self):
        with heard() as lines:
            for _ in range(2):
                warnings.warn("one\n  geodesic is lost", ConvergenceWarning, stacklevel=1)
        assert lines == ["one geodesic is lost"]

    def test_columns_on_different_scales(self):
        table = Table(X * [1.0, 200.0], ("age", "income"))
        with heard() as lines:
            Space.learn(table, 2, 1.0, None, 0)
        assert len(lines) == 1
        assert "different scales, standard deviations" in lines[0]
        assert lines[0].index("of 'age'") < lines[0].index("of 'income'")
        with heard() as lines:
            Space.learn(table, 2, 1.0, 2, 0)  # principal components have their own scales
        assert lines == []

    @pytest.mark.slow
    def test_do_not_change_the_exit_code(self, folder, tmp_path, capsys, monkeypatch):
        def lost(self, a, b, **options):
            warnings.warn("1 of 1 geodesics did not converge", ConvergenceWarning, stacklevel=1)
            return geodesic(self, a, b, **options)

        geodesic = Manifold.geodesic
        monkeypatch.setattr(Manifold, "geodesic", lost)
        call = ["geodesic", folder / "points.csv", *SMALL, "--from", 0, "--to", 3]
        assert main([str(a) for a in [*call, "--out", tmp_path]]) == 0
        said = capsys.readouterr().err.splitlines()
        assert said == ["probgeo geodesic: warning: 1 of 1 geodesics did not converge"]


def test_json_has_no_infinity():
    assert plain({"a": np.array([1.0, np.nan]), "b": (np.inf, True, "c")}) == {"a": [1.0, None], "b": [None, True, "c"]}


@pytest.mark.parametrize(
    ("value", "error", "text"),
    [
        (1.23456, 0.0123, "1.235 +- 0.012"),
        (-0.4791, 0.0201, "-0.479 +- 0.020"),
        (1234.6, 120.0, "1235 +- 120"),
        (1.0, 3.4e-9, "1.0000000000 +- 3.4e-09"),
        (1.0, 3e-28, "1 +- below 1e-09"),
        (-12.3456789, 0.0, "-12.3456789 +- below 1e-08"),
        (0.0, 0.0, "0 +- 0"),
        (1.5, np.nan, "1.5 +- nan"),
    ],
)
def test_numbers_with_errors(value, error, text):
    assert plus_minus(value, error) == text


def test_digits_below_a_billionth_of_the_scale_mean_nothing():
    assert plus_minus(1e-20, 3e-28, scale=2.0) == "0 +- below 2e-09"
    assert plus_minus(9.1326e-9, 1e-12, scale=4.6) == "9e-09 +- below 5e-09"
    assert plus_minus(9.1326e-9, 1e-12) == "0.000000009133 +- 1.0e-12"


def test_a_sample_is_drawn_once():
    np.testing.assert_array_equal(sampled(5, 5, 0), np.arange(5))
    np.testing.assert_array_equal(sampled(5, None, 0), np.arange(5))
    rows = sampled(1000, 100, 3)
    assert len(np.unique(rows)) == 100
    assert (np.diff(rows) > 0).all()
    np.testing.assert_array_equal(rows, sampled(1000, 100, 3))


class TestReproduce:
    @pytest.fixture
    def calls(self, monkeypatch):
        """What `reproduce` was called with; its answer is in `records`."""
        calls = types.SimpleNamespace(seen=[], records={"fig1": {"numbers": {}}})

        def reproduce(names, out, **options):
            calls.seen.append((list(names), str(out), options))
            return calls.records

        monkeypatch.setattr(paper, "reproduce", reproduce)
        return calls

    def test_defaults(self, calls, capsys):
        assert main(["reproduce"]) == 0
        assert calls.seen == [([], "figures", {"quick": False, "seed": 0, "again": False, "jobs": None})]
        assert capsys.readouterr().out == "report: figures/index.html\n"

    def test_everything(self, calls, tmp_path):
        call = ["reproduce", "fig1", "fig6", "--out", str(tmp_path), "--quick", "--seed", "3"]
        assert main([*call, "--again"]) == 0
        options = {"quick": True, "seed": 3, "again": True, "jobs": None}
        assert calls.seen == [(["fig1", "fig6"], str(tmp_path), options)]

    def test_failures(self, calls, capsys):
        calls.records = {"fig1": {}, "fig2": {"error": "ValueError: no"}}
        assert main(["reproduce"]) == 1
        said = capsys.readouterr()
        assert said.err == "probgeo reproduce: fig2 failed: ValueError: no\n"
        assert "index.html" in said.out
        assert main(["reproduce", "fig1"]) == 0  # what failed another day is not its fault

    def test_unknown_figure(self, calls, capsys):
        said = complaint(capsys, "reproduce", "fig7")
        assert f"unknown figure 'fig7'; there are {', '.join(paper.EXPERIMENTS)}" in said
        assert calls.seen == []

    def test_interrupted(self, monkeypatch, capsys):
        def stop(*arguments, **options):
            raise KeyboardInterrupt

        monkeypatch.setattr(paper, "reproduce", stop)
        assert main(["reproduce"]) == 130
        assert capsys.readouterr().err == "probgeo reproduce: stopped, what is finished is kept\n"


class TestDistances:
    @pytest.fixture
    def saved(self, tmp_path):
        np.save(tmp_path / "points.npy", X)
        save(METRIC, tmp_path / "metric.npz")
        return [f"{tmp_path}/points.npy", "--metric", f"{tmp_path}/metric.npz"]

    def test_all_of_them(self, saved, tmp_path, capsys):
        out = tmp_path / "all"
        assert main(["distances", *saved, "--out", str(out), "--chunk", "30"]) == 0
        assert "14 x 14 distances, 100.00% converged" in capsys.readouterr().out
        expected = Manifold(METRIC).distance_matrix(X).mean
        np.testing.assert_allclose(np.load(out / "mean.npy"), expected, rtol=1e-12)

    def test_in_shares(self, saved, tmp_path, capsys):
        out = ["--out", f"{tmp_path}/shares", "--chunk", "30"]
        assert main(["distances", *saved, *out, "--shard", "2/2"]) == 0
        assert "2 of 4 chunks are there" in capsys.readouterr().out
        assert main(["distances", "--gather", f"{tmp_path}/shares"]) == 2
        assert "2 of 4 shards are missing" in capsys.readouterr().err
        assert main(["distances", *saved, *out, "--shard", "1/2"]) == 0
        assert main(["distances", "--gather", f"{tmp_path}/shares"]) == 0
        assert main(["distances", *saved, "--out", f"{tmp_path}/all", "--chunk", "30"]) == 0
        for name in ("mean", "std", "converged"):
            there = [np.load(tmp_path / folder / f"{name}.npy") for folder in ("shares", "all")]
            np.testing.assert_array_equal(*there)

    def test_what_it_costs(self, saved, tmp_path, capsys):
        out = tmp_path / "none"
        assert main(["distances", *saved, "--estimate", "--out", str(out)]) == 0
        assert not out.exists()
        printed = capsys.readouterr().out
        assert "91 geodesics in chunks of 512" in printed
        assert "ms each on one core" in printed

    def test_a_metric_of_fit_is_projected_alike(self, fitted, folder, tmp_path, capsys):
        given = [f"{folder}/points.csv", "--metric", f"{fitted}/metric.npz"]
        assert main(["distances", *given, "--out", str(tmp_path)]) == 0
        space = Space.load(fitted / "metric.npz")
        expected = Manifold(space.metric).distance_matrix(X).mean
        np.testing.assert_allclose(np.load(tmp_path / "mean.npy"), expected, rtol=1e-12)

    def test_what_makes_no_sense(self, saved, tmp_path, capsys):
        save(Manifold(METRIC).distance(X[0], X[1]), tmp_path / "length.npz")
        ends = Manifold(METRIC), X[:1], X[1:2]
        cluster.map_pairs(lambda g: g.mean_length, *ends, out=tmp_path / "mapped")
        for arguments, message in (
            ([], "give DATA and --metric FILE, or --gather DIR"),
            ([saved[0], "--gather", "x"], "--gather needs no DATA"),
            ([*saved, "--shard", "0/3"], "must be I/N, from 1/N to N/N, got '0/3'"),
            ([*saved, "--shard", "4/3"], "must be I/N"),
            ([saved[0], "--metric", f"{tmp_path}/length.npz"], "must hold a metric or a manifold"),
            ([saved[0], "--metric", saved[0]], "was not written by probgeo.save"),
            (["--gather", f"{tmp_path}"], "has no job.npz"),
            (["--gather", f"{tmp_path}/mapped"], "mapped is a job of"),
        ):
            assert main(["distances", *arguments]) == 2
            assert message in capsys.readouterr().err
