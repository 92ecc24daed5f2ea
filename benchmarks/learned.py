"""Metrics learned from data: toy shapes in the plane, digits in any number of dimensions."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from probgeo import data, metrics

COMPONENTS = 8  # of a mixture in the plane,
DIGITS = 10  # and of the digits
SHAPES = {"half circle": data.half_circle, "two moons": data.two_moons, "spiral": data.spiral, "ring": data.ring}


def learned(name: str):
    """Data (P, 2), and the metric of a mixture of Gaussians on them."""
    X = principal(data.mnist_ones().vectors, 2) if name == "ones" else SHAPES[name]()
    return X, metrics.from_mixture(X, COMPONENTS)


@lru_cache
def digits(kind: str, dimension: int):
    """The digits of scikit-learn, "all" of them or "ones", and the paper's metric of them."""
    from sklearn.datasets import load_digits

    X, y = load_digits(return_X_y=True)
    X = principal(X[y == 1] if kind == "ones" else X, dimension)
    return X, metrics.from_mixture(X, DIGITS, rho=1.0)


def principal(X: np.ndarray, dimension: int) -> np.ndarray:
    """The first principal components (P, D)."""
    X = X - X.mean(axis=0)
    _, _, axes = np.linalg.svd(X, full_matrices=False)
    return X @ axes[:dimension].T


def random_pairs(X: np.ndarray, count: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Two points each, never the same one twice."""
    i, j = np.random.default_rng(seed).integers(len(X), size=(2, count))
    return X[i], X[np.where(i == j, (j + 1) % len(X), j)]
