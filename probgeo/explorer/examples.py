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
    settings = _of_images(found.images / 16.0, 10, recipe)
    colours = {"digit": found.target.astype(float)}
    return Scene(**settings, title="handwritten digits", components=10, colours=colours)


def ones() -> Scene:
    """A thousand ones of MNIST in two dimensions, and the metric, of the paper."""
    settings = _of_images(data.mnist_ones().images, 2, "images = data.mnist_ones().images")
    return Scene(
        **settings,
        title="ones of MNIST",
        components=5,
        rho=0.5,
        learn=lambda components: from_mixture(settings["X"], components, rho=0.5, regularisation=0.01),
        learning="metrics.from_mixture(X, {components}, rho={rho}, regularisation=0.01)",
    )


def bodies() -> Scene:
    """Synthetic bodies by their first two coefficients, and the metric of the paper's figure 6.

    It is learned so that bellies differ (LMNN), and of more coefficients nearly flat: geodesics between them would be
    lines.
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


def _of_images(images: np.ndarray, dimension: int, recipe: str) -> dict[str, Any]:
    """Arguments of a scene that shows principal components of images: data, names, decoder, recipe."""
    from sklearn.decomposition import PCA

    pca = PCA(dimension, svd_solver="full")
    X = pca.fit_transform(images.reshape(len(images), -1))

    def decode(z: np.ndarray) -> np.ndarray:
        return np.clip(pca.inverse_transform(z), 0.0, 1.0).reshape(-1, *images.shape[1:])

    rows = f'X = PCA({dimension}, svd_solver="full").fit_transform(images.reshape(len(images), -1))'
    lines = ("from sklearn.decomposition import PCA", recipe, rows)
    columns = tuple(f"pc{d + 1}" for d in range(dimension))
    return {"X": np.ascontiguousarray(X), "columns": columns, "decode": decode, "recipe": "\n".join(lines)}
