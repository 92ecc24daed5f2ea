"""Statistics on learned Riemannian manifolds with honest error bars.

Importing probgeo switches JAX to 64-bit floats (`jax_enable_x64`), for the whole process: the
solvers need the digits.
"""

import jax

jax.config.update("jax_enable_x64", True)

from probgeo import data, metrics, plot, solvers, stats  # noqa: E402
from probgeo.gaussian import Gaussian  # noqa: E402
from probgeo.geometry import Geodesic, Manifold, initial  # noqa: E402
from probgeo.ode import ConvergenceWarning, Curve, kernels, solve_bvp, solve_ivp  # noqa: E402
from probgeo.stats import (  # noqa: E402
    FrechetMean,
    GeodesicKMeans,
    GeodesicRegression,
    GeometricMedian,
    PrincipalGeodesics,
    TangentSpace,
)

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
