"""
From one digit to another, straight and along the data
======================================================

Between two images of the digit 1, one leaning left and one leaning right, a straight line blends
both into something that nobody writes. The geodesic of a metric learned from a thousand ones goes
where there are data: the stroke turns. What the solver does not know can be decoded to images too.
"""

# %%
# Two principal components keep the example cheap; decoding is linear. The metric is the inverse
# of the variance of the data close by, so that it is dear to leave them. Every fifth image is
# enough.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.decomposition import PCA

from probgeo import Manifold, data, metrics, plot, solvers

ones = data.mnist_ones()
pca = PCA(2).fit(ones.vectors)
codes = pca.transform(ones.vectors)
metric = metrics.LocalCovariance(codes[::5], sigma=0.3, rho=0.1)

# %%
# A tolerance of a tenth of the extent is coarse, on purpose: error bars are large enough to be
# seen in the images.

manifold = Manifold(metric, solver=solvers.Markov(rtol=0.1))
left, right = codes[np.argmin(codes[:, 0])], codes[np.argmax(codes[:, 0])]
geodesic = manifold.geodesic(left, right)
parts = np.linspace(0.0, 1.0, 7)
line = left + parts[:, None] * (right - left)
print(f"length {geodesic.length.mean:.2f} +- {2 * geodesic.length.std:.0e}, {geodesic.message}")

# %%
# An image is mean + W z, so its covariance is W cov(z) W'. Its diagonal is the variance of
# pixels.

along = geodesic(parts)
W = pca.components_
pixel_std = np.sqrt(np.maximum(np.einsum("kp,tkl,lp->tp", W, along.cov, W), 0.0))
rows = {
    "straight line": pca.inverse_transform(line),
    "geodesic": pca.inverse_transform(along.mean),
    "its std": pixel_std,
}
print(f"largest standard deviation of a pixel: {pixel_std.max():.3f} of white")

# %%
# Above: the path and seven points on it, and on the line. Below: the images there. The standard
# deviation of pixels has a scale of its own.

fig = plt.figure(figsize=(7.0, 6.4), layout="constrained")
above, below = fig.subfigures(2, 1, height_ratios=[1.0, 1.1])
ax = above.subplots()
plot.geodesics(geodesic, ax, data=codes, n_samples=5, label="geodesic")
ax.plot(*along.mean.T, "s", color=plot.COLOURS["mean"], markersize=5)
ax.plot(*line.T, "o--", color=plot.COLOURS["second"], markersize=5, label="straight line")
ax.set(xlabel="first principal component", ylabel="second", aspect="equal")
ax.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0))
frames = below.subplots(3, len(parts))
for (name, images), axes in zip(rows.items(), frames, strict=True):
    top = pixel_std.max() if name == "its std" else 1.0
    for image, frame in zip(images.reshape(-1, 28, 28), axes, strict=True):
        shown = frame.imshow(image, cmap="gray_r", vmin=0.0, vmax=top)
        frame.set(xticks=[], yticks=[])
    axes[0].set_ylabel(name)
    below.colorbar(shown, ax=list(axes), shrink=0.8)
plt.show()
