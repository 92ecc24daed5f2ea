"""
Between two digits in the latent space of a variational autoencoder
===================================================================

A variational autoencoder of handwritten digits, trained here in seconds with PyTorch. A straight
line between two codes may pass where the decoder has seen nothing. The geodesic of the expected
metric, with a standard deviation that grows away from the codes, goes where there are digits. How
much of a distance is the decoder's doing shows when there are several of them.
"""

# %%
# Images of 8 x 8 pixels, two latent coordinates, one encoder, and three decoders that differ in the
# weights they start from. Units are smooth (tanh): geodesics need second derivatives.

import matplotlib.pyplot as plt
import numpy as np
import torch
from sklearn.datasets import load_digits
from torch.nn import Linear, Sequential, Sigmoid, Tanh

from probgeo import Manifold, metrics, plot

digits = load_digits()
images = digits.data / 16.0
torch.manual_seed(0)
encoder = Sequential(Linear(64, 64), Tanh(), Linear(64, 4))  # mean and log variance of codes
decoders = [Sequential(Linear(2, 64), Tanh(), Linear(64, 64), Tanh(), Linear(64, 64), Sigmoid()) for _ in range(3)]

x = torch.tensor(images, dtype=torch.float32)
networks = torch.nn.ModuleList([encoder, *decoders])
adam = torch.optim.Adam(networks.parameters(), lr=5e-3)
noise = 0.1  # of pixels, as far as training is concerned: less than is left, so codes spread out
for _ in range(600):
    mean, log_variance = encoder(x).chunk(2, dim=1)
    codes = mean + torch.exp(0.5 * log_variance) * torch.randn_like(mean)
    misfit = sum(((decoder(codes) - x) ** 2).sum(dim=1) for decoder in decoders) / len(decoders)
    divergence = 0.5 * (mean**2 + log_variance.exp() - log_variance - 1.0).sum(dim=1)
    loss = (misfit / (2 * noise**2) + divergence).mean()
    adam.zero_grad()
    loss.backward()
    adam.step()

networks.eval()
with torch.no_grad():
    Z = encoder(x)[:, :2].double().numpy()

# %%
# For each decoder a standard deviation is fitted to what it gets wrong. It is that of the residuals
# near the codes, and up to a hundred times as large far from them. With it, ``Pullback`` is the
# expected metric.


def with_std(decoder):
    residuals = images - metrics.Pullback(decoder).decode(Z)
    return metrics.Pullback(decoder, metrics.radial_std(Z, residuals, 50, width=1.0))


def middle(digit):
    """The code of a digit that is nearest to their mean."""
    own = Z[digits.target == digit]
    return own[np.argmin(np.linalg.norm(own - own.mean(axis=0), axis=1))]


def pixel_std(z):
    """Root mean square over the pixels."""
    return np.sqrt(np.mean(members[0].std(z) ** 2, axis=-1))


members = [with_std(decoder) for decoder in decoders]
middles = np.stack([middle(digit) for digit in range(10)])
t = np.linspace(0.0, 1.0, 401)[:, None]
a, others = middles[0], middles[1:]
gaps = [pixel_std(a + t * (b - a)).max() for b in others]
b = others[np.argmax(gaps)]  # the straight line to it crosses the widest gap

geodesic = Manifold(members[0], landmarks=Z).geodesic(a, b)
unaware = Manifold(metrics.Pullback(decoders[0]), landmarks=Z).geodesic(a, b)
line = a + t * (b - a)
line_length = np.mean(np.sqrt(members[0].energy(line, b - a)))
print(f"geodesic: {geodesic.length.mean:.3f} +- {2 * geodesic.length.std:.0e}, {geodesic.message}")
print(f"straight line: {line_length:.3f}")

# %%
# Left: codes of the images, each with its digit's colour, and three ways from a 0 to the digit
# whose straight line is least sure. Right: what is decoded at equal steps of time, and how sure the
# decoder is of it. The straight line crosses a gap between the codes; the geodesic of the decoder's
# mean alone does not see gaps; that of the expected metric goes around, through digits that exist.

ways = {
    "geodesic": (geodesic.mean(t[:, 0]), plot.COLOURS["mean"], "-"),
    "without std": (unaware.mean(t[:, 0]), plot.COLOURS["samples"], "-."),
    "straight line": (line, plot.COLOURS["second"], "--"),
}
fig = plt.figure(figsize=(11, 4.6), layout="constrained")
left, right = fig.subfigures(1, 2, width_ratios=[1, 1.15])
ax = left.subplots()
sides = [np.linspace(Z[:, k].min() - 1.0, Z[:, k].max() + 1.0, 100) for k in range(2)]
grid = np.stack(np.meshgrid(*sides), axis=-1)
levels = np.geomspace(0.1, 30.0, 16)
shades = ax.contourf(*sides, pixel_std(grid), levels, norm="log", cmap="Greys", extend="both")
bar = left.colorbar(shades, ax=ax, label="standard deviation of a pixel", shrink=0.8)
bar.set_ticks([0.1, 1.0, 10.0], labels=["0.1", "1", "10"])
ax.scatter(*Z.T, s=3, c=digits.target, cmap="tab10")
for name, (way, colour, style) in ways.items():
    ax.plot(*way.T, style, color=colour, linewidth=2, label=name)
for digit, z in enumerate(middles):
    box = {"boxstyle": "circle,pad=0.1", "facecolor": "white", "edgecolor": "none", "alpha": 0.7}
    ax.text(*z, str(digit), ha="center", va="center", fontsize="small", weight="bold", bbox=box)
ax.set(xlabel="first code", ylabel="second code")
fig.legend(*ax.get_legend_handles_labels(), loc="outside upper center", ncols=3)

frames = np.linspace(0, len(t) - 1, 9).astype(int)
cells = right.subplot_mosaic([[f"{name} {k}" for k in frames] for name in ways] + 2 * [["std"] * len(frames)])
for name, (way, colour, style) in ways.items():
    for k, image in zip(frames, metrics.Pullback(decoders[0]).decode(way[frames]), strict=True):
        cells[f"{name} {k}"].imshow(image.reshape(8, 8), cmap="gray_r", vmin=0.0, vmax=1.0)
        cells[f"{name} {k}"].set(xticks=[], yticks=[])
    cells[f"{name} 0"].set_ylabel(name.replace(" ", "\n"), rotation=0, ha="right", va="center")
    cells["std"].plot(t, pixel_std(way), style, color=colour)
cells["std"].set(xlabel="time", ylabel="pixel std", xlim=(0, 1), ylim=(0, None))
plt.show()

# %%
# How far are the digits from the 0? Every decoder has its own answer. The spread between them is
# what is known of the distance; what the numerics add cannot be seen at this scale.

distance = Manifold(metrics.Ensemble(members), landmarks=Z).distance(a, others)
lengths, model_std, numerical_std = distance.members, distance.model_std, distance.numerical_std
for digit, values in enumerate(zip(distance.mean, model_std, numerical_std, strict=True), 1):
    print("0 to {}: {:5.2f} +- {:.2f} (model) +- {:.0e} (numerical)".format(digit, *values))

fig, ax = plt.subplots(figsize=(6.5, 3.2), layout="constrained")
place = np.arange(1, 10)
bars = {"fmt": "o", "color": plot.COLOURS["mean"], "capsize": 4, "label": "mean, 2 std of decoders"}
ax.errorbar(place, lengths.mean(axis=0), 2 * model_std, **bars)
ax.plot(place + 0.2, lengths.T, ".", color=plot.COLOURS["second"])
ax.plot([], [], ".", color=plot.COLOURS["second"], label="single decoders")
straight = np.linalg.norm(others - a, axis=1)
scaled = straight * lengths.mean() / straight.mean()
ax.plot(place - 0.2, scaled, "x", color="grey", label="straight, in latent units (rescaled)")
ax.set(xlabel="digit", ylabel="distance from a 0", xticks=place, ylim=(0, None))
ax.legend(fontsize="small", loc="lower right")
plt.show()
