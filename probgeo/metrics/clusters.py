"""Local metrics from the clusters of a target (Sec. 5.2)."""

import warnings
from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np

from probgeo._checks import as_whole_number
from probgeo.metrics.inputs import as_distinct_points
from probgeo.metrics.learners import Learner
from probgeo.metrics.lmnn import as_labels, lmnn_diagonal
from probgeo.metrics.local import LocalMetrics


def from_lmnn(
    X: Any,
    y: Any,
    n_clusters: int | None = None,
    *,
    rho: Any = 1.0,
    n_neighbors: int = 3,
    mu: float = 0.5,
    floor: float = 1e-2,
    tolerance: float = 1e-4,
    seed: int = 0,
) -> LocalMetrics:
    """Clusters of a target, and one diagonal LMNN metric for each.

    The metric of a cluster is learned from its own points: to bring them together and to keep those
    of other clusters away. So it is large along the directions that tell the target apart there.

    Parameters
    ----------
    X : array (N, D)
    y : array (N,) or (N, T)
        The target. Whole numbers, strings or booleans are clusters already; real numbers are
        clustered by k-means.
    n_clusters : int
        Number K of clusters; not needed if y gives them.
    rho : float
        Sharpness, see `LocalMetrics`.
    n_neighbors, mu, floor, tolerance
        See `lmnn_diagonal`.
    seed : int
        Of k-means.

    Returns
    -------
    LocalMetrics
        With the clusters' means as centres and diagonal tensors (K, D).

    Examples
    --------
    >>> X = np.random.default_rng(0).normal(size=(90, 3))
    >>> metric = from_lmnn(X, y=X[:, 0], n_clusters=3)
    >>> np.argmax(metric.tensors, axis=1).tolist()
    [0, 0, 0]
    """
    data = as_distinct_points("X", X, least=2)
    labels = _clusters(y, n_clusters, len(data), seed)
    names = np.unique(labels)
    fits = [
        lmnn_diagonal(data, labels, anchor=name, n_neighbors=n_neighbors, mu=mu, floor=floor, tolerance=tolerance)
        for name in names
    ]
    failed = [str(name) for name, fit in zip(names, fits, strict=True) if not fit.converged]
    if failed:
        from probgeo.ode.curve import ConvergenceWarning  # metrics do without ODEs otherwise

        warnings.warn(
            f"LMNN did not reach its tolerance in clusters {', '.join(failed)}", ConvergenceWarning, stacklevel=2
        )
    centers = np.stack([data[labels == name].mean(axis=0) for name in names])
    return LocalMetrics(centers, np.stack([fit.weights for fit in fits]), rho)


@dataclass(eq=False, repr=False)
class LargeMargin(Learner):
    """Diagonal metrics that tell labels y apart, see `from_lmnn` for the settings.

    Examples
    --------
    >>> X = np.random.default_rng(0).normal(size=(40, 2))
    >>> LargeMargin().fit(X, X[:, 0] > 0).metric_.centers.shape
    (2, 2)
    """

    n_clusters: int | None = None
    rho: float = 1.0
    _: KW_ONLY
    n_neighbors: int = 3
    mu: float = 0.5
    floor: float = 1e-2
    tolerance: float = 1e-4
    seed: int = 0

    def learn(self, X: Any, y: Any = None) -> LocalMetrics:
        if y is None:
            raise ValueError("LargeMargin learns from labels: y must be given")
        return from_lmnn(X, y, **self.get_params())


def _clusters(y: Any, n_clusters: int | None, count: int, seed: int) -> np.ndarray:
    target, seed = as_labels("y", y), as_whole_number("seed", seed, 0)
    if n_clusters is not None:
        n_clusters = as_whole_number("n_clusters", n_clusters, 1)
    if target.ndim not in (1, 2) or len(target) != count:
        raise ValueError(f"y must have shape ({count},) or ({count}, T), got {target.shape}")
    if target.ndim == 1 and target.dtype.kind in "iubUS":
        names = len(np.unique(target))
        if n_clusters not in (None, names):
            raise ValueError(
                f"y gives {names} clusters, but n_clusters is {n_clusters}; "
                "leave it out, or give y as real numbers to have them clustered"
            )
        return target
    if n_clusters is None:
        raise ValueError("n_clusters must be given for a target y of real numbers")
    wanted = as_whole_number("n_clusters", n_clusters, 2)
    values = as_distinct_points("y", target.reshape(count, -1), least=wanted)
    from sklearn.cluster import KMeans  # slow to import, and needed only here

    return KMeans(wanted, n_init=10, random_state=seed).fit_predict(values)
