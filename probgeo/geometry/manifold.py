"""`Manifold`: a metric in; geodesics, distances, exponential and logarithm maps out."""

import warnings
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from probgeo._checks import as_positive, as_whole_number, one_of
from probgeo.gaussian import Gaussian, ScalarGaussian
from probgeo.geometry.arguments import as_gaussian, as_rows, as_vectors, check_dimensions, where_definite
from probgeo.geometry.by_equation import solved_by
from probgeo.geometry.chains import Chains
from probgeo.geometry.conjugate import conjugate_times
from probgeo.geometry.curvature import certain_rows, ricci, sectional
from probgeo.geometry.ensembles import ModelSource, with_spread
from probgeo.geometry.geodesic import Geodesic, Method, check_method
from probgeo.geometry.known_curves import chains_of, guessed
from probgeo.geometry.minima import local_minima
from probgeo.geometry.nearest import Neighbors, nearest
from probgeo.geometry.packing import Ends, packed
from probgeo.geometry.refine import Accuracy
from probgeo.geometry.search import EFFORTS
from probgeo.geometry.shooting import carry, shoot
from probgeo.geometry.shortest import Shortest, shortest
from probgeo.geometry.starts import Landmarks
from probgeo.metrics import Ensemble, Metric, MetricReport, as_metric, check_metric
from probgeo.metrics.arguments import as_points
from probgeo.metrics.metric import ByLoop
from probgeo.ode.curve import READING_CONVERGED, ConvergenceWarning, Curve, Source, warn
from probgeo.ode.markov import Markov
from probgeo.ode.solve import Solver
from probgeo.ragged import in_chunks, jobs, members_at_a_time

# Steps of Newton's method in which geodesics nearby are reached. Those that take more have changed
# their shape, and their nodes are in the wrong places: in a mean of digits in fifty dimensions
# meshes doubled from iteration to iteration, to 329 elements where a search came to 17.
FEW_STEPS = 10


@dataclass(frozen=True, repr=False)
class Manifold:
    """R^D with a smoothly varying metric.

    Parameters
    ----------
    metric : Metric, or function x (D,) -> (D, D)
        See `probgeo.metrics`; a function may be written in JAX, NumPy or torch.
    solver : optional
        One of `probgeo.solvers`. By default geodesics minimise their energy, see the page on
        geodesics; `solvers.Markov` sets their tolerances or the number of their nodes,
        `solvers.Dense` solves their differential equation as in the paper.
    landmarks : array (L, D), optional
        Points that short curves are likely to pass by, data for instance, in addition to those that
        the metric knows. Searches start from the shortest paths that pass them.
    thoroughness : "rough" | "quick" | "normal" | "thorough"
        How many first curves are tried before one is called the shortest. Of 2000 geodesics on
        metrics learned from toy shapes and digits 9.3 / 2.6 / 0.45 / 0.15 % were silently more than
        1 % too long, at 0.5 / 0.75 / 1 / 7 times the cost.

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
    solver: Solver | None = None
    landmarks: np.ndarray | None = None
    thoroughness: str = "normal"
    precision: float | None = None  # rtol, if it is not that of the solver

    def __post_init__(self) -> None:
        object.__setattr__(self, "metric", as_metric(self.metric))
        if self.solver is not None and not hasattr(self.solver, "solve"):
            raise TypeError(f"solver must be one of probgeo.solvers, got {self.solver!r}")
        if self.landmarks is not None:
            object.__setattr__(self, "landmarks", as_points("landmarks", self.landmarks))
        one_of("thoroughness", self.thoroughness, tuple(EFFORTS))

    def __repr__(self) -> str:
        listed = "" if self.solver is None else f", solver={self.solver!r}"
        if self.landmarks is not None:
            listed += f", landmarks of shape {self.landmarks.shape}"
        if self.thoroughness != "normal":
            listed += f", thoroughness={self.thoroughness!r}"
        return f"Manifold({self.metric!r}{listed})"

    def geodesic(
        self,
        a: Any,
        b: Any,
        *,
        guess: Any = None,
        patience: int | None = None,
        progress: bool | None = None,
        n_jobs: int | None = None,
    ) -> Geodesic:
        """Shortest curves from a to b: one to one, one to many, many to many by broadcasting.

        Parameters
        ----------
        a, b : array (..., D) or Gaussian
        guess : Curve, function t -> (..., D), or array (..., T, D), optional
            Curves to start from, for instance the geodesics between points close by: much cheaper
            than a search. They need not end in a and b.
        patience : int, optional
            Steps of Newton's method after which curves near a guess are given up, and searched for
            anew; by default many if it consists of points, and ten if it is a geodesic, which then
            has changed its shape. With 0 there is a search in any case, in which the guess takes part.
        progress : bool, optional
            Whether to show a progress bar. By default in a terminal, if it takes long.
        n_jobs : int, optional
            Threads, or workers of the back end that an active `joblib.parallel_config` names; -1
            for all cores. Results do not depend on it. By default what that says, else as many
            threads as `PROBGEO_THREADS` says or there are cores.

        Returns
        -------
        Geodesic
            A member that could not be solved, or is longer than the straight line, is flagged and
            says why; a `ConvergenceWarning` tells how many are.
        """
        shape, (first, last), covs = as_rows(self.metric, {"a": as_gaussian("a", a), "b": as_gaussian("b", b)})
        usable = where_definite(self.metric, {"a": first, "b": last})
        chains = guessed(guess, shape, first, last)
        if patience is not None:
            as_whole_number("patience", patience, 0)
        elif isinstance(guess, Geodesic):
            patience = FEW_STEPS
        ends = Ends(first, last, *covs)
        with jobs(n_jobs):
            geodesic = self._between(ends, usable, shape[:-1], chains, patience, progress)
        warn(geodesic, "geodesics")
        return geodesic

    def minima(self, a: Any, b: Any) -> Geodesic:
        """All locally shortest curves from a to b (D,) that the search meets, shortest first.

        The first is what `geodesic` finds, the others are its rivals: a batch (n,). How many are
        met depends on `thoroughness`. None that is longer than the straight line is among them.

        Examples
        --------
        >>> from probgeo import metrics
        >>> centers = [[0, 0], [-1, 0], [1, 0], [0, 1], [0, -1]]
        >>> tensors = [[20, 20], [1, 1], [1, 1], [1, 1], [1, 1]]
        >>> hill = metrics.LocalMetrics(centers, tensors, rho=4.0)
        >>> around = Manifold(hill).minima([-1.0, 0.0], [1.0, 0.0])  # on either side
        >>> np.sort(around.mean(0.5)[:, 1]).round(2).tolist(), around.length.mean.round(3).tolist()
        ([-0.37, 0.37], [2.168, 2.168])
        """
        ends = as_gaussian("a", a), as_gaussian("b", b)
        if any(end.mean.ndim != 1 for end in ends):
            shapes = " and ".join(str(end.mean.shape) for end in ends)
            raise ValueError(f"a and b must be single points (D,), got {shapes}")
        best = self.geodesic(*(Gaussian.unchecked(end.mean[None], end.cov[None]) for end in ends))
        if best.n_minima[0] < 2:
            return best
        accuracy = self.accuracy.within(self.metric.precision(best.dimension))
        effort = EFFORTS[self.thoroughness]
        return local_minima(self.metric, self.known_landmarks, *ends, effort, accuracy)

    def distance(
        self,
        a: Any,
        b: Any,
        *,
        method: Method = "linearised",
        source: ModelSource = "total",
        seed: int = 0,
        n: int = 100,
        **options: Any,
    ) -> ScalarGaussian:
        """Length of the geodesic from a to b. See `Geodesic.measure`; options as in `geodesic`.

        With a `metrics.Ensemble` there is a fourth `source`, "model": the variance over members,
        each along its own geodesics. It is part of the total, and the result is an
        `EnsembleDistance`, which has both.
        """
        check_method(method, "total" if source == "model" else source)
        if source == "model" and not self.members:
            raise ValueError(
                f"source='model' is the spread over the members of a metrics.Ensemble, got {self.metric!r}"
            )
        found = self.geodesic(a, b, **options)
        own = found.measure(method, source="total" if source == "model" else source, seed=seed, n=n)
        if not self.members or source in ("numerical", "boundary"):
            return own
        each = [member.geodesic(a, b, **options) for member in self.members]
        lengths = np.stack([geodesic.mean_length for geodesic in each])
        good = np.all([found.converged, *(geodesic.converged for geodesic in each)], axis=0)
        return with_spread(own, lengths, found.length_error, good, source)

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

    def exp(self, a: Any, v: Any, *, source: Source = "total", progress: bool | None = None) -> Gaussian:
        """Where the geodesic from a with velocity v is after unit time.

        Examples
        --------
        >>> from probgeo import metrics
        >>> manifold = Manifold(metrics.HalfPlane())
        >>> manifold.exp([0.0, 1.0], [0.0, 1.0]).mean.round(4).tolist()  # straight up, to e
        [0.0, 2.7183]
        """
        curve = self.shoot(a, v, progress=progress)
        return Gaussian.unchecked(curve.mean(1.0), curve.cov(1.0, 1.0, source=source))

    def shoot(self, a: Any, v: Any, *, progress: bool | None = None) -> Curve:
        """The geodesic from a with velocity v, on [0, 1]."""
        starts = {"a": as_gaussian("a", a), "v": as_gaussian("v", v)}
        shape, means, covs = as_rows(self.metric, starts)
        where_definite(self.metric, {"a": means[0]})
        first, slope = zip(means, covs, strict=True)
        curve = shoot(self.metric, first, slope, self._initial_solver, progress)
        curve = curve.reshaped(shape[:-1])
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
        along = np.arange(curve.posterior.count).reshape(*curve.batch_shape, 1)
        shape = np.broadcast_shapes(bundle, vector.mean.shape)
        _, (mean,), (cov,) = as_rows(
            self.metric, {"v": Gaussian.unchecked(np.broadcast_to(vector.mean, shape), vector.cov)}
        )
        numbers = np.broadcast_to(along, (*shape[:-1], 1)).ravel()
        carried = carry(self.metric, curve, numbers, (mean, cov), self._initial_solver)
        carried = carried.reshaped(shape[:-1])
        warn(carried, "transports")
        end = curve.t_span[1]
        return Gaussian.unchecked(carried.mean(end), carried.cov(end, end, source=source))

    def distance_matrix(
        self, X: Any, Y: Any = None, *, progress: bool | None = None, n_jobs: int | None = None
    ) -> ScalarGaussian:
        """Distances (n, m) between all points X (n, D) and Y (m, D), or X with itself.

        Without Y every pair is solved once, and distances to oneself are zero. Curves are not kept,
        so that memory is that of the result. A warning tells how many did not converge. With a
        `metrics.Ensemble` the result is an `EnsembleDistance`, with distances (K, n, m) by each of
        its members.

        Examples
        --------
        >>> from probgeo import metrics
        >>> X = [[0.0, 1.0], [1.0, 2.0], [2.0, 1.0]]
        >>> Manifold(metrics.HalfPlane()).distance_matrix(X).mean.round(3).tolist()
        [[0.0, 0.962, 1.763], [0.962, 0.0, 0.962], [1.763, 0.962, 0.0]]
        """
        points = as_points("X", X)
        others = points if Y is None else as_points("Y", Y)
        check_dimensions(self.metric, {"X": points.shape, "Y": others.shape})
        usable = np.logical_and.outer(
            where_definite(self.metric, {"X": points}), where_definite(self.metric, {"Y": others})
        )
        size = len(points), len(others)
        pairs = usable & (np.tri(*size, -1, dtype=bool).T if Y is None else True)
        i, j = np.nonzero(pairs)
        mean, error = np.where(usable, 0.0, np.nan), np.where(usable, 0.0, np.nan)
        each = np.where(usable, np.zeros((len(self.members), 1, 1)), np.nan)
        good = usable.copy()

        def work(k: np.ndarray) -> tuple[np.ndarray, ...]:
            return self.lengths_between(points[i[k]], others[j[k]])

        if len(i):
            with jobs(n_jobs):
                parts = in_chunks(work, len(i), travels=True, progress=progress, unit="distances")
            found = (np.concatenate(values, axis=-1) for values in zip(*parts, strict=True))
            for out, values in zip((mean, error, each, good), found, strict=True):
                out[..., i, j] = values
                if Y is None:
                    out[..., j, i] = values
        if not good.all():
            warnings.warn(
                f"{np.sum(~good)} of {good.size} distances did not converge; "
                f"`geodesic` of these points says why, {READING_CONVERGED} what to do",
                ConvergenceWarning,
                stacklevel=2,
            )
        distance = ScalarGaussian.unchecked(mean, error**2)
        return with_spread(distance, each, error, good) if self.members else distance

    def nearest(
        self, X: Any, k: int, among: Any = None, *, progress: bool | None = None, n_jobs: int | None = None
    ) -> Neighbors:
        """The k points that are nearest to each of X (n, D), and their distances.

        The answer is exact, but geodesics are solved only to points that may be among the nearest: a local metric
        bounds lengths from below, see `floors`; for others, distances from a few pivots do, as long as these are the
        shortest.

        Parameters
        ----------
        X : array (n, D)
        k : int
        among : array (m, D), optional
            The points to choose from; by default the others in X.
        progress, n_jobs : see `geodesic`

        Returns
        -------
        Neighbors
            `distance` (n, k), nearest first, `index` (n, k), `converged` (n, k); `solved`, the
            share of pairs that were solved for, and `lost`, how many of these did not converge.

        Examples
        --------
        >>> from probgeo import metrics
        >>> manifold = Manifold(metrics.LocalMetrics([[0.0], [4.0]], [[1.0], [2.0]]))
        >>> found = manifold.nearest([[0.0], [1.0], [5.0], [5.5]], k=1)
        >>> found.index.tolist(), round(found.solved, 2)
        ([[1], [0], [3], [2]], 0.33)
        """
        points = as_points("X", X)
        others = None if among is None else as_points("among", among)
        second = points.shape if others is None else others.shape
        check_dimensions(self.metric, {"X": points.shape, "among": second})
        most = second[0] - (others is None)
        if as_whole_number("k", k, 1) > most:
            raise ValueError(f"k must be at most {most}, the points to choose from, got {k}")
        with jobs(n_jobs):
            found = nearest(self, points, k, others, progress)
        if found.lost:
            warnings.warn(
                f"{found.lost} geodesics did not converge, or points have no metric: others may be "
                f"nearer than the neighbours found, see `converged` and {READING_CONVERGED}",
                ConvergenceWarning,
                stacklevel=2,
            )
        return found

    def inner(self, x: Any, u: Any, v: Any) -> np.ndarray:
        """u' M(x) v, the inner product of tangent vectors at x."""
        given = {"x": as_vectors("x", x), "u": as_vectors("u", u), "v": as_vectors("v", v)}
        check_dimensions(self.metric, {name: value.shape for name, value in given.items()})
        shape = np.broadcast_shapes(*(value.shape for value in given.values()))
        rows = (np.array(np.broadcast_to(value, shape)).reshape(-1, shape[-1]) for value in given.values())
        return self.metric.inner(*rows).reshape(shape[:-1])

    def norm(self, x: Any, v: Any) -> np.ndarray:
        """Length of the tangent vector v at x."""
        return np.sqrt(self.inner(x, v, v))

    def sectional_curvature(self, x: Any, u: Any, v: Any) -> np.ndarray:
        """Gaussian curvature at x of the surface of geodesics in the plane of u and v.

        All (..., D), and D at least 2; the result is (...), NaN where there is no metric.

        Derivatives of the metric are exact, or by differences (NumPy functions): then it is, too,
        to round-off or to some seven digits.

        Examples
        --------
        >>> from probgeo import metrics
        >>> ball = Manifold(metrics.PoincareBall(3))
        >>> round(float(ball.sectional_curvature([0.1, 0.5, 0.2], [1, 0, 0], [0, 1, 1])), 12)
        -1.0
        """
        return sectional(self.metric, x, u, v)

    def ricci(self, x: Any) -> np.ndarray:
        """The Ricci tensor (..., D, D) at x (..., D), NaN where there is no metric.

        For a unit vector v, v' Ric v is the sum of the sectional curvatures of D - 1 orthogonal
        planes that contain v. It takes D^2 evaluations of second derivatives a point.
        """
        return ricci(self.metric, x)[0]

    def scalar_curvature(self, x: Any) -> np.ndarray:
        """The trace (...) of the Ricci tensor at x (..., D); in the plane twice the Gaussian one.

        Examples
        --------
        >>> from probgeo import metrics
        >>> round(float(Manifold(metrics.Sphere()).scalar_curvature([0.3, 0.8])), 12)
        2.0
        """
        return ricci(self.metric, x)[1]

    def conjugate_time(self, a: Any, v: Any, *, until: float = 1.0) -> ScalarGaussian:
        """When the geodesic from a with velocity v meets its neighbours again, to first order.

        The first time in (0, until] at which a Jacobi field that vanishes at the start vanishes
        again; infinite if there is none. Beyond it the geodesic is not the shortest, not even among
        curves close by. (It may stop being the shortest earlier, if there is another way.)

        Parameters
        ----------
        a, v : array (..., D)
            With the `velocity` of a `Geodesic`, which is at its end at time 1, `until` = 2 asks
            about its continuation to twice the length.
        until : float

        Returns
        -------
        ScalarGaussian (...)
            The standard deviation is numerical. NaN where the geodesic could not be followed, with
            a `ConvergenceWarning`.

        Examples
        --------
        >>> from probgeo import metrics
        >>> sphere = Manifold(metrics.Sphere())
        >>> velocity = [1.0, 0.5]
        >>> time = sphere.conjugate_time([0.3, -0.2], velocity, until=3.0)
        >>> round(float(time.mean * sphere.norm([0.3, -0.2], velocity) / np.pi), 3)
        1.0
        """
        horizon = as_positive("until", until)
        batch, (start, velocity), _ = certain_rows(self.metric, {"a": a, "v": v})
        times, std, curve = conjugate_times(self.metric, start, horizon * velocity, self.accuracy.rtol)
        warn(curve, "conjugate times")
        times, std = horizon * times.reshape(batch), horizon * std.reshape(batch)
        return ScalarGaussian.unchecked(times, std**2)

    def check(self, X: Any) -> MetricReport:
        """Whether the metric is one at the points X (N, D), and how well conditioned."""
        return check_metric(self.metric, X)

    def with_precision(self, rtol: float, *, rough: bool = False) -> "Manifold":
        """This manifold at another tolerance relative to the extent of curves, or rough in every respect."""
        thoroughness = "rough" if rough else self.thoroughness
        made = replace(self, precision=as_positive("rtol", rtol), thoroughness=thoroughness)
        vars(made)["known_landmarks"] = self.known_landmarks  # cached values that do not depend on the tolerance
        return made

    @cached_property
    def members(self) -> tuple["Manifold", ...]:
        """Those of a `metrics.Ensemble`, one by one; none for other metrics."""
        if not isinstance(self.metric, Ensemble):
            return ()
        return tuple(replace(self, metric=member) for member in self.metric.members)

    def lengths_between(self, a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Distances from a to b (n, D), where there is a metric, and no curves.

        The lengths, their errors, the lengths (K, n) by members of an ensemble, and whether all
        converged. On a flat metric they are known, and exact.
        """
        if self.metric.is_flat and not self.members:
            length = np.sqrt(self.metric.inner(a, b - a, b - a))
            return length, np.zeros(len(a)), np.empty((0, len(a))), np.isfinite(length)
        ends = Ends(a, b)
        found = self._between(ends, np.ones(len(a), dtype=bool), (len(a),))
        lengths, converged = self._by_members(ends, found)
        return found.mean_length, found.length_error, lengths, converged

    def _by_members(self, ends: Ends, found: Geodesic, room: float = 0.2) -> tuple[np.ndarray, np.ndarray]:
        """Distances (K, n) by each member of an ensemble, and whether all converged, (n,).

        From the geodesics found by the expected metric, unless that has met another one that is
        longer by less than `room`: then members may prefer the other, and search for themselves.
        """
        lengths, converged = np.empty((len(self.members), len(ends.a))), found.converged.copy()
        clear = found.converged & (found.gap >= room)
        for part, guess in ((clear, chains_of(found)), (~clear, None)):
            k = np.flatnonzero(part)
            own = Ends(ends.a[k], ends.b[k])
            first = None if guess is None else guess.take(k)
            for member, out in zip(self.members, lengths, strict=True):
                if len(k):
                    patience = None if guess is None else FEW_STEPS
                    each = member._between(own, np.ones(len(k), dtype=bool), k.shape, first, patience)
                    out[k], converged[k] = each.mean_length, converged[k] & each.converged
        return lengths, converged

    @cached_property
    def accuracy(self) -> Accuracy:
        """When geodesics are good enough."""
        accuracy = Accuracy()
        if isinstance(self.solver, Markov):
            accuracy = Accuracy(self.solver.rtol, self.solver.atol, self.solver.max_points, self.solver.n_points)
        if self.precision is None:
            return accuracy
        accuracy = accuracy.with_rtol(self.precision)
        if self.thoroughness == "rough" and accuracy.rtol >= 1e-2:
            # What is looked at again is not worth more: chasing a single saddle to 216 elements was half the time of a
            # mean in fifty dimensions.
            accuracy = replace(accuracy, most=32, saddle=32)
        return accuracy

    @property
    def _initial_solver(self) -> Solver:
        """What exponential maps and transports are solved with."""
        if self.solver is not None and self.precision is None:
            return self.solver
        return Markov(rtol=self.accuracy.rtol)

    @cached_property
    def known_landmarks(self) -> Landmarks:
        return Landmarks.chosen(self.metric, self.landmarks)

    def _between(
        self,
        ends: Ends,
        usable: np.ndarray,
        batch: tuple[int, ...],
        guess: Chains | None = None,
        patience: int | None = None,
        progress: bool | None = False,
    ) -> Geodesic:
        """Geodesics between rows of points, those of them that are usable."""
        index = np.flatnonzero(usable)
        effort = EFFORTS[self.thoroughness]
        accuracy = self.accuracy.within(self.metric.precision(ends.a.shape[1]))
        landmarks = self.known_landmarks

        def work(k: np.ndarray) -> Shortest:
            own = index[k]
            first = None if guess is None else guess.take(own)
            a, b = ends.a[own], ends.b[own]
            return shortest(self.metric, landmarks, a, b, effort, accuracy, first, patience)

        # a dozen first polygons each; with more Hessians than 32 MB it is slower
        most = min(512, members_at_a_time(3e3 * ends.a.shape[1] ** 2, 2**25))
        # with compiled loops a hundred take 29 ms at once, 36 ms in two halves
        fewest = 256 if isinstance(self.metric, ByLoop) else 32
        parts = in_chunks(work, len(index), most=most, least=fewest, travels=True, progress=progress, unit="geodesics")
        least = packed(self.metric, Shortest.joined(parts), usable, ends, batch)
        if self.solver is None or isinstance(self.solver, Markov):
            return least
        return solved_by(self.solver, least, ends)
