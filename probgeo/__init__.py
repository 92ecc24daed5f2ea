"""Statistics on learned Riemannian manifolds with honest error bars.

Importing probgeo switches JAX to 64-bit floats (`jax_enable_x64`), for the whole process: the
solvers need the digits. It also keeps compiled programs for the next time, in the user's cache
folder, unless JAX has been given another one: the environment variable `PROBGEO_CACHE` names
another folder, or none if it is empty.
"""

import os
from importlib import import_module
from typing import TYPE_CHECKING, Any

# or XLA would announce every program that it finds there; it looks at this only when it is loaded
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

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

from probgeo._compile import keep_compiled

jax.config.update("jax_enable_x64", True)
keep_compiled()

from probgeo import data, metrics, plot, solvers  # noqa: E402
from probgeo.gaussian import Gaussian  # noqa: E402
from probgeo.geometry import Geodesic, Manifold, initial  # noqa: E402
from probgeo.ode import ConvergenceWarning, Curve, kernels, solve_bvp, solve_ivp  # noqa: E402
from probgeo.storage import load, save  # noqa: E402

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
    "load",
    "metrics",
    "plot",
    "save",
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
