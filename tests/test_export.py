"""Curves as tables, labelled arrays and pictures, and what objects say of themselves."""

import base64
import re

import jax
import numpy as np
import pytest

from probgeo import Gaussian, Manifold, export, kernels, metrics, solve_bvp, solvers
from probgeo.gaussian import with_error

pytest.importorskip("pandas")
pytest.importorskip("xarray")


@pytest.fixture(scope="module")
def batch():
    """x'' = -x through 0 and sin 1, 2 sin 1, 3 sin 1: k sin t."""
    ends = np.sin(1.0) * np.arange(1.0, 4.0)[:, None]
    return solve_bvp(lambda t, y, dy: -y, (0.0, 1.0), np.zeros((3, 1)), ends)


def test_labelled_arrays_are_the_curve(batch):
    t = np.array([0.0, 0.25, 1.0])
    data = batch.to_xarray(t, n_samples=4, seed=1)
    assert data["mean"].dims == ("member", "t", "component")
    assert data["sample"].dims == ("draw", "member", "t", "component")
    expected = np.sin(0.25) * np.arange(1.0, 4.0)
    np.testing.assert_allclose(data["mean"].sel(t=0.25).squeeze(), expected, rtol=1e-4)
    np.testing.assert_array_equal(data["sample"], batch.sample(1, 4, t))
    variances = data["std_numerical"] ** 2 + data["std_boundary"] ** 2
    np.testing.assert_allclose(data["std"] ** 2, variances, rtol=1e-6, atol=1e-30)
    assert data["converged"].all()


def test_a_single_curve_has_no_axis_of_members(batch):
    data = batch[0].to_xarray()
    assert data["mean"].dims == ("t", "component")
    assert data.sizes["t"] == 101
    assert "sample" not in data


def test_a_table_has_a_row_for_every_member(batch):
    rows = batch.summary()
    assert list(rows.index) == [0, 1, 2]
    assert rows["converged"].all()
    assert (rows["message"] == "converged").all()
    assert len(batch[0].summary()) == 1


def test_rows_of_several_axes():
    rows = export.table({"x": np.arange(6).reshape(2, 3)}, (2, 3))
    assert rows.loc[(1, 0), "x"] == 3


def test_lengths_are_in_the_table_of_geodesics():
    geodesics = Manifold(metrics.HalfPlane()).geodesic([[0.0, 1.0], [0.5, 2.0]], [1.0, 2.0])
    exact = [metrics.HalfPlane().distance(a, [1.0, 2.0]) for a in ([0.0, 1.0], [0.5, 2.0])]
    np.testing.assert_allclose(geodesics.summary()["length"], exact, rtol=1e-3)
    np.testing.assert_allclose(geodesics.length.summary()["mean"], exact, rtol=1e-3)
    assert "length=" in repr(geodesics[0])


def test_notebooks_get_a_picture(batch):
    for curve in (batch, batch[0]):
        shown = curve._repr_html_()
        assert "converged" in shown
        picture = base64.b64decode(re.search(r"base64,([^\"]+)", shown)[1])
        assert picture.startswith(b"\x89PNG")
        assert len(picture) > 2000


def test_a_missing_package_is_named(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "pandas", None)
    with pytest.raises(ImportError, match="needs pandas"):
        export.table({}, ())


def test_times_must_be_a_vector(batch):
    with pytest.raises(ValueError, match="vector of times"):
        batch.to_xarray(0.5)


def test_objects_say_what_they_are():
    assert repr(solvers.Markov(3, 20)).startswith("Markov(order=3, n_points=20, rtol=1e-05")
    assert repr(kernels.Matern(2.5)) == "Matern(lengthscale=0.25, nu=2.5)"
    assert repr(Manifold(metrics.HalfPlane())) == "Manifold(HalfPlane(dimension=2))"
    assert repr(Gaussian([1.0, 2.0], np.diag([0.04, 0.01]))) == "Gaussian([1.00 2.00] ± [0.2 0.1])"
    assert repr(Gaussian(np.zeros((2, 3)))) == "Gaussian(dimension=3, batch=(2,))"


def test_objects_can_be_shown_while_they_are_traced():
    seen = []

    def look(x):
        seen.append(repr(Gaussian.unchecked(x, x[:, None] * x)))
        return x

    jax.jit(look)(np.ones(2))
    assert seen == ["Gaussian(dimension=2)"]


@pytest.mark.parametrize(
    ("mean", "std", "text"), [(0.96242, 0.0012, "0.9624 ± 0.0012"), (1.0, 0.0, "1.0000 ± 0"), (12.0, 3.0, "12.0 ± 3")]
)
def test_digits_follow_the_error(mean, std, text):
    assert with_error(mean, std) == text
