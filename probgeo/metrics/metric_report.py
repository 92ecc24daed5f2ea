"""Whether a metric is one, and how well conditioned, where the data are."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from probgeo.functions.row_function import AT_ONCE, asymmetry, in_blocks
from probgeo.metrics.arguments import as_points, is_positive_definite
from probgeo.metrics.metric import Metric, as_metric, check_dimension, is_function


@dataclass(frozen=True)
class MetricReport:
    """What `check_metric` found at N points.

    Attributes
    ----------
    condition : array (N,)
        Condition number of M(x), infinite where M(x) is not positive definite.
    smallest_eigenvalue : array (N,)
        NaN where M(x) is not finite.
    not_finite, not_symmetric, not_positive_definite : array of int
        The points, by index, at which M(x) cannot be a metric, and why.
    """

    condition: np.ndarray = field(repr=False)
    smallest_eigenvalue: np.ndarray = field(repr=False)
    not_finite: np.ndarray
    not_symmetric: np.ndarray
    not_positive_definite: np.ndarray

    @property
    def ok(self) -> bool:
        """Whether M(x) is a metric at all points."""
        bad = (self.not_finite, self.not_symmetric, self.not_positive_definite)
        return not any(len(points) for points in bad)

    def __str__(self) -> str:
        low, middle, high = (f(self.condition) for f in (np.min, np.median, np.max))
        eigenvalues = self.smallest_eigenvalue[~np.isnan(self.smallest_eigenvalue)]
        lines = [
            f"{len(self.condition)} points, condition number of M(x): {low:.3g} to {high:.3g}, median {middle:.3g}",
            f"smallest eigenvalue {eigenvalues.min(initial=np.inf):.3g}",
        ]
        for name in ("not_finite", "not_symmetric", "not_positive_definite"):
            points = getattr(self, name)
            if len(points):
                shown = ", ".join(str(i) for i in points[:5])
                more = ", ..." if len(points) > 5 else ""
                lines.append(f"{name.replace('_', ' ')} at {len(points)} points: {shown}{more}")
        return "\n".join(lines)


def check_metric(metric: Any, X: Any) -> MetricReport:
    """Look at M(x) at all points of X (N, D).

    Examples
    --------
    >>> report = check_metric(lambda x: np.diag(x), [[1.0, 2.0], [1.0, 10.0], [1.0, -1.0]])
    >>> report.ok
    False
    >>> print(report)
    3 points, condition number of M(x): 2 to inf, median 10
    smallest eigenvalue -1
    not positive definite at 1 points: 2
    """
    points = as_points("X", X)
    made = as_metric(metric)
    if not is_function(made):
        check_dimension(made, points.shape[1])
    rows = max(1, AT_ONCE // points.shape[1] ** 2)
    found = in_blocks(lambda x: _look(made, x), (points,), rows)
    condition, smallest, finite, symmetric, positive = found
    return MetricReport(
        condition=condition,
        smallest_eigenvalue=smallest,
        not_finite=np.flatnonzero(~finite),
        not_symmetric=np.flatnonzero(~symmetric),
        not_positive_definite=np.flatnonzero(~positive),
    )


def _look(metric: Metric, x: np.ndarray) -> tuple[np.ndarray, ...]:
    """Condition, smallest eigenvalue, and whether M(x) is finite, symmetric and definite."""
    tensors = metric._parts(x)[0].values(x) if is_function(metric) else metric.tensors_at(x)
    finite = np.isfinite(tensors).all(axis=(1, 2))
    usable = np.where(finite[:, None, None], tensors, np.eye(x.shape[1]))
    _, symmetric = asymmetry(usable)
    eigenvalues = np.linalg.eigvalsh(0.5 * (usable + usable.swapaxes(1, 2)))
    positive = is_positive_definite(eigenvalues)
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = eigenvalues[:, -1] / eigenvalues[:, 0]
    condition = np.where(finite & positive, ratio, np.inf)
    return condition, np.where(finite, eigenvalues[:, 0], np.nan), finite, symmetric, positive
