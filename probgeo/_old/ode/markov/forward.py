"""Initial value problems: a classical adaptive solver walks ahead, and the sweeps start from it.

Its steps are the first mesh, and its states are where f is linearised on every mesh: it walks with
a tolerance far below the one that is asked for, so that one sweep is enough. The posterior, its
error bars and the final mesh owe nothing to its own error estimate.
"""

from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from probgeo._old._compile import compiled
from probgeo._old.ode.problem import Problem

if TYPE_CHECKING:  # it is slow to import, and boundary value problems do without it
    import diffrax

MOST_STEPS = 4096
AHEAD = 1e-3  # its tolerance, as a part of the one asked for


class Steps(NamedTuple):
    """Times of accepted steps, padded at the end with the last one."""

    times: Float[Array, " most+1"]
    taken: Int[Array, ""]
    finished: Bool[Array, ""]


def walking_tolerance(rtol: Array) -> Array:
    return jnp.clip(AHEAD * rtol, 1e-12, 1e-6)


def _solve(
    problem: Problem, rtol: Array, stiff: bool, saveat: "diffrax.SaveAt"
) -> "diffrax.Solution":
    import diffrax

    def field(t: Any, y: Any, _: Any) -> Any:
        return (*y[1:], problem.f(t, *y))

    solver = diffrax.Kvaerno5() if stiff else diffrax.Dopri8()
    size = jnp.max(jnp.abs(problem.values[0]))
    controller = diffrax.PIDController(rtol=rtol, atol=rtol * jnp.maximum(size, 1e-3))
    return diffrax.diffeqsolve(
        diffrax.ODETerm(field),
        solver,
        t0=0.0,
        t1=1.0,
        dt0=None,
        y0=tuple(problem.values),
        stepsize_controller=controller,
        saveat=saveat,
        max_steps=MOST_STEPS,
        throw=False,
    )


def classical_steps(problem: Problem, rtol: Array, stiff: bool) -> Steps:
    """The steps that the classical solver takes."""
    import diffrax

    solution = _solve(problem, rtol, stiff, diffrax.SaveAt(t0=True, steps=True))
    assert solution.ts is not None
    times = jnp.where(jnp.isfinite(solution.ts), solution.ts, 1.0)
    finished = jnp.asarray(solution.result == diffrax.RESULTS.successful)
    return Steps(times, solution.stats["num_accepted_steps"], finished)


def mesh_from_steps(steps: Steps, count: int) -> Float[Array, " count"]:
    """`count` nodes, spread like the steps."""
    share = jnp.arange(steps.times.size) / jnp.maximum(steps.taken, 1)
    nodes = jnp.interp(jnp.linspace(0.0, 1.0, count), share, steps.times)
    uniform = jnp.linspace(0.0, 1.0, count)
    # never quite empty anywhere, whatever the solver did
    return jnp.where(steps.finished, 0.95 * nodes + 0.05 * uniform, uniform)


def classical_states(
    problem: Problem, rtol: Array, stiff: bool, nodes: Float[Array, " n"]
) -> Float[Array, "n m d"]:
    """Its solution and derivatives at given nodes."""
    import diffrax

    solution = _solve(problem, rtol, stiff, diffrax.SaveAt(ts=nodes))
    assert solution.ys is not None
    states = jnp.stack(solution.ys, axis=1)
    highest = jax.vmap(lambda t, y: problem.f(t, *y))(nodes, states)
    return jnp.concatenate([states, highest[:, None]], axis=1)


@compiled
def steps_of_batch(problem: Problem, rtol: Array, stiff: bool) -> Steps:
    return problem.map(lambda member: classical_steps(member, rtol, stiff))


@compiled
def states_of_batch(problem: Problem, rtol: Array, stiff: bool, nodes: Array) -> Array:
    return problem.map(lambda member, at: classical_states(member, rtol, stiff, at), nodes)
