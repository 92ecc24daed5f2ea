"""What the page draws beside curves: the metric as a background with ellipses, decoded data."""

from base64 import b64encode
from typing import Any

import numpy as np

from probgeo.explorer.scene import Scene, View
from probgeo.metrics import Metric

SHADES, ELLIPSES = 72, 11  # points of the background and ellipses along the longer side


def ellipse(mean: np.ndarray, cov: np.ndarray, deviations: float = 2.0) -> list[float]:
    """Centre, half axes and angle of the ellipse of a Gaussian in the plane."""
    values, vectors = np.linalg.eigh(cov)
    across, along = deviations * np.sqrt(np.maximum(values, 0.0))
    angle = np.arctan2(vectors[1, 1], vectors[0, 1])
    return [*map(float, mean), float(along), float(across), float(angle)]


def of_metric(metric: Metric, view: View, box: list[float]) -> dict[str, Any]:
    """How the metric magnifies areas of the plane, from 0 to 255 of its range, and unit balls.

    Rows of shades go from the bottom to the top; 0 also where there is no metric.
    """
    left, right, bottom, top = box
    larger = max(right - left, top - bottom)
    shape = [max(2, round(SHADES * side / larger)) for side in (top - bottom, right - left)]
    y, x = (
        low + (high - low) * (np.arange(count) + 0.5) / count
        for low, high, count in ((bottom, top, shape[0]), (left, right, shape[1]))
    )
    sign, log = np.linalg.slogdet(_tensors(metric, view, x, y)[0])
    good = sign > 0
    low, high = (log[good].min(), log[good].max()) if good.any() else (0.0, 0.0)
    shades = np.where(good, (log - low) / max(high - low, 1e-9), 0.0)
    return {
        "box": box,
        "shape": shape,
        "shades": _packed(np.round(255 * shades), np.uint8),
        "range": [0.5 * low, 0.5 * high],
        "ellipses": _balls(metric, view, box, larger / ELLIPSES),
    }


def _balls(metric: Metric, view: View, box: list[float], step: float) -> list[list[float]]:
    """Balls of one small radius on a grid of that step, the largest of which just do not touch."""
    left, right, bottom, top = box
    x, y = (
        0.5 * (low + high) + step * (np.arange(n) - 0.5 * (n - 1))
        for low, high in ((left, right), (bottom, top))
        for n in (max(1, round((high - low) / step)),)
    )
    tensors, at = _tensors(metric, view, x, y)
    good = np.linalg.eigvalsh(tensors)[:, 0] > 0
    if not good.any():
        return []
    shapes = np.linalg.inv(tensors[good])
    radius = 0.45 * step / np.sqrt(np.linalg.eigvalsh(shapes)[:, -1].max())
    return [ellipse(p, cov, radius) for p, cov in zip(at[good], shapes, strict=True)]


def _tensors(
    metric: Metric, view: View, x: np.ndarray, y: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """The metric of the plane (n, 2, 2) on a grid, row by row, and its points (n, 2)."""
    at = np.stack(np.meshgrid(x, y), axis=-1).reshape(-1, 2)
    return view.basis @ metric.tensors_at(view.lift(at)) @ view.basis.T, at


def decoder(scene: Scene) -> dict[str, Any] | None:
    """What the page has to know to draw what `decoded` gives."""
    if scene.decode is None:
        return None
    example = _decode(scene, scene.X[:1])
    if scene.faces is None:
        if example.ndim != 3:
            raise ValueError(f"decode must return images (1, h, w), got {example.shape}")
        return {"kind": "image", "height": example.shape[1], "width": example.shape[2]}
    if example.ndim != 3 or example.shape[2] != 3:
        raise ValueError(f"decode must return vertices (1, V, 3) of faces, got {example.shape}")
    scale = 2.0 * float(np.max(np.abs(example))) / 32767.0
    return {"kind": "mesh", "faces": _packed(scene.faces, np.uint16), "scale": scale}


def decoded(scene: Scene, x: np.ndarray, known: dict[str, Any]) -> list[str]:
    """Images as bytes, or vertices as 16-bit numbers in units of `scale`, at points x (n, D)."""
    made = _decode(scene, x)
    if known["kind"] == "image":
        return [_packed(np.round(255 * np.clip(one, 0.0, 1.0)), np.uint8) for one in made]
    limits = np.iinfo(np.int16)
    return [
        _packed(np.clip(one / known["scale"], limits.min, limits.max), np.int16) for one in made
    ]


def _decode(scene: Scene, x: np.ndarray) -> np.ndarray:
    assert scene.decode is not None
    return np.nan_to_num(np.asarray(scene.decode(x), dtype=float))


def _packed(values: np.ndarray, kind: Any) -> str:
    """Little-endian, in base64."""
    return b64encode(values.astype(np.dtype(kind).newbyteorder("<")).tobytes()).decode()
