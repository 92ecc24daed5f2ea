"""
A boundary layer and the mesh that found it
===========================================

Some solutions are smooth nearly everywhere and fall sharply in one place. The default solver finds
that place by itself: it estimates its error along the curve, and puts nodes where that is large.
"""

# %%
# The equation is :math:`\epsilon y'' = y` with y(0) = 1 and y(1) = 0. The solution falls to zero
# within a layer of width :math:`\sqrt\epsilon`, a hundredth of the interval. Nothing tells the
# solver where it is.

import matplotlib.pyplot as plt
import numpy as np

from probgeo import plot, solve_bvp

epsilon = 1e-4
curve = solve_bvp(lambda t, y, dy: y / epsilon, (0.0, 1.0), [1.0], [0.0])
nodes = curve.nodes
print(f"{len(nodes)} nodes, {curve.n_evaluations} evaluations, {curve.message}")
print(f"steps from {np.diff(nodes).min():.1e} to {np.diff(nodes).max():.1e}")

# %%
# The exact solution is known, so the error bars can be checked: how large are the errors, and how
# many of them are within two standard deviations?

width = np.sqrt(epsilon)
times = np.unique(np.concatenate([np.linspace(0.0, 1.0, 301), np.linspace(0.0, 10 * width, 301)]))
exact = np.sinh((1.0 - times) / width) / np.sinh(1.0 / width)
error = np.abs(curve.mean(times)[:, 0] - exact)
std = curve.std(times)[:, 0]
print(f"largest error {error.max():.1e}, largest standard deviation {std.max():.1e}")
print(f"within two standard deviations: {100 * np.mean(error <= 2 * std):.0f} %")

# %%
# Left: the curve with its nodes, and the exact solution below it. Middle: the steps of the mesh.
# Right: errors and error bars.

fig, (left, middle, right) = plt.subplots(1, 3, figsize=(9.0, 2.8), layout="constrained")
left.plot(times, exact, color="#bbbbbb", linewidth=5, label="exact")
plot.curve(curve, left, label="mean and nodes", n_times=2001)
left.set(xlabel="$t$", ylabel="$y$", title="solution", xlim=(-0.01, 0.3))
left.legend()
middle.semilogy(nodes[1:], np.diff(nodes), ".-", color=plot.COLOURS["second"], markersize=4)
middle.set(xlabel="$t$", ylabel="step", title="steps of the mesh")
right.semilogy(times[1:-1], 2 * std[1:-1], color=plot.COLOURS["mean"], label="two std")
right.semilogy(times, error, ".", color="k", markersize=2, label="error")
right.set(xlabel="$t$", ylabel="error of $y$", title="error and error bar", ylim=(1e-18, 1e-5))
right.legend(loc="lower right")
plt.show()
