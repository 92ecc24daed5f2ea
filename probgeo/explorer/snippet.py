"""Python that computes what the page shows."""

from typing import Any

import numpy as np

from probgeo.explorer.scene import Scene
from probgeo.gaussian import Gaussian


def snippet(
    scene: Scene, setting: dict[str, Any], ends: list[Gaussian], rows: list[int] | None
) -> str:
    """A script: data, manifold, the geodesic with its rivals, and the mean of what is selected."""
    changes = "" if scene.given is None else f", metric=manifold.metric{_sharper(scene, setting)}"
    lines = [
        "from dataclasses import replace",
        "",
        "import numpy as np",
        "from probgeo import Gaussian, Manifold, PrincipalGeodesics, data, metrics, plot",
        "",
        scene.recipe,
    ]
    if scene.given is None:
        numbers = {name: setting[name] for name in ("components", "rho")}
        lines.append(f"manifold = Manifold({scene.learning.format(**numbers)})")
    lines += [
        f"manifold = replace(manifold, precision={setting['tolerance']!r}{changes})",
        "",
        *(f"{name} = {_end(end)}" for name, end in zip("ab", ends, strict=True)),
        "# the shortest curve, and others that a thorough search meets",
        'curves = replace(manifold, thoroughness="thorough").minima(a, b)',
        "geodesic = curves[0]",
        "print(geodesic.length, geodesic.message)",
    ]
    if scene.X.shape[1] == 2:
        lines.append("plot.geodesics(geodesic, plot.metric(manifold, data=X), n_samples=20)")
    lines.append("")
    if rows is None:
        lines.append("selected = X")
    else:
        lines.append(f"selected = X[{sorted(set(rows))}]")
    lines += ["pga = PrincipalGeodesics(manifold).fit(selected)", "print(pga.mean_)"]
    return "\n".join(lines) + "\n"


def _sharper(scene: Scene, setting: dict[str, Any]) -> str:
    return f".with_rho({setting['rho']!r})" if scene.has_rho else ""


def _end(end: Gaussian) -> str:
    mean = np.array2string(end.mean, separator=", ", floatmode="unique", max_line_width=90)
    if not end.cov.any():
        return f"np.array({mean})"
    cov = np.array2string(end.cov, separator=", ", floatmode="unique", max_line_width=90)
    return f"Gaussian({mean}, {cov})"
