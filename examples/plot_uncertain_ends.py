"""
A shortest path between uncertain places
========================================

If the ends of a geodesic are known only up to a covariance, so are all points in between, and its
length. ``Manifold.geodesic`` takes Gaussians as ends and carries them along.
"""

# %%
# In the hyperbolic half plane geodesics are arcs of circles about the axis, and distances have a
# closed form. That allows a check against exact draws.

import matplotlib.pyplot as plt
import numpy as np

from probgeo import Gaussian, Manifold, metrics, plot

half_plane = metrics.HalfPlane()
a = Gaussian([-1.0, 0.6], np.diag([0.05, 0.05]) ** 2)
b = Gaussian([1.5, 1.0], [[0.03, 0.012], [0.012, 0.01]])
geodesic = Manifold(half_plane).geodesic(a, b)
print(geodesic.message)

# %%
# The numerical part of the uncertainty is negligible here: what is left comes from the ends.

length = geodesic.measure(source="total")
print(f"length {length.mean:.3f}, std {length.std:.3f}")
print(f"of this numerical: {geodesic.measure(source='numerical').std:.1e}")

# %%
# Draws of both ends, and the exact distance between them. The geodesic is linearised in its ends,
# so that the two agree to first order in the size of the covariances.

draws = half_plane.distance(a.sample(0, 2000), b.sample(1, 2000))
print(f"exact distances of draws: mean {np.mean(draws):.3f}, std {np.std(draws):.3f}")

# %%
# Left: ellipses of two standard deviations along the way. Right: the Gaussian over the length.

fig, (left, right) = plt.subplots(1, 2, figsize=(8.5, 3.2), layout="constrained", width_ratios=[3, 2])
plot.curve(geodesic, left, n_samples=15, nodes=False, label="mean")
plot.ellipse(geodesic(np.linspace(0.0, 1.0, 7)), left, label="two std")
left.set(xlabel="$x_1$", ylabel="$x_2$", title="geodesic and samples", aspect="equal")
left.legend(loc="upper left")
right.hist(draws, bins=40, density=True, color="#cccccc", label="draws, exact")
x = float(length.mean) + float(length.std) * np.linspace(-4.0, 4.0, 200)
bell = np.exp(-0.5 * ((x - length.mean) / length.std) ** 2) / (length.std * np.sqrt(2.0 * np.pi))
right.plot(x, bell, color=plot.COLOURS["mean"], label="Gaussian")
right.set(xlabel="length", ylabel="density", title="length")
right.legend(loc="upper left", fontsize="small")
right.set_ylim(0.0, 4.5)
plt.show()
