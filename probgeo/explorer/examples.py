"""Data sets to explore at once: `probgeo explore --example moons`."""

from collections.abc import Callable
from typing import Any

import numpy as np

from probgeo import data
from probgeo.explorer.scene import Scene
from probgeo.metrics import from_lmnn, from_mixture


def moons() -> Scene:
    """A thousand points along two half circles."""
    return Scene(
        data.two_moons(1000, noise=0.1),
        ("x1", "x2"),
        "two moons",
        colours={"moon": np.repeat([0.0, 1.0], 500)},
        recipe="X = data.two_moons(1000, noise=0.1)",
    )


def digits() -> Scene:
    """Handwritten digits of 8 x 8 pixels, as far as ten principal components show them."""
    from sklearn.datasets import load_digits

    found = load_digits()
    recipe = "from sklearn.datasets import load_digits\n\nimages = load_digits().images / 16.0"
    X, settings = _of_images(found.images / 16.0, 10, recipe)
    label = {"digit": found.target.astype(float)}
    return Scene(X, title="handwritten digits", components=10, colours=label, **settings)


def ones() -> Scene:
    """A thousand ones of MNIST in two dimensions, and the metric, of the paper."""
    X, settings = _of_images(data.mnist_ones().images, 2, "images = data.mnist_ones().images")
    return Scene(
        X,
        title="ones of MNIST",
        components=5,
        rho=0.5,
        learn=lambda components: from_mixture(X, components, rho=0.5, regularisation=0.01),
        learning="metrics.from_mixture(X, {components}, rho={rho}, regularisation=0.01)",
        **settings,
    )


def bodies() -> Scene:
    """Synthetic bodies by their first two coefficients, and the metric of the paper's figure 6.

    It is learned so that bellies differ (LMNN), and of more coefficients nearly flat: geodesics
    between them would be lines.
    """
    people = data.bodies()
    X = np.ascontiguousarray(people.scores[:, :2])
    return Scene(
        X,
        ("shape 1", "shape 2"),
        "bodies",
        rho=1.0,
        learn=lambda components: from_lmnn(X, people.belly, n_clusters=components),
        colours={"belly": people.belly},
        decode=people.vertices,
        faces=people.faces,
        recipe="people = data.bodies()\nX = people.scores[:, :2]",
        learning="metrics.from_lmnn(X, people.belly, n_clusters={components}, rho={rho})",
    )


EXAMPLES: dict[str, Callable[[], Scene]] = {"moons": moons, "digits": digits, "ones": ones, "bodies": bodies}


def _of_images(images: np.ndarray, dimension: int, recipe: str) -> tuple[np.ndarray, dict[str, Any]]:
    """Principal components of images, and of a scene the names, the way back, and the recipe."""
    rows = images.reshape(len(images), -1)
    mean = rows.mean(axis=0)
    basis = np.linalg.svd(rows - mean, full_matrices=False)[2][:dimension]

    def decode(z: np.ndarray) -> np.ndarray:
        return np.clip(mean + z @ basis, 0.0, 1.0).reshape(-1, *images.shape[1:])

    lines = (
        recipe,
        "rows = images.reshape(len(images), -1)",
        "rows = rows - rows.mean(axis=0)",
        f"X = rows @ np.linalg.svd(rows, full_matrices=False)[2][:{dimension}].T",
    )
    names = tuple(f"pc{d + 1}" for d in range(dimension))
    return (rows - mean) @ basis.T, {"columns": names, "decode": decode, "recipe": "\n".join(lines)}
