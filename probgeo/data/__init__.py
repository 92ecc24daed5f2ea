"""Data to try things on: two sets that ship with the package, toy shapes, and MNIST as it comes."""

from probgeo.data.idx import mnist
from probgeo.data.shipped import Bodies, Images, bodies, mnist_ones
from probgeo.data.toys import half_circle, ring, spiral, swiss_roll, two_moons

__all__ = [
    "Bodies",
    "Images",
    "bodies",
    "half_circle",
    "mnist",
    "mnist_ones",
    "ring",
    "spiral",
    "swiss_roll",
    "two_moons",
]
