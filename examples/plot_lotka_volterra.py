"""
Lotka and Volterra's equations, fitted to data
==============================================

Noisy counts of two species, a model of how they live on each other, and its parameters from the
data: ``log_likelihood`` of a solution is a function of the parameters with derivatives by JAX, so
that any minimiser finds its maximum. Its curvature there is Laplace's approximation of the
posterior.
"""

# %%
# Prey :math:`u` and predators :math:`v`: :math:`u' = \alpha u - \beta u v`,
# :math:`v' = \delta u v - \gamma v`. Twenty observations of both, with noise of standard deviation
# 0.25.

import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np
from scipy.optimize import minimize

from probgeo import Gaussian, at, observed, solve_bvp, solve_ivp


def model(t, y, p):
    prey, predators = y
    alpha, beta, gamma, delta = p
    return jnp.array([prey * (alpha - beta * predators), predators * (delta * prey - gamma)])


NAMES = ("alpha", "beta", "gamma", "delta")
TRUE, START, NOISE, END = np.array([1.0, 0.4, 1.0, 0.3]), np.array([2.0, 1.0]), 0.25, 12.0
times = np.linspace(0.5, END, 20)
truth = solve_ivp(model, (0.0, END), START, args=TRUE)
counts = truth.mean(times) + NOISE * np.random.default_rng(0).standard_normal((20, 2))
data = observed(times, counts, noise=NOISE**2)

# %%
# Parameters and initial values are positive: minus the log likelihood is minimised over the
# logarithms of all six. Numerical errors of the solver count as noise that is known.


def loss(logs):
    values = jnp.exp(logs)
    return -solve_ivp(model, (0.0, END), values[4:], args=values[:4], data=data).log_likelihood


guess = np.log([0.9, 0.45, 1.1, 0.33, 2.5, 1.3])
with jax.enable_x64(True):
    slope = jax.jit(jax.grad(loss))
    found = minimize(
        lambda x: float(loss(x)), guess, jac=lambda x: np.asarray(slope(jnp.asarray(x))),
        method="BFGS", options={"gtol": 1e-2},
    )  # fmt: skip
    # the curvature by differences of the gradient
    steps = 1e-3 * np.eye(6)
    curvature = np.array([(slope(jnp.asarray(found.x + e)) - slope(jnp.asarray(found.x - e))) / 2e-3 for e in steps])
posterior = Gaussian(found.x, np.linalg.inv(0.5 * (curvature + curvature.T)))
fitted, std = np.exp(posterior.mean), np.exp(posterior.mean) * posterior.std
for name, mean, error, known in zip(NAMES, fitted, std, TRUE, strict=False):
    print(f"{name:6} {mean:.3f} ± {error:.3f}, in truth {known}")

# %%
# ``solve_bvp`` does all of this in one call, if parameters and initial values are Gaussians: here
# of infinite variance, as data alone are to tell. Its curve has the uncertainty of both.

anywhere = Gaussian(np.exp(guess[4:]), np.diag([np.inf, np.inf]))
unknown = Gaussian(np.exp(guess[:4]), np.diag([np.inf] * 4))
curve = solve_bvp(
    model, (0.0, END), order=1, conditions=[at(0.0, y=anywhere)], parameters=unknown, data=data,
    guess=solve_ivp(model, (0.0, END), np.exp(guess[4:]), args=np.exp(guess[:4])),
)  # fmt: skip
print("converged:", bool(curve.converged), curve.parameters)

# %%
# Left: data, the curve with two standard deviations, and the truth, dashed. Right: draws of two
# parameters from Laplace's approximation.

fig, (left, right) = plt.subplots(1, 2, figsize=(8.0, 3.2), layout="constrained")
t = np.linspace(0.0, END, 300)
for i, (colour, label) in enumerate([("C0", "prey"), ("C3", "predators")]):
    mean, width = curve.mean(t)[:, i], 2 * curve.std(t)[:, i]
    left.fill_between(t, mean - width, mean + width, color=colour, alpha=0.3, linewidth=0)
    left.plot(t, mean, color=colour, label=label)
    left.plot(t, truth.mean(t)[:, i], "k--", linewidth=0.8)
    left.plot(times, counts[:, i], "o", color=colour, markersize=3)
left.set(xlabel="time $t$", ylabel="population")
left.legend(fontsize="small")
draws = np.exp(posterior.sample(0, 2000))
right.plot(draws[:, 0], draws[:, 2], ".", color="0.6", markersize=2, label="posterior")
right.plot(TRUE[0], TRUE[2], "k+", markersize=12, label="truth")
right.set(xlabel=r"$\alpha$", ylabel=r"$\gamma$")
right.legend(fontsize="small")
plt.show()
