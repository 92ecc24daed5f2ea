"""
The latent space of a decoder that knows what it has not seen
=============================================================

A decoder pulls the distances between images back to its latent space. Where there were no data it
is smooth but wrong, and geodesics of its mean alone take the short cut through nowhere. With the
standard deviation of the decoder in the metric they keep closer to the data.
"""

# %%
# The images show a blob that moves along a circle, twelve pixels a side. Two principal components
# stand in for an encoder.

import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np
from sklearn.decomposition import PCA

from probgeo import Manifold, metrics, plot

angle = np.linspace(0.0, 2.0 * np.pi, 40, endpoint=False)
grid = np.stack(np.meshgrid(*2 * [np.linspace(-1.7, 1.7, 12)]), axis=-1)
places = np.stack([np.cos(angle), np.sin(angle)], axis=1)[:, None, None]
noise = 0.05
images = np.exp(-np.sum((grid - places) ** 2, axis=-1) / 0.4).reshape(len(angle), -1)
images += noise * np.random.default_rng(0).normal(size=images.shape)
codes = PCA(2).fit_transform(images)

# %%
# The mean of the decoder is a network with one radial unit at each code, fitted by ridge
# regression. Its precision is a sum of radial units too, as is usual for variational
# autoencoders: close to the codes the standard deviation is that of the noise, far from them it
# grows. Both are functions of one point, written with JAX, which gives their derivatives.

centre = images.mean(axis=0)


def units(z, width):
    return jnp.exp(-0.5 * jnp.sum((codes - z) ** 2, axis=-1) / width**2)


gram = np.stack([units(z, 1.0) for z in codes]) + 0.1 * np.eye(len(codes))
weights = np.linalg.solve(gram, images - centre)
most = np.mean([units(z, 0.35).sum() for z in codes])


def mean(z):
    return units(z, 1.0) @ weights


def std(z):
    """The same for all pixels, times the root of their number."""
    precision = (units(z, 0.35).sum() / most + 1e-3) / noise**2
    return jnp.sqrt(images.shape[1] / precision)


# %%
# ``Pullback(mean, std)`` is the expected metric.

paths = {}
for name, spread in {"mean only": None, "mean and std": std}.items():
    manifold = Manifold(metrics.Pullback(mean, spread, regularisation=1e-3), landmarks=codes)
    paths[name] = manifold.geodesic(codes[4], codes[18])
    length = paths[name].length
    print(f"{name}: length {length.mean:.3f} +- {2 * length.std:.0e}, {paths[name].message}")

# %%
# Left: the metric with std, the codes, both geodesics. Right: what is decoded on the way.

fig = plt.figure(figsize=(9.0, 3.4), layout="constrained")
left, right = fig.subfigures(1, 2, width_ratios=[1.0, 1.5])
ax = left.subplots()
plot.metric(manifold, ax, data=codes, ellipses=0)
frames = right.subplots(2, 6)
colours = {"mean only": plot.COLOURS["second"], "mean and std": plot.COLOURS["mean"]}
for (name, path), row in zip(paths.items(), frames, strict=True):
    plot.geodesics(path, ax, colour=colours[name], label=name)
    decoded = metrics.Pullback(mean).decode(path.mean(np.linspace(0.0, 1.0, 6)))
    for image, frame in zip(decoded + centre, row, strict=True):
        frame.imshow(image.reshape(12, 12), cmap="gray_r", vmin=0.0, vmax=1.0, origin="lower")
        frame.set(xticks=[], yticks=[])
    row[0].set_ylabel(name)
ax.set(xlabel="first code", ylabel="second code")
ax.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=2, fontsize="small")
plt.show()
