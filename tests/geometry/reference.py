"""Random smooth metrics, and what is true of them written out in the plainest way."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from probgeo import metrics


class Wavy(metrics.Metric):
    """M(x) = I/2 + A(x) A(x)' with A(x) = offset + sin of linear functions of x.

    A module, so that all of them share one compilation. Its eigenvalues lie in
    [1/2, 1/2 + 4 D^2], if the offset has entries in [-1, 1].
    """

    offset: jax.Array
    slopes: jax.Array

    def __call__(self, x):
        A = self.offset + jnp.sin(self.slopes @ x)
        return 0.5 * jnp.eye(len(x)) + A @ A.T

    @classmethod
    def random(cls, rng, dimension):
        shape = (dimension, dimension)
        return cls(
            jnp.asarray(rng.uniform(-1.0, 1.0, shape)),
            jnp.asarray(rng.normal(size=(*shape, dimension))),
        )


def random_state(seed, dimension):
    """A random metric, point and velocity."""
    rng = np.random.default_rng(seed)
    metric = Wavy.random(rng, dimension)
    return metric, jnp.asarray(rng.normal(size=dimension)), jnp.asarray(rng.normal(size=dimension))


def random_tensors(rng, count, dimension, low=0.5):
    """Symmetric positive definite (K, D, D), with eigenvalues above `low`."""
    roots = rng.normal(size=(count, dimension, dimension))
    return roots @ roots.transpose(0, 2, 1) / dimension + low * np.eye(dimension)


class Plain(metrics.Metric):
    """The same metric without its fast paths."""

    metric: metrics.Metric

    def __call__(self, x):
        return self.metric(x)


@eqx.filter_jit
def methods(metric, x, v):
    """What every method of a metric says at one point."""
    return {
        "tensor": metric(x),
        "apply": metric.apply(x, v),
        "solve": metric.solve(x, v),
        "energy": metric.energy(x, v),
        "acceleration": metric.acceleration(x, v),
        "jacobian": metric.acceleration_jacobian(x, v),
    }


def assert_same_metric(metric, other, x, v, rtol=1e-9):
    """That two metrics agree in all methods; round-off grows with the condition of M(x)."""
    expected = methods(other, x, v)
    for name, value in methods(metric, x, v).items():
        scale = np.abs(expected[name]).max()
        np.testing.assert_allclose(value, expected[name], atol=rtol * (1 + scale), err_msg=name)


def largest_intermediate(function, *arguments):
    """Number of elements of the largest array that JAX forms on the way."""

    def sizes(jaxpr):
        for equation in jaxpr.eqns:
            yield from (int(np.prod(var.aval.shape)) for var in equation.outvars)
            for inner in jax.tree.leaves(equation.params, is_leaf=lambda p: hasattr(p, "jaxpr")):
                if hasattr(inner, "jaxpr"):
                    yield from sizes(inner.jaxpr)

    return max(sizes(jax.make_jaxpr(function)(*arguments).jaxpr))


def calibration(error, cov):
    """Coverage at two standard deviations, and normalised squared error (ANEES).

    error (..., D), cov (..., D, D). Both are means, over members and coordinates.
    """
    error, cov = np.asarray(error), np.asarray(cov)
    std = np.sqrt(np.diagonal(cov, axis1=-2, axis2=-1))
    squares = np.einsum("...i,...ij,...j->...", error, np.linalg.pinv(cov, hermitian=True), error)
    return np.mean(np.abs(error) <= 2.0 * std), np.mean(squares) / error.shape[-1]
