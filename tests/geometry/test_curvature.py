"""Curvature against closed forms, an independent Riemann tensor, and its own laws."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from probgeo import Gaussian, Manifold, metrics
from probgeo.functions.in_jax import double_precision
from tests.geometry.chains import random_metric
from tests.geometry.test_manifold import changed
from tests.metrics.reference import Wavy
from tests.metrics.test_charts import random_points

CHARTS = (metrics.Sphere, metrics.PoincareBall, metrics.HalfPlane)


def riemann(metric, x):
    """R[n, a, b, c, d] = <R(a, b) c, d> at x (n, D), from Christoffel symbols, by JAX."""

    def christoffel(y):
        slopes = jax.jacfwd(metric)(y)  # [i, j, k] = d_k M_ij
        lowered = jnp.moveaxis(slopes, 2, 1) + slopes - jnp.moveaxis(slopes, 2, 0)
        return 0.5 * jnp.einsum("kl,lij->kij", jnp.linalg.inv(metric(y)), lowered)

    def at(y):
        gamma, by_x = christoffel(y), jax.jacfwd(christoffel)(y)  # by_x[d, i, j, k] = d_k
        # R(a, b) c = d_a Gamma_bc - d_b Gamma_ac + Gamma_a Gamma_bc - Gamma_b Gamma_ac
        raised = jnp.einsum("dbca->dabc", by_x) + jnp.einsum("dae,ebc->dabc", gamma, gamma)
        raised = raised - jnp.einsum("dabc->dbac", raised)
        return jnp.einsum("dabc,de->abce", raised, metric(y))

    with double_precision():
        return np.asarray(jax.jit(jax.vmap(at))(x))


def torus(x, xp=np):
    """A torus of radii 2 and 1, rows (n, 2) -> (n, 3); its curvature is cos / (2 + cos)."""
    wide = 2.0 + xp.cos(x[..., 1])
    return xp.stack([wide * xp.cos(x[..., 0]), wide * xp.sin(x[..., 0]), xp.sin(x[..., 1])], -1)


def torus_tensors(x):
    wide = 2.0 + np.cos(x[:, 1])
    return np.stack([wide**2, np.ones(len(x))], axis=1)[:, :, None] * np.eye(2)


def ellipsoid(x):
    """Half axes 1, 1.3 and .7 in longitude and latitude."""
    across = jnp.cos(x[1])
    return jnp.array([across * jnp.cos(x[0]), 1.3 * across * jnp.sin(x[0]), 0.7 * jnp.sin(x[1])])


class TestClosedForms:
    @pytest.mark.parametrize("dimension", [2, 3, 5])
    @pytest.mark.parametrize("chart", CHARTS)
    def test_constant_curvature(self, chart, dimension):
        rng, metric = np.random.default_rng(dimension), chart(dimension)
        x, u = random_points(chart, rng, dimension, count=10)
        v = rng.normal(size=u.shape)
        manifold, K = Manifold(metric), metric.curvature
        np.testing.assert_allclose(manifold.sectional_curvature(x, u, v), K, rtol=1e-10)
        np.testing.assert_allclose(manifold.scalar_curvature(x), K * dimension * (dimension - 1), rtol=1e-10)
        M = metric.tensors_at(x)
        scale = np.abs(M).max(axis=(1, 2), keepdims=True)
        np.testing.assert_allclose(manifold.ricci(x) / scale, K * (dimension - 1) * M / scale, atol=1e-9)

    def test_flat(self):
        rng = np.random.default_rng(0)
        x, u, v = rng.normal(size=(3, 5, 4))
        A = np.diag([1.0, 2.0, 3.0, 4.0]) + 0.3
        manifold = Manifold(metrics.Flat(A))
        np.testing.assert_array_equal(manifold.sectional_curvature(x, u, v), np.zeros(5))
        np.testing.assert_array_equal(manifold.scalar_curvature(x), np.zeros(5))
        # flat space in coordinates that are not straight
        warped = metrics.Pullback(lambda y: y + 0.3 * jnp.sin(y[::-1]))
        found = Manifold(warped).sectional_curvature(x, u, v)
        np.testing.assert_allclose(found, 0.0, atol=1e-11)

    @pytest.mark.parametrize(
        ("metric", "atol"),
        [
            (metrics.Pullback(lambda x: torus(x, jnp)), 1e-11),
            # second differences: the square root of round-off, times twenty
            (metrics.Pullback(torus), 3e-7),
            (metrics.as_metric(torus_tensors), 3e-7),
        ],
        ids=("JAX decoder", "NumPy decoder", "NumPy metric"),
    )
    def test_torus(self, metric, atol):
        rng = np.random.default_rng(1)
        x, (u, v) = rng.uniform(-3.0, 3.0, (30, 2)), rng.normal(size=(2, 30, 2))
        expected = np.cos(x[:, 1]) / (2.0 + np.cos(x[:, 1]))
        manifold = Manifold(metric)
        np.testing.assert_allclose(manifold.sectional_curvature(x, u, v), expected, atol=atol)
        np.testing.assert_allclose(manifold.scalar_curvature(x), 2.0 * expected, atol=2 * atol)

    def test_ellipsoid(self):
        """Of x^2/a^2 + y^2/b^2 + z^2/c^2 = 1 it is 1 / (abc (x^2/a^4 + y^2/b^4 + z^2/c^4))^2."""
        rng = np.random.default_rng(2)
        x = np.stack([rng.uniform(-3.0, 3.0, 20), rng.uniform(-1.2, 1.2, 20)], axis=1)
        axes = np.array([1.0, 1.3, 0.7])
        with double_precision():
            y = np.asarray(jax.vmap(ellipsoid)(x))
        expected = (np.prod(axes) * np.sum(y**2 / axes**4, axis=1)) ** -2
        manifold = Manifold(metrics.Pullback(ellipsoid))
        found = manifold.sectional_curvature(x, [1.0, 0.0], [0.0, 1.0])
        np.testing.assert_allclose(found, expected, rtol=1e-10)

    def test_product_of_spheres(self):
        """Planes across the factors are flat, and Ricci tensors are those of the factors."""

        def product(x):
            scales = [r**2 * 4.0 / (1.0 + y @ y) ** 2 for r, y in ((1.0, x[:2]), (0.5, x[2:]))]
            return jnp.diag(jnp.repeat(jnp.stack(scales), 2))

        manifold, (e1, e2, e3, e4) = Manifold(product), np.eye(4)
        x = [0.3, -0.2, 0.5, 0.1]
        found = manifold.sectional_curvature(x, [e1, e3, e1, e2], [e2, e4, e3, e4])
        np.testing.assert_allclose(found, [1.0, 4.0, 0.0, 0.0], atol=1e-12)
        M = np.diag(manifold.metric(np.array(x)))
        np.testing.assert_allclose(manifold.ricci(x), np.diag(M * [1, 1, 4, 4]), atol=1e-12)
        assert manifold.scalar_curvature(x) == pytest.approx(10.0, rel=1e-12)


class TestLaws:
    @pytest.mark.parametrize("dimension", [2, 3, 7])
    @pytest.mark.parametrize("kind", ["local", "JAX"])
    def test_riemann_tensor_by_automatic_differentiation(self, kind, dimension):
        """Seven dimensions are more than plain loops of local metrics are used for."""
        rng = np.random.default_rng(dimension)
        metric = random_metric(rng, dimension) if kind == "local" else Wavy(rng, dimension)
        x, u, v = rng.normal(size=(3, 3, dimension))
        manifold = Manifold(metric)
        R, M = riemann(metric, x), metric.tensors_at(x)
        area = manifold.inner(x, u, u) * manifold.inner(x, v, v) - manifold.inner(x, u, v) ** 2
        section = np.einsum("nabcd,na,nb,nc,nd->n", R, u, v, v, u) / area
        found = manifold.sectional_curvature(x, u, v)
        np.testing.assert_allclose(found, section, rtol=1e-8, atol=1e-9)
        ricci = np.einsum("nabcd,nad->nbc", R, np.linalg.inv(M))
        np.testing.assert_allclose(manifold.ricci(x), ricci, atol=1e-9 * (1 + np.abs(ricci).max()))
        scalar = np.trace(np.linalg.solve(M, ricci), axis1=1, axis2=2)
        np.testing.assert_allclose(manifold.scalar_curvature(x), scalar, rtol=1e-8, atol=1e-8)

    @given(seed=st.integers(0, 10**6), dimension=st.integers(2, 4))
    def test_sections_belong_to_planes(self, seed, dimension):
        """Symmetric in u and v, and the same for any two vectors that span a plane."""
        rng = np.random.default_rng(seed)
        manifold = Manifold(random_metric(rng, dimension))
        x, u, v = rng.normal(size=(3, dimension))
        A = np.eye(2) + 0.45 * rng.uniform(-1, 1, (2, 2))  # of determinant .2 at least
        s, w = 1e3 * (A @ np.stack([u, v]))
        pairs = np.stack([[u, v, s], [v, u, w]])
        found = manifold.sectional_curvature(x, *pairs)
        np.testing.assert_allclose(found, found[0], rtol=1e-9, atol=1e-9)

    @given(seed=st.integers(0, 10**6), dimension=st.integers(2, 4))
    def test_linear_changes_of_coordinates(self, seed, dimension):
        rng = np.random.default_rng(seed)
        metric = random_metric(rng, dimension)
        A = np.eye(dimension) + 0.4 * rng.uniform(-1, 1, (dimension, dimension)) / dimension
        x, u, v = rng.normal(size=(3, dimension))
        plain, other = Manifold(metric), Manifold(changed(metric, A, 5.0))
        moved, B = A @ x + 5.0, np.linalg.inv(A)
        one, two = plain.scalar_curvature(x), other.scalar_curvature(moved)
        np.testing.assert_allclose(two, one, rtol=1e-8, atol=1e-8)
        np.testing.assert_allclose(
            other.sectional_curvature(moved, A @ u, A @ v), plain.sectional_curvature(x, u, v), rtol=1e-8, atol=1e-8
        )
        np.testing.assert_allclose(other.ricci(moved), B.T @ plain.ricci(x) @ B, atol=1e-7)

    @given(seed=st.integers(0, 10**6))
    def test_gauss_in_the_plane(self, seed):
        """The scalar curvature is twice the Gaussian one, and Ric = K M."""
        rng = np.random.default_rng(seed)
        manifold = Manifold(random_metric(rng, 2))
        x, u, v = rng.normal(size=(3, 2))
        K = manifold.sectional_curvature(x, u, v)
        np.testing.assert_allclose(manifold.scalar_curvature(x), 2.0 * K, rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(manifold.ricci(x), K * manifold.metric(x), atol=1e-8)


class TestInput:
    def test_leading_axes_broadcast(self):
        manifold = Manifold(metrics.Sphere(3))
        x = np.zeros((4, 1, 3))
        assert manifold.sectional_curvature(x, np.eye(3)[0], np.eye(3)[1:]).shape == (4, 2)
        assert manifold.ricci(x).shape == (4, 1, 3, 3)
        assert manifold.scalar_curvature(x).shape == (4, 1)

    def test_one_dimension(self):
        line = Manifold(lambda x: jnp.exp(x)[:, None])
        with pytest.raises(ValueError, match="two dimensions"):
            line.sectional_curvature([0.3], [1.0], [2.0])
        assert line.scalar_curvature([0.3]) == pytest.approx(0.0, abs=1e-14)

    @pytest.mark.parametrize("v", [[2.0, -4.0], [0.0, 0.0], [1.0, -2.0 + 1e-12]])
    def test_dependent_vectors(self, v):
        with pytest.raises(ValueError, match=r"u and v must be linearly independent, got u = \[ 1"):
            Manifold(metrics.Sphere()).sectional_curvature([0.1, 0.2], [1.0, -2.0], v)

    def test_planes_that_are_nearly_lines(self):
        found = Manifold(metrics.Sphere()).sectional_curvature([0.1, 0.2], [1, -2], [1, -2 + 1e-6])
        assert found == pytest.approx(1.0, abs=1e-9)

    def test_shapes(self):
        manifold = Manifold(metrics.Sphere(3))
        with pytest.raises(ValueError, match=r"u must have shape \(..., 3\)"):
            manifold.sectional_curvature(np.zeros(3), np.zeros(2), np.zeros(3))
        with pytest.raises(ValueError, match="leading axes must broadcast"):
            manifold.sectional_curvature(np.zeros((2, 3)), np.ones((3, 3)), np.ones(3))
        with pytest.raises(TypeError, match="x must be an array of numbers"):
            manifold.scalar_curvature(Gaussian(np.zeros(3)))

    def test_nothing_where_there_is_no_metric(self):
        manifold = Manifold(metrics.HalfPlane())
        found = manifold.scalar_curvature([[0.0, 1.0], [0.0, -1.0]])
        np.testing.assert_allclose(found, [-2.0, np.nan], rtol=1e-12)
        with pytest.raises(ValueError, match="positive definite at x"):
            manifold.sectional_curvature([0.0, -1.0], [1.0, 0.0], [0.0, 1.0])
