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

# the module that each name lives in; a room is its own name
_HOMES = {
    "probgeo.explorer": ("explore",),
    "probgeo.gaussian": ("Gaussian", "ScalarGaussian"),
    "probgeo.geometry": ("Geodesic", "Manifold"),
    "probgeo.ode": ("kernels",),
    "probgeo.ode.conditions": ("at", "condition", "periodic", "robin"),
    "probgeo.ode.continuation": ("continuation",),
    "probgeo.ode.curve": ("ConvergenceWarning", "Curve"),
    "probgeo.ode.observed": ("observed",),
    "probgeo.ode.solve": ("solve_bvp", "solve_ivp"),
    "probgeo.stats": (
        "FrechetMean",
        "GeodesicKMeans",
        "GeodesicKNeighborsClassifier",
        "GeodesicKNeighborsRegressor",
        "GeodesicRegression",
        "GeometricMedian",
        "NormalOnManifold",
        "PrincipalGeodesics",
        "TangentSpace",
    ),
    "probgeo.storage": ("load", "save"),
}
_ROOMS = ("cluster", "data", "functions", "metrics", "plot", "solvers", "stats")
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

__all__ = [
    "ConvergenceWarning",
    "Curve",
    "FrechetMean",
    "Gaussian",
    "Geodesic",
    "GeodesicKMeans",
    "GeodesicKNeighborsClassifier",
    "GeodesicKNeighborsRegressor",
    "GeodesicRegression",
    "GeometricMedian",
    "Manifold",
    "NormalOnManifold",
    "PrincipalGeodesics",
    "ScalarGaussian",
    "TangentSpace",
    "at",
    "cluster",
    "condition",
    "continuation",
    "data",
    "explore",
    "functions",
    "kernels",
    "load",
    "metrics",
    "observed",
    "periodic",
    "plot",
    "robin",
    "save",
    "solve_bvp",
    "solve_ivp",
    "solvers",
    "stats",
]


def __getattr__(name: str) -> Any:
    if name in _ROOMS:
        return import_module(f"probgeo.{name}")
    if name == "kernels":
        return import_module("probgeo.ode.kernels")
    if name not in _HOME_OF:
        raise AttributeError(f"module 'probgeo' has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(_HOME_OF[name]), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
