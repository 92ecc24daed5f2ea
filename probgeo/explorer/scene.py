"""What the page shows: the data, how a metric is learned from them, and the plane they are seen in."""

from base64 import b64encode
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
from scipy.spatial.distance import cdist
from scipy.special import softmax

from probgeo._checks import as_float_array, as_whole_number
from probgeo.geometry import Manifold
from probgeo.metrics import Metric, as_metric, from_mixture
from probgeo.metrics.arguments import as_points
from probgeo.metrics.learners import preferred_components

PLANES = ("coordinates", "principal")


@dataclass(frozen=True)
class Plane:
    """A plane through the data: p = basis (x - origin), of points x (..., D) and p (..., 2).

    A point of the plane stands for one point in the space, whose other coordinates are those of the data seen nearby:
    their average, weighted by exp(-|distance|^2 / 2 width^2).
    """

    origin: np.ndarray
    basis: np.ndarray
    seen: np.ndarray  # the data in the plane (n, 2)
    hidden: np.ndarray  # what the plane does not show of them (n, D)
    width: float

    @classmethod
    def of(cls, X: np.ndarray, kind: str) -> "Plane":
        from sklearn.decomposition import PCA

        origin, basis = np.zeros(X.shape[1]), np.eye(2, X.shape[1])
        if kind == "principal":
            pca = PCA(2, svd_solver="full").fit(X)
            origin, basis = pca.mean_, pca.components_
        seen = (X - origin) @ basis.T
        # that of a normal density estimate in two dimensions (Scott's rule)
        width = float(np.sqrt(seen.var(axis=0).mean())) * len(X) ** (-1 / 6)
        return cls(origin, basis, seen, X - origin - seen @ basis, width)

    def project(self, x: np.ndarray) -> np.ndarray:
        """Points (..., D) in the plane (..., 2)."""
        return (x - self.origin) @ self.basis.T

    def lift(self, p: Any) -> np.ndarray:
        """The points (n, D) that those of the plane (n, 2) stand for."""
        p = np.asarray(p, dtype=float)
        x = self.origin + p @ self.basis
        if self.basis.shape[1] == 2:
            return x
        weights = softmax(-0.5 * cdist(p, self.seen, "sqeuclidean") / self.width**2, axis=1)
        return x + weights @ self.hidden


@dataclass(frozen=True, eq=False)
class Scene:
    """Data X (n, D) with a manifold, or with a way to learn one with so many components.

    columns, colours : names of the columns of X, and what else points may be coloured by
    given : the manifold, unless a metric is learned
    components : Gaussians at first
    tolerance : at first: sloppy enough for the error to be seen
    learn : function of the number of components, by default `from_mixture`
    decode : function of rows (m, D) to images (m, h, w) in [0, 1], or vertices (m, V, 3) of `faces`
    recipe : the Python code that makes X, and `manifold` if that is given
    learning : the code that learns a metric with {components} and {rho}
    """

    X: np.ndarray
    columns: tuple[str, ...]
    title: str = "data"
    given: Manifold | None = None
    components: int = 7
    rho: float = 0.3
    tolerance: float = 0.1
    learn: Callable[[int], Metric] | None = None
    colours: dict[str, np.ndarray] = field(default_factory=dict)
    decode: Callable[[np.ndarray], np.ndarray] | None = None
    faces: np.ndarray | None = None
    recipe: str = "X = ...  # your data, one point a row"
    learning: str = "metrics.from_mixture(X, {components}, rho={rho})"
    view: str = "coordinates"

    @cached_property
    def most_components(self) -> int:
        """As many as the points allow, at most 40; 0 if the manifold was given."""
        allowed = len(np.unique(self.X, axis=0)) // (self.X.shape[1] + 1)
        return min(40, max(1, allowed)) if self.given is None else 0

    @property
    def has_rho(self) -> bool:
        return self.given is None or hasattr(self.given.metric, "with_rho")

    def metric(self, components: int, rho: float) -> Metric:
        """The metric that was given, or one that is learned, with this sharpness if it has one."""
        metric: Any = self._learned(components) if self.given is None else self.given.metric
        return metric.with_rho(rho) if self.has_rho else metric

    @cached_property
    def _learned(self) -> Callable[[int], Metric]:
        return lru_cache(self.learn or (lambda components: from_mixture(self.X, components, rho=self.rho)))

    @cached_property
    def plane(self) -> Callable[[str], Plane]:
        """The plane of a kind, computed once."""
        return lru_cache(lambda kind: Plane.of(self.X, kind))

    @cached_property
    def manifold(self) -> Callable[..., Manifold]:
        """The manifold for components, rho, tolerance and thoroughness.

        The last ones are kept, because a manifold remembers what helps its search, and sliders ask for many.
        """

        def make(components: int, rho: float, tolerance: float, thoroughness: str) -> Manifold:
            metric = self.metric(components, rho)
            base = replace(self.given, metric=metric) if self.given else Manifold(metric)
            return replace(base, thoroughness=thoroughness, precision=tolerance)

        return lru_cache(200)(make)

    @cached_property
    def decoder(self) -> dict[str, Any] | None:
        """What the page needs to know to draw what `decoded` returns; None if there is nothing to decode."""
        if self.decode is None:
            return None
        example = np.asarray(self.decode(self.X[:1]))
        if self.faces is None:
            if example.ndim != 3:
                raise ValueError(f"decode must return images (1, h, w), got {example.shape}")
            return {"kind": "image", "height": example.shape[1], "width": example.shape[2]}
        if example.ndim != 3 or example.shape[2] != 3:
            raise ValueError(f"decode must return vertices (1, V, 3) of faces, got {example.shape}")
        faces = np.asarray(self.faces)
        most = min(example.shape[1], 2**16) - 1  # their numbers travel in 16 bits
        if faces.dtype.kind not in "iu" or faces.ndim != 2 or faces.shape[1:] != (3,):
            raise ValueError(f"faces must be whole numbers (F, 3), got {faces.dtype} {faces.shape}")
        if faces.size and not 0 <= faces.min() <= faces.max() <= most:
            raise ValueError(f"faces must be vertices from 0 to {most}, got {faces.min()} to {faces.max()}")
        scale = 2.0 * float(np.max(np.abs(np.nan_to_num(example)))) / 32767.0
        return {"kind": "mesh", "faces": as_base64(faces, np.uint16), "scale": scale}

    def decoded(self, x: np.ndarray) -> list[str]:
        """Points x (n, D) as images in bytes, or as vertices in 16-bit multiples of `scale`; empty without `decode`."""
        if self.decode is None or self.decoder is None:
            return []
        made = np.nan_to_num(np.asarray(self.decode(x), dtype=float))
        if self.decoder["kind"] == "image":
            return [as_base64(np.round(255 * np.clip(one, 0.0, 1.0)), np.uint8) for one in made]
        return [as_base64(np.clip(one / self.decoder["scale"], -32767, 32767), np.int16) for one in made]

    def values(self, column: str) -> np.ndarray:
        """The numbers (n,) by which the data are coloured."""
        if column in self.colours:
            return self.colours[column]
        return self.X[:, self.columns.index(column)]


def as_base64(values: np.ndarray, kind: Any) -> str:
    """The numbers in little-endian bytes, in base64."""
    return b64encode(values.astype(np.dtype(kind).newbyteorder("<")).tobytes()).decode()


def as_scene(X: Any, manifold: Any, colour: Any, decode: Callable | None, faces: Any, components: int | None) -> Scene:
    points = np.ascontiguousarray(as_points("X", X))
    if points.shape[1] < 2 or len(points) < 3:
        raise ValueError(f"X must hold at least 3 points of 2 dimensions, got {points.shape}")
    columns = tuple(map(str, getattr(X, "columns", [f"x{d + 1}" for d in range(points.shape[1])])))
    colours = {}
    if colour is not None:
        values = as_float_array("colour", colour)
        if values.shape != (len(points),):
            raise ValueError(f"colour must have shape ({len(points)},), got {values.shape}")
        colours["colour"] = values
    given, rho, recipe = manifold, 0.3, Scene.recipe
    if manifold is None:
        components = preferred_components(points, seed=0) if components is None else components
    else:
        components = 1
        given = manifold if isinstance(manifold, Manifold) else Manifold(manifold)
        as_metric(given.metric, points.shape[1])
        rho, recipe = float(getattr(given.metric, "rho", rho)), f"{recipe}\nmanifold = ...  # your manifold"
    if faces is not None and decode is None:
        raise ValueError("faces are those of the meshes that decode returns: give decode too")
    scene = Scene(
        points,
        columns,
        given=given,
        components=as_whole_number("components", components, 1),
        rho=rho,
        colours=colours,
        decode=decode,
        faces=faces,
        view="coordinates" if points.shape[1] == 2 else "principal",
        recipe=recipe,
    )
    if given is None and scene.components > scene.most_components:
        raise ValueError(f"components must be at most {scene.most_components}, got {components}")
    return scene
