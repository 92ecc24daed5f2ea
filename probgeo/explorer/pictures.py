"""What the page draws beside curves: the metric as a background with ellipses, decoded data."""

from base64 import b64encode
from typing import Any

import numpy as np

from probgeo.explorer.scene import Scene, View
from probgeo.metrics import Metric


def ellipse(mean: np.ndarray, cov: np.ndarray, deviations: float = 2.0) -> list[float]:
    """Centre, half axes and angle of the ellipse of a Gaussian in the plane."""
    values, vectors = np.linalg.eigh(cov)
    across, along = deviations * np.sqrt(np.maximum(values, 0.0))
    angle = np.arctan2(vectors[1, 1], vectors[0, 1])
    return [*map(float, mean), float(along), float(across), float(angle)]


def of_metric(metric: Metric, view: View, box: list[float], shades: int = 72, ellipses: int = 11) -> dict[str, Any]:
    """How the metric magnifies areas of the plane, from 0 to 255 of its range, and unit balls.

    So many shades and ellipses go along the longer side. Rows of shades go from the bottom to the
    top; 0 also where there is no metric.
    """
    larger = max(box[1] - box[0], box[3] - box[2])
    tensors, _, shape = _grid(metric, view, box, larger / shades)
    sign, log = np.linalg.slogdet(tensors)
    good = sign > 0
    low, high = (log[good].min(), log[good].max()) if good.any() else (0.0, 0.0)
    shade = np.where(good, (log - low) / max(high - low, 1e-9), 0.0)
    return {
        "box": box,
        "shape": shape,
        "shades": _packed(np.round(255 * shade), np.uint8),
        "range": [0.5 * low, 0.5 * high],
        "ellipses": _balls(metric, view, box, larger / ellipses),
    }


def _balls(metric: Metric, view: View, box: list[float], step: float) -> list[list[float]]:
    """Balls of one small radius on a grid of that step, the largest of which just do not touch."""
    tensors, at, _ = _grid(metric, view, box, step)
    good = np.linalg.eigvalsh(tensors)[:, 0] > 0
    if not good.any():
        return []
    shapes = np.linalg.inv(tensors[good])
    radius = 0.45 * step / np.sqrt(np.linalg.eigvalsh(shapes)[:, -1].max())
    return [ellipse(p, cov, radius) for p, cov in zip(at[good], shapes, strict=True)]


def _grid(metric: Metric, view: View, box: list[float], step: float) -> tuple[np.ndarray, np.ndarray, list[int]]:
    """The metric of the plane (n, 2, 2) at the middles (n, 2) of cells of about that step.

    Their numbers of rows and columns come last.
    """
    columns, rows = (max(1, round((box[k + 1] - box[k]) / step)) for k in (0, 2))
    x = box[0] + (box[1] - box[0]) * (np.arange(columns) + 0.5) / columns
    y = box[2] + (box[3] - box[2]) * (np.arange(rows) + 0.5) / rows
    at = np.stack(np.meshgrid(x, y), axis=-1).reshape(-1, 2)
    return view.basis @ metric.tensors_at(view.lift(at)) @ view.basis.T, at, [rows, columns]


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
    faces = np.asarray(scene.faces)
    most = min(example.shape[1], 2**16) - 1  # their numbers travel in 16 bits
    if faces.dtype.kind not in "iu" or faces.ndim != 2 or faces.shape[1:] != (3,):
        raise ValueError(f"faces must be whole numbers (F, 3), got {faces.dtype} {faces.shape}")
    if faces.size and not 0 <= faces.min() <= faces.max() <= most:
        raise ValueError(f"faces must be vertices from 0 to {most}, got {faces.min()} to {faces.max()}")
    scale = 2.0 * float(np.max(np.abs(example))) / 32767.0
    return {"kind": "mesh", "faces": _packed(faces, np.uint16), "scale": scale}


def decoded(scene: Scene, x: np.ndarray, known: dict[str, Any]) -> list[str]:
    """Images as bytes, or vertices as 16-bit numbers in units of `scale`, at points x (n, D)."""
    made = _decode(scene, x)
    if known["kind"] == "image":
        return [_packed(np.round(255 * np.clip(one, 0.0, 1.0)), np.uint8) for one in made]
    return [_packed(np.clip(one / known["scale"], -32767, 32767), np.int16) for one in made]


def _decode(scene: Scene, x: np.ndarray) -> np.ndarray:
    assert scene.decode is not None
    return np.nan_to_num(np.asarray(scene.decode(x), dtype=float))


def _packed(values: np.ndarray, kind: Any) -> str:
    """Little-endian, in base64."""
    return b64encode(values.astype(np.dtype(kind).newbyteorder("<")).tobytes()).decode()
