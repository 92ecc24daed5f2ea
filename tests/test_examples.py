"""Every example runs, draws labelled axes, and its numbers agree with something independent."""

import runpy
from pathlib import Path

import matplotlib as mpl
import numpy as np
import pytest
from scipy.integrate import solve_bvp, solve_ivp
from scipy.optimize import least_squares
from sklearn.linear_model import LinearRegression

from probgeo import Manifold, metrics

mpl.use("Agg")
import matplotlib.pyplot as plt

FOLDER = Path(__file__).parent.parent / "examples"
EXAMPLES = sorted(path.stem.removeprefix("plot_") for path in FOLDER.glob("plot_*.py"))


def run(name: str) -> dict:
    """The names an example leaves behind."""
    plt.close("all")
    return runpy.run_path(str(FOLDER / f"plot_{name}.py"), run_name="__main__")


def check_picture() -> None:
    figures = [plt.figure(number) for number in plt.get_fignums()]
    assert figures, "the example draws nothing"
    plots = [ax for figure in figures for ax in figure.axes if ax.get_xlabel() and ax.get_ylabel()]
    assert plots, "no axes of the example are labelled"
    assert any(ax.has_data() for ax in plots)
    for figure in figures:
        figure.canvas.draw()  # formulas in labels can be wrong
    plt.close("all")


def in_the_plane(metric):
    """(c', c'') by Christoffel symbols of differences, for states (4, n) or (4,) of SciPy."""

    def field(t, y):
        x, v = y[:2].T, y[2:].T  # (n, 2) or (2,)
        step = 1e-5 * np.eye(2)
        slopes = [(metric(x + e) - metric(x - e)) / 2e-5 for e in step]  # dM / dx_k
        change = sum(v[..., k, None, None] * slopes[k] for k in range(2)) @ v[..., None]
        gradient = np.stack([np.einsum("...i,...ij,...j", v, s, v) for s in slopes], axis=-1)
        bend = np.linalg.solve(metric(x), 0.5 * gradient[..., None] - change)[..., 0]
        return np.concatenate([v, bend], axis=-1).T

    return field


def length_by_scipy(metric, path) -> float:
    """Of the geodesic between the ends of a curve, found by SciPy from the curve (T, 2)."""
    t = np.linspace(0.0, 1.0, len(path))
    guess = np.concatenate([path, np.gradient(path, t, axis=0)], axis=1).T
    ends = np.concatenate([path[0], path[-1]])
    found = solve_bvp(
        in_the_plane(metric), lambda a, b: np.concatenate([a[:2], b[:2]]) - ends, t, guess, tol=1e-6, max_nodes=20_000
    )
    assert found.success
    x, v = found.sol(0.0)[:2], found.sol(0.0)[2:]
    return float(np.sqrt(v @ metric(x) @ v))  # the speed is constant


def test_the_gallery_is_complete():
    assert len(EXAMPLES) >= 8
    assert {name.removeprefix("check_") for name in globals() if name.startswith("check_")} - {"picture"} == set(
        EXAMPLES
    )


@pytest.mark.parametrize("name", EXAMPLES)
def test_titles_and_cells(name):
    text = (FOLDER / f"plot_{name}.py").read_text(encoding="utf-8")
    _, title, line, blank, paragraph, *_ = text.split("\n")
    assert line == "=" * len(title)
    assert not blank
    assert paragraph
    assert text.count("\n# %%\n") >= 2


@pytest.mark.slow
@pytest.mark.parametrize("name", EXAMPLES)
def test_example(name):
    found = run(name)
    check_picture()
    globals()[f"check_{name}"](found)


def check_uncertain_start(found):
    """Against the exact pendulum: the mean, and starts shifted by one standard deviation."""

    def swing(angle):
        pendulum = solve_ivp(lambda t, y: [y[1], -np.sin(y[0])], (0, 12), [angle, 0.0], rtol=1e-10, dense_output=True)
        return pendulum.sol(found["times"])[0]

    std, mean = found["std"], np.asarray(found["curve"].mean(found["times"]))[:, 0]
    assert np.all(np.abs(mean - swing(1.5)) < 4 * std["numerical"] + 1e-6)
    slope = np.abs(swing(1.501) - swing(1.499)) / 0.002
    np.testing.assert_allclose(std["boundary"], 0.08 * slope, atol=0.01)
    np.testing.assert_allclose(std["total"] ** 2, std["boundary"] ** 2 + std["numerical"] ** 2)


def check_boundary_layer(found):
    assert found["error"].max() < 1e-5
    assert np.mean(found["error"] <= 2 * found["std"]) > 0.9
    steps = np.diff(found["nodes"])
    assert steps[0] < 0.1 * steps[-1]  # fine where the layer is


def check_two_moons(found):
    geodesics, metric = found["geodesics"], found["manifold"].metric
    paths = np.asarray(geodesics.mean(np.linspace(0.0, 1.0, 101)))
    assert np.all(geodesics.converged)
    for k in (0, 3, 7):
        assert geodesics.length.mean[k] == pytest.approx(length_by_scipy(metric, paths[k]), 1e-3)
    assert np.all(geodesics.length.mean < found["lines"])


def check_digits(found):
    geodesic = found["geodesic"]
    assert bool(geodesic.converged)
    path = np.asarray(geodesic.mean(np.linspace(0.0, 1.0, 101)))
    exact = length_by_scipy(found["metric"], path)
    assert abs(float(geodesic.length.mean) - exact) < 3 * float(geodesic.length.std)
    draws = np.asarray(geodesic.sample(0, 2000, found["parts"])) @ found["W"]
    np.testing.assert_allclose(draws.std(axis=0), found["pixel_std"], atol=3e-3)


def check_decoder(found):
    for name, spread in (("mean only", None), ("mean and std", found["std"])):
        path = found["paths"][name]
        assert bool(path.converged)
        z = path.mean(np.linspace(0.0, 1.0, 401))
        images = metrics.Pullback(found["mean"], spread).decode(z)
        decoded = np.column_stack([images, np.sqrt(1e-3) * z])
        length = np.linalg.norm(np.diff(decoded, axis=0), axis=1).sum()  # of the decoded polygon
        assert float(path.length.mean) == pytest.approx(length, rel=1e-3)
    nearest = [np.linalg.norm(path.mean(0.5) - found["codes"], axis=1).min() for path in found["paths"].values()]
    assert nearest[1] < nearest[0]  # closer to the data with the standard deviation


def check_vae(found):
    metric, geodesic = found["members"][0], found["geodesic"]
    assert bool(geodesic.converged)
    decoded = metric.decode(geodesic.mean(np.linspace(0.0, 1.0, 2001)))  # images and deviations
    length = np.linalg.norm(np.diff(decoded, axis=0), axis=1).sum()
    assert float(geodesic.length.mean) == pytest.approx(length, rel=1e-3)
    assert length < found["line_length"]
    way, line = (found["pixel_std"](found["ways"][name][0]).max() for name in ("geodesic", "straight line"))
    assert way < line  # it keeps to where the decoder is sure
    apart = [Manifold(m, landmarks=found["Z"]).distance(found["a"], found["others"]).mean for m in found["members"]]
    np.testing.assert_allclose(found["lengths"], apart, rtol=1e-4)
    np.testing.assert_allclose(found["model_std"], found["lengths"].std(axis=0, ddof=1), rtol=1e-12)


def check_bodies(found):
    pga, scores = found["pga"], found["scores"]
    assert pga.converged_
    regression = LinearRegression().fit(scores, found["people"].belly)
    np.testing.assert_allclose(found["belly"], regression.predict(found["path"]))
    assert found["belly"][-1] - found["belly"][0] > found["people"].belly.std()
    tensor = np.asarray(found["metric"](pga.mean_.mean))
    direction = np.asarray(pga.components_.mean[0])
    assert direction @ tensor @ direction == pytest.approx(1.0)
    way = found["stout"].mean(0.0, derivative=1)
    np.testing.assert_allclose(found["thin"].mean(0.0, derivative=1), -way, atol=1e-6)


def check_lotka_volterra(found):
    def missed(z):
        a, b, c, d = np.exp(z[:4])
        there = solve_ivp(
            lambda t, y: [y[0] * (a - b * y[1]), y[1] * (d * y[0] - c)], (0.0, found["END"]),
            np.exp(z[4:]), t_eval=found["times"], rtol=1e-9, atol=1e-9, method="DOP853",
        )  # fmt: skip
        return ((there.y.T - found["counts"]) / found["NOISE"]).ravel()

    best = least_squares(missed, found["posterior"].mean, diff_step=1e-6)
    np.testing.assert_allclose(best.x, found["posterior"].mean, atol=2e-3)
    flat = np.linalg.inv(best.jac.T @ best.jac)  # Gauss and Newton's, not Laplace's
    np.testing.assert_allclose(found["posterior"].std, np.sqrt(np.diag(flat)), rtol=0.1)
    curve = found["curve"]
    assert curve.converged
    np.testing.assert_allclose(curve.parameters.mean, np.exp(best.x[:4]), rtol=2e-3)
    in_logs = curve.parameters.std / curve.parameters.mean
    np.testing.assert_allclose(in_logs, np.sqrt(np.diag(flat))[:4], rtol=0.01)


def check_mean_budget(found):
    assert np.all(found["error"] < 3 * found["numerical"])
    assert np.all(np.diff(found["numerical"]) < 0)
    assert np.all(found["numerical"] < 0.1 * found["statistical"])
    gradient = found["half_plane"].log(found["exact"], found["X"]).mean(axis=0)
    np.testing.assert_allclose(gradient, 0.0, atol=1e-9)  # `exact` is where logarithms balance


def check_regression(found):
    curved, metric = found["curved"], found["manifold"].metric
    assert curved.converged_
    start = np.concatenate([curved.intercept_.mean, curved.coef_.mean])
    reach = found["times"][-1] - curved.t_mean_
    end = solve_ivp(in_the_plane(metric), (0.0, reach), start, rtol=1e-9, atol=1e-9).y[:2, -1]
    np.testing.assert_allclose(found["geodesic"][-1], end, atol=1e-6)
    line = LinearRegression().fit(found["hours"][:, None], found["seen"])
    np.testing.assert_allclose(found["straight"].coef_.mean, line.coef_[:, 0], rtol=1e-6)
    off = [np.abs(np.linalg.norm(path, axis=1) - 1).mean() for path, *_ in found["paths"].values()]
    assert off[0] < 0.6 * off[1]  # closer to the circle the data are from


def check_solvers(found):
    for name, errors in found["error"].items():
        assert np.all(np.diff(errors) < 0)
        assert np.all(errors < 2 * np.array(found["std"][name]))
    assert found["error"]["Markov"][0] < found["error"]["Dense, as in the paper"][0]


def check_uncertain_ends(found):
    draws, length = np.asarray(found["draws"]), found["length"]
    assert float(length.std) == pytest.approx(draws.std(), rel=0.1)
    assert float(length.mean) == pytest.approx(draws.mean(), abs=0.2 * draws.std())
    exact = found["half_plane"].distance(found["a"].mean, found["b"].mean)
    assert float(length.mean) == pytest.approx(float(exact), rel=1e-4)
