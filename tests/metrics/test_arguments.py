"""Bad input gets an error that names the argument."""

import jax.numpy as jnp
import numpy as np
import pytest

from probgeo import metrics

CENTERS = [[0.0, 0.0], [1.0, 0.0]]
X = np.random.default_rng(0).normal(size=(20, 2))
LABELS = np.repeat([0, 1], 10)


def branching(x):
    return jnp.eye(2) if x[0] > 0 else 2.0 * jnp.eye(2)


def local(tensors, centers=CENTERS, **options):
    return lambda: metrics.LocalMetrics(centers, tensors, **options)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: metrics.as_metric(np.eye(2)), r"metric must be a function .* metrics.Flat"),
        (lambda: metrics.as_metric(3), "metric must be a function"),
        (lambda: metrics.as_metric(branching, 2), "metric must be traceable by JAX"),
        (lambda: metrics.as_metric(lambda: 1.0, 2), r"metric\(x\) could not be called for one"),
        (lambda: metrics.as_metric(lambda x: x, 2), r"must return shape \(2, 2\) .* got \(2,\)"),
        (lambda: metrics.as_metric(lambda x: None, 2), "must return shape"),
        (lambda: metrics.acceleration(metrics.Flat(), [0.0], [1.0, 2.0]), "x and v must have"),
        (lambda: metrics.as_metric(metrics.Sphere(3), 2), "one of 3 dimensions, got points of 2"),
        (lambda: metrics.check_metric(metrics.Flat(), [1.0, 2.0]), r"X must have shape \(N, D\)"),
        (local(np.ones((2, 2)), []), r"centers must have shape \(N, D\)"),
        (local(np.ones((0, 2)), np.ones((0, 2))), "centers must hold at least 1 points, got 0"),
        (local(np.ones((2, 2)), [[0.0, np.nan], [1.0, 0.0]]), "centers must be finite"),
        (local(np.ones((3, 2))), r"tensors must have shape \(2, 2, 2\), or \(2, 2\) if diagonal"),
        (local([[1.0, 1.0], [1.0, 0.0]]), r"tensors must be positive, got tensors\[1, 1\] = 0"),
        (local([np.eye(2), [[1.0, 0.5], [0.0, 1.0]]]), r"tensors\[1\] must be symmetric"),
        (local([np.eye(2), [[1.0, 2.0], [2.0, 1.0]]]), r"tensors\[1\] must be positive definite"),
        (local(np.full((2, 2, 2), np.nan)), "tensors must be finite"),
        (local(np.ones((2, 2)), rho=-1.0), "rho must be positive"),
        (local(np.ones((2, 2)), rho=[1.0, 2.0]), "rho must be"),
        (lambda: local(np.ones((2, 2)))().with_rho(np.inf), "rho must be finite"),
        (lambda: metrics.Flat([1.0, 2.0]), r"A must have shape \(D, D\)"),
        (lambda: metrics.Flat([[1.0, 0.0], [0.0, -1.0]]), "A must be positive definite"),
        (lambda: metrics.Conformal(2.0), "scale must be a function"),
        (lambda: metrics.Conformal(jnp.sum, base=np.eye(2)), "metric must be a function"),
        (lambda: metrics.Pullback(None), "decoder must be a function"),
        (lambda: metrics.Pullback(jnp.sin, std=1.0), "std must be a function"),
        (lambda: metrics.Pullback(jnp.sin, regularisation=-1.0), "regularisation must be positive"),
        (lambda: metrics.Pullback(jnp.sum)(jnp.zeros(2)), "decoder must return at least"),
        (lambda: metrics.Pullback(jnp.sum).energy([0.0, 0.0], [1.0, 1.0]), "at least as many"),
        (lambda: metrics.LocalCovariance(X, sigma=0.0), "sigma must be positive"),
        (lambda: metrics.LocalCovariance(X, sigma=1.0, rho=0.0), "rho must be positive"),
        (lambda: metrics.LocalCovariance(X[0], sigma=1.0), r"X must have shape \(N, D\)"),
        (lambda: metrics.Sphere(0), "dimension must be a whole number >= 1"),
        (lambda: metrics.Sphere(2).exp([0.0], [1.0]), r"a must have shape \(\.\.\., 2\)"),
        (lambda: metrics.HalfPlane().distance([0.0, 1.0], [0.0, -1.0]), "b must lie in the HalfP"),
        (lambda: metrics.PoincareBall().log([1.0, 0.0], [0.0, 0.0]), "a must lie in the Poincare"),
        (lambda: metrics.from_mixture(X, 0), "n_components must be a whole number >= 1"),
        (lambda: metrics.from_mixture(X, 21), "X must hold at least 21 points, got 20"),
        (lambda: metrics.from_mixture(np.ones((9, 2)), 2), "X must hold distinct points"),
        (lambda: metrics.from_mixture(X * np.nan, 2), "X must be finite"),
        (lambda: metrics.from_mixture(X, 2, covariance_type="tied"), "covariance_type must be"),
        (lambda: metrics.from_mixture(X, 2, regularisation=0.0), "regularisation must be positive"),
        (lambda: metrics.from_local_pca(X, 21), "X must hold at least 21 points"),
        (lambda: metrics.from_local_pca(X, 2, n_neighbors=30), "n_neighbors must not exceed"),
        (lambda: metrics.from_local_pca(X, 2, n_components=3), "n_components must not exceed"),
        (lambda: metrics.lmnn_diagonal(X, LABELS[:5]), r"labels must have shape \(20,\)"),
        (lambda: metrics.lmnn_diagonal(X, 0 * LABELS), "labels must name at least two classes"),
        (lambda: metrics.lmnn_diagonal(X, LABELS, anchor=7), "anchor must be one of the labels"),
        (lambda: metrics.lmnn_diagonal(X, LABELS, n_neighbors=10), "every class needs more than"),
        (lambda: metrics.lmnn_diagonal(X, LABELS, mu=1.0), "mu must lie between 0 and 1"),
        (lambda: metrics.lmnn_diagonal(X, LABELS, floor=0.0), "floor must be positive"),
        (lambda: metrics.from_lmnn(X, X[:, 0]), "n_clusters must be given"),
        (lambda: metrics.from_lmnn(X, X[:, 0], 1), "n_clusters must be a whole number >= 2"),
        (lambda: metrics.from_lmnn(X, LABELS, 3), "y gives 2 clusters, but n_clusters is 3"),
        (lambda: metrics.from_lmnn(X, X[:7, 0], 2), r"y must have shape \(20,\)"),
        (lambda: metrics.from_lmnn(X, np.ones(20), 2), "y must hold distinct points"),
    ],
)
def test_bad_input_is_named(call, message):
    with pytest.raises((ValueError, TypeError), match=message):
        call()
