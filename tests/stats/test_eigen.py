"""Eigenvectors of uncertain second moments."""

import numpy as np

from probgeo.stats.eigen import Moments, eigenvectors, sampled_eigenvectors


def random_moments(seed, size):
    rng = np.random.default_rng(seed)
    roots = size * rng.normal(size=(20, 3, 3))
    shared = size * rng.normal(size=(3, 3))
    N = rng.normal(size=(3, 3, 3))
    return Moments(
        u=rng.normal(size=(20, 3)) * [3.0, 2.0, 1.0],
        f=np.full(20, 1 / 19),
        T=roots @ roots.transpose(0, 2, 1),
        K=rng.normal(size=(20, 3, 3)),
        S=shared @ shared.T,
        N=N + N.transpose(1, 0, 2),
    )


def test_perturbation_and_draws_agree():
    """With 4000 draws a variance is known to 2 %; errors so small that second order is nothing."""
    moments = random_moments(0, 1e-3)
    first = eigenvectors(moments, 3)
    drawn = sampled_eigenvectors(moments, 3, seed=1, n=4000)
    np.testing.assert_allclose(drawn.values_std, first.values_std, rtol=0.08)
    scale = np.abs(first.cov).max(axis=(1, 2), keepdims=True)
    np.testing.assert_allclose(drawn.cov / scale, first.cov / scale, atol=0.08)
