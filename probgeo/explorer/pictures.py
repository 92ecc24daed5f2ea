"""What the page draws beside curves: ellipses, and the metric as a background."""

from typing import Any

import numpy as np

from probgeo.explorer.scene import Plane, as_base64
from probgeo.metrics import Metric
from probgeo.plot import balls


def ellipse_of(mean: np.ndarray, cov: np.ndarray, deviations: float = 2.0) -> list[float]:
    """Centre, half axes and angle of the ellipse of a Gaussian in the plane."""
    values, vectors = np.linalg.eigh(cov)
    across, along = deviations * np.sqrt(np.maximum(values, 0.0))
    angle = np.arctan2(vectors[1, 1], vectors[0, 1])
    return [*map(float, mean), float(along), float(across), float(angle)]


def background(metric: Metric, plane: Plane, box: list[float]) -> dict[str, Any]:
    """How the metric magnifies areas of the plane, from 0 to 255 of its range, and balls of one radius.

    72 shades and 11 ellipses go along the longer side. Rows of shades go from the bottom to the top; 0 also where there
    is no metric.
    """
    larger = max(box[1] - box[0], box[3] - box[2])
    tensors, _, shape = _grid(metric, plane, box, larger / 72)
    sign, log = np.linalg.slogdet(tensors)
    good = sign > 0
    low, high = (log[good].min(), log[good].max()) if good.any() else (0.0, 0.0)
    shade = np.where(good, (log - low) / max(high - low, 1e-9), 0.0)
    tensors, at, _ = _grid(metric, plane, box, larger / 11)
    usable, covs = balls(tensors, larger / 11)
    return {
        "box": box,
        "shape": shape,
        "shades": as_base64(np.round(255 * shade), np.uint8),
        "range": [0.5 * low, 0.5 * high],
        "ellipses": [ellipse_of(p, cov, 1.0) for p, cov in zip(at[usable], covs, strict=True)],
    }


def _grid(metric: Metric, plane: Plane, box: list[float], step: float) -> tuple[np.ndarray, np.ndarray, list[int]]:
    """The metric of the plane (n, 2, 2) at the middles (n, 2) of cells of about that step.

    Their numbers of rows and columns come last.
    """
    columns, rows = (max(1, round((box[k + 1] - box[k]) / step)) for k in (0, 2))
    x = box[0] + (box[1] - box[0]) * (np.arange(columns) + 0.5) / columns
    y = box[2] + (box[3] - box[2]) * (np.arange(rows) + 0.5) / rows
    at = np.stack(np.meshgrid(x, y), axis=-1).reshape(-1, 2)
    return plane.basis @ metric.tensors_at(plane.lift(at)) @ plane.basis.T, at, [rows, columns]
