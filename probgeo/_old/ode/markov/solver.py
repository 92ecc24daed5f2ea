"""`Markov`: posteriors in time linear in the number of nodes."""

from typing import Any, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from probgeo._old._checks import as_positive, as_whole_number, is_concrete
from probgeo._old._repr import described
from probgeo._old.ode.curve import NOT_FINITE, OK, Curve
from probgeo._old.ode.guess import Guess, guess_states
from probgeo._old.ode.markov.forward import (
    classical_states,
    mesh_from_steps,
    states_of_batch,
    steps_of_batch,
    walking_tolerance,
)
from probgeo._old.ode.markov.integral import is_worthwhile
from probgeo._old.ode.markov.mesh import at_least
from probgeo._old.ode.markov.prior import MaternPrior, Prior, WienerPrior
from probgeo._old.ode.markov.rounds import (
    Task,
    solve_in_rounds,
    states_at,
    straight_lines,
)
from probgeo._old.ode.markov.solve import Settings, finish, iterate
from probgeo._old.ode.problem import BOUNDARY, Problem

DIFFERENTIABLE_SWEEPS = 2
FIRST_SIZE = 16  # nodes of the first mesh
COARSE = 24  # nodes of the mesh that is solved before a large one
LARGEST_FIRST = 768  # and of one that follows the steps of a classical solver,
NODES_A_STEP = 3  # this many each: many more steps are a matter of stability, not of accuracy


class Markov(eqx.Module):
    """Gaussian process posteriors with Markov priors, in time linear in the number of nodes.

    The curve is modelled as a q-times integrated Wiener process (or a Matern process) that obeys
    the linearised ODE at the nodes of a mesh; Gauss-Newton sweeps move the linearisation. The scale
    of the noise comes from the defect of the ODE between the nodes, which the fit has not seen.

    Parameters
    ----------
    order : int
        Number q of derivatives modelled, 2 to 8. The error falls like h^q or faster.
    n_points : int, optional
        Number of nodes, equally spaced. By default the mesh is chosen and refined until
        twice the largest numerical standard deviation is below atol + rtol max|y|.
    rtol, atol : float
        The tolerance for that.
    prior : "wiener" | "matern" | Prior
    lengthscale : float
        Of the Matern prior, as a fraction of the interval.
    linearisation : "first" | "zeroth"
        With or without the Jacobian of f. Without it all dimensions share one covariance, which
        costs nothing even for large D, but error bars of boundary value problems do not know how
        errors grow along the curve, and f of initial value problems is taken at the states of a
        classical solver.
    calibration : "defect" | "evidence" | "none"
        Where the scale of the numerical uncertainty comes from: the defect of the ODE half-way
        between the nodes, or the evidence. It never touches the uncertainty of initial and boundary
        values.
    local : bool
        Whether that scale may change along the curve, a step at a time.
    sweeps : int
        Most Gauss-Newton sweeps on one mesh.
    max_points : int
        Largest mesh.
    stiff : bool
        Whether the classical solver that walks ahead in an initial value problem is implicit.

    Under `jax.jit`, `jax.vmap` or `jax.grad` nothing can depend on values: there the mesh has
    `n_points` (default 65) equal steps, and derivatives pass through the last sweeps only.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> from probgeo import solve_bvp, solvers
    >>> bratu = lambda t, y, dy: -jnp.exp(y)
    >>> curve = solve_bvp(bratu, (0.0, 1.0), [0.0], [0.0], solver=solvers.Markov(rtol=1e-6))
    >>> bool(abs(curve.mean(0.5)[0] - 0.1405392) < 1e-6)
    True
    """

    prior: Prior
    rtol: Float[Array, ""]
    atol: Float[Array, ""]
    tolerance: Float[Array, ""]
    n_points: int | None = eqx.field(static=True)
    first_order: bool = eqx.field(static=True)
    calibration: str = eqx.field(static=True)
    local: bool = eqx.field(static=True)
    sweeps: int = eqx.field(static=True)
    max_points: int = eqx.field(static=True)
    stiff: bool = eqx.field(static=True)

    def __repr__(self) -> str:
        return described(self)

    def __init__(
        self,
        order: int = 5,
        n_points: int | None = None,
        *,
        rtol: float = 1e-5,
        atol: float = 0.0,
        prior: Literal["wiener", "matern"] | Prior = "wiener",
        lengthscale: float = 0.25,
        linearisation: Literal["first", "zeroth"] = "first",
        calibration: Literal["defect", "evidence", "none"] = "defect",
        local: bool = True,
        sweeps: int = 30,
        max_points: int = 2048,
        tolerance: float = 1e-7,
        stiff: bool = False,
    ) -> None:
        order = as_whole_number("order", order, 2)
        if order > 8:
            raise ValueError(f"order must be at most 8, got {order}")
        self.prior = _as_prior(prior, order, lengthscale)
        least = self.prior.q + 2
        self.n_points = None if n_points is None else as_whole_number("n_points", n_points, least)
        self.rtol = as_positive("rtol", rtol, or_zero=True)
        self.atol = as_positive("atol", atol, or_zero=True)
        if is_concrete(self.rtol, self.atol) and self.rtol == 0 and self.atol == 0:
            raise ValueError("rtol and atol must not both be zero")
        self.tolerance = as_positive("tolerance", tolerance)
        self.first_order = _one_of("linearisation", linearisation, ("first", "zeroth")) == "first"
        self.calibration = _one_of("calibration", calibration, ("defect", "evidence", "none"))
        self.local = bool(local)
        self.sweeps = as_whole_number("sweeps", sweeps, 1)
        self.max_points = as_whole_number("max_points", max_points, least)
        self.stiff = bool(stiff)

    def solve(self, problem: Problem, guess: Guess | None = None) -> Curve:
        """Posterior curves for a batch of problems; `solve_ivp` and `solve_bvp` call this."""
        return self.attempt(problem, guess)[0]

    def attempt(self, problem: Problem, guess: Guess | None = None) -> tuple[Curve, np.ndarray]:
        """The same, and error estimates (*batch,) over the tolerance, also on a given mesh."""
        if self.prior.q < problem.order:
            raise ValueError(f"order must not be below that of the ODE, {problem.order}")
        if not is_concrete(problem, self.rtol) or problem.values.size == 0:
            return _solve_traced(self, problem, guess), np.full(problem.batch_shape, np.nan)
        flat = problem.flattened()
        found = solve_in_rounds(
            self._settings(),
            flat,
            self._first_tasks(problem, flat, guess),
            self.sweeps,
            self.n_points or self.max_points,
            adaptive=self.n_points is None,
        )
        shape = problem.batch_shape
        t0, duration = np.asarray(problem.f.t0), np.asarray(problem.f.duration)
        nodes = t0 + duration * np.minimum(found.posterior.nodes, 1.0)
        found, nodes = jax.device_put(
            jax.tree.map(lambda x: x.reshape((*shape, *x.shape[1:])), (found, nodes))
        )
        curve = Curve(
            posterior=found.posterior,
            t_span=problem.t_span,
            nodes=nodes,
            status=found.status,
            log_evidence=found.log_evidence,
            n_evaluations=found.n_evaluations,
            residual=found.residual,
            scale=found.scale,
            dimension=problem.dimension,
        )
        return curve, np.asarray(found.excess)

    def _settings(self) -> Settings:
        return Settings(
            self.prior,
            self.tolerance,
            self.rtol,
            self.atol,
            self.first_order,
            self.calibration,
            self.local,
            self.stiff,
        )

    def _first_tasks(self, problem: Problem, flat: Problem, guess: Guess | None) -> list[Task]:
        """The first meshes and the first states on them."""
        count = len(flat.values)
        members = np.arange(count)
        size = self.n_points or at_least(max(FIRST_SIZE, self.prior.q + 2))
        nodes = np.linspace(0.0, 1.0, size)
        if guess is not None:
            lower = np.asarray(guess_states(guess, problem, nodes))
            lower = lower.reshape(count, size, problem.order, problem.dimension)
            highest = np.full_like(lower[:, :, :1], np.nan)  # a guess does not know it
            return [Task(members, nodes, np.concatenate([lower, highest], axis=2))]
        if problem.conditions == BOUNDARY:
            lines = np.asarray(straight_lines(self._settings(), flat, jnp.asarray(nodes)))
            if is_worthwhile(size, problem.dimension, self.first_order):
                return [Task(members, nodes, lines)]
            return [self._from_a_coarse_mesh(flat, Task(members, nodes, lines))]
        rtol, stiff = walking_tolerance(self.rtol), self.stiff
        if self.n_points is not None:
            return [_walk_on(flat, rtol, stiff, members, np.broadcast_to(nodes, (count, size)))]
        steps = steps_of_batch(flat, rtol, stiff)
        if not stiff and not np.all(np.asarray(steps.finished)):
            stiff = True
            steps = steps_of_batch(flat, rtol, stiff)
        wish = np.minimum(NODES_A_STEP * np.asarray(steps.taken), LARGEST_FIRST)
        sizes = np.array([min(at_least(max(n, size)), self.max_points) for n in wish])
        tasks = []
        for size in np.unique(sizes):
            k = np.flatnonzero(sizes == size)
            own = jax.tree.map(lambda x, k=k: x[k], steps)
            meshes = jax.vmap(lambda s, size=size: mesh_from_steps(s, int(size)))(own)
            tasks.append(_walk_on(flat.members(k), rtol, stiff, k, np.asarray(meshes)))
        return tasks

    def _from_a_coarse_mesh(self, flat: Problem, fine: Task) -> Task:
        """Begin with a coarse solution where there is one: few sweeps do then on the fine mesh."""
        settings, nodes = self._settings(), np.linspace(0.0, 1.0, COARSE)
        lines = np.asarray(straight_lines(settings, flat, jnp.asarray(nodes)))
        task = Task(fine.members, nodes, lines)
        found = solve_in_rounds(settings, flat, [task], self.sweeps, COARSE, adaptive=False)
        states = states_at(found.posterior, fine.nodes, flat.order)
        solved = (found.status == OK)[:, None, None, None]
        return fine._replace(
            states=np.where(solved, states, fine.states), spent=found.n_evaluations
        )


def _walk_on(
    problem: Problem, rtol: Array, stiff: bool, members: np.ndarray, nodes: np.ndarray
) -> Task:
    """States of a classical solver at the nodes."""
    states = states_of_batch(problem, rtol, stiff, jnp.asarray(nodes))
    return Task(members, nodes, np.asarray(states))


@eqx.filter_jit
def _solve_traced(solver: Markov, problem: Problem, guess: Guess | None) -> Curve:
    """On a fixed mesh, with no look at any value: for use inside JAX transformations."""
    settings, size = solver._settings(), solver.n_points or 65
    nodes = jnp.linspace(0.0, 1.0, size)
    rtol = walking_tolerance(solver.rtol)
    W = _frozen(settings).integration(problem, nodes) if problem.conditions == BOUNDARY else None

    def one(member: Problem, start: Array | None) -> tuple:
        model = settings.model(member, nodes)
        if start is not None:
            states = jnp.concatenate([start, jnp.full_like(start[:, :1], jnp.nan)], axis=1)
        elif member.conditions == BOUNDARY:
            states = model.line
        else:
            states = classical_states(_frozen(member), rtol, solver.stiff, nodes)
        frozen = _frozen((settings, member, states))
        sweeps = jnp.array(solver.sweeps)
        refined = iterate(frozen[0], frozen[1], nodes, frozen[2], sweeps, W)
        x = jax.lax.stop_gradient(refined.x)
        for _ in range(DIFFERENTIABLE_SWEEPS):
            _, x = model.sweep(x)
        solution = finish(settings, member, nodes, x)
        status = jnp.where(jnp.isfinite(solution.excess), refined.status, NOT_FINITE)
        return solution, refined, status

    start = None if guess is None else guess_states(guess, problem, nodes)
    flat = problem.flattened()
    if start is not None:
        start = start.reshape(-1, *start.shape[len(problem.batch_shape) :])
    solution, refined, status = jax.tree.map(
        lambda x: x.reshape(*problem.batch_shape, *x.shape[1:]), flat.map(one, start)
    )
    return Curve(
        posterior=solution.posterior,
        t_span=problem.t_span,
        nodes=problem.f.t0 + problem.f.duration * solution.posterior.nodes,
        status=status,
        log_evidence=solution.log_evidence,
        n_evaluations=size * (3 + DIFFERENTIABLE_SWEEPS + refined.sweeps),
        residual=solution.residual,
        scale=solution.scale,
        dimension=problem.dimension,
    )


def _frozen(tree: Any) -> Any:
    """The same, but no derivative passes through its arrays; functions among them are left."""
    return jax.tree.map(lambda x: jax.lax.stop_gradient(x) if eqx.is_array(x) else x, tree)


def _as_prior(prior: Any, order: int, lengthscale: float) -> Prior:
    if isinstance(prior, Prior):
        return prior
    if _one_of("prior", prior, ("wiener", "matern")) == "wiener":
        return WienerPrior(order)
    return MaternPrior(order, as_positive("lengthscale", lengthscale))


def _one_of(name: str, value: Any, choices: tuple[str, ...]) -> str:
    if value not in choices:
        raise ValueError(f"{name} must be one of {choices}, got {value!r}")
    return value
