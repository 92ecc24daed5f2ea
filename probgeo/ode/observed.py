"""Noisy data along a curve: linear functions of its states at some times."""

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from probgeo._checks import as_covariance, as_float_array, is_traced
from probgeo.ode.conditions import as_factors, state_matrix


@dataclass(frozen=True)
class Observed:
    """x (..., T, M) at times (T,), with covariances (M, M) of the noise: see `observed`."""

    t: np.ndarray
    x: np.ndarray
    noise: Any
    factors: dict[int, np.ndarray]


def observed(t: Any, x: Any, *, noise: Any, y: Any = 1.0, dy: Any = None) -> Observed:
    """Noisy data along a curve, x_i = A y(t_i) + B y'(t_i) + noise.

    Parameters
    ----------
    t : array (T,)
        Times within the interval.
    x : array (..., T, M)
        Leading axes are a batch.
    noise : number or matrix (M, M)
        Variance or covariance of the Gaussian noise of one x_i; those of different times are
        independent.
    y, dy : number or matrix (M, D), optional
        Factors A and B; a number multiplies every component. By default y itself is observed.

    Examples
    --------
    >>> from probgeo import Gaussian, observed, solve_ivp
    >>> t, anyone = [0.5, 1.0, 1.5], Gaussian([1.0], [[np.inf]])
    >>> seen = observed(t, [[1.2], [0.74], [0.45]], noise=1e-4)
    >>> curve = solve_ivp(lambda t, y: -y, (0.0, 2.0), anyone, data=seen)
    >>> bool(abs(curve.mean(0.0)[0] - 1.99) < 0.02), curve.std(0.0).round(3)
    (True, array([0.013]))
    """
    times, values = np.atleast_1d(as_float_array("t", t)), as_float_array("x", x)
    if times.ndim != 1 or not len(times):
        raise ValueError(f"t must have shape (T,), got {times.shape}")
    if values.ndim < 2 or values.shape[-2] != len(times):
        raise ValueError(f"x must have shape (..., {len(times)}, M), got {values.shape}")
    M = values.shape[-1]
    given = as_factors(M, y, dy)
    cov = as_float_array("noise", noise)
    if not np.ndim(cov):
        cov = cov * np.eye(M)
    cov = as_covariance("noise", cov, (M, M))
    if not is_traced(cov) and np.linalg.eigvalsh(cov)[0] <= 0:
        raise ValueError("noise must be positive: numbers that are certain are conditions, not data")
    return Observed(times, values, cov, given)


@dataclass(frozen=True, eq=False)
class Data:
    """N numbers seen of curves of order q in D dimensions, at U different times.

    Attributes
    ----------
    times (U,), place (N,) : the times, and which one belongs to a number
    weights (N, q, D) : of the states there
    x (..., N) : the numbers
    noise (N, N)
    """

    times: np.ndarray
    place: np.ndarray
    weights: np.ndarray
    x: Any
    noise: Any

    def of(self, at_times: Callable[[int], Any], xp: Any = np) -> Any:
        """The numbers (..., N, ...) from derivatives m of a curve, at_times(m) (..., U, D)."""
        parts = [xp.einsum("nd,...nd->...n", self.weights[:, m], at_times(m)[..., self.place, :]) for m in self.orders]
        return sum(parts[1:], start=parts[0])

    def covariances(self, of_pairs: Callable[[int, int], Any], xp: Any = np) -> Any:
        """The same of covariances (..., U, U, D, D) of derivatives m with n: (..., N, N)."""
        here, total = self.place, 0.0
        for m, n in itertools.product(self.orders, repeat=2):
            of_all = of_pairs(m, n)[..., here[:, None], here[None, :], :, :]
            pair = self.weights[:, m], self.weights[:, n]
            total = total + xp.einsum("...njde,nd,je->...nj", of_all, *pair)
        return total

    @property
    def orders(self) -> list[int]:
        """Derivatives of the curve that are seen."""
        return [m for m in range(self.weights.shape[1]) if self.weights[:, m].any()]


def listed(data: Any) -> list[Observed]:
    """What users give as `data`: nothing, `observed(...)` or a list of these."""
    if data is None:
        return []
    given = list(data) if isinstance(data, list | tuple) else [data]
    if not given or not all(isinstance(one, Observed) for one in given):
        raise TypeError(f"data must be observed(...), or a list of these, got {data!r}")
    return given


def batch_of(data: Any) -> tuple[int, ...]:
    """The axes of the batch that data have."""
    return np.broadcast_shapes(*(one.x.shape[:-2] for one in listed(data)))


def as_data_along(data: Any, t_span: tuple[float, float], order: int, dimension: int) -> Data:
    """All data in one piece."""
    given = listed(data)
    parts = [_rows(one, order, dimension) for one in given]
    t = np.concatenate([np.repeat(one.t, one.x.shape[-1]) for one in given])
    if t.min() < t_span[0] or t.max() > t_span[1]:
        raise ValueError(f"times of data must lie in {t_span}, got {t.min():g} to {t.max():g}")
    times, place = np.unique(t, return_inverse=True)
    x = [one.x.reshape(*one.x.shape[:-2], -1) for one in given]
    if len(x) > 1:
        batch = batch_of(given)
        x = [np.concatenate([np.broadcast_to(own, (*batch, own.shape[-1])) for own in x], axis=-1)]
    return Data(times, place, np.concatenate(parts), x[0], _noise(given))


def _rows(one: Observed, order: int, D: int) -> np.ndarray:
    """Weights (T M, q, D)."""
    T, M = one.x.shape[-2:]
    matrix = state_matrix("observed(...)", one.factors, order, D)
    if len(matrix) != M:
        raise ValueError(
            f"x has {M} numbers a time and y {D} components: factors y= or dy= of shape ({M}, {D}) are needed"
        )
    return np.tile(matrix, (T, 1, 1))


def _noise(given: Sequence[Observed]) -> Any:
    """Covariances (N, N) of everything; those that JAX does not know yet, too."""
    blocks = []
    for one in given:
        T, M = one.x.shape[-2:]
        whole = np.eye(T)[:, None, :, None] * one.noise[None, :, None, :]
        blocks.append(whole.reshape(T * M, T * M))
    if len(blocks) == 1:
        return blocks[0]
    ends = np.cumsum([len(block) for block in blocks])
    unit = np.eye(ends[-1])
    places = [unit[:, end - len(block) : end] for block, end in zip(blocks, ends, strict=True)]
    return sum(E @ block @ E.T for E, block in zip(places, blocks, strict=True))
