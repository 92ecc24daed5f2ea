"""The Markov solver against the dense one, its algebra, its order, its calibration."""

import jax.numpy as jnp
import numpy as np
import pytest
from problems import pendulum

from probgeo import Gaussian, solve_bvp, solvers
from probgeo.ode.kernels import IntegratedWiener, Matern
from probgeo.ode.markov.calibration import on_equal_steps
from probgeo.ode.markov.exact import wiener_bridge
from probgeo.ode.markov.prior import to_derivatives
from probgeo.ode.markov.sqrt import eliminate, solve_upper

A0 = np.array([[-2.0, 0.5], [0.3, -1.0]])
A1 = np.array([[0.1, -0.4], [0.2, 0.3]])
YA, YB = np.array([0.3, -0.2]), np.array([1.0, 0.8])
TIMES = np.array([0.13, 0.5, 0.77])


def linear_field(t, y, dy):
    return A0 @ y + A1 @ dy + jnp.cos(t)


class TestSquareRoots:
    """The linear algebra on its own."""

    def test_elimination_solves_least_squares(self):
        rng = np.random.default_rng(0)
        A, b = rng.normal(size=(9, 5)), rng.normal(size=(9, 2))
        R, z, rest = eliminate(jnp.asarray(A), jnp.asarray(b))
        x, minimum, *_ = np.linalg.lstsq(A, b, rcond=None)
        np.testing.assert_allclose(np.tril(R, -1), 0.0, atol=1e-14)
        np.testing.assert_allclose(solve_upper(R, z), x, rtol=1e-12)
        np.testing.assert_allclose(rest, minimum, rtol=1e-12)
        np.testing.assert_allclose(R.T @ R, A.T @ A, rtol=1e-12)

    def test_elimination_is_accurate_for_columns_of_any_scale(self):
        rng = np.random.default_rng(1)
        A, b = rng.normal(size=(8, 4)), rng.normal(size=(8, 1))
        scale = 10.0 ** np.array([-12, 0, 6, 12])
        R, z, _ = eliminate(jnp.asarray(A * scale), jnp.asarray(b))
        x = np.linalg.lstsq(A, b, rcond=None)[0]
        np.testing.assert_allclose(solve_upper(R, z) * scale[:, None], x, rtol=1e-11)


class TestPriors:
    @pytest.mark.parametrize("h", [0.3, 1e-3])
    @pytest.mark.parametrize("q", [2, 5, 8])
    def test_wiener_steps_have_the_covariance_of_the_kernel(self, q, h):
        unit = jnp.array(0.01)
        step = solvers.WienerPrior(q).step(jnp.array(h), unit)
        f = np.asarray(to_derivatives(q, unit))
        kernel = IntegratedWiener(q, initial=0.0)
        orders = range(q + 1)
        expected = np.array(
            [[float(kernel.derivative(i, j, h, h)) for j in orders] for i in orders]
        )
        whitened = np.asarray(step.root) @ (expected / np.outer(f, f)) @ np.asarray(step.root).T
        # the conditioning of Hilbert's matrix of size q + 1 amplifies the rounding of `expected`
        np.testing.assert_allclose(whitened, np.eye(q + 1), atol={2: 1e-12, 5: 1e-7, 8: 1e-1}[q])

    @pytest.mark.parametrize("h", [0.3, 1e-3])
    def test_matern_steps_have_the_covariance_of_the_kernel(self, h):
        q, unit = 3, jnp.array(0.1)
        prior = solvers.MaternPrior(q, jnp.array(0.4))
        kernel = Matern(3.5, 0.4)
        f = np.asarray(to_derivatives(q, unit))
        step = prior.step(jnp.array(h), unit)
        A = np.asarray(step.A) * f[:, None] / f[None, :]
        orders = range(q + 1)
        at, later = (
            np.array(
                [[float(kernel.derivative(i, j, 0.2 + lag, 0.2)) for j in orders] for i in orders]
            )
            for lag in (0.0, h)
        )
        np.testing.assert_allclose(A @ at, later, atol=1e-10 * np.abs(at).max())
        factor = np.linalg.inv(step.root)
        noise = factor @ factor.T * np.outer(f, f)
        np.testing.assert_allclose(noise, at - A @ at @ A.T, atol=1e-10 * np.abs(at).max())

    @pytest.mark.parametrize("q", [2, 5])
    def test_wiener_bridge_is_hermite_interpolation(self, q):
        """A polynomial of degree 2q + 1 is reproduced from its derivatives at both ends."""
        rng = np.random.default_rng(q)
        p = np.polynomial.Polynomial(rng.normal(size=2 * q + 2))
        unit, orders = jnp.array(1.0), range(q + 1)
        f = np.asarray(to_derivatives(q, unit))
        ends = [np.array([p.deriv(i)(t) if i else p(t) for i in orders]) / f for t in (0.0, 1.0)]
        for t in (0.1, 0.5, 0.8):
            bridge = solvers.WienerPrior(q).bridge(jnp.array(t), jnp.array(1 - t), unit)
            state = bridge.left @ ends[0] + bridge.right @ ends[1]
            np.testing.assert_allclose(state[0], p(t), rtol=1e-9)
        assert wiener_bridge(q)[2][0].max() == 0.0  # no variance at the node itself


@pytest.fixture(scope="module", params=["wiener", "matern"])
def both(request):
    """The same prior, nodes and linear ODE in both solvers, scales of V and noise fixed at 1."""
    nodes = 12
    if request.param == "wiener":
        kernel, prior = IntegratedWiener(3, 0.7), solvers.WienerPrior(3, jnp.full(4, 0.7))
    else:
        kernel, prior = Matern(3.5, 0.6), solvers.MaternPrior(3, jnp.array(0.6))
    dense = solvers.Dense(
        kernel, n_points=nodes, grid="linear", error_model="linearised", V=np.eye(2), nugget=0.0
    )
    markov = solvers.Markov(prior=prior, n_points=nodes, calibration="none")
    ya = Gaussian(YA, [[0.02, 0.01], [0.01, 0.03]])
    return [solve_bvp(linear_field, (0.0, 1.0), ya, YB, solver=s) for s in (dense, markov)]


class TestAgreementWithTheDenseSolver:
    """On a linear ODE with the same prior the two are the same Gaussian process."""

    @pytest.mark.parametrize("derivative", [0, 1, 2])
    def test_mean(self, both, derivative):
        dense, markov = both
        expected = np.asarray(dense.mean(TIMES, derivative))
        np.testing.assert_allclose(markov.mean(TIMES, derivative), expected, atol=1e-7)

    @pytest.mark.parametrize("source", ["numerical", "boundary"])
    def test_covariances_between_times_and_derivatives(self, both, source):
        dense, markov = both
        for orders in [(0, 0), (0, 1)]:
            args = (TIMES[:, None], TIMES[None, :], orders, source)
            expected = np.asarray(dense.cov(*args))
            # what the dense solver's subtractions leave of 16 digits of a prior variance of 1
            np.testing.assert_allclose(markov.cov(*args), expected, atol=1e-9, rtol=1e-5)

    def test_marginals_are_the_diagonal_of_the_covariance(self, both):
        _, markov = both
        pairs = np.diagonal(markov.cov(TIMES, TIMES), axis1=-2, axis2=-1)
        np.testing.assert_allclose(markov.std(TIMES) ** 2, pairs, rtol=1e-6)

    def test_evidence(self, both):
        dense, markov = both
        np.testing.assert_allclose(markov.log_evidence, dense.log_evidence, rtol=1e-7)

    def test_samples_have_the_joint_covariance(self, both):
        dense, markov = both
        n = 4000
        draws = np.asarray(markov.sample(0, n, TIMES)).reshape(n, 6)
        cov = np.asarray(dense.cov(TIMES[:, None], TIMES[None, :]))
        cov = np.transpose(cov, (0, 2, 1, 3)).reshape(6, 6)
        mean = np.asarray(dense.mean(TIMES)).reshape(6)
        std = np.sqrt(np.diag(cov))
        np.testing.assert_array_less(abs(draws.mean(0) - mean), 4.5 * std / np.sqrt(n))
        spread = np.sqrt((np.outer(std, std) ** 2 + cov**2) / n)
        np.testing.assert_array_less(abs(np.cov(draws.T) - cov), 4.5 * spread)


@pytest.mark.parametrize("q", [2, 3, 4, 5])
def test_convergence_order(q):
    """On a smooth problem the error falls like h^q or faster."""
    problem = pendulum()
    t = np.linspace(*problem.t_span, 101)
    errors = []
    for n in (17, 33):
        solver = solvers.Markov(q, n_points=n)
        curve = solve_bvp(problem.f, problem.t_span, problem.ya, problem.yb, solver=solver)
        errors.append(np.abs(curve.mean(t) - problem.solution(t)).max())
    # q = 2 comes to 2 from below as h falls; the others are faster than h^q
    assert np.log2(errors[0] / errors[1]) > q - 0.02


class TestCalibration:
    """On a small linear problem, where everything is cheap to try."""

    @pytest.fixture(scope="class")
    @staticmethod
    def curves():
        def solve(**options):
            solver = solvers.Markov(4, n_points=16, **options)
            return solve_bvp(linear_field, (0.0, 1.0), YA, YB, solver=solver)

        choices = [("none", False), ("evidence", False), ("evidence", True), ("defect", False),
                   ("defect", True)]  # fmt: skip
        return {(c, local): solve(calibration=c, local=local) for c, local in choices}

    def test_the_mean_is_hardly_touched(self, curves):
        reference = np.asarray(curves["none", False].mean(TIMES))
        spread = np.asarray(curves["defect", True].std(TIMES))
        for curve in curves.values():
            assert np.all(np.abs(np.asarray(curve.mean(TIMES)) - reference) < spread)

    def test_expected_squares_are_the_variances_of_the_posterior(self):
        """y'' half-way between the nodes, of an ODE whose right hand side does not depend on y."""
        solver = solvers.Markov(4, n_points=16, calibration="none")
        curve = solve_bvp(lambda t, y, dy: 0.0 * y, (0.0, 1.0), [0.0], [1.0], solver=solver)
        nodes = np.asarray(curve.nodes)
        middle = 0.5 * (nodes[1:] + nodes[:-1])
        expected = np.asarray(curve.cov(middle, middle, (2, 2)))[:, 0, 0]
        table = on_equal_steps(4, 2, (0,), True, 16) * (1.0 / 15.0) ** 5
        np.testing.assert_allclose(table, expected, rtol=1e-9)

    def test_a_global_scale_multiplies_the_covariance(self, curves):
        one = np.asarray(curves["none", False].std(TIMES))
        for calibrated in ("evidence", "defect"):
            curve = curves[calibrated, False]
            np.testing.assert_allclose(curve.std(TIMES), float(curve.scale) * one, rtol=1e-10)

    def test_evidence_is_highest_at_the_scale_it_chooses(self, curves):
        best = curves["evidence", False]
        assert best.log_evidence > curves["none", False].log_evidence
        assert best.log_evidence > curves["defect", False].log_evidence

    def test_local_scales_are_finite_and_positive(self, curves):
        for choice in (("evidence", True), ("defect", True)):
            scale = np.asarray(curves[choice].posterior.scale)
            assert np.all(np.isfinite(scale))
            assert np.all(scale > 0)
