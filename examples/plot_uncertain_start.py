"""
A pendulum with an uncertain start
==================================

A pendulum is let go at an angle that is known to about five degrees only. The curve carries two
kinds of uncertainty: what the start leaves open, and what the solver does not know for lack of
evaluations. probgeo keeps them apart.
"""

# %%
# The initial angle is a ``Gaussian``, the initial velocity is exact. With ``dy0`` given, the
# right hand side is that of a second-order equation and takes time, position and velocity; it is
# written with NumPy for many points at once. The solver is the paper's, on few nodes, so that its
# own error can be seen.

import matplotlib.pyplot as plt
import numpy as np

from probgeo import Gaussian, kernels, plot, solve_ivp, solvers

solver = solvers.Dense(kernels.SquaredExponential(0.15), n_points=24, error_model="linearised")
start = Gaussian([1.5], [[0.08**2]])
curve = solve_ivp(lambda t, y, dy: -np.sin(y), (0.0, 12.0), start, [0.0], solver=solver)
print("converged:", bool(curve.converged))

# %%
# The covariances of the two kinds add up to the total. What the start leaves open nearly vanishes
# where swings from all starts cross, and grows with time, because large swings are slower than
# small ones. Only a better measurement would lower it; more nodes would lower the numerical part.

times = np.linspace(0.0, 12.0, 400)
std = {s: curve.std(times, source=s)[:, 0] for s in ("total", "boundary", "numerical")}
for source, values in std.items():
    print(f"{source:9} largest standard deviation {values.max():.3f} rad")

# %%
# Left: the mean in red with two standard deviations, nodes in yellow, samples in green. Right:
# where the uncertainty comes from.

fig, (left, right) = plt.subplots(1, 2, figsize=(8.0, 3.0), layout="constrained")
plot.curve(curve, left, n_samples=10)
left.set(xlabel="time $t$", ylabel="angle $y$ (rad)", title="angle")
styles = {"total": ("#999999", "-", 4.0), "boundary": ("k", "-", 1.2), "numerical": ("C0", "--", 1.5)}
for source, (colour, line, width) in styles.items():
    right.semilogy(times[1:], std[source][1:], line, color=colour, linewidth=width, label=source)
right.set(xlabel="time $t$", ylabel="standard deviation (rad)", ylim=(3e-5, 10.0))
right.set_title("where the uncertainty comes from")
right.legend(loc="upper center", ncols=3, fontsize="small")
plt.show()
