"""
The uncertainty budget of a mean
================================

A mean is uncertain for two reasons: there are finitely many data, and the geodesics to them are
computed with finite precision. There is no point in making the second much smaller than the first.
"""

# %%
# Sixteen normal distributions, each a point of the hyperbolic half plane: the location over the
# root of two, and the width. Up to a constant that is their Fisher information metric. Distances
# are known in closed form there, so the exact mean can be found by a general optimiser.

import matplotlib.pyplot as plt
import numpy as np
from scipy.optimize import minimize

from probgeo import FrechetMean, Manifold, metrics, plot, solvers

rng = np.random.default_rng(0)
X = np.stack([rng.normal(0.0, 1.5, 16), np.exp(rng.normal(0.0, 0.7, 16))], axis=1)
half_plane = metrics.HalfPlane()
exact = minimize(
    lambda p: np.sum(np.asarray(half_plane.distance(p, X)) ** 2),
    np.median(X, axis=0),
    method="Nelder-Mead",
    options={"xatol": 1e-9, "fatol": 1e-12},
).x
print("exact mean", exact.round(4))

# %%
# Now with geodesics that are solved numerically, on meshes of few nodes. ``mean_`` is a Gaussian
# with the numerical covariance, ``standard_error_`` is statistical.

sizes = np.array([6, 10, 16])
means = []
for n in sizes:
    manifold = Manifold(half_plane, solver=solvers.Markov(order=3, n_points=n))
    means.append(FrechetMean(manifold, init=exact).fit(X))
numerical = np.array([np.linalg.norm(m.mean_.std) for m in means])
statistical = np.array([np.linalg.norm(m.standard_error_) for m in means])
error = np.array([np.linalg.norm(np.asarray(m.mean_.mean) - exact) for m in means])
for n, *values in zip(sizes, error, numerical, statistical, strict=True):
    print("{} nodes: error {:.1e}, numerical {:.1e}, standard error {:.1e}".format(n, *values))

# %%
# Six nodes are enough here: more of them make the mean more precise, but not more accurate about
# the population. (The actual errors are a little larger than the numerical standard deviation,
# which takes those of different geodesics as independent.) Left to itself, ``FrechetMean``
# refines until the numerical part is below a tenth of the other, its parameter ``fraction``. The
# dashed ellipse is twice the standard error; that of the numerics is too small to be seen.

fig, (left, right) = plt.subplots(1, 2, figsize=(8.0, 3.2), layout="constrained")
plot.mean(means[0], left, data=X, label="mean, 6 nodes")
left.set(xlabel=r"location / $\sqrt{2}$", ylabel="width", title="sixteen normal distributions")
left.legend(loc="upper left")
right.loglog(sizes, statistical, "k-", linewidth=2, label="standard error (statistical)")
right.loglog(sizes, numerical, "o--", color=plot.COLOURS["second"], label="numerical std")
right.loglog(sizes, error, "s:", color=plot.COLOURS["mean"], label="actual numerical error")
right.set(xlabel="nodes of each geodesic", ylabel="uncertainty of the mean", title="budget")
right.set_xticks(sizes, labels=[str(n) for n in sizes])
right.minorticks_off()
right.legend()
plt.show()
