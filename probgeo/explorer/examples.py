"""Data sets to explore at once: `probgeo explore --example moons`."""

from collections.abc import Callable
from typing import Any

import numpy as np

from probgeo import data
from probgeo.explorer.scene import Scene
from probgeo.metrics import from_lmnn, from_mixture


def moons() -> Scene:
    """A thousand points along two half circles."""
    X = data.two_moons(1000, noise=0.1)
    return Scene(
        X,
        ("x1", "x2"),
        "two moons",
        components=7,
        colours={"moon": np.repeat([0.0, 1.0], 500)},
        recipe="X = data.two_moons(1000, noise=0.1)",
    )


def digits() -> Scene:
    """Handwritten digits of 8 x 8 pixels, as far as ten principal components show them."""
    from sklearn.datasets import load_digits

    recipe = "from sklearn.datasets import load_digits\n\nimages = load_digits().images / 16.0"
    found = load_digits()
    label = {"digit": found.target.astype(float)}
    return _of_images("handwritten digits", found.images / 16.0, 10, recipe, colours=label)


def ones() -> Scene:
    """A thousand ones of MNIST in two dimensions, and the metric, of the paper."""
    images = data.mnist_ones().images
    return _of_images(
        "ones of MNIST",
        images,
        2,
        "images = data.mnist_ones().images",
        components=5,
        rho=0.5,
        learn=lambda components, X: from_mixture(X, components, rho=0.5, regularisation=0.01),
        learning="metrics.from_mixture(X, {components}, rho={rho}, regularisation=0.01)",
    )


def bodies() -> Scene:
    """Ten coefficients of synthetic bodies, measured so that bellies differ (LMNN)."""
    people = data.bodies()
    X = people.scores[:, :10]
    return Scene(
        X,
        tuple(f"shape {d + 1}" for d in range(10)),
        "bodies",
        components=7,
        rho=1.0,
        learn=lambda components: from_lmnn(X, people.belly, n_clusters=components),
        colours={"belly": people.belly},
        decode=people.vertices,
        faces=people.faces,
        recipe="people = data.bodies()\nX = people.scores[:, :10]",
        learning="metrics.from_lmnn(X, people.belly, n_clusters={components}, rho={rho})",
    )


EXAMPLES: dict[str, Callable[[], Scene]] = {
    "moons": moons,
    "digits": digits,
    "ones": ones,
    "bodies": bodies,
}


def _of_images(
    title: str,
    images: np.ndarray,
    dimension: int,
    recipe: str,
    *,
    components: int = 10,
    learn: Callable[[int, np.ndarray], Any] | None = None,
    **settings: Any,
) -> Scene:
    """Principal components of images, in units of the whole spread, and the way back."""
    rows = images.reshape(len(images), -1)
    mean = rows.mean(axis=0)
    basis = np.linalg.svd(rows - mean, full_matrices=False)[2][:dimension]
    X = (rows - mean) @ basis.T

    def decode(z: np.ndarray) -> np.ndarray:
        return np.clip(mean + z @ basis, 0.0, 1.0).reshape(-1, *images.shape[1:])

    lines = (
        recipe,
        "rows = images.reshape(len(images), -1)",
        "rows = rows - rows.mean(axis=0)",
        f"X = rows @ np.linalg.svd(rows, full_matrices=False)[2][:{dimension}].T",
    )
    return Scene(
        X,
        tuple(f"pc{d + 1}" for d in range(dimension)),
        title,
        components=components,
        learn=None if learn is None else lambda count: learn(count, X),
        decode=decode,
        recipe="\n".join(lines),
        **settings,
    )
