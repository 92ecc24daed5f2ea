"""A metric learned from a table, kept in a file: what `fit` writes and `geodesic` reads."""

import warnings
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from probgeo import storage
from probgeo.commands.tables import InputError, Table, check_there
from probgeo.metrics import LocalMetrics, from_mixture
from probgeo.metrics.learners import preferred_components


@dataclass(frozen=True)
class Space:
    """A learned metric, and how the columns of a table are projected to get there, if they are.

    origin (C,), basis (D, C) : the average and the first principal components.
    """

    metric: LocalMetrics
    origin: np.ndarray | None = None
    basis: np.ndarray | None = None

    @classmethod
    def learn(
        cls, table: Table, components: int | None, rho: float | None, dimensions: int | None, seed: int
    ) -> "Space":
        """A metric from a mixture of Gaussians, after projection if `dimensions` are given.

        `preferred_components` chooses how many, unless `components` are given. By default rho is 0.3: with 1 the curves
        of a spiral have kinks where patches meet, and take twice as long.
        """
        from sklearn.decomposition import PCA

        X, rho = table.values, 0.3 if rho is None else rho
        _check_count(X, components)
        origin = basis = None
        if dimensions is None:
            _warn_of_scales(table)
        elif dimensions > min(X.shape):
            raise InputError(
                f"--dimensions must be at most {min(X.shape)} for {len(X)} points in {X.shape[1]} columns, "
                f"got {dimensions}"
            )
        else:
            pca = PCA(dimensions, svd_solver="full").fit(X)
            origin, basis = pca.mean_, pca.components_
            X = (X - origin) @ basis.T
        try:
            count = preferred_components(X, seed) if components is None else components
            return cls(from_mixture(X, count, rho=rho, seed=seed), origin, basis)
        except (ValueError, np.linalg.LinAlgError) as error:
            raise InputError(f"no metric can be learned from these data: {error}") from error

    @classmethod
    def load(cls, path: Path) -> "Space":
        check_there(path)
        try:
            found = storage.load(path)
        except ValueError as error:
            raise InputError(str(error)) from error
        if not isinstance(found, cls):
            raise InputError(f"{path} is not a metric that `fit` has written, but a {type(found).__name__}")
        return found

    def save(self, path: Path) -> None:
        storage.save(self, path)

    @property
    def dimension(self) -> int:
        return self.metric.centers.shape[1]

    def coordinates(self, table: Table) -> Table:
        """The points of a table in this space."""
        needed = self.dimension if self.basis is None else self.basis.shape[1]
        given = table.values.shape[1]
        if given != needed:
            raise InputError(f"the metric was learned from {needed} columns, the data have {given}")
        if self.basis is None:
            return table
        names = tuple(f"pc{d + 1}" for d in range(self.dimension))
        return Table((table.values - self.origin) @ self.basis.T, names)


def _check_count(X: np.ndarray, components: int | None) -> None:
    different = len(np.unique(X, axis=0))
    least = max(3, components or 1)  # two points have no shape
    if different < least:
        what = "a metric needs" if components is None else f"{components} components need"
        less = ", or fewer with --components" if least > 3 else ""
        raise InputError(f"{what} at least {least} different points, got {different}: give more data{less}")


def _warn_of_scales(table: Table) -> None:
    """Covariances are regularised alike in all directions, as if columns had one unit.

    Where spreads differ by more than a factor of 20, regularisation drowns the narrow ones.
    """
    spread = table.values.std(axis=0)
    narrow, wide = np.argmin(np.where(spread > 0, spread, np.inf)), np.argmax(spread)
    if spread[wide] > 20.0 * spread[narrow] > 0:
        warnings.warn(
            f"columns are on different scales, standard deviations {spread[narrow]:.2g} of "
            f"{table.columns[narrow]!r} and {spread[wide]:.2g} of {table.columns[wide]!r}: the "
            "narrow ones hardly count unless you rescale the data",
            stacklevel=2,
        )
