"""Local metrics from a target: large margin nearest neighbours with diagonal weights.

Weinberger & Saul (2009) ask for weights w under which the squared distance
d_w(x, y) = sum_d w_d (x_d - y_d)^2 is small from a point i to its target neighbours j, the nearest
ones of its own class, and larger by a margin of one to impostors l of other classes:

    F(w) = (1 - mu) sum_ij d_w(x_i, x_j) + mu sum_ijl max(0, 1 + d_w(x_i, x_j) - d_w(x_i, x_l)).

With diagonal weights w >= 0 this is convex and piecewise linear in D numbers. It is minimised by L-BFGS-B with the
corner of the hinge rounded over a width that shrinks from round to round. The slopes of the rounded hinges are feasible
for the dual problem, so each round knows a lower bound on the optimum, and the fit ends when the two are close.
"""

import warnings
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any

import numpy as np

from probgeo._checks import as_positive, as_whole_number
from probgeo.functions.row_function import AT_ONCE
from probgeo.metrics.arguments import as_distinct_points
from probgeo.metrics.learners import Learner
from probgeo.metrics.local import LocalMetrics


@dataclass(frozen=True)
class LMNNFit:
    """Weights of a diagonal LMNN metric, and how good they are.

    Attributes
    ----------
    weights : array (D,)
    objective : float
        F at the weights.
    lower_bound : float
        No weights above the floor have a smaller F than this.
    history : array (n_rounds + 1,)
        The smallest F so far, at the start and after every round.
    converged : bool
        Whether objective - lower_bound <= tolerance * objective.
    """

    weights: np.ndarray
    objective: float
    lower_bound: float
    history: np.ndarray
    converged: bool


def lmnn_diagonal(
    X: Any,
    labels: Any,
    *,
    anchor: Any = None,
    n_neighbors: int = 3,
    mu: float = 0.5,
    floor: float = 1e-2,
    tolerance: float = 1e-4,
    max_rounds: int = 10,
) -> LMNNFit:
    """Learn one diagonal LMNN metric.

    Parameters
    ----------
    X : array (N, D)
    labels : array (N,)
        The class of each point.
    anchor : optional
        Learn for the points i of this class only: their neighbours and impostors. By default for all points.
    n_neighbors : int
        Number of target neighbours of each point: the nearest of its class after all columns are
        scaled to unit variance, so that the units of a column do not matter.
    mu : float
        Between 0 and 1: how much impostors count against neighbours.
    floor : float
        w_d is at least floor / (D variance_d): all floors together add about 2 `floor` to the mean
        squared distance, whose unit is the margin. It keeps the metric positive definite.
    tolerance : float
        Largest gap, relative to the objective, between it and the lower bound.
    max_rounds : int

    Examples
    --------
    Only the first coordinate tells the classes apart:

    >>> rng = np.random.default_rng(0)
    >>> labels = np.repeat([0, 1], 30)
    >>> X = np.stack([labels + 0.2 * rng.normal(size=60), rng.normal(size=60)], axis=1)
    >>> fit = lmnn_diagonal(X, labels)
    >>> fit.converged, bool(fit.weights[0] > 20 * fit.weights[1])
    (True, True)
    """
    data = as_distinct_points("X", X, least=2)
    classes = as_labels("labels", labels)
    if classes.shape != (len(data),):
        raise ValueError(f"labels must have shape ({len(data)},), one a point, got {classes.shape}")
    if classes.dtype.kind == "f" and not np.all(np.isfinite(classes)):
        raise ValueError("labels must be finite")
    count = as_whole_number("n_neighbors", n_neighbors, 1)
    mu = as_positive("mu", mu)
    if not mu < 1.0:
        raise ValueError(f"mu must lie between 0 and 1, got {mu}")
    tolerance = as_positive("tolerance", tolerance)
    rounds = as_whole_number("max_rounds", max_rounds, 1)

    variances = data.var(axis=0)
    # a constant column tells nothing; a typical variance keeps its weight finite
    variances = np.where(variances > 0.0, variances, variances.mean())
    unit = 1.0 / (data.shape[1] * variances)
    least = np.full(len(unit), as_positive("floor", floor))
    anchors = _anchors(classes, anchor, count)
    fit = _minimise(_Problem(data * np.sqrt(unit), classes, anchors, count, mu), least, tolerance, rounds)
    return replace(fit, weights=fit.weights * unit)


class _Problem:
    """F and its rounded version, over all triplets or those that have ever mattered."""

    def __init__(self, X: np.ndarray, labels: np.ndarray, anchors: np.ndarray, n_neighbors: int, mu: float) -> None:
        self.X, self.labels, self.anchors, self.mu = X, labels, anchors, mu
        neighbors = np.stack([_nearest(X, labels, i, n_neighbors) for i in anchors])
        self.targets = (X[anchors][:, None] - X[neighbors]) ** 2  # (A, n_neighbors, D)
        self.pull = (1.0 - mu) * self.targets.sum(axis=(0, 1))
        # the active pairs (anchor, impostor), as an index a * N + l, and their squared differences
        self.pairs = np.empty(0, dtype=int)
        self.squares = np.empty((0, X.shape[1]))

    def objective(self, w: np.ndarray, activate: bool = False) -> float:
        """F(w) over all triplets. On request, pairs with a positive hinge become active."""
        N, total, found = len(self.X), float(self.pull @ w), []
        near = self.targets @ w
        Z = self.X * np.sqrt(w)
        step = max(1, AT_ONCE // N)
        for start in range(0, len(self.anchors), step):
            chunk = slice(start, start + step)
            z, d = Z[self.anchors[chunk]], near[chunk]
            far = np.sum(z**2, axis=1)[:, None] + np.sum(Z**2, axis=1) - 2.0 * z @ Z.T
            far[self.labels[self.anchors[chunk], None] == self.labels] = np.inf
            total += self.mu * sum(float(np.maximum(1.0 + d[:, j, None] - far, 0.0).sum()) for j in range(d.shape[1]))
            rows, columns = np.nonzero(far < 1.0 + d.max(axis=1, keepdims=True))
            found.append((rows + start) * N + columns)
        if activate:
            self.pairs = np.union1d(self.pairs, np.concatenate(found))
            anchors, impostors = np.divmod(self.pairs, N)
            self.squares = (self.X[self.anchors[anchors]] - self.X[impostors]) ** 2
        return total

    def rounded(self, w: np.ndarray, width: float) -> tuple[float, np.ndarray]:
        """The active part of F with hinges that are rounded over a width, and its gradient."""
        hinges, slopes = self._hinges(w, width)
        value = self.pull @ w + self.mu * np.sum(slopes * (hinges - 0.5 * width * slopes))
        return float(value), self.pull + self._push(slopes)

    def _hinges(self, w: np.ndarray, width: float) -> tuple[np.ndarray, np.ndarray]:
        """Those of the active pairs (P, n_neighbors), and their slopes."""
        hinges = 1.0 + (self.targets @ w)[self.pairs // len(self.X)] - (self.squares @ w)[:, None]
        return hinges, np.clip(hinges / width, 0.0, 1.0)

    def _push(self, slopes: np.ndarray) -> np.ndarray:
        """mu times the gradient (D,) of the hinges, weighted by slopes."""
        anchors = self.pairs // len(self.X)
        counts = np.stack([np.bincount(anchors, column, len(self.anchors)) for column in slopes.T], axis=1)
        return self.mu * (np.tensordot(counts, self.targets, axes=2) - slopes.sum(axis=1) @ self.squares)

    def lower_bound(self, w: np.ndarray, width: float, least: np.ndarray) -> float:
        """A bound on F from below, by duality.

        Any slopes in [0, 1] in the place of the hinges turn F into a linear function that is
        nowhere larger, gradient . w + mu sum(slopes). If its gradient is nowhere negative, its
        least value is at the floor; the slopes of the rounded hinges are shrunk until that holds.
        """
        slopes = self._hinges(w, width)[1]
        push = self._push(slopes)
        negative = self.pull + push < 0.0
        shrink = np.min(self.pull[negative] / -push[negative], initial=1.0)
        return float((self.pull + shrink * push) @ least + shrink * self.mu * slopes.sum())


def _minimise(problem: _Problem, least: np.ndarray, tolerance: float, rounds: int) -> LMNNFit:
    from scipy.optimize import minimize, minimize_scalar  # slow to import, and needed only here

    # equal weights of the best size: with weights too small, all points are impostors
    equal = minimize_scalar(
        lambda size: problem.objective(np.exp(size) + least), bracket=(0.0, 2.0), options={"xtol": 1e-2}
    )
    best = w = np.exp(equal.x) + least
    history = [problem.objective(w, activate=True)]
    # to round-off: the lower bound is as good as the gradient is small
    options: Any = {"maxiter": 2000, "maxfun": 2000, "maxcor": 20, "ftol": 1e-13, "gtol": 1e-9}
    bounds, bound, width, converged = [(low, None) for low in least], 0.0, 1.0, False
    while len(history) <= rounds and not converged:
        w = minimize(problem.rounded, w, width, "L-BFGS-B", jac=True, bounds=bounds, options=options).x
        # fewer triplets than all make F smaller, so the bound holds for all of them
        bound = max(bound, problem.lower_bound(w, width, least))
        value = problem.objective(w, activate=True)
        best = w if value < history[-1] else best
        history.append(min(value, history[-1]))
        converged = history[-1] - bound <= tolerance * history[-1]
        width *= 0.2  # with 0.1 or 0.4 it takes 3-4 or 6-8 rounds instead of 4-5, and as long
    return LMNNFit(best, history[-1], bound, np.array(history), converged)


def _nearest(X: np.ndarray, labels: np.ndarray, i: int, count: int) -> np.ndarray:
    """The `count` points of i's class that are nearest to it."""
    others = np.flatnonzero(labels == labels[i])
    others = others[others != i]
    distances = np.sum((X[others] - X[i]) ** 2, axis=1)
    return others[np.argsort(distances, kind="stable")[:count]]


def _anchors(labels: np.ndarray, anchor: Any, n_neighbors: int) -> np.ndarray:
    names, sizes = np.unique(labels, return_counts=True)
    if len(names) < 2:
        raise ValueError(f"labels must name at least two classes, got only {names[0]!r}")
    wanted = names
    if anchor is not None:
        one = as_labels("anchor", anchor)
        wanted = names[[one.ndim == 0 and name == one for name in names]]
    if not len(wanted):
        raise ValueError(f"anchor must be one of the labels, got {anchor!r}")
    for name, size in zip(names, sizes, strict=True):
        if name in wanted and size <= n_neighbors:
            raise ValueError(
                f"every class needs more than n_neighbors = {n_neighbors} points, got {size} "
                f"labelled {name}; take fewer clusters, or clusters of your own as labels"
            )
    return np.flatnonzero(np.isin(labels, wanted))


def as_labels(name: str, value: Any) -> np.ndarray:
    """`value` as an array of numbers, strings or booleans."""
    try:
        labels = np.asarray(value)
    except ValueError as error:
        raise ValueError(f"{name} must be an array, got {value!r}") from error
    if labels.dtype.kind not in "biufUSO":
        raise TypeError(f"{name} must be numbers or strings, got {value!r}")
    return labels


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
        The target. Whole numbers, strings or booleans are clusters already; real numbers are clustered by k-means.
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
