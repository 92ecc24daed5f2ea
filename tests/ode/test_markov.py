"""The Markov solver against the dense one, closed forms and tight references."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from problems import (
    arenstorf,
    bratu,
    cash,
    damped,
    harmonic,
    hyperbolic_geodesic,
    lotka_volterra,
    pendulum,
    pleiades,
    stiff_van_der_pol,
    van_der_pol,
)

from probgeo import ConvergenceWarning, Gaussian, solve_bvp, solve_ivp, solvers
from probgeo.ode.kernels import IntegratedWiener, Matern
from probgeo.ode.markov.calibration import on_equal_steps
from probgeo.ode.markov.exact import wiener_bridge
from probgeo.ode.markov.prior import to_derivatives
from probgeo.ode.markov.sqrt import eliminate, solve_upper
from tests.ode.together import arguments, calibration, in_one_field

A0 = np.array([[-2.0, 0.5], [0.3, -1.0]])
A1 = np.array([[0.1, -0.4], [0.2, 0.3]])
YA, YB = np.array([0.3, -0.2]), np.array([1.0, 0.8])
TIMES = np.array([0.13, 0.5, 0.77])


def linear_field(t, y, dy):
    return A0 @ y + A1 @ dy + jnp.cos(t)


def oscillator(t, y, dy):
    return -y


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


CASH = (1, 3, 4, 6, 7, 9, 10, 12, 15, 18, 21)  # layers at one end, both, and inside; Airy


@pytest.fixture(scope="module")
def boundary_problems():
    """Cash and Mazzia's problems at three epsilon, Bratu's and a pendulum, and their solutions."""
    families = [*(cash(n, 0.1).field for n in CASH), bratu().field, pendulum().field]
    cases = [(k, cash(n, e)) for k, n in enumerate(CASH) for e in (1.0, 0.1, 0.01)]
    cases += [(len(CASH), bratu(lam)) for lam in (1.0, 3.0)]
    cases += [(len(CASH) + 1, pendulum(k)) for k in (0.5, 0.9)]
    which, problems = zip(*cases, strict=True)
    args = arguments(which, problems, [p.parameters for p in problems])
    ya, yb = (np.array([getattr(p, end) for p in problems]) for end in ("ya", "yb"))
    return problems, solve_bvp(in_one_field(families, 2), (0.0, 1.0), ya, yb, args=args)


@pytest.mark.slow
class TestBoundaryValueProblems:
    """At default settings, on meshes that the solver chose itself."""

    def test_all_converge_within_the_tolerance(self, boundary_problems):
        problems, curve = boundary_problems
        errors, _, _ = calibration(curve, problems)
        assert np.all(curve.converged)
        # the tolerance is for two standard deviations; none is beyond four
        assert np.all(errors < 2e-5)

    def test_calibrated(self, boundary_problems):
        problems, curve = boundary_problems
        _, coverage, anees = calibration(curve, problems)
        assert 0.88 <= coverage.mean() <= 0.999
        assert 0.2 <= anees.mean() <= 5.0

    def test_layers_get_the_nodes(self, boundary_problems):
        problems, curve = boundary_problems
        k = next(k for k, p in enumerate(problems) if p.name == "cash18" and p.epsilon == 0.01)
        nodes = np.unique(np.asarray(curve.nodes[k]))
        # y = exp(-t / epsilon): the first tenth of the interval holds ten times its share or more
        assert np.mean(nodes < 0.1) > 0.4


def test_hyperbolic_geodesic():
    p = hyperbolic_geodesic()
    curve = solve_bvp(p.f, p.t_span, p.ya, p.yb)
    t = np.random.default_rng(0).uniform(*p.t_span, 200)
    z = (np.asarray(curve.mean(t)) - p.solution(t)) / np.asarray(curve.std(t))
    assert curve.converged
    assert np.abs(curve.mean(t) - p.solution(t)).max() < 2e-5 * np.abs(p.solution(t)).max()
    assert np.mean(np.abs(z) < 2) >= 0.88


@pytest.fixture(scope="module")
def oscillators():
    problems = [harmonic(), damped(), van_der_pol()]
    fields = [lambda t, y, dy, _, f=p.f: f(t, y, dy) for p in problems]
    args = arguments(range(3), problems, np.zeros(3))
    duration = np.array([[p.t_span[1] - p.t_span[0]] for p in problems])
    y0 = np.array([p.y0 for p in problems])
    dy0 = np.array([p.dy0 for p in problems]) * duration
    return problems, solve_ivp(in_one_field(fields, 2), (0.0, 1.0), y0, dy0, args=args)


@pytest.mark.slow
class TestInitialValueProblems:
    def test_oscillators_converge_within_the_tolerance(self, oscillators):
        problems, curve = oscillators
        errors, coverage, anees = calibration(curve, problems)
        assert np.all(curve.converged)
        assert np.all(errors < 2e-5)
        assert coverage.mean() >= 0.88
        assert anees.mean() <= 5.0

    @pytest.mark.parametrize(
        ("problem", "linearisation"),
        [
            (lotka_volterra(), "first"),
            (stiff_van_der_pol(), "first"),
            (arenstorf(), "first"),
            (pleiades(), "zeroth"),
        ],
        ids=lambda x: getattr(x, "name", x),
    )
    def test_against_tight_references(self, problem, linearisation):
        solver = solvers.Markov(linearisation=linearisation)
        curve = solve_ivp(problem.f, problem.t_span, problem.y0, problem.dy0, solver=solver)
        t = np.random.default_rng(0).uniform(*problem.t_span, 200)
        error = np.abs(np.asarray(curve.mean(t)) - problem.solution(t))
        assert curve.converged
        assert error.max() < 1e-5 * np.abs(problem.solution(t)).max()
        assert np.mean(error < 2 * np.asarray(curve.std(t))) >= 0.88


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


def test_a_straight_line_has_no_error():
    """f = 0: nothing is uncertain, and nothing is divided by zero."""
    curve = solve_bvp(lambda t, y, dy: 0.0 * y, (0.0, 1.0), [1.0, 2.0], [3.0, 5.0])
    assert curve.converged
    np.testing.assert_allclose(curve.mean(0.25), [1.5, 2.75], atol=1e-12)
    assert np.all(np.asarray(curve.std(TIMES)) < 1e-12)


def three_springs(t, y, dy):
    return -jnp.array([1.0, 2.0, 3.0]) * jnp.sin(y) + 0.1 * jnp.roll(y, 1)


def test_zeroth_order_shares_one_covariance_and_agrees_with_first_order():
    ya, yb = np.array([0.1, -0.2, 0.3]), np.array([1.0, 0.5, -0.4])

    def solve(kind):
        # error bars are about the mesh: the iteration has to end well below them
        solver = solvers.Markov(linearisation=kind, n_points=16, tolerance=1e-11)
        return solve_bvp(three_springs, (0.0, 1.0), ya, yb, solver=solver)

    zeroth, first = solve("zeroth"), solve("first")
    assert zeroth.converged
    assert zeroth.posterior.E.shape[2] == 1  # one block for all dimensions
    cov = np.asarray(zeroth.cov(0.3, 0.6))
    np.testing.assert_allclose(cov, cov[0, 0] * np.eye(3), atol=1e-12 * cov[0, 0])
    spread = np.asarray(first.std(TIMES)) + np.asarray(zeroth.std(TIMES))
    assert np.all(np.abs(np.asarray(zeroth.mean(TIMES) - first.mean(TIMES))) < 2 * spread)


class TestParametersOfTheField:
    def test_every_member_has_its_own(self):
        rates = np.array([0.5, 1.0, 2.0])
        curve = solve_ivp(lambda t, y, k: -k * y, (0.0, 1.0), np.ones((3, 1)), args=rates)
        np.testing.assert_allclose(curve.mean(1.0)[:, 0], np.exp(-rates), rtol=1e-5)

    def test_batch_axes_are_checked(self):
        with pytest.raises(ValueError, match=r"args must have the batch axes \(3,\)"):
            solve_ivp(lambda t, y, k: -k * y, (0.0, 1.0), np.ones((3, 1)), args=np.ones(2))


@pytest.mark.parametrize("kind", ["curve", "function", "samples"])
def test_guesses_lead_to_the_solution_they_are_near(kind):
    """Bratu's equation has two solutions; the upper one is found from a guess near it."""
    field = lambda t, y, dy: -jnp.exp(y)  # noqa: E731
    t = np.linspace(0.0, 1.0, 9)
    high = {
        "function": lambda t: 4.0 * jnp.sin(jnp.pi * t)[None],
        "samples": 4.0 * np.sin(np.pi * t)[:, None],
    }
    guess = high.get(kind)
    if kind == "curve":
        guess = solve_bvp(field, (0.0, 1.0), [0.0], [0.0], guess=high["samples"])
    curve = solve_bvp(field, (0.0, 1.0), [0.0], [0.0], guess=guess)
    # theta = sqrt(2) cosh(theta / 4) has the roots 1.5171646 and 10.9387028
    expected = 2.0 * np.log(np.cosh(10.9387028 / 4.0))
    assert curve.converged
    np.testing.assert_allclose(curve.mean(0.5), [expected], rtol=2e-5)


def test_uncertain_oscillator():
    y0, dy0 = Gaussian([1.0], [[0.01]]), Gaussian([0.0], [[0.04]])
    curve = solve_ivp(oscillator, (0.0, 6.0), y0, dy0, solver=solvers.Markov())
    t = np.array([0.0, 1.5, 6.0])
    np.testing.assert_allclose(curve.mean(t)[:, 0], np.cos(t), atol=1e-5)
    np.testing.assert_allclose(curve.std(t)[:, 0], [0.1000, 0.1996, 0.1111], rtol=0.01)
    boundary = curve.std(t, source="boundary")[:, 0]
    np.testing.assert_allclose(boundary, curve.std(t)[:, 0], rtol=1e-3)


def decay(t, y):
    return -y


def test_first_order_problem_and_batch():
    y0 = np.array([[1.0], [2.0], [-0.5]])
    curve = solve_ivp(decay, (0.0, 3.0), y0, solver=solvers.Markov())
    assert curve.converged.shape == (3,)
    np.testing.assert_allclose(curve.mean(2.0), y0 * np.exp(-2.0), atol=1e-5)


def minus_log(t, y, dy):
    return -jnp.log(y)


def test_a_bad_member_is_flagged_and_the_rest_unharmed():
    solver = solvers.Markov(max_points=32)
    with pytest.warns(ConvergenceWarning, match="1 of 3 solutions did not converge"):
        curve = solve_bvp(
            minus_log, (0.0, 1.0), [[0.5], [-1.0], [2.0]], [[1.0], [-2.0], [1.5]], solver=solver
        )
    assert list(np.asarray(curve.converged)) == [True, False, True]
    assert np.isfinite(np.asarray(curve.mean(0.5))[[0, 2]]).all()


class Spring(eqx.Module):
    stiffness: jax.Array

    def __call__(self, t, y, dy):
        return -self.stiffness * jnp.sin(y)


def test_gradients_through_a_solve():
    """Reverse and forward mode against finite differences of tight solutions."""
    solver = solvers.Markov(n_points=33)

    def middle(stiffness, end):
        curve = solve_bvp(Spring(stiffness), (0.0, 1.0), jnp.zeros(1), end, solver=solver)
        return curve.mean(0.5)[0]

    k, end = jnp.array(3.0), jnp.array([1.0])
    by_k, by_end = jax.jit(jax.grad(middle, argnums=(0, 1)))(k, end)
    forward = jax.jacfwd(middle)(k, end)
    h = 1e-4
    tight = solvers.Markov(6, n_points=65)

    def value(k, e):
        return float(
            solve_bvp(Spring(jnp.array(k)), (0.0, 1.0), [0.0], [e], solver=tight).mean(0.5)[0]
        )

    np.testing.assert_allclose(by_k, (value(3 + h, 1) - value(3 - h, 1)) / (2 * h), rtol=1e-4)
    np.testing.assert_allclose(by_end[0], (value(3, 1 + h) - value(3, 1 - h)) / (2 * h), rtol=1e-4)
    np.testing.assert_allclose(forward, by_k, rtol=1e-6)


def test_a_solve_inside_jit_and_vmap():
    """With a plain function, which is not something that JAX can differentiate."""
    solver = solvers.Markov(n_points=33)

    def middle(end):
        return solve_bvp(linear_field, (0.0, 1.0), YA, end, solver=solver).mean(0.5)

    ends = jnp.stack([YB, 2.0 * YB])
    inside = jax.jit(jax.vmap(middle))(ends)
    outside = solve_bvp(linear_field, (0.0, 1.0), YA, ends, solver=solver).mean(0.5)
    # the two take different ways to the same posterior mean, up to the error of the mesh
    np.testing.assert_allclose(inside, outside, atol=1e-7)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: solvers.Markov(order=9), "order must be at most 8"),
        (lambda: solvers.Markov(order=1), "order must be a whole number >= 2"),
        (lambda: solvers.Markov(n_points=3), "n_points must be a whole number"),
        (lambda: solvers.Markov(rtol=0.0), "rtol and atol must not both be zero"),
        (lambda: solvers.Markov(calibration="guess"), "calibration must be one of"),
        (lambda: solvers.Markov(linearisation="second"), "linearisation must be one of"),
        (
            lambda: solve_ivp(
                oscillator,
                (0, 1),
                [0.0],
                [1.0],
                solver=solvers.Markov(prior=solvers.WienerPrior(1), n_points=9),
            ),
            "order must not be below that of the ODE",
        ),
    ],
)
def test_bad_input_is_named(make, message):
    with pytest.raises(ValueError, match=message):
        make()
