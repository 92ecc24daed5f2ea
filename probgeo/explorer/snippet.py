"""Python that computes what the page shows."""

from typing import Any

import numpy as np

from probgeo.explorer.scene import Scene
from probgeo.gaussian import Gaussian


def snippet(scene: Scene, setting: dict[str, Any], ends: list[Gaussian], rows: list[int] | None) -> str:
    """A script: data, manifold, the geodesic with its rivals, and the mean of the selection."""

    def numbers(x: np.ndarray) -> str:
        return np.array2string(x, separator=", ", floatmode="unique", max_line_width=90)

    def written(end: Gaussian) -> str:
        return (
            f"Gaussian({numbers(end.mean)}, {numbers(end.cov)})" if end.cov.any() else f"np.array({numbers(end.mean)})"
        )

    if scene.given is None:
        made, changes = f"manifold = Manifold({scene.learning.format(**setting)})", ""
    else:
        made, changes = "# with what the sliders say", ", metric=manifold.metric"
        changes += f".with_rho({setting['rho']!r})" * scene.has_rho
    in_plane = scene.X.shape[1] == 2
    return f"""\
from dataclasses import replace

import numpy as np
from probgeo import Gaussian, Manifold, PrincipalGeodesics, data, metrics, plot

{scene.recipe}
{made}
manifold = replace(manifold, precision={setting["tolerance"]!r}{changes})

a = {written(ends[0])}
b = {written(ends[1])}
# the shortest curve, and others that a thorough search meets
curves = replace(manifold, thoroughness="thorough").minima(a, b)
geodesic = curves[0]
print(geodesic.length, geodesic.message)
{"plot.geodesics(geodesic, plot.metric(manifold, data=X), n_samples=20)" if in_plane else ""}

selected = X{"" if rows is None else f"[{rows}]"}
pga = PrincipalGeodesics(manifold).fit(selected)
print(pga.mean_)
"""
