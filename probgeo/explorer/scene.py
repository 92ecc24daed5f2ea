"""What is explored: data, how a metric is learned from them, the plane in which they are seen."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
from scipy.spatial.distance import cdist

from probgeo._checks import as_float_array, as_whole_number
from probgeo.geometry import Manifold
from probgeo.metrics import Metric, as_metric, from_mixture
from probgeo.metrics.inputs import as_points

VIEWS = ("coordinates", "principal")


@dataclass(frozen=True)
class View:
    """A plane through the data: p = basis (x - origin), of points x (..., D) and p (..., 2).

    A point of the plane stands for one point in the space, whose other coordinates are those of the
    data seen nearby: their average, weighted by exp(-|distance|^2 / 2 width^2).
    """

    origin: np.ndarray
    basis: np.ndarray
    seen: np.ndarray  # the data in the plane (n, 2)
    hidden: np.ndarray  # what the plane does not show of them (n, D)
    width: float

    @classmethod
    def of(cls, X: np.ndarray, kind: str) -> "View":
        D = X.shape[1]
        origin, basis = np.zeros(D), np.eye(2, D)
        if kind == "principal":
            origin = X.mean(axis=0)
            basis = np.linalg.svd(X - origin, full_matrices=False)[2][:2]
            basis *= np.sign(basis[np.arange(2), np.argmax(np.abs(basis), axis=1)])[:, None]
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
        squares = cdist(p, self.seen, "sqeuclidean")
        squares -= squares.min(axis=1, keepdims=True)
        weights = np.exp(-0.5 * squares / self.width**2)
        return x + weights @ self.hidden / weights.sum(axis=1, keepdims=True)


@dataclass(frozen=True, eq=False)
class Scene:
    """Data X (n, D) with a manifold, or with a way to learn one with so many components.

    Attributes
    ----------
    columns, colours : names of the columns of X, and what else points may be coloured by
    given : the manifold, unless a metric is learned
    components, most : Gaussians at first, and the most that can be asked for
    tolerance : at first: sloppy enough for the error to be seen
    learn : function of the number of components, by default `from_mixture`
    decode : function of rows (m, D) to images (m, h, w) in [0, 1], or vertices (m, V, 3) of `faces`
    recipe : str
        The Python code that makes X, and `manifold` if that is given.
    learning : str
        The code that learns a metric with {components} and {rho}.
    """

    X: np.ndarray
    columns: tuple[str, ...]
    title: str = "data"
    given: Manifold | None = None
    components: int = 7
    most: int = 40
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
        """What the points allow, too; 0 of a given manifold."""
        distinct = len(np.unique(self.X, axis=0))
        most = min(self.most, distinct // (self.X.shape[1] + 1))
        return max(1, most) if self.given is None else 0

    @property
    def has_rho(self) -> bool:
        return self.given is None or hasattr(self.given.metric, "with_rho")

    def metric(self, components: int, rho: float) -> Metric:
        """That which is given or learned, as sharp as that if it can be."""
        metric: Any = self._learned(components) if self.given is None else self.given.metric
        return metric.with_rho(rho) if self.has_rho else metric

    @cached_property
    def seen_from(self) -> Callable[[str], View]:
        """The view of a kind."""
        return lru_cache(lambda kind: View.of(self.X, kind))

    @cached_property
    def manifold(self) -> Callable[..., Manifold]:
        """That of components, rho, tolerance and thoroughness.

        Some are kept, as a manifold remembers what it searches by: pulled sliders ask for many.
        """

        def make(components: int, rho: float, tolerance: float, thoroughness: str) -> Manifold:
            metric = self.metric(components, rho)
            base = replace(self.given, metric=metric) if self.given else Manifold(metric)
            return replace(base, thoroughness=thoroughness, precision=tolerance)

        return lru_cache(200)(make)

    @cached_property
    def _learned(self) -> Callable[[int], Metric]:
        return lru_cache(self.learn or (lambda count: from_mixture(self.X, count, rho=self.rho)))

    def values(self, column: str) -> np.ndarray:
        """What the data are coloured by (n,)."""
        if column in self.colours:
            return self.colours[column]
        return self.X[:, self.columns.index(column)]


def as_scene(X: Any, manifold: Any, colour: Any, decode: Callable | None, faces: Any, components: int | None) -> Scene:
    """The arguments of `explore`, checked."""
    from probgeo.commands.learned import preferred_components

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
    given = manifold
    if manifold is not None and not isinstance(manifold, Manifold):
        given = Manifold(as_metric(manifold, points.shape[1]))
    if given is not None:
        as_metric(given.metric, points.shape[1])
        components = 1
    elif components is None:
        components = preferred_components(points, seed=0)
    if faces is not None and decode is None:
        raise ValueError("faces are those of the meshes that decode returns: give decode too")
    scene = Scene(
        points,
        columns,
        given=given,
        components=as_whole_number("components", components, 1),
        rho=float(getattr(given.metric, "rho", 0.3)) if given is not None else 0.3,
        colours=colours,
        decode=decode,
        faces=None if faces is None else np.asarray(faces),
        view="coordinates" if points.shape[1] == 2 else "principal",
        recipe="X = ...  # your data, one point a row" + ("" if given is None else "\nmanifold = ...  # your manifold"),
    )
    if scene.given is None and components > scene.most_components:
        raise ValueError(f"components must be at most {scene.most_components}, got {components}")
    return scene
