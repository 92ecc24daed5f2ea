"""Metrics from a density, and from its score."""

import jax.numpy as jnp
import numpy as np
import pytest
from sklearn.datasets import make_moons
from sklearn.neighbors import KernelDensity

from probgeo import Manifold, metrics
from probgeo.functions import NumpyFunction
from probgeo.metrics.arguments import far_apart
from tests.metrics.reference import assert_consistent, assert_near, assert_same, in_jax, random_rows, random_tensors

ROWS = random_rows(np.random.default_rng(0), 3)
DATA = np.random.default_rng(1).normal(size=(30, 3))


def log_normal(x):
    return -0.5 * x @ x


def local():
    rng = np.random.default_rng(2)
    return metrics.LocalMetrics(rng.normal(size=(4, 3)), random_tensors(rng, 4, 3), 0.5)


def bent_score(x):
    return -x + 0.3 * jnp.sin(x[::-1])


def test_the_price_of_a_normal_density():
    metric = metrics.from_density(log_normal, DATA, power=0.7, floor=0.02)
    x = ROWS[0]
    nearest = np.min(np.sum(DATA**2, axis=1))
    share = np.exp(-0.5 * 0.7 * (np.sum(x**2, axis=1) - nearest))
    np.testing.assert_allclose(metric.scale(x), 1.0 / (share + 0.02))
    np.testing.assert_allclose(metric(x[0]), np.eye(3) / (share[0] + 0.02))


@pytest.mark.parametrize("base", [None, local()])
def test_a_density_agrees_with_automatic_differentiation(base):
    metric = metrics.from_density(log_normal, DATA, base=base)
    assert_consistent(metric, *ROWS)
    assert_same(metric, in_jax(metric), *ROWS)


def test_units_of_the_density_do_not_matter():
    metric = metrics.from_density(log_normal, DATA)
    other = metrics.from_density(lambda x: log_normal(x) + 1e3, DATA)
    assert_same(metric, other, *ROWS)


def test_a_density_in_numpy_and_torch_is_the_same():
    torch = pytest.importorskip("torch")

    class Normal(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.precision = torch.nn.Parameter(torch.ones(3))

        def forward(self, x):
            return -0.5 * (self.precision * x**2).sum(dim=1)

    exact = metrics.from_density(log_normal, DATA)
    for same in (Normal(), lambda x: -0.5 * torch.sum(x**2, dim=1)):
        assert_same(metrics.from_density(same, DATA), exact, *ROWS)
    for same in (
        lambda x: -0.5 * np.einsum("nd,nd->n", x, x),
        NumpyFunction(lambda x: -0.5 * float(x @ x), rows=False),
    ):
        metric = metrics.from_density(same, DATA)
        assert_near(metric.energies(*ROWS), exact.energies(*ROWS), 1e-12)
        assert_near(metric.accelerations(*ROWS), exact.accelerations(*ROWS), 1e-6)


def test_geodesics_of_a_kernel_density_keep_to_the_data():
    X, y = make_moons(200, noise=0.1, random_state=0)
    upper = X[y == 0]
    a, b = upper[np.argmin(upper[:, 0])], upper[np.argmax(upper[:, 0])]
    density = KernelDensity(bandwidth=0.15).fit(X)
    geodesic = Manifold(metrics.from_density(density.score_samples, X)).geodesic(a, b)
    assert geodesic.converged
    path = geodesic.mean(np.linspace(0.0, 1.0, 50))
    assert np.linalg.norm(path[:, None] - X, axis=2).min(axis=1).max() < 0.2
    assert geodesic.mean(0.5)[1] > 0.6  # over the top of the crescent


def test_it_has_data_for_landmarks():
    metric = metrics.from_density(log_normal, DATA, base=local())
    np.testing.assert_array_equal(metric.landmarks(), [*local().landmarks(), *DATA[far_apart(DATA, 64)]])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"log_density": 3.0}, "log_density must be a function"),
        ({"log_density": lambda x: -x}, "log_density"),
        ({"log_density": lambda x: jnp.log(-1.0 - x @ x)}, "must be finite where data are"),
        ({"data": DATA[0]}, "data must have shape"),
        ({"power": -1.0}, "power must be positive"),
        ({"floor": 0.0}, "floor must be positive"),
    ],
)
def test_wrong_densities_are_named(arguments, message):
    with pytest.raises((TypeError, ValueError), match=message):
        metrics.from_density(**{"log_density": log_normal, "data": DATA, **arguments})


def test_the_score_of_a_normal_density():
    x = ROWS[0]
    metric = metrics.from_score(lambda x: -x, alpha=0.7)
    np.testing.assert_allclose(metric(x), np.eye(3) + 0.49 * x[:, :, None] * x[:, None, :])


@pytest.mark.parametrize("base", [None, local()])
def test_a_score_agrees_with_automatic_differentiation(base):
    metric = metrics.from_score(bent_score, 0.8, base=base)
    assert_consistent(metric, *ROWS)
    assert_same(metric, in_jax(metric), *ROWS)


def test_it_is_the_metric_of_the_graph_of_the_log_density():
    graph = metrics.Pullback(lambda x: jnp.append(x, 0.8 * log_normal(x)))
    assert_same(metrics.from_score(lambda x: -x, 0.8), graph, *ROWS)


def test_a_score_in_numpy_and_torch_is_the_same():
    torch = pytest.importorskip("torch")

    class Bent(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.slope = torch.nn.Parameter(torch.tensor(-1.0))

        def forward(self, x):
            return self.slope * x + 0.3 * torch.sin(x.flip(1))

    exact = metrics.from_score(bent_score)
    assert_same(metrics.from_score(Bent()), exact, *ROWS)
    by_rows = metrics.from_score(lambda x: -x + 0.3 * np.sin(x[:, ::-1]))
    assert_near(by_rows.energies(*ROWS), exact.energies(*ROWS), 1e-12)
    assert_near(by_rows.accelerations(*ROWS), exact.accelerations(*ROWS), 1e-6)


def test_without_height_it_is_its_base():
    assert_same(metrics.from_score(bent_score, 0.0, base=local()), local(), *ROWS)
    metric = metrics.from_score(bent_score, 0.8, base=local())
    np.testing.assert_array_equal(metric.landmarks(), local().landmarks())


def test_wrong_scores_are_named():
    with pytest.raises(TypeError, match="score must be a function"):
        metrics.from_score(1.0)
    with pytest.raises(ValueError, match="alpha must be positive"):
        metrics.from_score(bent_score, -1.0)
    with pytest.raises((TypeError, ValueError), match=r"score\(x\)"):
        metrics.from_score(log_normal).energies(*ROWS)
