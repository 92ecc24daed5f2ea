"""Pictures: what is drawn, not how it looks."""

import subprocess
import sys

import jax.numpy as jnp
import matplotlib as mpl
import numpy as np
import pytest
from matplotlib.figure import Figure

from probgeo import ConvergenceWarning, Gaussian, Manifold, PrincipalGeodesics, metrics, plot, solve_bvp, solvers

mpl.use("Agg")

N = 5
SOLVER = solvers.Dense(n_points=N, error_model="none")


def pendulum(t, y, dy):
    return -jnp.sin(y)


def swing(dimension, batch=()):
    ends = np.linspace(0.5, 1.0, dimension)
    start = 0.1 * np.arange(np.prod(batch, dtype=int)).reshape(*batch, 1)
    return solve_bvp(pendulum, (1.0, 2.0), start + np.zeros(dimension), ends, solver=SOLVER)


@pytest.fixture(scope="module")
def line():
    return swing(1)


@pytest.fixture(scope="module")
def path():
    return swing(2)


@pytest.fixture(scope="module")
def space():
    return swing(3)


@pytest.fixture
def ax():
    return Figure().subplots()


def drawn(ax, kind):
    """Points of the lines of one kind, told apart by marker and colour."""
    lines = {
        "nodes": [x for x in ax.lines if x.get_marker() == "o"],
        "samples": [x for x in ax.lines if x.get_color() == plot.COLOURS["samples"]],
        "mean": [x for x in ax.lines if x.get_color() == plot.COLOURS["mean"]],
    }
    return [x.get_xydata() for x in lines[kind]]


def test_against_time_the_mean_is_the_mean_of_the_curve(line, ax):
    assert plot.curve(line, ax, n_times=30) is ax
    t = np.linspace(1.0, 2.0, 30)
    np.testing.assert_allclose(drawn(ax, "mean"), [np.column_stack([t, line.mean(t)])])


def test_a_component_of_many(space, ax):
    plot.curve(space, ax, component=2, n_times=30)
    (mean,) = drawn(ax, "mean")
    np.testing.assert_allclose(mean[:, 1], space.mean(mean[:, 0])[:, 2])


def test_band_is_two_standard_deviations(line, ax):
    plot.curve(line, ax, n_times=30)
    (band,) = ax.collections
    t = np.linspace(1.0, 2.0, 30)
    mean, std = np.asarray(line.mean(t))[:, 0], np.asarray(line.std(t))[:, 0]
    corners = band.get_paths()[0].vertices
    for edge in (mean - 2 * std, mean + 2 * std):
        for x, y in zip(t, edge, strict=True):
            assert np.min(np.hypot(*(corners - [x, y]).T)) < 1e-12


def test_path_in_the_plane(path, ax):
    plot.curve(path, ax, n_times=30)
    np.testing.assert_allclose(drawn(ax, "mean"), [path.mean(np.linspace(1.0, 2.0, 30))])
    np.testing.assert_allclose(drawn(ax, "nodes"), [path.mean(path.nodes)])
    assert not ax.collections  # a band has no place in the plane


def test_samples_are_those_of_the_curve(path, line, ax):
    plot.curve(path, ax, n_samples=4, seed=3, n_times=30)
    t = np.linspace(1.0, 2.0, 30)
    np.testing.assert_array_equal(drawn(ax, "samples"), path.sample(3, 4, t))
    plot.curve(line, ax, n_samples=2)
    assert len(drawn(ax, "samples")) == 6


def test_what_is_not_wanted_is_left_out(line, ax):
    plot.curve(line, ax, nodes=False, band=False)
    assert len(ax.lines) == 1
    assert not ax.collections


def test_every_member_of_a_batch(ax):
    batch = swing(2, (2, 3))
    plot.curve(batch, ax, n_samples=2, n_times=10, label="geodesic")
    t = np.linspace(1.0, 2.0, 10)
    np.testing.assert_allclose(drawn(ax, "mean"), batch.mean(t).reshape(6, 10, 2))
    assert len(drawn(ax, "samples")) == 12
    assert len(drawn(ax, "nodes")) == 6
    assert ax.get_legend_handles_labels()[1] == ["geodesic"]


def test_colour_of_the_mean_and_the_band(line, ax):
    plot.curve(line, ax, colour="black")
    assert [x.get_color() for x in ax.lines] == ["black", plot.COLOURS["nodes"]]
    np.testing.assert_array_equal(ax.collections[0].get_facecolor()[0, :3], 0.0)


def test_failures_are_dashed(ax):
    # a solver that may not refine, on a problem where that is needed
    solver = solvers.Dense(n_points=N, error_model="none", refinements=0, tolerance=1e-9)
    with pytest.warns(ConvergenceWarning):
        failed = solve_bvp(pendulum, (0.0, 2.0), [0.0], [1.0], solver=solver)
    plot.curve(failed, ax, nodes=False)
    plot.curve(swing(1), ax, nodes=False)
    assert [x.get_linestyle() for x in ax.lines] == ["--", "-"]


def test_new_axes_are_labelled(line, path, space):
    assert plot.curve(line).get_xlabel() == "$t$"
    assert plot.curve(path).get_xlabel() == "$y_1$"
    assert plot.curve(space, component=2).get_ylabel() == "$y_{3}$"
    mpl.pyplot.close("all")


def test_ellipse_has_constant_mahalanobis_distance(ax):
    gaussian = Gaussian([1.0, -2.0], [[0.5, 0.2], [0.2, 0.3]])
    assert plot.ellipse(gaussian, ax, 3.0) is ax
    offset = ax.lines[0].get_xydata() - np.asarray(gaussian.mean)
    distance = np.einsum("ni,ij,nj->n", offset, np.linalg.inv(gaussian.cov), offset)
    np.testing.assert_allclose(distance, 9.0)


def test_ellipses_of_a_batch_and_of_singular_covariances(ax):
    plot.ellipse(Gaussian(np.ones((2, 3, 2)), np.diag([0.04, 0.0])), ax)
    assert len(ax.lines) == 6
    x, y = ax.lines[0].get_data()
    np.testing.assert_allclose(y, 1.0)
    np.testing.assert_allclose([x.min(), x.max()], [0.6, 1.4], rtol=1e-3)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda c: plot.curve(c), r"3 components .* component=0\.\.2"),
        (lambda c: plot.curve(c, component=3), "component must be a whole number from 0 to 2"),
        (lambda c: plot.curve(c, component=0, n_times=1), "n_times must be at least 2, got 1"),
        (lambda c: plot.curve(c, component=0, n_samples=-1), "n_samples must not be negative"),
        (lambda c: plot.ellipse(c(1.5)), "two-dimensional for an ellipse, got D = 3"),
        (lambda c: plot.ellipse(Gaussian([0.0, 0.0]), n_std=0), "n_std must be positive, got 0"),
    ],
)
def test_bad_input_is_named(space, call, message):
    with pytest.raises(ValueError, match=message):
        call(space)


def test_importing_plot_does_not_import_matplotlib():
    code = "import sys; from probgeo import plot; sys.exit('matplotlib.pyplot' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


class TestManifolds:
    data = np.random.default_rng(0).normal(loc=(0.0, 4.0), size=(20, 2))
    half_plane = Manifold(metrics.HalfPlane())

    def test_geodesics_are_drawn_with_their_ends(self, ax):
        found = self.half_plane.geodesic([0.0, 1.0], [[1.0, 1.0], [2.0, 2.0]])
        plot.geodesics(found, ax, data=self.data)
        ends = [x.get_xydata() for x in ax.lines if x.get_color() == plot.COLOURS["ends"]]
        np.testing.assert_allclose(ends, [[[0, 1], [1, 1]], [[0, 1], [2, 2]]], atol=1e-6)
        assert len(drawn(ax, "mean")) == 2

    def test_the_background_is_the_magnification(self, ax):
        plot.metric(self.half_plane, ax, extent=(-1.0, 1.0, 0.5, 2.0), resolution=4, ellipses=0)
        image = np.asarray(ax.images[0].get_array())
        height = np.linspace(0.5, 2.0, 4)
        np.testing.assert_allclose(image, np.repeat(-2 * np.log(height)[:, None], 4, axis=1))

    def test_ellipses_are_balls_of_one_radius(self, ax):
        plot.metric(self.half_plane, ax, extent=(0.0, 2.0, 1.0, 3.0), ellipses=2, background=False)
        balls = [x.get_xydata() for x in ax.lines]
        assert len(balls) == 4
        radii = [np.ptp(x[:, 0]) / 2 / x[:, 1].mean() for x in balls]
        np.testing.assert_allclose(radii, radii[0], rtol=1e-2)

    def test_the_extent_follows_the_data(self, ax):
        plot.metric(metrics.Flat(), ax, data=self.data, resolution=3, ellipses=0)
        assert ax.get_xlim()[0] < self.data[:, 0].min()
        with pytest.raises(ValueError, match="give extent"):
            plot.metric(metrics.Flat(), ax)

    def test_mean_and_principal_geodesics(self, ax):
        pga = PrincipalGeodesics(n_components=2).fit(self.data)
        plot.mean(pga, ax, data=self.data)
        solid, dashed = [x for x in ax.lines if len(x.get_xydata()) > 50]
        assert (solid.get_linestyle(), dashed.get_linestyle()) == ("-", "--")
        np.testing.assert_allclose(np.ptp(solid.get_xydata(), axis=0), 0.0)  # flat: exact
        plot.principal_geodesics(pga, ax, deviations=1.0)
        lengths = [
            np.linalg.norm(x.get_xydata()[-1] - x.get_xydata()[0]) for x in ax.lines if len(x.get_xydata()) == 200
        ]
        np.testing.assert_allclose(lengths, np.repeat(pga.explained_variance_**0.5, 2), rtol=1e-6)

    def test_only_the_plane_can_be_drawn(self, ax, space):
        with pytest.raises(ValueError, match="only what is in the plane"):
            plot.geodesics(space, ax)
        with pytest.raises(ValueError, match="data must have shape"):
            plot.points(np.zeros((3, 3)), ax)


class TestMesh:
    vertices = np.array([[0.0, 0, 0], [1, 0, 0], [0, 0, 1], [0, 1, 0]])
    faces = np.array([[0, 1, 2], [0, 2, 3]])  # one looks to the front, one to the left

    def test_only_faces_that_look_at_the_viewer_are_drawn(self, ax):
        plot.mesh(self.vertices, self.faces, ax, shift=(2.0, 0.0))
        (drawing,) = ax.collections
        (outline,) = drawing.get_paths()
        np.testing.assert_allclose(outline.vertices[:3], [[2, 0], [3, 0], [2, 1]])

    def test_views_are_named(self, ax):
        with pytest.raises(ValueError, match="view must be one of"):
            plot.mesh(self.vertices, self.faces, ax, view="back")
