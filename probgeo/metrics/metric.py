"""What the engine may ask of a metric, and the geodesic equation it implies.

A geodesic is a stationary curve of the energy, the integral of L(c, c') = c' M(c) c' / 2. Its
Euler-Lagrange equation is

    M(c) c'' = dL/dx - (d^2 L / dv dx) c',

the first term being 1/2 grad_c (c' M(c) c') and the second (dM/dt) c': never the D^3 numbers of
dM/dc. Eq. 2 of the paper prints another right-hand side (erratum 1), see `printed_acceleration`.
"""

import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from probgeo._checks import is_traced
from probgeo._repr import described
from probgeo.functions import RowFunction, as_row_function
from probgeo.functions.in_numpy import derivative, matvec
from probgeo.functions.row_function import pair_numbers
from probgeo.metrics.arguments import unwrapped
from probgeo.metrics.loops import ENERGY, FIRST, FORCE, SECOND, EnergyTerms, solve_jacobians, solve_vectors

# attributes that hold what was worked out from the others: compiled functions, rearranged tensors
CACHED = ("_by_dimension", "_few", "_full", "_is_checked")


class Metric(ABC):
    """A smoothly varying inner product: at every point x (D,) a positive definite M(x) (D, D).

    Your own metric is a class with one method, `__call__`, written for one point with
    jax.numpy, NumPy or torch; a plain function does as well (see `as_metric`). Everything else
    follows from it by differentiation. The metrics of this package answer in closed form.

    Methods whose names are plural take many rows (n, D) and are what the engine uses. The others
    take one point or many, (..., D).

    Examples
    --------
    >>> class Cone(Metric):
    ...     def __call__(self, x):
    ...         return np.diag([2.0, 1.0]) * (1.0 + x @ x)
    >>> float(Cone().energy([1.0, 0.0], [1.0, 1.0]))
    6.0
    """

    is_flat: bool = False  # geodesics are straight lines

    @abstractmethod
    def __call__(self, x: Any) -> Any:
        """M(x)."""

    def __repr__(self) -> str:
        return described(self)

    def __getstate__(self) -> dict[str, Any]:
        """What copies and files get: everything but cached values."""
        return {name: part for name, part in vars(self).items() if name not in CACHED}

    @property
    def dimension(self) -> int | None:
        """D, if the metric knows it."""
        return None

    def precision(self, dimension: int) -> float:
        """Spacing, next to one, of the numbers that it computes with."""
        return 2.0**-52

    # --- many rows at once: what the engine uses; the first five are linear in M ---------------

    def tensors_at(self, x: np.ndarray) -> np.ndarray:
        """M (n, D, D) at rows x (n, D)."""
        return self._sum("tensors_at", x)

    def energies(self, x: np.ndarray, v: np.ndarray) -> np.ndarray:
        """L = v' M(x) v / 2 at rows x, v (n, D)."""
        return self._sum("energies", x, v)

    def energy_terms(self, x: np.ndarray, v: np.ndarray, second: bool = True) -> EnergyTerms:
        """L with its first and, if asked for, second derivatives at rows x, v (n, D).

        NaN or infinite where there is no metric.
        """
        return EnergyTerms(*self._sum("energy_terms", x, v, second))

    def forces(self, x: np.ndarray, v: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """F = dL/dx - (d^2 L / dv dx) v (n, D) at rows x, v (n, D), and M; geodesics have M c'' = F."""
        return self._sum("forces", x, v)

    def force_jacobians(self, x: np.ndarray, v: np.ndarray, a: np.ndarray) -> np.ndarray:
        """Derivatives (n, 2, D, D) of F(x, v) - M(x) a at fixed a (n, D): [:, 0] by x, [:, 1] by v."""
        return self._sum("force_jacobians", x, v, a)

    def newton_terms(self, x: np.ndarray, v: np.ndarray) -> EnergyTerms:
        """L and its first derivatives; second ones that make Newton's method converge.

        Those of `energy_terms`, or others with which the second variation of the energy of a geodesic is the same.
        """
        return self.energy_terms(x, v)

    def accelerations(self, x: np.ndarray, v: np.ndarray) -> np.ndarray:
        """c'' (n, D) of geodesics with c = x and c' = v; NaN where M is not positive definite."""
        force, M = self.forces(x, v)
        return solve_vectors(M, force)

    def acceleration_jacobians(self, x: np.ndarray, v: np.ndarray) -> np.ndarray:
        """Derivatives (n, 2, D, D) of c'': [:, 0] by x, [:, 1] by v."""
        force, M = self.forces(x, v)
        return solve_jacobians(M, self.force_jacobians(x, v, solve_vectors(M, force)))

    def inner(self, x: np.ndarray, u: np.ndarray, v: np.ndarray) -> np.ndarray:
        """u' M(x) v (n,) at rows x, u, v (n, D)."""
        return np.einsum("ni,nij,nj->n", u, self.tensors_at(x), v)

    def is_pulled_back(self, dimension: int) -> bool:
        """Whether it is the metric that a map f pulls back, whose `products` are known and few."""
        return False

    def products(self, x: np.ndarray) -> np.ndarray:
        """Inner products (n, K, K) of all first and second derivatives of that map.

        First the D columns of its Jacobian, then f''(e_i, e_j) with i >= j, see `pair_numbers`.
        """
        raise NotImplementedError

    def landmarks(self) -> np.ndarray:
        """Points (L, D) worth a detour; possibly none."""
        return np.empty((0, self.dimension or 0))

    def floors(self, dimension: int) -> np.ndarray:
        """Tensors (F, D, D), each of them below M(x) everywhere; possibly none."""
        return np.empty((0, dimension, dimension))

    # --- one point, or many: what users see ---------------------------------------------------

    def apply(self, x: Any, v: Any) -> Any:
        """M(x) v."""
        return by_rows(lambda x, v: matvec(self.tensors_at(x), v), lambda x, v: self(x) @ v, x, v)

    def solve(self, x: Any, p: Any) -> Any:
        """M(x)^-1 p; NaN where M(x) is not positive definite."""

        def traced(x: Any, p: Any) -> Any:
            return array_module(x).linalg.solve(self(x), p)

        return by_rows(lambda x, p: solve_vectors(self.tensors_at(x), p), traced, x, p)

    def energy(self, x: Any, v: Any) -> Any:
        """v' M(x) v, the squared speed of a curve at x with velocity v."""
        return by_rows(lambda x, v: 2.0 * self.energies(x, v), lambda x, v: v @ self(x) @ v, x, v)

    def acceleration(self, x: Any, v: Any) -> Any:
        """c'' of the geodesic with c = x and c' = v."""
        return by_rows(self.accelerations, lambda x, v: jax_methods().acceleration(self, x, v), x, v)

    # --- metrics that are known by functions, or by other metrics ------------------------------

    def _parts(self, x: np.ndarray) -> Sequence[Any]:
        """Metrics, or what `as_row_function` makes of functions, whose M add up to this one's; for rows (n, D)."""

        def make(D: int) -> RowFunction:
            made, function = as_row_function(self._function, D, "metric", (D, D)), unwrapped(self._function)
            own = getattr(function, "__self__", None) is self
            made.name = type(self).__name__ if own else getattr(function, "__qualname__", type(function).__name__)
            made.tensors_at(x[:1])  # complains about a matrix that is not symmetric
            return made

        return [self._kept(x.shape[1], make)]

    def _sum(self, what: str, x: np.ndarray, *more: Any) -> Any:
        first, *others = [getattr(part, what)(x, *more) for part in self._parts(x)]
        if not others:
            return first
        if isinstance(first, tuple):
            return tuple(sum(arrays) for arrays in zip(first, *others, strict=True))
        return sum(others, start=first)

    @property
    def _function(self) -> Callable:
        return self.__call__

    def _kept(self, dimension: int, make: Callable[[int], Any]) -> Any:
        """What `make` has found out about the functions of a metric in this dimension, remembered."""
        known = vars(self).setdefault("_by_dimension", {})
        if dimension not in known:
            known[dimension] = make(dimension)
        return known[dimension]


def array_module(x: Any) -> Any:
    """jax.numpy for an array or tracer of JAX, else NumPy: formulas are written once for both."""
    jax = sys.modules.get("jax")
    if jax is not None and isinstance(x, jax.Array):
        return jax.numpy
    return np


class OfPoints(Metric):
    """A metric that is called with points (..., D), of JAX or NumPy."""

    def __call__(self, x: Any) -> Any:
        """M (..., D, D) at x (..., D): JAX arrays for those of JAX, else NumPy."""
        if array_module(x) is not np:
            return self._in_jax(x)
        points = np.asarray(x, dtype=np.float64)
        D = points.shape[-1]
        return self.tensors_at(points.reshape(-1, D)).reshape(*points.shape, D)

    @abstractmethod
    def _in_jax(self, x: Any) -> Any:
        """M(x) of JAX."""


class ByLoop(OfPoints):
    """A metric whose energy and derivatives are written by one compiled loop."""

    @abstractmethod
    def _filled(self, x: np.ndarray, v: np.ndarray, level: int) -> EnergyTerms:
        """What the loop writes at rows x, v (n, D); `level` says how much, see `loops`."""

    def tensors_at(self, x: np.ndarray) -> np.ndarray:
        return self._filled(x, np.zeros(x.shape), FORCE).vv

    def energies(self, x: np.ndarray, v: np.ndarray) -> np.ndarray:
        return self._filled(x, v, ENERGY).energy

    def energy_terms(self, x: np.ndarray, v: np.ndarray, second: bool = True) -> EnergyTerms:
        return self._filled(x, v, SECOND if second else FIRST)

    def forces(self, x: np.ndarray, v: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        terms = self._filled(x, v, FORCE)
        return terms.by_x, terms.vv

    def force_jacobians(self, x: np.ndarray, v: np.ndarray, a: np.ndarray) -> np.ndarray:
        def excess(y: np.ndarray, u: np.ndarray) -> np.ndarray:
            force, M = self.forces(y, u)
            return force - matvec(M, a)

        return np.stack([derivative(lambda y: excess(y, v), x), derivative(lambda u: excess(x, u), v)], axis=1)


class Sum(OfPoints):
    """A metric of several parts. It is pulled back if all of them are."""

    def energy_terms(self, x: np.ndarray, v: np.ndarray, second: bool = True) -> EnergyTerms:
        if not second and self.is_pulled_back(x.shape[1]):
            terms = newton_terms(self.products(x), v)
            return EnergyTerms(*terms[:3], *(block[:0] for block in terms[3:]))
        return super().energy_terms(x, v, second)

    def newton_terms(self, x: np.ndarray, v: np.ndarray) -> EnergyTerms:
        return newton_terms(self.products(x), v) if self.is_pulled_back(x.shape[1]) else self.energy_terms(x, v)

    def products(self, x: np.ndarray) -> np.ndarray:
        return self._sum("products", x)

    def is_pulled_back(self, dimension: int) -> bool:
        return all(part.is_pulled_back(dimension) for part in self._parts(np.empty((0, dimension))))

    def precision(self, dimension: int) -> float:
        return max(part.precision(dimension) for part in self._parts(np.empty((0, dimension))))


def newton_terms(products: np.ndarray, v: np.ndarray) -> EnergyTerms:
    """Second derivatives of the energy for Newton's method, without third ones of the decoder.

    With f(c)' = J c', the energy of c + e changes by |(J e)'|^2 + f(c)' . f''(e, e)' to second order. By parts, the
    last term is -f(c)'' . f''(e, e), and along geodesics f(c)'' is the part of f''(c', c') that is orthogonal to the
    decoded manifold. All are sums of inner `products` (n, K, K) of first and second derivatives, see `Metric.products`.
    """
    n, D = v.shape
    J, second = slice(0, D), D + pair_numbers(D)
    turning = np.zeros((n, products.shape[1], D))  # what f''(v, e_i) consists of
    for k in range(D):
        turning[:, second[k], np.arange(D)] += v[:, k, None]
    turned = products @ turning  # products with f''(v, e_i)
    bent = matvec(turned, v)  # with f''(v, v)
    M = np.ascontiguousarray(products[:, J, J])
    tangential = matvec(products[:, :, J], solve_vectors(M, bent[:, J]))
    by_v = matvec(M, v)
    return EnergyTerms(
        energy=0.5 * np.sum(by_v * v, axis=1),
        by_x=matvec(turned[:, J].swapaxes(1, 2), v),
        by_v=by_v,
        xx=turning.swapaxes(1, 2) @ turned - (bent - tangential)[:, second],
        xv=np.ascontiguousarray(turned[:, J].swapaxes(1, 2)),
        vv=M,
    )


def as_metric(metric: Any, dimension: int | None = None) -> Metric:
    """`metric` as a `Metric`: one already, or a function x (D,) -> (D, D) in JAX, NumPy or torch.

    With `dimension`, also make sure that it can be called for a point of that many coordinates and
    returns a symmetric matrix of the right shape.

    Examples
    --------
    >>> metric = as_metric(lambda x: np.eye(2) * (1.0 + x @ x), dimension=2)
    >>> metric.apply([1.0, 0.0], [0.0, 3.0]).tolist()
    [0.0, 6.0]
    """
    if not callable(unwrapped(metric)):
        given = f"an array of shape {metric.shape}" if hasattr(metric, "shape") else repr(metric)
        raise TypeError(f"metric must be a function x (D,) -> (D, D), got {given}; a constant one is metrics.Flat(A)")
    from probgeo.metrics.function import FunctionMetric

    made = metric if isinstance(metric, Metric) else FunctionMetric(metric)
    if dimension is not None:
        check_dimension(made, dimension)
    return made


def check_dimension(metric: Metric, dimension: int) -> None:
    """Raise unless a metric takes points of this dimension."""
    if metric.dimension is not None and metric.dimension != dimension:
        raise ValueError(f"the metric is one of {metric.dimension} dimensions, got points of {dimension}")
    if is_function(metric):
        metric.tensors_at(np.full((1, dimension), 0.5))


def is_function(metric: Metric) -> bool:
    """Whether a metric is known by `__call__` alone."""
    return (type(metric).tensors_at, type(metric)._parts) == (Metric.tensors_at, Metric._parts)


def by_rows(of_rows: Callable, traced: Callable, x: Any, v: Any) -> Any:
    """A function of points and vectors (..., D), which broadcast: `of_rows` (n, D), or `traced` of one for JAX."""
    if is_traced(x, v):
        return jax_methods().at_points(traced, x, v)
    x, v = np.asarray(x, dtype=np.float64), np.asarray(v, dtype=np.float64)
    if x.ndim == 0 or v.ndim == 0 or x.shape[-1] != v.shape[-1]:
        raise ValueError(f"x and v must have shape (..., D) of one size D, got {x.shape}, {v.shape}")
    *batch, D = np.broadcast_shapes(x.shape, v.shape)
    found = of_rows(*(np.array(np.broadcast_to(y, (*batch, D))).reshape(-1, D) for y in (x, v)))
    return found.reshape((*batch, *found.shape[1:]))


def jax_methods() -> Any:
    """What answers tracers of JAX; only then is it imported."""
    from probgeo.functions import in_jax

    return in_jax
