"""Metrics learned from data in the plane, all of one size, so that one program serves them all."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from probgeo import data, metrics

COMPONENTS = 8
SHAPES = {
    "half circle": data.half_circle,
    "two moons": data.two_moons,
    "spiral": data.spiral,
    "ring": data.ring,
}


@lru_cache
def digits():
    """The ones of MNIST in their first two principal components, and a metric of them."""
    vectors = data.mnist_ones().vectors
    centred = vectors - vectors.mean(axis=0)
    _, _, axes = np.linalg.svd(centred, full_matrices=False)
    X = centred @ axes[:2].T
    return X, metrics.from_mixture(X, COMPONENTS)


def learned(name: str):
    """Data (P, 2), and the metric of a mixture of Gaussians on them."""
    if name == "ones":
        return digits()
    X = SHAPES[name]()
    return X, metrics.from_mixture(X, COMPONENTS)


def random_pairs(X: np.ndarray, count: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    i, j = np.random.default_rng(seed).integers(len(X), size=(2, count))
    return X[i], X[j]
