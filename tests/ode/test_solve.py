"""`solve_ivp` and `solve_bvp` as users call them: any framework, any batch, the same answer."""

import os
import resource

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from probgeo import ConvergenceWarning, Gaussian, solve_bvp, solve_ivp, solvers
from probgeo.functions import NumpyFunction
from probgeo.ode.error_shape import ErrorShape
from probgeo.ode.kernels import IntegratedWiener
from probgeo.ragged import offsets_of

TIMES = np.linspace(0.0, 2.0, 9)
K = np.array([1.0, 3.0])


def by_jax(t, y, dy):
    return -jnp.asarray(K) * jnp.sin(y) - 0.1 * t * dy


def by_numpy(t, y, dy):
    return -K * np.sin(y) - 0.1 * t[:, None] * dy


def numpys_jacobian(t, y, dy):
    by_y = -K[:, None] * np.cos(y)[:, :, None] * np.eye(2)
    by_dy = -0.1 * t[:, None, None] * np.eye(2)
    return np.stack([by_y, by_dy], axis=1)


def by_torch(t, y, dy):
    import torch

    return -torch.as_tensor(K) * torch.sin(y) - 0.1 * t[:, None] * dy


def in_one_framework(f, kind):
    start = Gaussian([0.1, -0.2], [[0.02, 0.01], [0.01, 0.03]])
    if kind == "boundary":
        return solve_bvp(f, (0.0, 2.0), start, [1.0, 0.5])
    return solve_ivp(f, (0.0, 2.0), start, [1.0, 0.5])


@pytest.mark.parametrize("kind", ["initial", "boundary"])
@pytest.mark.parametrize("framework", ["NumPy", "NumPy with Jacobian", "torch"])
def test_the_framework_does_not_matter(framework, kind):
    if framework == "torch":
        torch = pytest.importorskip("torch", reason="PyTorch is an optional extra")
        torch.set_num_threads(1)
    f = {"NumPy": by_numpy, "NumPy with Jacobian": NumpyFunction(by_numpy, numpys_jacobian), "torch": by_torch}[
        framework
    ]
    expected, found = in_one_framework(by_jax, kind), in_one_framework(f, kind)
    assert found.converged
    # differences in place of derivatives have eight digits at least
    np.testing.assert_allclose(found.mean(TIMES), expected.mean(TIMES), atol=1e-8)
    for source in ("numerical", "boundary"):
        std = expected.std(TIMES, source=source)
        np.testing.assert_allclose(found.std(TIMES, source=source), std, rtol=1e-4, atol=1e-11)


# members from a straight line to a boundary layer, from a slow to a fast oscillator
STIFFNESS = np.array([0.01, 1.0, 50.0, 2e4])


@pytest.mark.parametrize("kind", ["initial", "boundary"])
def test_members_do_not_know_of_each_other(kind, monkeypatch):
    def layer(t, y, dy, k):
        return k * y

    def oscillator(t, y, dy, k):
        return -k * y

    def solve(k):
        data = np.ones((len(k), 1))
        if kind == "boundary":
            return solve_bvp(layer, (0.0, 1.0), data, 2.0 * data, args=k)
        return solve_ivp(oscillator, (0.0, 1.0), data, 0.5 * data, args=k)

    together, order = solve(STIFFNESS), np.array([2, 0, 3, 1])
    assert together.converged.all()
    sizes = [len(nodes) for nodes in together.nodes]
    assert max(sizes) > 2 * min(sizes)
    t = np.linspace(0.0, 1.0, 7)
    monkeypatch.setenv("PROBGEO_THREADS", "2")
    for other, members in ((solve(STIFFNESS[order]), order), (solve(STIFFNESS[:1]), [0])):
        np.testing.assert_allclose(other.mean(t), together.mean(t)[members], rtol=1e-12, atol=1e-12)
        std = together.std(t)[members]
        # errors are small differences of large numbers
        np.testing.assert_allclose(other.std(t), std, rtol=1e-5, atol=1e-12)
        assert [len(nodes) for nodes in other.nodes] == [sizes[m] for m in members]


def test_the_numerical_covariance_is_the_papers_where_the_model_is_the_same():
    """y'' = f(t): the posterior of a Wiener prior given f at the nodes, Eq. 15."""
    size, scale = 7, 1e4  # of the prior of y(0), y'(0) and y''(0): next to none
    dense = solvers.Dense(
        IntegratedWiener(2, scale), n_points=size, grid="linear", error_model="none",
        V=np.eye(1), nugget=0.0,
    )  # fmt: skip
    curve = solve_bvp(lambda t, y, dy: 0.0 * y, (0.0, 1.0), [0.0], [0.0], solver=dense)
    nodes = np.asarray(curve.nodes)
    shape = ErrorShape.on(nodes, offsets_of([size]), 2, True)
    s, t = np.array([0.1, 0.35, 0.9, 0.5]), np.array([0.6, 0.4, 0.95, 0.5])
    expected = shape.cov(np.zeros(4, dtype=int), s, t)
    for orders in ((0, 0), (0, 1), (1, 1)):
        found = curve.cov(s, t, orders, source="numerical")[:, 0, 0]
        # what subtractions from a prior variance of scale^2 leave of sixteen digits
        np.testing.assert_allclose(found, expected[:, orders[0], orders[1]], atol=1e-15 * scale**2)


@pytest.mark.parametrize("x64", [False, True])
def test_precision_is_the_librarys_own(x64):
    before = jax.config.jax_enable_x64
    try:
        jax.config.update("jax_enable_x64", x64)
        curve = solve_ivp(lambda t, y: -y, (0.0, 1.0), [1.0], solver=solvers.Markov(rtol=1e-11))
        assert curve.converged
        assert abs(curve.mean(1.0)[0] - np.exp(-1.0)) < 1e-11
        assert curve.mean(1.0).dtype == np.float64
        assert jax.config.jax_enable_x64 == x64
    finally:
        jax.config.update("jax_enable_x64", before)


def test_two_hundred_equations_in_one_process():
    """Memory stays bounded: what is compiled for a function goes with it."""

    def one(k):
        return solve_bvp(lambda t, y, dy: -jnp.sin(y + k), (0.0, 1.0), [0.0], [1.0])

    for k in range(20):
        one(k)
    before = resident()
    for k in range(200):
        assert one(0.01 * k).converged
    # every program that was kept would take about a megabyte
    assert resident() - before < 100e6


def resident():
    """Bytes of memory in use."""
    path = "/proc/self/statm"
    if os.path.exists(path):
        with open(path) as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    return 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def test_a_solver_of_ones_own():
    class Recording:
        def solve(self, problem, guess=None):
            self.seen = problem, guess
            return solvers.Markov().solve(problem, guess)

    own = Recording()
    curve = solve_bvp(lambda t, y, dy: -y, (0.0, 1.0), np.zeros((2, 1)), [1.0], solver=own)
    assert curve.batch_shape == (2,)
    assert own.seen[0].kind == "boundary"
    assert own.seen[0].values.shape == (2, 2, 1)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: solvers.Markov(order=9), "order must be at most 7"),
        (lambda: solvers.Markov(order=2), "order must be a whole number >= 3"),
        (lambda: solvers.Markov(n_points=1), "n_points must be a whole number >= 2"),
        (lambda: solvers.Markov(max_points=0), "max_points must be a whole number >= 3"),
        (lambda: solvers.Markov(iterations=0), "iterations must be a whole number >= 1"),
        (lambda: solvers.Markov(rtol=0.0), "rtol and atol must not both be zero"),
        (lambda: solvers.Markov(rtol=-1.0), "rtol must be positive"),
        (lambda: solvers.Markov(atol=[1.0, 2.0]), "atol must be one number"),
    ],
)
def test_bad_settings_are_named(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_a_warning_points_to_the_line_that_asked():
    with pytest.warns(ConvergenceWarning, match="no unique solution") as heard:
        solve_bvp(lambda t, y, dy: -y, (0.0, np.pi), [0.0], [1.0])
    assert heard[0].filename == __file__
