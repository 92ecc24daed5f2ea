"""Statistics on learned Riemannian manifolds with honest error bars.

Names are imported on first use: neither JAX, PyTorch nor scikit-learn is loaded before it is needed, and importing
probgeo changes nothing outside of it.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from probgeo import cluster, data, functions, metrics, plot, solvers, stats
    from probgeo.explorer import explore
    from probgeo.gaussian import Gaussian, ScalarGaussian
    from probgeo.geometry import Geodesic, Manifold
    from probgeo.ode import kernels
    from probgeo.ode.conditions import at, condition, periodic, robin
    from probgeo.ode.continuation import continuation
    from probgeo.ode.curve import ConvergenceWarning, Curve
    from probgeo.ode.observed import observed
    from probgeo.ode.solve import solve_bvp, solve_ivp
    from probgeo.stats import (
        FrechetMean,
        GeodesicKMeans,
        GeodesicKNeighborsClassifier,
        GeodesicKNeighborsRegressor,
        GeodesicRegression,
        GeometricMedian,
        NormalOnManifold,
        PrincipalGeodesics,
        TangentSpace,
    )
    from probgeo.storage import load, save

__version__ = "0.2.0"

__all__ = ["ConvergenceWarning", "Curve", "Gaussian", "Geodesic", "Manifold", "ScalarGaussian", "load", "save"]
__all__ += ["at", "condition", "continuation", "kernels", "observed", "periodic", "robin", "solve_bvp", "solve_ivp"]
__all__ += ["FrechetMean", "GeodesicKMeans", "GeodesicKNeighborsClassifier", "GeodesicKNeighborsRegressor"]
__all__ += ["GeodesicRegression", "GeometricMedian", "NormalOnManifold", "PrincipalGeodesics", "TangentSpace"]
__all__ += ["cluster", "data", "explore", "functions", "metrics", "plot", "solvers", "stats"]

_ROOMS = ("cluster", "data", "functions", "metrics", "ode.kernels", "plot", "solvers", "stats")
_HOMES = {  # of what is neither a room nor an estimator
    "explore": "explorer",
    **dict.fromkeys(("Gaussian", "ScalarGaussian"), "gaussian"),
    **dict.fromkeys(("Geodesic", "Manifold"), "geometry"),
    **dict.fromkeys(("at", "condition", "periodic", "robin"), "ode.conditions"),
    **dict.fromkeys(("ConvergenceWarning", "Curve"), "ode.curve"),
    **dict.fromkeys(("solve_bvp", "solve_ivp"), "ode.solve"),
    **dict.fromkeys(("load", "save"), "storage"),
    "continuation": "ode.continuation",
    "observed": "ode.observed",
}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'probgeo' has no attribute {name!r}")
    for room in _ROOMS:
        if room.split(".")[-1] == name:
            return import_module(f"probgeo.{room}")
    value = globals()[name] = getattr(import_module(f"probgeo.{_HOMES.get(name, 'stats')}"), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
