"""Statistics on learned Riemannian manifolds with honest error bars.

Importing probgeo switches JAX to 64-bit floats (`jax_enable_x64`), for the whole process: the
solvers need the digits.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

import jax

if TYPE_CHECKING:
    from probgeo import stats as stats
    from probgeo.stats import (
        FrechetMean,
        GeodesicKMeans,
        GeodesicRegression,
        GeometricMedian,
        PrincipalGeodesics,
        TangentSpace,
    )

jax.config.update("jax_enable_x64", True)

from probgeo import data, metrics, plot, solvers  # noqa: E402
from probgeo.gaussian import Gaussian  # noqa: E402
from probgeo.geometry import Geodesic, Manifold, initial  # noqa: E402
from probgeo.ode import ConvergenceWarning, Curve, kernels, solve_bvp, solve_ivp  # noqa: E402

__all__ = [
    "ConvergenceWarning",
    "Curve",
    "FrechetMean",
    "Gaussian",
    "Geodesic",
    "GeodesicKMeans",
    "GeodesicRegression",
    "GeometricMedian",
    "Manifold",
    "PrincipalGeodesics",
    "TangentSpace",
    "data",
    "initial",
    "kernels",
    "metrics",
    "plot",
    "solve_bvp",
    "solve_ivp",
    "solvers",
    "stats",
]

__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    """Estimators on first use: scikit-learn is slow to import, and not everybody needs it."""
    if name not in __all__:
        raise AttributeError(f"module 'probgeo' has no attribute {name!r}")
    stats = import_module("probgeo.stats")
    return stats if name == "stats" else getattr(stats, name)
