"""Random smooth metrics, and what is true of every metric written out in the plainest way."""

import numpy as np

from probgeo import metrics
from probgeo.functions.in_jax import double_precision


def random_tensors(rng, count, dimension, low=0.5):
    """Symmetric positive definite (K, D, D), with eigenvalues above `low`."""
    roots = rng.normal(size=(count, dimension, dimension))
    return roots @ roots.transpose(0, 2, 1) / dimension + low * np.eye(dimension)


class Wavy(metrics.Metric):
    """M(x) = I/2 + A(x) A(x)' with A(x) = offset + sin of linear functions of x, in NumPy or JAX.

    Its eigenvalues lie in [1/2, 1/2 + 4 D^2], if the offset has entries in [-1, 1].
    """

    def __init__(self, rng, dimension):
        self.offset = rng.uniform(-1.0, 1.0, (dimension, dimension))
        self.slopes = rng.normal(size=(dimension, dimension, dimension))

    def __call__(self, x):
        import jax.numpy as jnp

        A = self.offset + jnp.sin(self.slopes @ x)
        return 0.5 * jnp.eye(len(x)) + A @ A.T


def random_rows(rng, dimension, count=20):
    """Points and velocities (n, D)."""
    return rng.normal(size=(count, dimension)), rng.normal(size=(count, dimension))


def differences(function, x):
    """Derivatives (n, ..., D) of rows, by central differences of fourth order."""
    h = 1e-3
    weights = {1: 8.0, -1: -8.0, 2: -1.0, -2: 1.0}
    columns = []
    for step in h * np.eye(x.shape[1]):
        total = sum(w * function(x + k * step) for k, w in weights.items())
        columns.append(total / (12.0 * h))
    return np.stack(columns, axis=-1)


def assert_near(found, expected, rtol, name=""):
    scale = 1.0 + np.abs(expected).max(initial=0.0)
    np.testing.assert_allclose(found, expected, rtol=0.0, atol=rtol * scale, err_msg=name)


def assert_consistent(metric, x, v, rtol=1e-8):
    """That all the engine may ask agrees with `metric(x)` at rows x, v (n, D).

    Energies and tensors to round-off. Each derivative is compared with differences of what comes
    before it: h^4 of a smooth function.
    """
    n, D = x.shape
    with double_precision():  # of a user's function that is called by itself
        M = np.stack([np.asarray(metric(point)) for point in x])
    terms, first = metric.energy_terms(x, v), metric.energy_terms(x, v, second=False)
    energy = 0.5 * np.einsum("ni,nij,nj->n", v, M, v)
    assert_near(metric.tensors_at(x), M, 1e-11, "tensors_at")
    assert_near(terms.energy, energy, 1e-11, "energy")
    assert_near(metric.energies(x, v), energy, 1e-11, "energies")
    assert_near(terms.vv, M, 1e-11, "vv")
    assert_near(terms.by_v, np.einsum("nij,nj->ni", M, v), 1e-11, "by_v")
    assert_near(metric.inner(x, v, terms.by_v), np.sum(terms.by_v**2, axis=1), 1e-10, "inner")
    for name in ("energy", "by_x", "by_v"):
        assert_near(getattr(first, name), getattr(terms, name), 1e-10, f"first {name}")
    for block in (first.xx, first.xv, first.vv):
        assert len(block) == 0
    assert_near(terms.by_x, differences(lambda y: metric.energies(y, v), x), rtol, "by_x")

    def slope(y, u):
        return metric.energy_terms(y, u, second=False).by_x

    assert_near(terms.xx, differences(lambda y: slope(y, v), x), rtol, "xx")
    assert_near(terms.xv, differences(lambda u: slope(x, u), v), rtol, "xv")
    force = terms.by_x - np.einsum("nij,ni->nj", terms.xv, v)  # erratum 1
    a = metric.accelerations(x, v)
    assert_near(a, np.linalg.solve(M, force[:, :, None])[:, :, 0], 1e-9, "accelerations")
    J = metric.acceleration_jacobians(x, v)
    assert J.shape == (n, 2, D, D)
    assert_near(J[:, 0], differences(lambda y: metric.accelerations(y, v), x), rtol, "a by x")
    assert_near(J[:, 1], differences(lambda u: metric.accelerations(x, u), v), rtol, "a by v")


def assert_same(metric, other, x, v, rtol=1e-9):
    """That two metrics give the same answers at rows x, v (n, D)."""
    assert_near(metric.tensors_at(x), other.tensors_at(x), rtol, "tensors_at")
    assert_near(metric.energies(x, v), other.energies(x, v), rtol, "energies")
    ones, others = metric.energy_terms(x, v), other.energy_terms(x, v)
    for name, one, the_other in zip(ones._fields, ones, others, strict=True):
        assert_near(one, the_other, rtol, name)
    assert_near(metric.accelerations(x, v), other.accelerations(x, v), rtol, "accelerations")
    jacobians = (m.acceleration_jacobians(x, v) for m in (metric, other))
    assert_near(*jacobians, 10.0 * rtol, "acceleration_jacobians")


def in_jax(metric):
    """The same metric as a function that JAX differentiates."""
    return metrics.as_metric(lambda x: metric(x))
