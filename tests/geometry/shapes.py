"""Noisy data on curved shapes, on which geodesics get lost."""

from probgeo import data

PLANE = {
    "half circle": lambda rng: data.half_circle(seed=rng),
    "spiral": lambda rng: data.spiral(seed=rng),
    "two moons": lambda rng: data.two_moons(seed=rng),
    "ring": lambda rng: data.ring(seed=rng),
}
NAMES = (*PLANE, "Swiss roll")


def draw(name, rng):
    """Points (N, 2) of a plane shape, (N, 3) of the Swiss roll."""
    return data.swiss_roll(seed=rng) if name == "Swiss roll" else PLANE[name](rng)


def random_pairs(rng, points, count):
    i, j = rng.integers(len(points), size=(2, count))
    return points[i], points[j]
