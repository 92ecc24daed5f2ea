"""Kernels and their derivatives, against automatic differentiation, differences, closed forms."""

import gc
import pickle
from math import factorial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from probgeo.functions import memory
from probgeo.functions.in_jax import double_precision
from probgeo.ode.kernels import IntegratedWiener, Kernel, Matern, Pinned, SquaredExponential, Stationary

SMOOTH = {"se": SquaredExponential(0.3)}
MATERN = {f"matern{2 * nu:g}/2": Matern(nu, 0.4) for nu in (2.5, 3.5, 4.5)}
WIENER = {f"wiener{q}": IntegratedWiener(q, 0.7) for q in (2, 3, 4)}
KERNELS = SMOOTH | MATERN | WIENER

# away from the diagonal, where the rougher kernels have only one-sided higher derivatives
S = np.array([0.05, 0.31, 0.8, 0.92])
T = np.array([0.4, 0.3, 0.25, 0.99])


def written_with_jax(kernel, s, t):
    """The same kernels from their definitions, for JAX to differentiate."""
    if isinstance(kernel, IntegratedWiener):
        # the integral of (s-u)^q (t-u)^q / q!^2 over u below both, by Gauss' rule, which is exact
        points, weights = np.polynomial.legendre.leggauss(12)
        early = jnp.minimum(s, t)
        u, w = 0.5 * early * (1.0 + points), 0.5 * early * weights
        q = kernel.q
        wiener = jnp.sum(w * (s - u) ** q * (t - u) ** q) / factorial(q) ** 2
        taylor = [v * (s * t) ** m / factorial(m) ** 2 for m, v in enumerate(kernel.initial)]
        return wiener + sum(taylor)
    r = (s - t) / kernel.lengthscale
    if isinstance(kernel, SquaredExponential):
        return jnp.exp(-0.5 * r**2)
    x = jnp.sqrt(2.0 * kernel.nu) * jnp.abs(r)
    polynomial = {
        2.5: 1 + x + x**2 / 3,
        3.5: 1 + x + 2 * x**2 / 5 + x**3 / 15,
        4.5: 1 + x + 3 * x**2 / 7 + 2 * x**3 / 21 + x**4 / 105,
    }[kernel.nu]
    return polynomial * jnp.exp(-x)


def by_autodiff(kernel):
    """All derivatives up to (2, 2) at (S, T), as lists of lists."""

    def table(s, t):
        rows = [lambda s, t: written_with_jax(kernel, s, t)]
        rows += [jax.grad(rows[0], 0), jax.grad(jax.grad(rows[0], 0), 0)]
        return [[f(s, t), jax.grad(f, 1)(s, t), jax.grad(jax.grad(f, 1), 1)(s, t)] for f in rows]

    with double_precision():
        return jax.tree.map(np.asarray, jax.jit(jax.vmap(table))(S, T))


@pytest.mark.parametrize("name", KERNELS)
def test_derivatives_agree_with_automatic_differentiation(name):
    kernel = KERNELS[name]
    for i, row in enumerate(by_autodiff(kernel)):
        for j, expected in enumerate(row):
            got = kernel.derivative(i, j, S, T)
            assert got.dtype == expected.dtype == np.float64
            np.testing.assert_allclose(got, expected, rtol=1e-9, atol=1e-9 * np.abs(expected).max())


@pytest.mark.parametrize("name", KERNELS)
def test_derivatives_agree_with_finite_differences(name):
    """Each order from the one before it, with respect to either argument."""
    kernel, h = KERNELS[name], 1e-5
    for i, j in [(0, 0), (0, 1), (1, 0), (1, 1), (1, 2), (2, 1)]:
        if i < 2:
            low, high = (kernel.derivative(i, j, S + d, T) for d in (-h, h))
            by_s = kernel.derivative(i + 1, j, S, T)
            np.testing.assert_allclose((high - low) / (2 * h), by_s, atol=1e-5 * np.abs(by_s).max())
        if j < 2:
            low, high = (kernel.derivative(i, j, S, T + d) for d in (-h, h))
            by_t = kernel.derivative(i, j + 1, S, T)
            np.testing.assert_allclose((high - low) / (2 * h), by_t, atol=1e-5 * np.abs(by_t).max())


@pytest.mark.parametrize("i", range(3))
@pytest.mark.parametrize("j", range(3))
@pytest.mark.parametrize("name", [*MATERN, *WIENER])
def test_derivatives_on_the_diagonal_are_limits(name, i, j):
    kernel = KERNELS[name]
    t, h = 0.6, 1e-7
    at = float(kernel.derivative(i, j, t, t))
    near = kernel.derivative(i, j, t + np.array([-h, h]), t)
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


@pytest.mark.parametrize("name", SMOOTH | MATERN)
def test_matrices_hold_the_derivatives_of_all_orders(name):
    """Also for several length scales at a time, one after the other along a leading axis."""
    kernel, orders = KERNELS[name], (0, 1, 2)
    scales = np.array([0.2, 0.5])
    several = kernel.with_lengthscale(scales)
    for pinned in (False, True):
        kernels_ = [several, *(kernel.with_lengthscale(scale) for scale in scales)]
        if pinned:
            kernels_ = [Pinned(k, ((0.0, 0), (1.0, 0))) for k in kernels_]
        together, *alone = (k.matrix(orders, S, orders[:2], T) for k in kernels_)
        assert together.shape == (2, 4, 3, 4, 2)
        for a, b in zip(together, alone, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-13, atol=1e-13)
        for i in orders:
            for j in orders[:2]:
                entry = kernels_[1].derivative(i, j, S[:, None], T[None, :])
                size = np.abs(alone[0]).max()
                np.testing.assert_allclose(alone[0][:, i, :, j], entry, atol=1e-13 * size)


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

    def at(square):
        return SquaredExponential(np.sqrt(square)).matrix((2,), t, (2,), t)[:, 0, :, 0]

    h = 1e-5
    low, middle, high = (at(lam**2 + step) for step in (-h, 0.0, h))
    got1, got2 = (high - low) / (2 * h), (high - 2 * middle + low) / h**2
    np.testing.assert_allclose(got1, first(-1), rtol=1e-5)
    np.testing.assert_allclose(got2, second, rtol=1e-3)
    assert np.abs(got1 - first(+1)).max() > 1.0  # what the paper prints


@given(st.sampled_from(sorted(KERNELS)), st.integers(0, 10_000))
def test_joint_covariance_of_derivatives_is_positive_semidefinite(name, seed):
    kernel = KERNELS[name]
    times = np.sort(np.random.default_rng(seed).uniform(0, 1, 5))
    matrix = kernel.matrix((0, 1, 2), times, (0, 1, 2), times).reshape(15, 15)
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


class RationalQuadratic(Kernel):
    def __init__(self, lengthscale=1.0):
        self.lengthscale = lengthscale

    def __call__(self, s, t):
        return 1.0 / (1.0 + ((s - t) / self.lengthscale) ** 2)


def mixed_derivative(x):
    """d/ds d/dt of 1 / (1 + (s - t)^2)."""
    return (2 - 6 * x**2) / (1 + x**2) ** 3


def test_a_kernel_of_ones_own_is_one_small_class():
    kernel = RationalQuadratic()
    s, t = 0.3, 0.8
    np.testing.assert_allclose(kernel.derivative(1, 1, s, t), mixed_derivative(s - t), rtol=1e-12)
    assert kernel.matrix((0, 1), np.array([s, t]), (0, 1, 2), np.array([s])).shape == (2, 2, 1, 3)
    # an attribute that has been replaced is noticed
    kernel.lengthscale = 0.5
    expected = 4 * mixed_derivative(2 * (s - t))
    np.testing.assert_allclose(kernel.derivative(1, 1, s, t), expected, rtol=1e-12)
    assert pickle.loads(pickle.dumps(kernel)).lengthscale == 0.5


def test_compiled_derivatives_go_with_their_kernel():
    kernel = RationalQuadratic()
    kernel.derivative(1, 0, 0.1, 0.2)
    gc.collect()  # others' functions, dropped by tests before
    before = len(memory._kept)
    del kernel
    gc.collect()
    assert len(memory._kept) == before - 1


def test_a_kernel_of_ones_own_without_jax_gives_its_derivatives():
    class Cosine(Kernel):
        def derivative(self, i, j, s, t):
            return (-1) ** j * np.cos(s - t + (i + j) * np.pi / 2)

    pinned = Pinned(Cosine(), ((0.0, 0),))
    np.testing.assert_allclose(Cosine()(0.3, 0.8), np.cos(0.5), rtol=1e-14)
    # given c(0), what is left of cos(s - t) is sin(s) sin(t)
    np.testing.assert_allclose(pinned.derivative(1, 0, 0.3, 0.8), np.cos(0.3) * np.sin(0.8))

    class Half(Kernel):
        def __call__(self, s, t):
            return np.cos(s - t)

    with pytest.raises(TypeError, match=r"Half must be written with jax.numpy .* define derivative"):
        Half().derivative(1, 1, 0.1, 0.2)


@pytest.mark.parametrize("library", [np, jnp])
def test_a_stationary_kernel_of_ones_own_gives_its_profile(library):
    """In double precision, whichever library it is written with."""

    class Cosine(Stationary):
        def radial(self, n, r):
            return library.cos(r + n * np.pi / 2)

    kernel = Cosine(0.4)
    expected = -np.cos((S - T) / 0.4 + np.pi) / 0.4**2
    np.testing.assert_allclose(kernel.derivative(1, 1, S, T), expected, rtol=1e-13)
    assert isinstance(kernel.derivative(1, 1, S, T), np.ndarray)


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
