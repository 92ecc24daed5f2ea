"""
Geodesics on two moons
======================

A metric learned from data says where distances are short. Here it is a blend of the inverse
covariances of a Gaussian mixture: it is cheap to go along the crescents, dear to go across.
"""

# %%
# ``rho`` below one lets one Gaussian give way to the next more smoothly, and ``regularisation``
# bounds how thin they may be.

import matplotlib.pyplot as plt
import numpy as np

from probgeo import Manifold, data, metrics, plot

X = data.two_moons(200, noise=0.1)
manifold = Manifold(metrics.from_mixture(X, n_components=8, regularisation=1e-2, rho=0.5))
print(manifold.check(X))

# %%
# Leading axes are a batch: geodesics from a point near the left tip to eight others, four on each
# crescent. ``converged`` has one entry for each.

upper, lower = (moon[np.argsort(moon[:, 0])] for moon in (X[:100], X[100:]))
a = upper[3]
b = np.concatenate([upper[[30, 55, 80, 96]], lower[[3, 30, 60, 96]]])
geodesics = manifold.geodesic(a, b)
print("converged:", int(np.sum(geodesics.converged)), "of", len(b))

# %%
# How much shorter are they than the straight lines, in the same metric? Gauss-Legendre quadrature
# of the speed gives the length of a line. The error bars say which digits of a length to believe.

s, weights = np.polynomial.legendre.leggauss(64)
points = a + 0.5 * (s[:, None] + 1.0) * (b - a)[:, None]
lines = manifold.norm(points, (b - a)[:, None]) @ weights / 2.0
length = geodesics.length
for line, mean, std in zip(lines, length.mean, length.std, strict=True):
    print(f"straight line {line:6.3f}, geodesic {mean:6.3f} +- {2 * std:.0e}")

# %%
# The background is darker where the metric magnifies more; each ellipse is what lies within the
# same small distance of its centre.

fig, ax = plt.subplots(figsize=(7.0, 4.4), layout="constrained")
plot.metric(manifold, ax, data=X, ellipses=12)
plot.geodesics(geodesics, ax, label="geodesics")
for end in b:
    ax.plot(*np.transpose([a, end]), ":", color="k", linewidth=1.0)
ax.plot([], [], "k:", linewidth=1.0, label="straight lines")
ax.set(xlabel="$x_1$", ylabel="$x_2$")
ax.legend(loc="upper right")
plt.show()
