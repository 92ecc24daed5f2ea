"""What a boundary value problem is told of its solution: values, slopes, periods, any g = 0.

Each condition says one or more numbers about the curve at some times; there must be as many as the
ODE has unknowns, its order times the dimension plus the unknown parameters. The linear ones are
rows of a matrix acting on the states (y, y', ...) at those times; others are functions.
"""

import sys
import warnings
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from probgeo._checks import as_covariance, as_float_array
from probgeo.functions.in_numpy import derivative_at_once
from probgeo.functions.memory import memory_of
from probgeo.gaussian import Gaussian, ScalarGaussian, root_and_flat

DERIVATIVES = ("y", "dy", "d2y", "d3y")


@dataclass(frozen=True, eq=False)
class Linear:
    """Linear combinations of derivatives at one time have given values: see `at` and `robin`.

    Of `groups` (factors by derivative, value): a factor is a number, a matrix (R, D) or a list of components. Without a
    time, the states at both ends are the same: see `periodic`.
    """

    name: str
    t: float | None
    groups: list[tuple[dict[int, Any], Any]]

    def __str__(self) -> str:
        return self.name

    def rows(self, t_span: tuple[float, float], order: int, D: int) -> list["LinearEquations"]:
        """For a curve of this order and dimension."""
        if self.t is None:
            size = order * D
            unit = np.eye(size).reshape(size, order, D)
            return [LinearEquations(self.name, t_span, np.stack([unit, -unit], axis=1), Gaussian(np.zeros(size)))]
        found = []
        for factors, value in self.groups:
            matrix = state_matrix(self.name, factors, order, D)
            R = len(matrix)
            if not isinstance(value, Gaussian):
                mean = as_float_array(self.name, value)
                value = Gaussian(mean if mean.ndim else np.full(R, float(mean)))
            if value.mean.shape[-1] != R:
                raise ValueError(f"values of {self} must have shape (..., {R}), got {value.mean.shape}")
            found.append(LinearEquations(self.name, (self.t,), matrix[:, None], value))
        return found


class LinearEquations(NamedTuple):
    """Linear conditions of one name: matrix (M, J, q, D) at their J times, and values (..., M)."""

    name: str
    times: tuple[float, ...]
    matrix: np.ndarray
    value: Gaussian


@dataclass(frozen=True, eq=False)
class Nonlinear:
    """g(states at some times, p) = 0: see `condition`."""

    g: Callable
    times: tuple[float, ...] | None
    noise: np.ndarray | None

    def __str__(self) -> str:
        return f"condition({getattr(self.g, '__name__', 'g')})"


Condition = Linear | Nonlinear


def at(t: float, *, y: Any = None, dy: Any = None, d2y: Any = None, d3y: Any = None) -> Linear:
    """The curve, or its derivatives, have given values at a time.

    Parameters
    ----------
    t : float
        Either end of the interval, or a time in between.
    y, dy, d2y, d3y : number, array (..., D), Gaussian or dict, optional
        Values of derivatives below the order of the ODE. A number stands for all components, a
        dict {i: value} for some of them, with numbers, arrays of the shape of the batch or
        `ScalarGaussian` as values. Gaussians are uncertain values; leading axes are a batch.

    Examples
    --------
    >>> from probgeo import at, solve_bvp
    >>> ends = [at(0.0, y=[1.0]), at(1.0, dy=0.0)]
    >>> curve = solve_bvp(lambda t, y, dy: y, (0.0, 1.0), conditions=ends)
    >>> bool(abs(curve.mean(1.0)[0] - 1.0 / np.cosh(1.0)) < 1e-5)
    True
    """
    values = {m: x for m, x in enumerate((y, dy, d2y, d3y)) if x is not None}
    if not values:
        raise TypeError("at(t, ...) needs at least one of y=, dy=, d2y=, d3y=")
    groups = [({m: list(x)}, _of_components(x)) if isinstance(x, dict) else ({m: 1.0}, x) for m, x in values.items()]
    return Linear(_named("at", t, values), _as_time(t), groups)


def robin(t: float, *, equals: Any = 0.0, y: Any = None, dy: Any = None) -> Linear:
    """A linear combination of the curve and its slope has a given value at a time.

    Parameters
    ----------
    t : float
    y, dy : number or matrix (R, D), optional
        Factors A and B of A y(t) + B y'(t) = equals; a number multiplies every component.
    equals : number, array (..., R) or Gaussian
        The value; R is D where the factors are numbers.

    Examples
    --------
    >>> from probgeo import at, robin, solve_bvp
    >>> cooling = [at(0.0, y=[1.0]), robin(1.0, y=2.0, dy=1.0)]
    >>> curve = solve_bvp(lambda t, y, dy: 0.0 * y, (0.0, 1.0), conditions=cooling)
    >>> bool(abs(curve.mean(1.0)[0] - 1.0 / 3.0) < 1e-6)
    True
    """
    factors = as_factors("R", y, dy)
    if not factors:
        raise TypeError("robin(t, ...) needs at least one of y=, dy=")
    return Linear(_named("robin", t, factors), _as_time(t), [(factors, equals)])


def periodic() -> Linear:
    """The curve and its derivatives below the order of the ODE are the same at both ends.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> from probgeo import periodic, solve_bvp
    >>> swing = lambda t, y, dy: -3.0 * y + jnp.sin(t)
    >>> curve = solve_bvp(swing, (0.0, 2.0 * np.pi), conditions=[periodic()])
    >>> bool(abs(curve.mean(np.pi / 2)[0] - 0.5) < 1e-4)
    True
    """
    return Linear("periodic()", None, [])


def condition(g: Callable, *, times: Sequence[float] | None = None, noise: Any = None) -> Nonlinear:
    """Any function of the states at some times, and of unknown parameters, is zero.

    Parameters
    ----------
    g : callable
        Of one curve, with any array library: g(ya, yb) for y' = f, g(ya, dya, yb, dyb) for
        y'' = f, and so on, with the unknown parameters p (P,) last if there are any. It returns
        the numbers (M,) that are zero. Its derivatives are taken by differences.
    times : sequence of float, optional
        Times whose states g gets, one after the other; by default both ends.
    noise : number or matrix (M, M), optional
        Variance or covariance of Gaussian noise on these numbers.

    Examples
    --------
    >>> from probgeo import condition, solve_bvp
    >>> g = lambda ya, dya, yb, dyb: np.concatenate([ya**2 - 4.0, dyb - ya * dya])
    >>> start = np.full((5, 1), 3.0)
    >>> free = lambda t, y, dy: 0.0 * y
    >>> curve = solve_bvp(free, (0.0, 1.0), conditions=[condition(g)], guess=start)
    >>> bool(abs(curve.mean(0.0)[0] - 2.0) < 1e-6)
    True
    """
    if not callable(g):
        raise TypeError(f"g must be a function, got {type(g).__name__}")
    chosen = None if times is None else tuple(_as_time(t) for t in times)
    return Nonlinear(g, chosen, None if noise is None else as_float_array("noise", noise))


def as_factors(rows: Any, *given: Any) -> dict[int, np.ndarray]:
    """Factors of y and dy, as far as they are given: numbers, or matrices (rows, D)."""
    factors = {m: as_float_array(DERIVATIVES[m], factor) for m, factor in enumerate(given) if factor is not None}
    for m, factor in factors.items():
        if factor.ndim not in (0, 2) or (factor.ndim and rows not in ("R", len(factor))):
            raise ValueError(f"{DERIVATIVES[m]} must be a number or a matrix ({rows}, D), got shape {factor.shape}")
    return factors


def state_matrix(said: str, factors: dict[int, Any], order: int, D: int) -> np.ndarray:
    """Factors of derivatives (numbers, matrices (R, D) or lists of components) as one of states: (R, order, D)."""
    if max(factors) >= order:
        raise ValueError(
            f"{said} gives {DERIVATIVES[max(factors)]}, but the ODE has order {order}: "
            f"its states are derivatives below the order {order}"
        )
    parts = {}
    for m, factor in factors.items():
        if isinstance(factor, list):
            if not all(isinstance(i, int) and 0 <= i < D for i in factor):
                raise ValueError(f"components of {said} must be 0 to {D - 1}, got {factor}")
            factor = np.eye(D)[factor]
        parts[m] = factor if np.ndim(factor) else factor * np.eye(D)
    sizes = {A.shape for A in parts.values()}
    if len(sizes) > 1 or next(iter(sizes))[1] != D:
        raise ValueError(f"the factors of {said} must have one shape (R, {D}), as y has {D} components, got {sizes}")
    matrix = np.zeros((next(iter(sizes))[0], order, D))
    for m, A in parts.items():
        matrix[:, m] = A
    return matrix


def _named(kind: str, t: Any, parts: dict[int, Any]) -> str:
    return f"{kind}({_as_time(t):g}, {', '.join(f'{DERIVATIVES[m]}=...' for m in parts)})"


def _of_components(value: dict[int, Any]) -> Gaussian:
    parts = [
        x if isinstance(x, ScalarGaussian) else ScalarGaussian(as_float_array(f"component {i}", x))
        for i, x in value.items()
    ]
    means = np.broadcast_arrays(*(part.mean for part in parts))
    variances = np.stack(np.broadcast_arrays(*(part.cov for part in parts), means[0])[:-1], axis=-1)
    cov = np.where(np.eye(len(parts), dtype=bool), variances[..., None], 0.0)
    return Gaussian(np.stack(means, axis=-1), cov)


def _as_time(t: Any) -> float:
    time = as_float_array("t", t)
    if time.ndim:
        raise ValueError(f"t must be one time, got shape {time.shape}")
    return float(time)


@dataclass
class Conditions:
    """All conditions of a batch of B curves of order q in D dimensions, at J times.

    Attributes
    ----------
    times (J,) : increasing, the ends of the interval first and last
    matrix (L, J, q, D), values (B, L) : the linear ones, matrix . states = values
    functions : the others, with the numbers of their times
    n_rows : M, of all
    spread (B, M, R) or None : how values move with R standard normal numbers
    flat (B, R) or None : which of these have an infinite variance instead
    shift (B, M) : what the residuals are, instead of zero
    together : those of the functions that may be called with all curves at once
    known (2, D) : whether the curve itself is given at the first and the last time
    """

    times: np.ndarray
    matrix: np.ndarray
    values: np.ndarray
    functions: list[tuple[Nonlinear, list[int]]]
    n_rows: int
    spread: np.ndarray | None
    known: np.ndarray
    line: np.ndarray = field(repr=False)  # (B, J, D) values of the curve where given, else NaN
    shift: Any = 0.0
    flat: np.ndarray | None = None
    together: list[Nonlinear] = field(default_factory=list)

    def residuals(self, members: np.ndarray, states: np.ndarray, p: np.ndarray) -> np.ndarray:
        """By how much they are missed (B, M), at states (B, J, q, D) and parameters (B, P)."""
        L, *rest = self.matrix.shape
        width = int(np.prod(rest))
        missed = states.reshape(len(states), width) @ self.matrix.reshape(L, width).T
        missed -= self.values[members]
        if self.functions:
            others = [self._called(g, which, states, p) for g, which in self.functions]
            missed = np.concatenate([missed, *others], axis=1)
        if np.ndim(self.shift):
            missed -= self.shift[members]
        return missed

    def derivatives(self, states: np.ndarray, p: np.ndarray) -> np.ndarray:
        """Of the residuals by states and parameters (B, M, J q D + P)."""
        B, P = p.shape
        flat = np.concatenate([states.reshape(B, -1), p], axis=1)
        L, width = len(self.matrix), flat.shape[1] - P
        out = np.zeros((B, L, width + P))
        out[:, :, :width] = self.matrix.reshape(L, width)
        if not self.functions:
            return out

        def called(rows: np.ndarray) -> np.ndarray:
            z = rows[:, : rows.shape[1] - P].reshape(-1, *states.shape[1:])
            own = rows[:, rows.shape[1] - P :]
            return np.concatenate([self._called(g, w, z, own) for g, w in self.functions], axis=1)

        return np.concatenate([out, derivative_at_once(called, flat)], axis=1)

    def _called(self, given: Nonlinear, which: list[int], states: np.ndarray, p: np.ndarray) -> np.ndarray:
        last = [p] if p.shape[1] else []
        flat = [states[:, j, m] for j in which for m in range(states.shape[2])]
        if given in self.together:
            return _evaluated(given, [x.T for x in flat + last]).T
        return np.stack([_numbers(given, [x[b] for x in flat + last]) for b in range(len(states))])


def _evaluated(given: Nonlinear, arguments: list[np.ndarray]) -> np.ndarray:
    """g in double precision, whoever computes it."""
    jax = sys.modules.get("jax")
    with jax.enable_x64(True) if jax is not None else nullcontext():
        return np.array(given.g(*arguments), dtype=float)


def _numbers(given: Nonlinear, arguments: list[np.ndarray]) -> np.ndarray:
    """g at one curve (M,)."""
    value = _evaluated(given, arguments)
    if value.ndim != 1:
        raise ValueError(f"{given} must return numbers (M,), got shape {value.shape}")
    return value


def _is_for_many(given: Nonlinear, sizes: tuple[int, ...]) -> bool:
    """Whether g, which is of one curve, gives the same at columns of arrays (D, B)."""
    rng = np.random.default_rng(0)
    columns = [rng.uniform(0.5, 1.5, (size, 3)) for size in sizes]
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            one_by_one = [_evaluated(given, [x[:, b] for x in columns]) for b in range(3)]
            together = _evaluated(given, columns)
        except Exception:  # noqa: BLE001 (g may raise anything: it was not written for columns)
            return False
    expected = np.stack(one_by_one, axis=1)
    return together.shape == expected.shape and np.allclose(together, expected, rtol=1e-12, atol=1e-12, equal_nan=True)


def dimension_of(conditions: Sequence[Condition], guessed: tuple[int, ...]) -> int:
    """D, as far as the conditions or a first guess (..., D) of this shape tell."""
    sizes, some = list(guessed[-1:]), False
    for factors, value in [group for one in conditions if isinstance(one, Linear) for group in one.groups]:
        shapes = [np.shape(factor) for factor in factors.values()]
        if any(isinstance(factor, list) for factor in factors.values()):
            some = True
        elif any(shapes):
            sizes += [shape[1] for shape in shapes if shape]
        else:
            sizes += np.shape(value.mean if isinstance(value, Gaussian) else value)[-1:]
    if not sizes and some:
        raise ValueError("the conditions do not say how many components y has: give dimension=")
    if len(set(sizes)) > 1:
        raise ValueError(f"conditions and guess disagree on the dimension D: {sorted(set(sizes))}")
    return sizes[0] if sizes else 1


def compiled(
    conditions: Sequence[Condition],
    t_span: tuple[float, float],
    order: int,
    dimension: int,
    parameters: Any,
    guessed: tuple[int, ...] = (),
) -> tuple[Conditions, tuple[int, ...]]:
    """Conditions in the form that solvers use, checked, and the axes of the batch.

    parameters (..., P): first guesses of the unknown ones, or a Gaussian, which is as many conditions; guessed: axes of
    the batch of the guess.
    """
    guesses = parameters.mean if isinstance(parameters, Gaussian) else parameters
    P = guesses.shape[-1]
    for one in conditions:
        if not isinstance(one, Condition):
            raise TypeError(
                f"conditions must be a list of at(...), robin(...), periodic() and condition(...), got {one!r}"
            )
    linear = [rows for one in conditions if isinstance(one, Linear) for rows in one.rows(t_span, order, dimension)]
    others = [one for one in conditions if isinstance(one, Nonlinear)]
    own = [t_span if one.times is None else one.times for one in others]
    times = sorted({*t_span, *(t for rows in linear for t in rows.times), *(t for some in own for t in some)})
    if times[0] < t_span[0] or times[-1] > t_span[1]:
        raise ValueError(f"times of conditions must lie in {t_span}, got {times}")
    leading = [rows.value.mean.shape[:-1] for rows in linear]
    try:
        batch = np.broadcast_shapes(guessed, guesses.shape[:-1], *leading)
    except ValueError as error:
        raise ValueError(
            "the leading (batch) axes of conditions, parameters, guess and data must broadcast, "
            f"got {[*leading, guesses.shape[:-1], guessed]}"
        ) from error
    B = int(np.prod(batch))

    def of_all(x: np.ndarray, *shape: int) -> np.ndarray:
        return np.broadcast_to(x, (*batch, *shape)).reshape(B, *shape)

    place = {t: j for j, t in enumerate(times)}
    counts = [(rows.name, len(rows.matrix)) for rows in linear]
    covs = [of_all(rows.value.cov, n, n) for rows, (_, n) in zip(linear, counts, strict=True)]
    values = [of_all(rows.value.mean, n) for rows, (_, n) in zip(linear, counts, strict=True)]
    matrix = np.zeros((sum(n for _, n in counts), len(times), order, dimension))
    row = 0
    for rows in linear:
        for j, t in enumerate(rows.times):
            matrix[row : row + len(rows.matrix), place[t]] = rows.matrix[:, j]
        row += len(rows.matrix)
    together = np.concatenate([np.zeros((B, 0)), *values], axis=1)
    functions = [(one, [place[t] for t in some]) for one, some in zip(others, own, strict=True)]
    result = Conditions(np.array(times), matrix, together, functions, row, None, *_given(matrix, together))
    for one, which in functions:
        arguments = [np.ones(dimension) for _ in range(len(which) * order)]
        arguments += [guesses.reshape(-1, P)[0]] if P else []
        try:
            size = len(_numbers(one, arguments))
        except TypeError as error:
            names = [f"{'d' * min(m, 1)}{m if m > 1 else ''}y{j}" for j in which for m in range(order)]
            called = ", ".join([*names, *["p"][:P]])
            raise TypeError(f"{one} could not be called as g({called}): {error}") from error
        sizes = tuple(len(x) for x in arguments)
        if memory_of(one.g).note(("columns", sizes), partial(_is_for_many, one, sizes)):
            result.together.append(one)
        counts.append((str(one), size))
        noise = np.zeros((size, size)) if one.noise is None else one.noise
        noise = noise * np.eye(size) if noise.ndim == 0 else noise
        covs.append(np.broadcast_to(as_covariance("noise", noise, (size, size)), (B, size, size)))
    if isinstance(parameters, Gaussian):
        p = Nonlinear(_parameters_alone, None, None)
        functions.append((p, [0, len(times) - 1]))
        result.together.append(p)
        known = np.zeros((B, sum(n for _, n in counts)))
        result.shift = np.concatenate([known, of_all(parameters.mean, P)], axis=1)
        counts.append(("the Gaussian of parameters", P))
        covs.append(of_all(parameters.cov, P, P))
    result.n_rows = size = sum(n for _, n in counts)
    _check_number(counts, order, dimension, P)
    _check_rank(matrix, counts)
    if any(np.any(cov) for cov in covs):
        result.spread, result.flat = np.zeros((B, size, size)), np.zeros((B, size), dtype=bool)
        row = 0
        for cov in covs:
            end = row + cov.shape[-1]
            result.spread[:, row:end, row:end], result.flat[:, row:end] = root_and_flat(cov)
            row = end
    return result, batch


def _parameters_alone(*states_and_parameters: np.ndarray) -> np.ndarray:
    return states_and_parameters[-1]


def _given(matrix: np.ndarray, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Which components are given by themselves at both ends (2, D), and their given values (B, J, D), else NaN."""
    L, J, order, D = matrix.shape
    flat = matrix.reshape(L, J * order * D)
    rows = np.flatnonzero(np.count_nonzero(flat, axis=1) == 1)
    place = np.abs(flat[rows]).argmax(axis=1) if len(rows) else rows
    of_curve = place // D % order == 0
    rows, place = rows[of_curve], place[of_curve]
    known, line = np.zeros((J, D), dtype=bool), np.full((len(values), J, D), np.nan)
    j, i = place // (order * D), place % D
    known[j, i] = True
    line[:, j, i] = values[:, rows] / flat[rows, place]
    return known[[0, -1]], line


def _check_number(counts: list[tuple[str, int]], order: int, D: int, P: int) -> None:
    wanted, got = order * D + P, sum(count for _, count in counts)
    if got == wanted:
        return
    listed = ", ".join(f"{count} by {name}" for name, count in counts) or "none"
    unknown = f" and {P} unknown parameter{'s' * (P != 1)}" if P else ""
    verdict = f"{wanted - got} missing" if got < wanted else f"{got - wanted} too many"
    raise ValueError(
        f"an ODE of order {order} in {D} dimension{'s' * (D != 1)}{unknown} needs {wanted} "
        f"conditions, got {got} ({listed}): {verdict}"
    )


def _check_rank(matrix: np.ndarray, counts: list[tuple[str, int]]) -> None:
    """That no linear condition follows from, or contradicts, the others."""
    L, *rest = matrix.shape
    flat = matrix.reshape(L, int(np.prod(rest)))
    used = flat != 0
    different = used.any(axis=1).all() and (used.sum(axis=0) <= 1).all()  # no number in two rows
    if different or np.linalg.matrix_rank(flat) == L:
        return
    names = [name for name, count in counts for _ in range(count)]
    for row in range(1, len(flat)):
        if np.linalg.matrix_rank(flat[: row + 1]) <= row:
            raise ValueError(
                f"{names[row]} repeats or contradicts the conditions before it: every condition must say something new"
            )
