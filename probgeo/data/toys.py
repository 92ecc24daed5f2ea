"""Noisy points on curved shapes, on which straight lines lead astray."""

from typing import Any

import numpy as np


def half_circle(n: int = 200, *, noise: float = 0.05, seed: Any = 0) -> np.ndarray:
    """Points (n, 2) along the upper half of the unit circle.

    `seed` is a number or a `numpy.random.Generator`, here and below.
    """
    rng = np.random.default_rng(seed)
    return _on_circle(rng.uniform(0.0, np.pi, n)) + noise * rng.normal(size=(n, 2))


def ring(n: int = 200, *, noise: float = 0.05, seed: Any = 0) -> np.ndarray:
    """Points (n, 2) along the unit circle."""
    rng = np.random.default_rng(seed)
    return _on_circle(rng.uniform(0.0, 2.0 * np.pi, n)) + noise * rng.normal(size=(n, 2))


def two_moons(n: int = 200, *, noise: float = 0.05, seed: Any = 0) -> np.ndarray:
    """Points (n, 2) along two half circles that reach into each other."""
    rng = np.random.default_rng(seed)
    upper = half_circle(n - n // 2, noise=noise, seed=rng)
    lower = half_circle(n // 2, noise=noise, seed=rng) * [1.0, -1.0] + [1.0, 0.5]
    return np.concatenate([upper, lower])


def spiral(n: int = 300, *, turns: float = 3.0, noise: float = 0.02, seed: Any = 0) -> np.ndarray:
    """Points (n, 2) along a spiral that ends at a distance of one."""
    rng = np.random.default_rng(seed)
    part = np.sqrt(rng.uniform(0.02, 1.0, n))
    arm = part[:, None] * _on_circle(2.0 * np.pi * turns * part)
    return arm + noise * rng.normal(size=(n, 2))


def swiss_roll(n: int = 300, *, noise: float = 0.02, seed: Any = 0) -> np.ndarray:
    """Points (n, 3) on a sheet that is rolled up."""
    rng = np.random.default_rng(seed)
    angle = 1.5 * np.pi * (1.0 + 2.0 * rng.uniform(size=n))
    height = rng.uniform(0.0, 2.0, n)
    roll = 0.1 * angle[:, None] * _on_circle(angle)
    return np.concatenate([roll, height[:, None]], axis=1) + noise * rng.normal(size=(n, 3))


def _on_circle(angle: np.ndarray) -> np.ndarray:
    return np.stack([np.cos(angle), np.sin(angle)], axis=1)
