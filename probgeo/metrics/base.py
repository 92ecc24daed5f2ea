"""What the engine may ask of a metric, and the geodesic equation it implies.

A geodesic is a stationary curve of the energy, the integral of L(c, c') = c' M(c) c' / 2. Its
Euler-Lagrange equation is

    M(c) c'' = dL/dx - (d^2 L / dv dx) c',

the first term being 1/2 grad_c (c' M(c) c') and the second (dM/dt) c': never the D^3 numbers of
dM/dc. Eq. 2 of the paper prints another right-hand side (erratum 1), see `printed_acceleration`.
"""

import sys
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import numpy as np

from probgeo._checks import is_traced
from probgeo._repr import described
from probgeo.functions import RowFunction, as_row_function
from probgeo.functions.in_numpy import derivative, times
from probgeo.metrics.inputs import asymmetry, unwrapped
from probgeo.metrics.loops import ENERGY, FIRST, FORCE, SECOND, EnergyTerms, solve_jacobians, solve_vectors

# attributes that hold what was worked out from the others: compiled functions, rearranged tensors
CACHED = ("_by_dimension", "_few", "_full", "_is_checked", "_landmarks", "_pulled_back")


class Metric(ABC):
    """A smoothly varying inner product: at every point x (D,) a positive definite M(x) (D, D).

    A metric of one's own is a class with one method, `__call__`, written for one point with
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
        """What copies and files get: not what can be worked out again."""
        return {name: part for name, part in vars(self).items() if name not in CACHED}

    @property
    def dimension(self) -> int | None:
        """D, if the metric knows it."""
        return None

    def precision(self, dimension: int) -> float:
        """Spacing, next to one, of the numbers that it computes with."""
        return 2.0**-52

    # --- many rows at once: what the engine uses --------------------------------------------

    def tensors_at(self, x: np.ndarray) -> np.ndarray:
        """M (n, D, D) at rows x (n, D)."""
        return self._symmetric(x, self._rows(x).tensors(x))

    def energies(self, x: np.ndarray, v: np.ndarray) -> np.ndarray:
        """L = v' M(x) v / 2 at rows x, v (n, D)."""
        return self._rows(x).energies(x, v)

    def energy_terms(self, x: np.ndarray, v: np.ndarray, second: bool = True) -> EnergyTerms:
        """L with its first and, if asked for, second derivatives at rows x, v (n, D).

        NaN or infinite where there is no metric.
        """
        terms = EnergyTerms(*self._rows(x).energy_terms(x, v, second))
        self._symmetric(x, terms.vv)
        return terms

    def newton_terms(self, x: np.ndarray, v: np.ndarray) -> EnergyTerms:
        """L and its first derivatives; second ones that make Newton's method converge.

        Those of `energy_terms`, or others with which the second variation of the energy of a
        geodesic is the same.
        """
        return self.energy_terms(x, v)

    def accelerations(self, x: np.ndarray, v: np.ndarray) -> np.ndarray:
        """c'' (n, D) of geodesics with c = x and c' = v; NaN where M is not positive definite."""
        return self._accelerations(x, v)[0]

    def acceleration_jacobians(self, x: np.ndarray, v: np.ndarray) -> np.ndarray:
        """Derivatives (n, 2, D, D) of c'': [:, 0] by x, [:, 1] by v."""
        a, M = self._accelerations(x, v)
        return solve_jacobians(M, self._rows(x).force_jacobians(x, v, a).swapaxes(1, 2))

    def _accelerations(self, x: np.ndarray, v: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        force, M = self._rows(x).forces(x, v)
        self._symmetric(x, M)
        return solve_vectors(M, force), M

    def inner(self, x: np.ndarray, u: np.ndarray, v: np.ndarray) -> np.ndarray:
        """u' M(x) v (n,) at rows x, u, v (n, D)."""
        return np.einsum("ni,nij,nj->n", u, self.tensors_at(x), v)

    def landmarks(self) -> np.ndarray:
        """Points (L, D) worth a detour; possibly none."""
        return np.empty((0, self.dimension or 0))

    def floors(self, dimension: int) -> np.ndarray:
        """Tensors (F, D, D), each of them below M(x) everywhere; possibly none."""
        return np.empty((0, dimension, dimension))

    # --- one point, or many: what users see ---------------------------------------------------

    def apply(self, x: Any, v: Any) -> Any:
        """M(x) v."""
        if is_traced(x, v):
            return jax_methods().at_points(lambda x, v: self(x) @ v, x, v, result="d")
        x, v, shape = broadcast_rows(x, v)
        return times(self.tensors_at(x), v).reshape(shape)

    def solve(self, x: Any, p: Any) -> Any:
        """M(x)^-1 p; NaN where M(x) is not positive definite."""
        if is_traced(x, p):
            return jax_methods().solve(self, x, p)
        x, p, shape = broadcast_rows(x, p)
        return solve_vectors(self.tensors_at(x), p).reshape(shape)

    def energy(self, x: Any, v: Any) -> Any:
        """v' M(x) v, the squared speed of a curve at x with velocity v."""
        if is_traced(x, v):
            return jax_methods().at_points(lambda x, v: v @ self(x) @ v, x, v, result="")
        x, v, shape = broadcast_rows(x, v)
        return 2.0 * self.energies(x, v).reshape(shape[:-1])

    def acceleration(self, x: Any, v: Any) -> Any:
        """c'' of the geodesic with c = x and c' = v."""
        if is_traced(x, v):
            return jax_methods().traced_acceleration(self, x, v)
        x, v, shape = broadcast_rows(x, v)
        return self.accelerations(x, v).reshape(shape)

    # --- metrics that are known by a function x -> M(x) alone ---------------------------------

    def _rows(self, x: np.ndarray) -> RowFunction:
        """The function, for rows (n, D)."""

        def make(dimension: int) -> RowFunction:
            made = self._found_out(dimension)
            self._symmetric(x[:1], made.tensors(x[:1]))
            return made

        return self._kept(x.shape[1], make)

    def _found_out(self, dimension: int) -> RowFunction:
        return as_row_function(self.__call__, dimension, "metric", (dimension, dimension))

    def _symmetric(self, x: np.ndarray, M: np.ndarray) -> np.ndarray:
        """M at x, if it is symmetric: derivatives are those of v' M v, which sees nothing else."""
        gaps, symmetric = asymmetry(M)
        if not symmetric.all():
            n = np.argmin(symmetric)
            raise ValueError(
                f"the metric {self._name} must be symmetric, but at x = {x[n]} it has entries that "
                f"differ by {gaps[n]:.3g}"
            )
        return M

    @property
    def _name(self) -> str:
        return type(self).__name__

    def _kept(self, dimension: int, make: Callable[[int], Any]) -> Any:
        """What `make` has found out of the functions of a metric, for points of so many numbers."""
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


def constant(array: np.ndarray, x: Any) -> np.ndarray:
    """Numbers of a metric in the precision of x.

    For JAX a new array each time: it remembers arrays of NumPy by their identity, and mistakes one
    that it has seen in double precision for that where it computes in single precision.
    """
    return array if array_module(x) is np else array.astype(x.dtype)


class ClosedForm(Metric):
    """A metric whose formula is written for points (..., D), in NumPy or JAX alike.

    What a subclass does not do better follows from `energy_terms`, which it defines.
    """

    def __call__(self, x: Any) -> Any:
        """M (..., D, D) at x (..., D): JAX arrays for those of JAX, else NumPy."""
        xp = array_module(x)
        return self._formula(x if xp is not np else np.asarray(x, dtype=np.float64), xp)

    @abstractmethod
    def _formula(self, x: Any, xp: Any) -> Any:
        """M(x), with the functions of the array module `xp`."""

    def tensors_at(self, x: np.ndarray) -> np.ndarray:
        return np.ascontiguousarray(self._formula(x, np))

    def energies(self, x: np.ndarray, v: np.ndarray) -> np.ndarray:
        return 0.5 * self.inner(x, v, v)

    def accelerations(self, x: np.ndarray, v: np.ndarray) -> np.ndarray:
        # M c'' = dL/dx - (d^2 L / dv dx) c', and v' xv = xv' v
        terms = self.energy_terms(x, v)
        return solve_vectors(terms.vv, terms.by_x - np.matmul(v[:, None, :], terms.xv)[:, 0])

    def acceleration_jacobians(self, x: np.ndarray, v: np.ndarray) -> np.ndarray:
        by_x = derivative(lambda y: self.accelerations(y, v), x)
        by_v = derivative(lambda u: self.accelerations(x, u), v)
        return np.stack([by_x, by_v], axis=1)


class ByLoop(ClosedForm):
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

    def accelerations(self, x: np.ndarray, v: np.ndarray) -> np.ndarray:
        forces = self._filled(x, v, FORCE)
        return solve_vectors(forces.vv, forces.by_x)


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
    """That a metric takes points of so many coordinates."""
    if metric.dimension is not None and metric.dimension != dimension:
        raise ValueError(f"the metric is one of {metric.dimension} dimensions, got points of {dimension}")
    if is_function(metric):
        metric.tensors_at(np.full((1, dimension), 0.5))


def is_function(metric: Metric) -> bool:
    """Whether a metric is known by `__call__` alone."""
    return type(metric).tensors_at is Metric.tensors_at


def broadcast_rows(x: Any, v: Any) -> tuple[np.ndarray, np.ndarray, tuple[int, ...]]:
    """x and v, which broadcast, as rows (n, D), and the shape they had."""
    x, v = np.asarray(x, dtype=np.float64), np.asarray(v, dtype=np.float64)
    if x.ndim == 0 or v.ndim == 0 or x.shape[-1] != v.shape[-1]:
        raise ValueError(f"x and v must have shape (..., D) of one size D, got {x.shape}, {v.shape}")
    shape = np.broadcast_shapes(x.shape, v.shape)
    x, v = (np.array(np.broadcast_to(y, shape)).reshape(-1, shape[-1]) for y in (x, v))
    return x, v, shape


def jax_methods() -> Any:
    """What answers tracers of JAX; only then is it imported."""
    from probgeo.functions import in_jax

    return in_jax
