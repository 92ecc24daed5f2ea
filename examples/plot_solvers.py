"""
Which solver when
=================

``solvers.Dense`` is the paper's: any kernel, few evaluations, wide and careful error bars.
``solvers.Markov``, the default, takes linear time: a piecewise polynomial that obeys the ODE, and
an estimate of its error. Both on one boundary value problem, with the same number of nodes.
"""

# %%
# A pendulum that is at 0.4 rad at t = 0 and at 2 rad at t = 3. SciPy, with a small tolerance,
# serves as the truth.

import matplotlib.pyplot as plt
import numpy as np
from scipy.integrate import solve_bvp as classical

from probgeo import plot, solve_bvp, solvers

times = np.linspace(0.0, 3.0, 61)[1:-1]
truth = classical(
    lambda t, y: np.stack([y[1], -np.sin(y[0])]),
    lambda a, b: np.array([a[0] - 0.4, b[0] - 2.0]),
    np.linspace(0.0, 3.0, 50),
    np.stack([np.linspace(0.4, 2.0, 50), np.full(50, 0.5)]),
    tol=1e-11,
    max_nodes=100_000,
).sol(times)[0]

# %%
# The paper's solver treats evaluations at an estimate as noisy; with ``error_model="linearised"``
# it linearises the ODE instead, as Markov does. (Markov evaluates the ODE several times between two
# nodes.)

sizes = (8, 16, 32)
families = {
    "Dense, as in the paper": lambda n: solvers.Dense(n_points=n),
    "Dense, linearised": lambda n: solvers.Dense(n_points=n, error_model="linearised"),
    "Markov": lambda n: solvers.Markov(n_points=n),
}
curves = {
    name: [solve_bvp(lambda t, y, dy: -np.sin(y), (0.0, 3.0), [0.4], [2.0], solver=make(n)) for n in sizes]
    for name, make in families.items()
}
error = {k: [np.abs(c.mean(times)[:, 0] - truth).max() for c in v] for k, v in curves.items()}
std = {k: [2 * np.max(c.std(times)) for c in v] for k, v in curves.items()}
for name in families:
    print(name, *(f"{e:.0e} ({s:.0e})" for e, s in zip(error[name], std[name], strict=True)))

# %%
# Left: what the paper's solver knows after eight evaluations. Right: largest errors, filled, and
# twice the largest standard deviation, open.

fig, (left, right) = plt.subplots(1, 2, figsize=(8.5, 3.3), layout="constrained")
plot.curve(curves["Dense, as in the paper"][0], left, n_samples=8, label="mean, 8 nodes")
left.plot(times, truth, "k:", linewidth=2, label="SciPy")
left.set(xlabel="time $t$", ylabel="angle $y$ (rad)", title="Dense, as in the paper")
left.legend(loc="lower right")
styles = {"o": plot.COLOURS["mean"], "s": plot.COLOURS["samples"], "^": plot.COLOURS["second"]}
for name, (marker, colour) in zip(families, styles.items(), strict=True):
    right.loglog(sizes, error[name], marker + "-", color=colour, label=name)
    right.loglog(sizes, std[name], marker + "--", color=colour, markerfacecolor="w")
right.set(xlabel="nodes", ylabel="error and two std (rad)", title="solid: error, dashed: two std")
right.set_ylim(1e-14, 1.0)
right.set_xticks(sizes, labels=[str(n) for n in sizes])
right.minorticks_off()
right.legend(fontsize="small", loc="lower left")
plt.show()
