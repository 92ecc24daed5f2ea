"""
Mean and first principal geodesic of bodies
===========================================

Sixty-four synthetic bodies under a metric that has learned what matters for the circumference of
the belly. The first principal geodesic is the direction in which they vary most, measured that way.
"""

# %%
# The shapes come as coefficients; ten of them are enough here. The metric has one diagonal tensor
# (LMNN) for each of seven clusters of belly circumference.

import matplotlib.pyplot as plt
import numpy as np

from probgeo import PrincipalGeodesics, data, metrics, plot

people = data.bodies()
scores = people.scores[:, :10]
metric = metrics.from_lmnn(scores, people.belly, n_clusters=7)

# %%
# Mean and direction, each with the error bars of the numerics.

chosen = slice(0, 64)
pga = PrincipalGeodesics(metric, n_components=1).fit(scores[chosen])
print(f"mean: {pga.message_}, numerical +- {2 * pga.mean_.std.max():.0e}")
print(f"direction: numerical +- {2 * pga.components_.std.max():.0e}")
print(f"explains {100 * pga.explained_variance_ratio_[0]:.0f} % of the variance")

# %%
# How does the belly change along the geodesic? A linear regression on the coefficients tells, for
# bodies that are not in the data too.

design = np.column_stack([scores, np.ones(len(scores))])
slopes = np.linalg.lstsq(design, people.belly, rcond=None)[0]
reach = 2.0 * pga.explained_variance_[0] ** 0.5
reach *= np.sign(slopes[:-1] @ pga.components_.mean[0])  # towards larger bellies
thin, stout = pga.geodesic(0, -reach), pga.geodesic(0, reach)
times = np.linspace(0.0, 1.0, 21)
path = np.concatenate([thin.mean(times)[::-1], stout.mean(times)[1:]])
belly = path @ slopes[:-1] + slopes[-1]
print(f"belly from {belly[0]:.2f} m to {belly[-1]:.2f} m")

# %%
# Bodies two standard deviations below the mean, at it, and two above.

fig, (left, right) = plt.subplots(1, 2, figsize=(10.0, 3.3), layout="constrained", width_ratios=[2.3, 1.0])
for k, score in enumerate([path[0], path[20], path[-1]]):
    vertices = people.vertices(score)
    plot.mesh(vertices, people.faces, left, shift=(2.0 * k, 0.0))
    plot.mesh(vertices, people.faces, left, view="side", shift=(2.0 * k + 1.0, 0.0))
left.set_xticks([0.5, 2.5, 4.5], labels=["$-2$ std", "mean", "$+2$ std"])
left.set(xlabel="first principal geodesic", ylabel="height (m)")
right.hist(people.belly, bins=30, orientation="horizontal", color="#d8d8d8")
right.set(xlabel="number of bodies", ylabel="belly circumference (m)")
along = right.twiny()
along.plot(np.linspace(-2.0, 2.0, 41), belly, color=plot.COLOURS["mean"], linewidth=2)
along.set_xlabel("std along the geodesic", color=plot.COLOURS["mean"])
plt.show()
