"""Different equations of one kind as one batch: one field with a switch, compiled once."""

import jax
import jax.numpy as jnp
import numpy as np


def in_one_field(fields, order):
    """f(t, y[, dy], args) on the unit interval; args says which equation, its data and interval."""

    def field(t, *state_and_args):
        *state, (which, parameter, start, duration) = state_and_args
        state = [y / duration**d for d, y in enumerate(state)]
        branches = [lambda t, *rest, f=f: f(t, *rest) for f in fields]
        value = jax.lax.switch(which, branches, start + duration * t, *state, parameter)
        return duration**order * value

    return field


def arguments(which, problems, parameters):
    spans = np.array([p.t_span for p in problems])
    return (
        jnp.asarray(which),
        jnp.asarray(parameters, dtype=float),
        jnp.asarray(spans[:, 0]),
        jnp.asarray(spans[:, 1] - spans[:, 0]),
    )


def calibration(curve, problems, times=200, seed=0):
    """Largest errors relative to the solution, coverage at 2 sigma and ANEES of every member."""
    tau = np.random.default_rng(seed).uniform(0.0, 1.0, times)
    mean, std = np.asarray(curve.mean(tau)), np.asarray(curve.std(tau))
    errors, coverage, anees = [], [], []
    for k, problem in enumerate(problems):
        start, end = problem.t_span
        exact = problem.solution(start + tau * (end - start))
        size = np.abs(exact).max()
        # references are good to 1e-12 of their size
        z = np.abs(mean[k] - exact) / np.hypot(std[k], 1e-12 * size)
        errors.append(np.abs(mean[k] - exact).max() / size)
        coverage.append(np.mean(z < 2.0))
        anees.append(np.mean(z**2))
    return np.array(errors), np.array(coverage), np.array(anees)
