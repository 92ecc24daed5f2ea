"""Noisy data on curved shapes, on which geodesics get lost."""

import numpy as np

from probgeo import data


def swiss_roll(rng):
    return data.swiss_roll(seed=rng)


PLANE = {
    "half circle": lambda rng: data.half_circle(seed=rng),
    "spiral": lambda rng: data.spiral(seed=rng),
    "two moons": lambda rng: data.two_moons(seed=rng),
    "ring": lambda rng: data.ring(seed=rng),
}


def in_space(make, rng):
    """A plane shape with a third coordinate that is noise, so that all have three dimensions."""
    plane = make(rng)
    return np.concatenate([plane, 0.05 * rng.normal(size=(len(plane), 1))], axis=1)


def random_pairs(rng, points, count):
    i, j = rng.integers(len(points), size=(2, count))
    return points[i], points[j]
