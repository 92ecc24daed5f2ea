"""Noisy data on curved shapes, on which geodesics get lost."""

import numpy as np


def half_circle(rng, n=200):
    angle = rng.uniform(0.0, np.pi, n)
    return np.stack([np.cos(angle), np.sin(angle)], axis=1) + 0.05 * rng.normal(size=(n, 2))


def spiral(rng, n=300):
    turns = np.sqrt(rng.uniform(0.02, 1.0, n)) * 3.0
    angle = 2.0 * np.pi * turns
    arm = turns[:, None] * np.stack([np.cos(angle), np.sin(angle)], axis=1)
    return arm / 3.0 + 0.02 * rng.normal(size=(n, 2))


def two_moons(rng, n=200):
    upper = half_circle(rng, n // 2)
    lower = half_circle(rng, n // 2) * [1.0, -1.0] + [1.0, 0.5]
    return np.concatenate([upper, lower])


def ring(rng, n=200):
    angle = rng.uniform(0.0, 2.0 * np.pi, n)
    return np.stack([np.cos(angle), np.sin(angle)], axis=1) + 0.05 * rng.normal(size=(n, 2))


def swiss_roll(rng, n=300):
    angle = 1.5 * np.pi * (1.0 + 2.0 * rng.uniform(size=n))
    height = rng.uniform(0.0, 2.0, n)
    roll = np.stack([angle * np.cos(angle), angle * np.sin(angle)], axis=1) / 10.0
    return np.concatenate([roll, height[:, None]], axis=1) + 0.02 * rng.normal(size=(n, 3))


PLANE = {"half circle": half_circle, "spiral": spiral, "two moons": two_moons, "ring": ring}


def in_space(make, rng):
    """A plane shape with a third coordinate that is noise, so that all have three dimensions."""
    plane = make(rng)
    return np.concatenate([plane, 0.05 * rng.normal(size=(len(plane), 1))], axis=1)


def random_pairs(rng, data, count):
    i, j = rng.integers(len(data), size=(2, count))
    return data[i], data[j]
