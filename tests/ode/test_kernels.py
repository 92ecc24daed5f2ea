import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from probgeo.ode.kernels import IntegratedWiener, Kernel, Matern, Pinned, SquaredExponential

SMOOTH = {"se": SquaredExponential(0.3)}
MATERN = {f"matern{2 * nu:g}/2": Matern(nu, 0.4) for nu in (2.5, 3.5, 4.5)}
WIENER = {f"wiener{q}": IntegratedWiener(q, 0.7) for q in (2, 3, 4)}
KERNELS = SMOOTH | MATERN | WIENER

# away from the diagonal, where the rougher kernels have only one-sided higher derivatives
S = np.array([0.05, 0.31, 0.8, 0.92])
T = np.array([0.4, 0.3, 0.25, 0.99])


def by_autodiff(kernel, i, j):
    function = kernel.__call__
    for _ in range(i):
        function = jax.grad(function, 0)
    for _ in range(j):
        function = jax.grad(function, 1)
    return jnp.vectorize(function)


@pytest.mark.parametrize("i", range(3))
@pytest.mark.parametrize("j", range(3))
@pytest.mark.parametrize("name", KERNELS)
def test_derivatives_agree_with_automatic_differentiation(name, i, j):
    kernel = KERNELS[name]
    expected = by_autodiff(kernel, i, j)(S, T)
    got = kernel.derivative(i, j, S, T)
    np.testing.assert_allclose(got, expected, rtol=1e-9, atol=1e-9 * np.abs(expected).max())


@pytest.mark.parametrize("i", range(3))
@pytest.mark.parametrize("j", range(3))
@pytest.mark.parametrize("name", [*MATERN, *WIENER])
def test_derivatives_on_the_diagonal_are_limits(name, i, j):
    kernel = KERNELS[name]
    t, h = 0.6, 1e-7
    at = float(kernel.derivative(i, j, t, t))
    near = np.asarray(kernel.derivative(i, j, t + np.array([-h, h]), t))
    # all derivatives up to (2, 2) of these kernels are continuous; their slopes are below 1e5
    np.testing.assert_allclose(near, at, atol=1e5 * h)


def test_supplement_b_closed_forms():
    lam = 0.3
    kernel = SquaredExponential(lam)
    delta = (S - T) / lam**2
    k = np.exp(-((S - T) ** 2) / (2 * lam**2))
    expected = {
        (0, 1): delta * k,
        (1, 0): -delta * k,
        (1, 1): (1 / lam**2 - delta**2) * k,
        (0, 2): (delta**2 - 1 / lam**2) * k,
        (1, 2): (-(delta**3) + 3 / lam**2 * delta) * k,
        (2, 2): (delta**4 - 6 / lam**2 * delta**2 + 3 / lam**4) * k,
    }
    for (i, j), value in expected.items():
        np.testing.assert_allclose(kernel.derivative(i, j, S, T), value, rtol=1e-12)


@pytest.mark.parametrize("i", range(3))
@pytest.mark.parametrize("j", range(3))
@pytest.mark.parametrize("name", SMOOTH | MATERN)
def test_lengthscale_derivatives_agree_with_automatic_differentiation(name, i, j):
    kernel = KERNELS[name]

    def at(log_lengthscale):
        return kernel.with_lengthscale(jnp.exp(log_lengthscale)).derivative(i, j, S, T)

    x = jnp.log(kernel.lengthscale)
    first, second = kernel.lengthscale_derivatives(i, j, S, T)
    np.testing.assert_allclose(first, jax.jacfwd(at)(x), rtol=1e-9, atol=1e-8)
    np.testing.assert_allclose(second, jax.jacfwd(jax.jacfwd(at))(x), rtol=1e-9, atol=1e-7)


def test_erratum_2_sign_in_the_lengthscale_derivative():
    """Supplement C prints + 6 / lambda^6; the derivative by lambda^2 has - 6 / lambda^6."""
    lam = 0.3
    t = np.array([0.1, 0.2, 0.55])
    delta = (t[:, None] - t[None, :]) / lam**2
    k = np.exp(-((t[:, None] - t[None, :]) ** 2) / (2 * lam**2))

    def first(sign):
        poly = delta**6 / 2 - 7 / lam**2 * delta**4 + 39 / (2 * lam**4) * delta**2
        return (poly + sign * 6 / lam**6) * k

    second = (
        -3 / lam**2 * delta**6 + 35 / lam**4 * delta**4 - 78 / lam**6 * delta**2 + 18 / lam**8
    ) * k + delta**2 / 2 * first(-1)
    kernel = SquaredExponential(lam)
    d1, d2 = kernel.lengthscale_derivatives(2, 2, t[:, None], t[None, :])
    # from log lambda to lambda^2: d = D / (2 lambda^2), dd = (DD - 2 D) / (4 lambda^4)
    got1, got2 = d1 / (2 * lam**2), (d2 - 2 * d1) / (4 * lam**4)
    np.testing.assert_allclose(got1, first(-1), rtol=1e-10)
    np.testing.assert_allclose(got2, second, rtol=1e-9)
    assert np.abs(got1 - first(+1)).max() > 1.0  # what the paper prints


@given(st.sampled_from(sorted(KERNELS)), st.integers(0, 10_000))
def test_joint_covariance_of_derivatives_is_positive_semidefinite(name, seed):
    kernel = KERNELS[name]
    times = np.sort(np.random.default_rng(seed).uniform(0, 1, 5))
    matrix = np.asarray(kernel.matrix((0, 1, 2), jnp.asarray(times), (0, 1, 2), jnp.asarray(times)))
    matrix = matrix.reshape(15, 15)
    np.testing.assert_allclose(matrix, matrix.T, rtol=1e-12, atol=1e-12 * np.abs(matrix).max())
    unit = np.sqrt(np.diag(matrix))
    assert np.linalg.eigvalsh(matrix / np.outer(unit, unit))[0] > -1e-12


def test_wiener_process_against_its_definition():
    """q = 1: the integral of a Wiener process has covariance m^2 (3 M - m) / 6."""
    m, big = np.minimum(S, T), np.maximum(S, T)
    kernel = IntegratedWiener(1, initial=0.0)
    np.testing.assert_allclose(kernel(S, T), m**2 * (3 * big - m) / 6, rtol=1e-13)


def test_pinned_kernel_has_no_variance_at_the_conditions():
    for name, kernel in KERNELS.items():
        pinned = Pinned(kernel, ((0.0, 0), (1.0, 0)))
        assert abs(float(pinned.derivative(0, 0, 0.0, 0.0))) < 1e-14, name
        assert abs(float(pinned.derivative(0, 0, 1.0, 0.7))) < 1e-14 * float(kernel(1.0, 1.0)), name
        slope = Pinned(kernel, ((0.0, 0), (0.0, 1)))
        assert abs(float(slope.derivative(1, 1, 0.0, 0.0))) < 1e-12, name


def test_a_kernel_of_ones_own_is_one_small_class():
    class RationalQuadratic(Kernel):
        def __call__(self, s, t):
            return 1.0 / (1.0 + (s - t) ** 2)

    kernel = RationalQuadratic()
    s, t = 0.3, 0.8
    x = s - t
    # d/ds d/dt of 1 / (1 + x^2)
    expected = (2 - 6 * x**2) / (1 + x**2) ** 3
    np.testing.assert_allclose(kernel.derivative(1, 1, s, t), expected, rtol=1e-12)
    assert kernel.matrix((0, 1), jnp.array([s, t]), (0, 1, 2), jnp.array([s])).shape == (2, 2, 1, 3)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: SquaredExponential(0.0), "lengthscale must be positive"),
        (lambda: SquaredExponential(np.nan), "lengthscale must be positive"),
        (lambda: Matern(2.0), "nu must be"),
        (lambda: IntegratedWiener(0), "q must be between"),
        (lambda: IntegratedWiener(2).derivative(3, 0, 0.1, 0.2), "has no derivative"),
        (lambda: Kernel().derivative(0, 0, 0.1, 0.2), "must define __call__"),
    ],
)
def test_bad_input_is_named(make, message):
    with pytest.raises((ValueError, TypeError), match=message):
        make()
