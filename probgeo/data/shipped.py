"""The two data sets inside the package. See LICENSES.md beside this file."""

import hashlib
from importlib.resources import files
from io import BytesIO
from typing import Any, NamedTuple

import numpy as np

SHA256 = {
    "mnist_ones.npz": "036a3f8ab7f21ffa32fa34479e355c7fd8a35150b71b0eb427dbc549245040a1",
    "bodies.npz": "805414351b69e482acc4e2e0d8241e908ec342726c01689388d36aa6c8d8177e",
}


class Images(NamedTuple):
    """Handwritten digits.

    Attributes
    ----------
    images : array (P, 28, 28)
        Grey values from 0 to 1.
    places : array of int (P,)
        In the original set.
    """

    images: np.ndarray
    places: np.ndarray

    @property
    def vectors(self) -> np.ndarray:
        """The images as rows (P, 784)."""
        return self.images.reshape(len(self.images), -1)


class Bodies(NamedTuple):
    """A synthetic population of women's body shapes: no row is a person.

    Attributes
    ----------
    scores : array (1191, 50)
        Shape coefficients of unit variance; the first twenty carry nearly all of it.
    belly : array (1191,)
        Circumference of the belly in metres.
    mean, components : array (3756, 3) and (50, 3756, 3)
        Vertices of the mean body, and how each coefficient moves them, in metres; z is up, and the
        front is at negative y.
    faces : array of int (7528, 3)
    """

    scores: np.ndarray
    belly: np.ndarray
    mean: np.ndarray
    components: np.ndarray
    faces: np.ndarray

    def vertices(self, scores: Any) -> np.ndarray:
        """Vertices (..., 3756, 3) of bodies with given scores (..., K), the first K of 50."""
        given = np.asarray(scores, dtype=float)
        if given.ndim == 0 or not 1 <= given.shape[-1] <= len(self.components):
            raise ValueError(f"scores must have shape (..., K), K at most {len(self.components)}, got {given.shape}")
        return self.mean + np.tensordot(given, self.components[: given.shape[-1]], 1)


def mnist_ones() -> Images:
    """The first 1000 training images of the digit 1 of MNIST.

    Examples
    --------
    >>> mnist_ones().vectors.shape
    (1000, 784)
    """
    file = _load("mnist_ones.npz")
    return Images(file["images"] / 255.0, file["index"])


def bodies() -> Bodies:
    """1191 synthetic body shapes, with their belly circumferences.

    Examples
    --------
    >>> people = bodies()
    >>> people.vertices(people.scores[0]).shape
    (3756, 3)
    """
    file = _load("bodies.npz")
    return Bodies(
        scores=file["scores"].astype(float),
        belly=file["belly_m"].astype(float),
        mean=file["mean_m"].astype(float),
        components=file["components_m"].astype(float),
        faces=file["faces"],
    )


def _load(name: str) -> dict[str, np.ndarray]:
    content = files("probgeo.data").joinpath(name).read_bytes()
    found = hashlib.sha256(content).hexdigest()
    if found != SHA256[name]:
        raise OSError(f"{name} is damaged: its SHA-256 is {found}. Install probgeo again")
    with np.load(BytesIO(content)) as file:
        return dict(file)
