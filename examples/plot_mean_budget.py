"""
The uncertainty budget of a mean
================================

A mean is uncertain for two reasons: there are finitely many data, and the geodesics to them are
computed with finite precision. There is no point in making the second much smaller than the first.
"""

# %%
# Sixteen normal distributions, each a point of the hyperbolic half plane: the location over the
# root of two, and the width. Up to a constant that is their Fisher information metric. Logarithms
# are known in closed form there, and the mean is where they balance.

import matplotlib.pyplot as plt
import numpy as np
from scipy.optimize import root

from probgeo import FrechetMean, Manifold, metrics, plot, solvers

rng = np.random.default_rng(0)
X = np.stack([rng.normal(0.0, 20.0, 16), np.exp(rng.normal(0.0, 1.0, 16))], axis=1)
half_plane = metrics.HalfPlane()
exact = root(lambda p: half_plane.log(p, X).mean(axis=0), [0.0, 10.0], tol=1e-13).x
print("exact mean", exact.round(4))

# %%
# Now with geodesics that are solved numerically, each to a tolerance. ``mean_`` is a Gaussian
# with the numerical covariance, ``standard_error_`` is statistical.

tolerances = np.array([1e-3, 1e-4, 1e-5, 1e-6])
means = []
for rtol in tolerances:
    manifold = Manifold(half_plane, solver=solvers.Markov(rtol=rtol))
    means.append(FrechetMean(manifold, init=exact).fit(X))
numerical = np.array([np.linalg.norm(m.mean_.std) for m in means])
statistical = np.array([np.linalg.norm(m.standard_error_) for m in means])
error = np.array([np.linalg.norm(m.mean_.mean - exact) for m in means])
for rtol, *values in zip(tolerances, error, numerical, statistical, strict=True):
    line = "rtol {:.0e}: error {:.1e}, numerical {:.1e}, standard error {:.1e}"
    print(line.format(rtol, *values))

# %%
# The roughest geodesics, of nine nodes each, are more than enough here: others make the mean more
# precise, but not more accurate about the population. Left to itself, ``FrechetMean`` refines
# only until the numerical part is below a tenth of the other, its parameter ``fraction``. The
# dashed ellipse is twice the standard error; that of the numerics is too small to be seen.

fig, (left, right) = plt.subplots(1, 2, figsize=(8.0, 3.2), layout="constrained")
plot.mean(means[0], left, data=X, label="mean")
left.set(xlabel=r"location / $\sqrt{2}$", ylabel="width", title="sixteen normal distributions")
left.legend(loc="upper left")
right.loglog(tolerances, statistical, "k-", linewidth=2, label="standard error (statistical)")
right.loglog(tolerances, numerical, "o--", color=plot.COLOURS["second"], label="numerical std")
right.loglog(tolerances, error, "s:", color=plot.COLOURS["mean"], label="actual numerical error")
right.set(xlabel="tolerance of each geodesic", ylabel="uncertainty of the mean", title="budget")
right.set_ylim(1e-10, 1e2)
right.invert_xaxis()
right.legend(loc="lower left")
plt.show()
