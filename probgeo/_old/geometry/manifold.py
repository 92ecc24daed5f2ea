"""`Manifold`: a metric in; geodesics, distances, exponential and logarithm maps out."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from probgeo._old._checks import as_whole_number
from probgeo._old._compile import compiled_quickly, hurried, is_little
from probgeo._old.gaussian import Gaussian
from probgeo._old.geometry.arguments import (
    as_gaussian,
    as_rows_of_points,
    as_vectors,
    check_dimensions,
    guess_points,
    where_positive,
    with_spread,
)
from probgeo._old.geometry.check import MetricReport, check_metric
from probgeo._old.geometry.equation import Metric, as_metric
from probgeo._old.geometry.fields import GeodesicField, TransportField
from probgeo._old.geometry.geodesic import NO_METRIC, Geodesic, Method, check_method
from probgeo._old.geometry.initial import Start, default_start
from probgeo._old.geometry.ladder import climb, is_adaptive, solve_in_parts
from probgeo._old.geometry.length import ScalarGaussian
from probgeo._old.geometry.results import as_curve, progress_bar, spread_out
from probgeo._old.geometry.rows import chunks, join_curves
from probgeo._old.geometry.search import Task, search
from probgeo._old.ode.curve import Curve, Source, warn
from probgeo._old.ode.markov import Markov
from probgeo._old.ode.problem import Problem, boundary_value_problem, initial_value_problem
from probgeo._old.ode.solve import Solver

ZEROTH_FROM = 4  # dimensions from which the default solver does without Jacobians
RTOL = 1e-3  # of the default solver: errors of positions relative to how far a geodesic goes
TOLERANCE = 1e-5  # of its residuals, which the last step squares
MANY = 16
AT_ONCE = (256, 64)  # geodesics solved at a time, and if they have `MANY` dimensions


class Manifold(eqx.Module):
    """R^D with a smoothly varying metric.

    Parameters
    ----------
    metric : Metric, or function x (D,) -> (D, D)
        See `probgeo.metrics`. A function must be traceable by JAX.
    solver : optional
        One of `probgeo.solvers`. By default `solvers.Markov()`, from D = 4 on without Jacobians.
    start : Start, optional
        How first curves are found, see `probgeo.initial`. By default energy descent, and for local
        metrics also continuation in their sharpness and a graph over their centres.

    Points a, b and tangent vectors v are arrays (..., D) or Gaussians; leading axes broadcast.
    Results are Gaussians: `source` tells what the numerics add ("numerical") from what uncertain
    arguments bring in ("boundary"); by default it is both ("total").

    Examples
    --------
    >>> from probgeo import metrics
    >>> half_plane = Manifold(metrics.HalfPlane())
    >>> length = half_plane.distance([0.0, 1.0], [1.0, 2.0])
    >>> round(float(length.mean), 4), round(float(metrics.HalfPlane().distance([0, 1], [1, 2])), 4)
    (0.9624, 0.9624)
    """

    metric: Metric
    solver: Solver | None
    start: Start | None
    precision: float | None  # of the default solver

    def __init__(
        self, metric: Any, solver: Solver | None = None, start: Start | None = None
    ) -> None:
        self.metric = as_metric(metric)
        if solver is not None and not hasattr(solver, "solve"):
            raise TypeError(f"solver must be one of probgeo.solvers, got {solver!r}")
        if start is not None and not isinstance(start, Start):
            raise TypeError(f"start must be one of probgeo.initial, got {start!r}")
        self.solver = solver
        self.start = start
        self.precision = None

    def __repr__(self) -> str:
        chosen = {"solver": self.solver, "start": self.start}
        listed = "".join(f", {name}={x!r}" for name, x in chosen.items() if x is not None)
        return f"Manifold({self.metric!r}{listed})"

    def geodesic(
        self,
        a: Any,
        b: Any,
        *,
        guess: Any = None,
        progress: bool | None = None,
        chunk: int | None = None,
    ) -> Geodesic:
        """Shortest curves from a to b: one to one, one to many, many to many by broadcasting.

        Parameters
        ----------
        a, b : array (..., D) or Gaussian
        guess : Curve or array (..., T, D), optional
            Curves to start from, for instance the geodesics between points close by: cheaper than
            a start from nothing. They need not end in a and b.
        progress : bool, optional
            Whether to show a progress bar. By default in a terminal, if it takes long.
        chunk : int, optional
            How many are solved at a time, which bounds the memory.

        Returns
        -------
        Geodesic
            A member that could not be solved, or is longer than a curve that is known, is flagged
            and says why; a `ConvergenceWarning` tells how many are.
        """
        ends = {"a": as_gaussian("a", a), "b": as_gaussian("b", b)}
        shape, (first, last) = as_rows_of_points(self.metric, ends)
        usable = where_positive(self.metric, {"a": first, "b": last})
        index = np.flatnonzero(usable)
        points = guess_points(guess, shape, first, last)
        origin = first[index]
        problem = boundary_value_problem(
            GeodesicField(self.metric),
            (0.0, 1.0),
            with_spread(np.zeros_like(origin), ends["a"], shape, index),
            with_spread(last[index] - origin, ends["b"], shape, index),
            args=origin,
            check=False,
        ).as_arrays(np.asarray)
        task = Task(self.metric, problem, origin, last[index])
        solver, start = self._solver(shape[-1]), self.start or default_start(self.metric)
        parts = []
        hurry = hurried(is_little(*origin.shape))
        with hurry, progress_bar(len(index), progress, "geodesics") as bar:
            for k in chunks(len(index), _at_once(shape[-1], chunk)):
                part = task if len(k) == len(index) else task.members(k)
                parts.append(
                    search(part, solver, start, None if points is None else points[index][k])
                )
                bar.update(len(k))
        geodesic = self._joined(parts, usable, first, shape[:-1])
        warn(geodesic, "geodesics")
        return geodesic

    def distance(
        self,
        a: Any,
        b: Any,
        *,
        method: Method = "linearised",
        source: Source = "total",
        seed: int = 0,
        n: int = 100,
        **options: Any,
    ) -> ScalarGaussian:
        """Length of the geodesic from a to b. See `Geodesic.measure`; options as in `geodesic`."""
        check_method(method, source)
        found = self.geodesic(a, b, **options)
        return found.measure(method, source=source, seed=seed, n=n)

    def log(
        self,
        a: Any,
        b: Any,
        *,
        method: Method = "linearised",
        source: Source = "total",
        seed: int = 0,
        n: int = 100,
        **options: Any,
    ) -> Gaussian:
        """The velocity at a of the geodesic that is at b after unit time.

        Its norm at a is the length (erratum 8). See `Geodesic.log`, and `geodesic` for options.
        """
        check_method(method, source)
        return self.geodesic(a, b, **options).log(method, source=source, seed=seed, n=n)

    def exp(
        self, a: Any, v: Any, *, source: Source = "total", progress: bool | None = None
    ) -> Gaussian:
        """Where the geodesic from a with velocity v is after unit time."""
        check_method("linearised", source)
        curve = self.shoot(a, v, progress=progress)
        return Gaussian.unchecked(curve.mean(1.0), curve.cov(1.0, 1.0, source=source))

    def shoot(
        self, a: Any, v: Any, *, progress: bool | None = None, chunk: int | None = None
    ) -> Curve:
        """The geodesic from a with velocity v, on [0, 1]."""
        starts = {"a": as_gaussian("a", a), "v": as_gaussian("v", v)}
        shape, (first, slope) = as_rows_of_points(self.metric, starts)
        usable = where_positive(self.metric, {"a": first})
        index = np.flatnonzero(usable)
        problem = initial_value_problem(
            GeodesicField(self.metric),
            (0.0, 1.0),
            with_spread(np.zeros_like(first[index]), starts["a"], shape, index),
            with_spread(slope[index], starts["v"], shape, index),
            args=first[index],
            check=False,
        ).as_arrays(np.asarray)
        solver, parts = self._solver(shape[-1]), []
        hurry = hurried(is_little(len(index), shape[-1]))
        with hurry, progress_bar(len(index), progress, "exponential maps") as bar:
            for k in chunks(len(index), _at_once(shape[-1], chunk)):
                part = problem if len(k) == len(index) else problem.members(k)
                parts.append(_shoot(solver, part))
                bar.update(len(k))
        rows = spread_out(join_curves(parts), usable)
        curve = as_curve(rows, first, usable, shape[:-1])
        warn(curve, "exponential maps")
        return curve

    def transport(self, curve: Curve, v: Any, *, source: Source = "total") -> Gaussian:
        """v at the beginning of a curve, carried parallel to itself to the end of it.

        The curve is taken at its mean: what is uncertain is v, and the transport itself.
        """
        if not isinstance(curve, Curve):
            raise TypeError(f"curve must be a Curve, got {type(curve).__name__}")
        vector = as_gaussian("v", v)
        bundle = (*curve.batch_shape, curve.dimension)
        check_dimensions(self.metric, {"curve": bundle, "v": vector.mean.shape})
        shape = np.broadcast_shapes(bundle, vector.mean.shape)
        everyone = np.arange(int(np.prod(shape[:-1])))
        mean = np.broadcast_to(np.asarray(vector.mean), shape).reshape(-1, shape[-1])
        axes = len(curve.batch_shape)

        def flat(x: Array) -> Array:
            wide = jnp.broadcast_to(x, (*shape[:-1], *x.shape[axes:]))
            return wide.reshape(-1, *x.shape[axes:])

        problem = initial_value_problem(
            TransportField(self.metric),
            (0.0, 1.0),
            with_spread(mean, vector, shape, everyone),
            args=jax.tree.map(flat, curve.posterior),
            check=False,
        )
        with hurried(is_little(*mean.shape)):
            carried = self._solver(shape[-1]).solve(problem)
        warn(carried, "transports")
        at_end = carried.mean(1.0), carried.cov(1.0, 1.0, source=source)
        return Gaussian.unchecked(*(x.reshape((*shape[:-1], *x.shape[1:])) for x in at_end))

    def inner(self, x: Any, u: Any, v: Any) -> Float[Array, "*batch"]:
        """u' M(x) v, the inner product of tangent vectors at x."""
        given = {"x": as_vectors("x", x), "u": as_vectors("u", u), "v": as_vectors("v", v)}
        check_dimensions(self.metric, {name: value.shape for name, value in given.items()})
        return _inner(self.metric, *given.values())

    def norm(self, x: Any, v: Any) -> Float[Array, "*batch"]:
        """Length of the tangent vector v at x."""
        return jnp.sqrt(self.inner(x, v, v))

    def check(self, X: Any) -> MetricReport:
        """Whether the metric is one at the points X (N, D), and how well conditioned."""
        return check_metric(self.metric, X)

    def with_precision(self, rtol: float) -> "Manifold":
        """The same with the default solver, at another tolerance relative to the extent."""
        return eqx.tree_at(lambda m: m.precision, self, rtol, is_leaf=lambda x: x is None)

    def _solver(self, dimension: int) -> Solver:
        if self.solver is not None:
            return self.solver
        rtol = RTOL if self.precision is None else self.precision
        return Markov(
            rtol=rtol,
            tolerance=min(TOLERANCE, 1e-2 * rtol),
            linearisation="zeroth" if dimension >= ZEROTH_FROM else "first",
        )

    def _joined(
        self, parts: list, usable: np.ndarray, origin: np.ndarray, batch: tuple[int, ...]
    ) -> Geodesic:
        """All chunks as one result, starts counted by one list of names."""
        names = tuple(dict.fromkeys(name for _, found in parts for name in found))
        number = {name: k for k, name in enumerate(names)}
        won = [np.array([number[n] for n in local])[found.won] for found, local in parts]
        rest = [(found.measured, found.flag) for found, _ in parts]
        measured, flag = jax.tree.map(lambda *x: np.concatenate(x), *rest)
        rows = spread_out(join_curves([found.curve for found, _ in parts]), usable)
        measured, flag, won = spread_out((measured, flag, np.concatenate(won)), usable)
        flag = np.where(usable, flag, NO_METRIC)
        curve = as_curve(rows, origin, usable, batch)
        extra = jax.device_put(jax.tree.map(lambda x: x.reshape(batch), (measured, flag, won)))
        fields = {name: getattr(curve, name) for name in curve.__dataclass_fields__}
        return Geodesic(
            **fields,
            metric=self.metric,
            measured=extra[0],
            flag=extra[1],
            won=extra[2],
            starts=names,
        )


def _shoot(solver: Solver, problem: Problem) -> Any:
    """Rows of curves from initial values."""
    if not is_adaptive(solver):
        return solve_in_parts(solver, problem)
    return climb(solver, problem, patient=True)[0]


def _at_once(dimension: int, chunk: int | None) -> int:
    """How many geodesics are solved at a time."""
    if chunk is not None:
        return as_whole_number("chunk", chunk, 1)
    return AT_ONCE[0] if dimension < MANY else AT_ONCE[1]


@compiled_quickly
def _inner(metric: Metric, x: Array, u: Array, v: Array) -> Float[Array, "*batch"]:
    one = jnp.vectorize(lambda x, u, v: u @ metric.apply(x, v), signature="(d),(d),(d)->()")
    return one(x, u, v)
