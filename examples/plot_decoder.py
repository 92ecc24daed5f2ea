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

import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np
from sklearn.decomposition import PCA

from probgeo import Manifold, metrics, plot, solvers

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
# grows.

codes, centre = jnp.asarray(codes), images.mean(axis=0)


def units(z, width):
    return jnp.exp(-0.5 * jnp.sum((codes - z) ** 2, axis=-1) / width**2)


gram = jax.vmap(lambda z: units(z, 1.0))(codes) + 0.1 * jnp.eye(len(codes))
weights = jnp.linalg.solve(gram, jnp.asarray(images - centre))
most = jnp.mean(jax.vmap(lambda z: units(z, 0.35).sum())(codes))


def mean(z):
    return units(z, 1.0) @ weights


def std(share, z):
    """The same for all pixels, times the root of their number; share is how much of it counts."""
    precision = (units(z, 0.35).sum() / most + 1e-3) / noise**2
    return share * jnp.sqrt(images.shape[1] / precision)


# %%
# ``Pullback(mean, std)`` is the expected metric. The share is an argument instead of a second
# decoder, and the number of nodes is fixed, so that less has to be compiled.

solver = solvers.Markov(order=4, n_points=40)
ends = codes[4], codes[18]
paths = {}
for name, share in {"mean only": 0.0, "mean and std": 1.0}.items():
    spread = jax.tree_util.Partial(std, jnp.asarray(share))
    manifold = Manifold(metrics.Pullback(mean, spread, regularisation=1e-3), solver=solver)
    paths[name] = manifold.geodesic(*ends)
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
    for z, frame in zip(path.mean(np.linspace(0.0, 1.0, 6)), row, strict=True):
        image = np.asarray(mean(z)) + centre
        frame.imshow(image.reshape(12, 12), cmap="gray_r", vmin=0.0, vmax=1.0, origin="lower")
        frame.set(xticks=[], yticks=[])
    row[0].set_ylabel(name)
ax.set(xlabel="first code", ylabel="second code")
ax.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=2, fontsize="small")
plt.show()
