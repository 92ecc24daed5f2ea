"""Other libraries behind one face: a batch of initial value problems in, final values out.

Each of them gets what a careful user would give it: one compiled program for the whole batch, in
double precision, whose tolerance can change without compiling again.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import diffrax
import jax
import jax.numpy as jnp
import numpy as np
from problems import first_order
from scipy.integrate import solve_ivp


class Ends(NamedTuple):
    """Final values (P, D), and who is said to be solved (P,)."""

    y: np.ndarray
    converged: np.ndarray


Solve = Callable[[float], Ends]  # of the tolerance


class Batch(NamedTuple):
    """P initial value problems that differ in their initial values; dy0 is None for y' = f."""

    f: Callable  # JAX, for one point
    t_span: tuple[float, float]
    y0: np.ndarray  # (P, D)
    dy0: np.ndarray | None

    @property
    def order(self) -> int:
        return 1 if self.dy0 is None else 2

    @property
    def states(self) -> np.ndarray:
        return self.y0 if self.dy0 is None else np.concatenate([self.y0, self.dy0], axis=1)


# --- classical ------------------------------------------------------------------------------


def by_diffrax(batch: Batch, method: str, max_steps: int = 100_000) -> Solve:
    field = first_order(batch.f, batch.order)
    term = diffrax.ODETerm(lambda t, y, _: field(t, y))
    D = batch.y0.shape[1]

    @jax.jit
    def run(states, tol):
        def one(state):
            found = diffrax.diffeqsolve(
                term,
                getattr(diffrax, method)(),
                *batch.t_span,
                None,
                state,
                stepsize_controller=diffrax.PIDController(rtol=tol, atol=tol),
                max_steps=max_steps,
                throw=False,
            )
            return found.ys[-1, :D], found.result == diffrax.RESULTS.successful

        return jax.vmap(one)(states)

    states = jnp.asarray(batch.states)
    return lambda tol: Ends(*map(np.asarray, run(states, tol)))


def by_scipy(batch: Batch, method: str) -> Solve:
    """All members as one system, so that one call of the compiled f serves the whole batch."""
    states = batch.states
    field = jax.jit(jax.vmap(first_order(batch.f, batch.order), (None, 0)))

    def stacked(t, y):
        return np.asarray(field(t, y.reshape(states.shape))).reshape(-1)

    def run(tol):
        found = solve_ivp(stacked, batch.t_span, states.reshape(-1), method, [batch.t_span[1]], rtol=tol, atol=tol)
        if not found.success:
            return Ends(np.full_like(batch.y0, np.nan), np.zeros(len(states), bool))
        ends = found.y[:, -1].reshape(states.shape)[:, : batch.y0.shape[1]]
        return Ends(ends, np.ones(len(states), bool))

    return run


# --- probdiffeq -----------------------------------------------------------------------------


CALIBRATIONS = ("MLE", "MLE uncorrected", "dynamic")


def probdiffeq_parts(batch: Batch, linearisation: str, calibration: str | None, order: int):
    """Its prior for given initial values, its solver and its error estimate.

    "ts0" does without Jacobians, on independent dimensions of one scale; "ts1" takes them whole.
    With a calibration it smooths, without one it filters.
    """
    from probdiffeq import probdiffeq as pd  # an optional extra

    def first(y, /, *, t):
        return batch.f(t, y)

    def second(y, dy, /, *, t):
        return batch.f(t, y, dy)

    jacobian = pd.jacobian_materialize(jacfun=jax.jacfwd)
    ode = pd.ode(first, jacobian=jacobian) if batch.order == 1 else pd.ode_order_two(second, jacobian=jacobian)
    if linearisation == "ts0":
        model = pd.state_space_model_isotropic()
        constraint = model.constraint_ode_ts0(ode)
    else:
        model = pd.state_space_model_dense()
        constraint = model.constraint_ode_ts1(ode)
    kind = {
        None: pd.solver,
        "MLE": pd.solver_mle,
        "MLE uncorrected": partial(pd.solver_mle, correct_asymptotic_underconfidence=False),
        "dynamic": pd.solver_dynamic,
    }[calibration]
    strategy = pd.strategy_smoother_fixedpoint() if calibration else pd.strategy_filter()
    solver = kind(strategy=strategy, constraint=constraint)
    error = pd.error_residual_std(constraint=constraint)
    # not by Taylor mode, which has no rule for the linear solve in a geodesic equation
    expand = pd.jetexpand_ode_via_jvp(num=order + 1 - batch.order)

    def prior(*start):
        coefficients, _ = expand(ode, start, t=batch.t_span[0])
        return model.prior_wiener_integrated(coefficients)

    return prior, solver, error


def by_probdiffeq(batch: Batch, linearisation: str, order: int = 5) -> Solve:
    """Its filter, which is what it recommends for final values."""
    from probdiffeq import ivpsolve

    prior, solver, error = probdiffeq_parts(batch, linearisation, None, order)
    solve = ivpsolve.solve_adaptive_terminal_values(solver=solver, error=error)
    t0, t1 = batch.t_span

    @jax.jit
    def run(starts, tol):
        def one(start):
            found = solve(prior(*start), t0=t0, t1=t1, atol=tol, rtol=tol, dt0=1e-3 * (t1 - t0))
            return found.u.mean[0]

        return jax.vmap(one)(starts)

    starts = tuple(jnp.asarray(v) for v in (batch.y0, batch.dy0) if v is not None)

    def finish(tol):
        ends = np.asarray(run(starts, tol))
        return Ends(ends, np.isfinite(ends).all(axis=1))  # it has no other word for failure

    return finish


def probdiffeq_posterior(batch: Batch, linearisation: str, calibration: str, times, order: int = 5):
    """tol -> means and standard deviations (P, T, D) of its smoother at given times."""
    from probdiffeq import ivpsolve

    prior, solver, error = probdiffeq_parts(batch, linearisation, calibration, order)
    solve = ivpsolve.solve_adaptive_save_at(solver=solver, error=error)
    grid = jnp.asarray([batch.t_span[0], *times])
    dt0 = 1e-3 * (batch.t_span[1] - batch.t_span[0])

    @jax.jit
    def run(starts, tol):
        def one(start):
            found = solve(prior(*start), save_at=grid, atol=tol, rtol=tol, dt0=dt0)
            mean, std = found.u.mean[0][1:], found.u.std[0][1:]
            return mean, jnp.broadcast_to(std.reshape(len(std), -1), mean.shape)

        return jax.vmap(one)(starts)

    starts = tuple(jnp.asarray(v) for v in (batch.y0, batch.dy0) if v is not None)
    return lambda tol: tuple(map(np.asarray, run(starts, tol)))


# --- geomstats ------------------------------------------------------------------------------


def by_geomstats(metric, a, b, nodes: int = 20):
    """tol -> paths, functions of time, and success (P,) of its solver, one pair at a time.

    Its NumPy backend has no derivatives, so it is given the geodesic equation of `metric`, a
    `NumpyMetric`. Whether a solve succeeded it does not return; the wrapped solver remembers.
    """
    os.environ.setdefault("GEOMSTATS_BACKEND", "numpy")
    if "trapz" not in dir(np):
        vars(np)["trapz"] = np.trapezoid  # geomstats 2.8 looks for what NumPy 2.4 has dropped
    from geomstats.geometry.euclidean import Euclidean
    from geomstats.geometry.riemannian_metric import RiemannianMetric
    from geomstats.numerics.bvp import ScipySolveBVP
    from geomstats.numerics.geodesic import LogODESolver

    class Learned(RiemannianMetric):
        def geodesic_equation(self, state):
            x, v = state[..., 0, :], state[..., 1, :]
            return np.stack([v, metric.acceleration(x.T, v.T).T], axis=-2)

    space = Euclidean(a.shape[1], equip=False)
    space.equip_with_metric(Learned)

    def run(tol):
        integrator = ScipySolveBVP(tol=tol, save_result=True)
        solver = LogODESolver(space, n_nodes=nodes, integrator=integrator, use_jac=False)
        paths, good = [], []
        for start, end in zip(a, b, strict=True):
            with np.errstate(all="ignore"):
                paths.append(solver.geodesic_bvp(end, start))
            good.append(integrator.result_.status == 0)
        return paths, np.array(good)

    return run
