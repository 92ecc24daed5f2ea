"""
Regression along a geodesic
===========================

Points that follow a number, on a curved set of data. A straight regression line cuts through the
void; a geodesic stays where the data are, and still has only an intercept and a slope.
"""

# %%
# Two hundred points near a half circle teach the metric. Seventeen of them come with a number,
# say the hour at which they were seen, which is proportional to the angle up to noise.

import matplotlib.pyplot as plt
import numpy as np

from probgeo import GeodesicRegression, Manifold, data, metrics, plot, solvers

X = data.half_circle(200, noise=0.04)
metric = metrics.LocalCovariance(X, sigma=0.15, rho=0.01)
manifold = Manifold(metric, solver=solvers.Markov(n_points=20))
seen = X[np.argsort(X[:, 0])[6::12]]
angle = np.arctan2(seen[:, 1], seen[:, 0])
hours = 12.0 - 4.0 * angle + np.random.default_rng(0).normal(0.0, 0.2, len(seen))

# %%
# ``fit(t, x)`` as with scikit-learn. Without a manifold it is linear regression.

curved = GeodesicRegression(manifold, tol=1e-3).fit(hours, seen)
straight = GeodesicRegression().fit(hours, seen)
print(f"geodesic: {curved.message_} after {curved.n_iter_} steps, R2 = {curved.r2_:.3f}")
print(f"straight line: R2 = {straight.r2_:.3f}")

# %%
# The velocity has two error bars: numerical, and statistical for other data like these.

D = X.shape[1]
print("velocity      ", np.round(curved.coef_.mean, 4))
print("numerical std ", np.array([f"{s:.0e}" for s in curved.coef_.std]))
print("standard error", np.round(np.sqrt(np.diag(curved.statistical_cov_))[D:], 4))

# %%
# The dots on the curves are predictions at full hours.

times = np.linspace(0.0, 12.0, 97)
geodesic, line = curved.predict(times), straight.predict(times)
fig, ax = plt.subplots(figsize=(6.5, 3.6), layout="constrained")
plot.points(X, ax)
paths = {"geodesic": (geodesic, "-", "mean"), "straight line": (line, "--", "second")}
for name, (path, style, colour) in paths.items():
    ax.plot(*path.T, style, color=plot.COLOURS[colour], label=name)
    ax.plot(*path[::8].T, "o", color=plot.COLOURS[colour], markersize=5)
for hour, place in zip(times[8::16], geodesic[8::16], strict=True):
    ax.annotate(f"{hour:.0f} h", place * [0.86, 0.84], ha="center", va="center")
dots = ax.scatter(*seen.T, c=hours, cmap="viridis", edgecolors="k", zorder=4)
fig.colorbar(dots, label="hour", shrink=0.8)
ax.set(xlabel="$x_1$", ylabel="$x_2$", aspect="equal")
ax.legend(loc="lower center")
plt.show()
