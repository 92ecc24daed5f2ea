"""A metric learned from a table, kept in a file: what `fit` writes and `geodesic` reads."""

import warnings
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from probgeo.commands.tables import InputError, Table, check_there
from probgeo.metrics import LocalMetrics, from_mixture

LEAST = 3  # points: fewer have no shape
COMPARABLE = 20.0  # ratio of spreads, beyond which regularisation drowns the narrow columns


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
        cls, table: Table, components: int, rho: float, dimensions: int | None, seed: int
    ) -> "Space":
        """A metric from a mixture of Gaussians, after projection if `dimensions` are given."""
        X = table.values
        different = len(np.unique(X, axis=0))
        least = max(LEAST, components)
        if different < least:
            raise InputError(
                f"{components} components need at least {least} different points, got {different}: "
                "give more data, or fewer with --components"
            )
        origin = basis = None
        if dimensions is None:
            _warn_of_constants(table)
            _warn_of_scales(table)
        else:
            most = min(X.shape)
            if dimensions > most:
                raise InputError(
                    f"--dimensions must be at most {most} for {len(X)} points in {X.shape[1]} "
                    f"columns, got {dimensions}"
                )
            origin = X.mean(axis=0)
            basis = np.linalg.svd(X - origin, full_matrices=False)[2][:dimensions]
            largest = np.argmax(np.abs(basis), axis=1)
            basis *= np.sign(basis[np.arange(dimensions), largest])[:, None]
            X = (X - origin) @ basis.T
        try:
            return cls(from_mixture(X, components, rho=rho, seed=seed), origin, basis)
        except (ValueError, np.linalg.LinAlgError) as error:
            raise InputError(f"no metric can be learned from these data: {error}") from error

    @classmethod
    def load(cls, path: Path) -> "Space":
        """What `save` has written."""
        check_there(path)
        try:
            with np.load(path, allow_pickle=False) as file:
                saved = {name: file[name] for name in file.files}
            missing = {"centers", "tensors", "rho"} - set(saved)
            if missing:
                raise ValueError(f"it has no {', '.join(sorted(missing))}")
            metric = LocalMetrics(saved["centers"], saved["tensors"], saved["rho"])
        except (ValueError, TypeError, EOFError, AttributeError, zipfile.BadZipFile) as error:
            raise InputError(f"{path} is not a metric that `fit` has written: {error}") from error
        return cls(metric, saved.get("origin"), saved.get("basis"))

    def save(self, path: Path) -> None:
        metric = self.metric
        arrays: dict[str, Any] = {
            "centers": np.asarray(metric.centers),
            "tensors": np.asarray(metric.tensors),
            "rho": np.asarray(metric.rho),
        }
        if self.basis is not None:
            arrays |= {"origin": self.origin, "basis": self.basis}
        np.savez(path, **arrays)

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

    def kept(self, table: Table) -> float:
        """The share of the variance of a table that the projection keeps."""
        whole = np.sum(table.values.var(axis=0))
        return float(np.sum(self.coordinates(table).values.var(axis=0)) / whole)


def _warn_of_constants(table: Table) -> None:
    """Columns that say nothing cost a dimension each."""
    for k in np.flatnonzero(np.ptp(table.values, axis=0) == 0):
        name, value = table.columns[k], table.values[0, k]
        warnings.warn(f"column {name!r} is {value:g} in every row: leave it out", stacklevel=2)


def _warn_of_scales(table: Table) -> None:
    """Covariances are regularised alike in all directions, as if columns had one unit."""
    spread = table.values.std(axis=0)
    narrow, wide = np.argmin(np.where(spread > 0, spread, np.inf)), np.argmax(spread)
    if spread[wide] > COMPARABLE * spread[narrow] > 0:
        warnings.warn(
            f"columns are on different scales, standard deviations {spread[narrow]:.2g} of "
            f"{table.columns[narrow]!r} and {spread[wide]:.2g} of {table.columns[wide]!r}: the "
            "narrow ones hardly count unless you rescale the data",
            stacklevel=2,
        )
