"""Covariance functions k(s, t) on the unit interval, and their derivatives in closed form.

The solver sees every problem on the time interval [0, 1]; a length scale is a fraction of it. A new
kernel is a class with one method: `__call__`, written with `jax.numpy`, and its derivatives then
come from automatic differentiation; or `derivative`, written with NumPy, which gives them itself. A
stationary one can give the derivatives of its radial profile instead.
"""

import copy
import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, Self

import numpy as np


class Kernel:
    """A positive semi-definite function of two times.

    Examples
    --------
    Your own kernel:

    >>> import jax.numpy as jnp
    >>> class Cosine(Kernel):
    ...     def __call__(self, s, t):
    ...         return jnp.cos(s - t)
    >>> float(Cosine().derivative(1, 1, 0.3, 0.3))
    1.0

    The same without JAX:

    >>> class Cosine(Kernel):
    ...     def derivative(self, i, j, s, t):
    ...         return (-1) ** j * np.cos(s - t + (i + j) * np.pi / 2)
    >>> float(Cosine()(0.3, 0.3))
    1.0
    """

    def __call__(self, s: Any, t: Any) -> Any:
        """k(s, t), elementwise on arrays that broadcast."""
        return self.derivative(0, 0, s, t)

    def derivative(self, i: int, j: int, s: Any, t: Any) -> np.ndarray:
        """d^i/ds^i d^j/dt^j k(s, t), elementwise on arrays that broadcast."""
        if type(self).__call__ is Kernel.__call__:
            raise TypeError(f"{type(self).__name__} must define __call__(s, t) or derivative")
        return _by_jax(self, i, j, s, t)

    def matrix(self, orders: tuple[int, ...], s: np.ndarray, others: tuple[int, ...], t: np.ndarray) -> np.ndarray:
        """Covariance (S, m, T, n) of the derivatives `orders` at s (S,) with `others` at t (T,)."""
        rows = [np.stack([self.derivative(i, j, s[:, None], t[None, :]) for j in others], axis=-1) for i in orders]
        return np.stack(rows, axis=-3)


def _by_jax(kernel: Kernel, i: int, j: int, s: Any, t: Any) -> np.ndarray:
    """Derivatives of a kernel's `__call__` by automatic differentiation."""
    from probgeo.functions.in_jax import TRACER_ERRORS, mixed_derivatives

    first, second = np.broadcast_arrays(np.asarray(s, dtype=float), np.asarray(t, dtype=float))
    highest = max(i, j)
    try:
        rows = first.reshape(-1, 1), second.reshape(-1, 1)
        table = mixed_derivatives(kernel.__call__, highest, *rows)
    except TRACER_ERRORS as error:
        raise TypeError(
            f"{type(kernel).__name__} must be written with jax.numpy for its derivatives to be "
            "taken; with NumPy, define derivative(i, j, s, t) instead"
        ) from error
    return table[i * (highest + 1) + j].reshape(first.shape)


@dataclass(frozen=True)
class Stationary(Kernel):
    """k(s, t) = kappa((s - t) / lengthscale), given by the derivatives of kappa."""

    lengthscale: float = 0.25

    def __post_init__(self) -> None:
        object.__setattr__(self, "lengthscale", float(self.lengthscale))
        if not 0.0 < self.lengthscale < math.inf:
            raise ValueError(f"lengthscale must be positive and finite, got {self.lengthscale}")

    def radial(self, n: int, r: np.ndarray) -> np.ndarray:
        """The n-th derivative of kappa at r."""
        raise NotImplementedError(f"{type(self).__name__} must define radial(n, r)")

    def _profile(self, n: int, r: np.ndarray) -> np.ndarray:
        """`radial` as an array of NumPy, in double precision if it was written with JAX, too."""
        values = self.radial(n, r)
        if isinstance(values, np.ndarray | np.generic):
            return values
        from probgeo.functions.in_jax import double_precision

        with double_precision():
            return np.array(self.radial(n, r), dtype=float)

    def derivative(self, i: int, j: int, s: Any, t: Any) -> np.ndarray:
        r = (np.asarray(s) - np.asarray(t)) / self.lengthscale
        return (-1) ** j * self._profile(i + j, r) / self.lengthscale ** (i + j)

    def with_lengthscale(self, lengthscale: Any) -> Self:
        """The same kernel with another length scale.

        Several, (B,), make it B kernels in one: `derivative` of two-dimensional times and `matrix`
        then have a leading axis of size B.
        """
        other = copy.copy(self)
        scales = np.reshape(lengthscale, (-1, 1, 1)) if np.ndim(lengthscale) else lengthscale
        object.__setattr__(other, "lengthscale", scales)
        return other


@dataclass(frozen=True)
class SquaredExponential(Stationary):
    """exp(-(s - t)^2 / (2 lambda^2)), the paper's choice: infinitely smooth curves."""

    def radial(self, n: int, r: np.ndarray) -> np.ndarray:
        # Hermite polynomials: kappa^(n) = (-1)^n He_n(r) kappa (supplement B up to n = 4)
        previous, current = np.zeros_like(r), np.ones_like(r)
        for m in range(n):
            previous, current = current, r * current - m * previous
        return (-1) ** n * current * np.exp(-0.5 * r**2)


@dataclass(frozen=True, init=False)
class Matern(Stationary):
    """The Matern family with nu = 5/2, 7/2 or 9/2: curves with 2, 3 or 4 derivatives."""

    nu: float = 4.5

    def __init__(self, nu: float = 4.5, lengthscale: float = 0.25) -> None:
        super().__init__(lengthscale)
        if nu not in (2.5, 3.5, 4.5):
            raise ValueError(f"nu must be 5/2, 7/2 or 9/2, got {nu}")
        object.__setattr__(self, "nu", float(nu))

    def radial(self, n: int, r: np.ndarray) -> np.ndarray:
        return matern_radial(round(self.nu - 0.5), n, r)


def matern_radial(p: int, n: int, r: np.ndarray) -> np.ndarray:
    """The n-th derivative of the Matern profile with nu = p + 1/2 and unit length scale.

    kappa = exp(-x) P(x) with x = sqrt(2 nu) |r| (Rasmussen & Williams 2006, Eq. 4.16), and differentiating maps P to
    P' - P. Fractions, because a coefficient that vanishes has to vanish.
    """
    f = math.factorial
    P = [Fraction(f(p) * f(2 * p - k) * 2**k, f(2 * p) * f(k) * f(p - k)) for k in range(p + 1)]  # lowest first
    for _ in range(n):
        P = [(k + 1) * above - own for k, (own, above) in enumerate(zip(P, [*P[1:], Fraction(0)], strict=True))]
    root = math.sqrt(2.0 * p + 1.0)
    x = root * np.abs(r)
    return (root * np.where(r < 0, -1.0, 1.0)) ** n * np.polyval([float(c) for c in P[::-1]], x) * np.exp(-x)


@dataclass(frozen=True, init=False)
class IntegratedWiener(Kernel):
    """The q-times integrated Wiener process started at time 0 from independent N(0, `initial`)
    values of the curve and its first q derivatives.

    Parameters
    ----------
    q : int
        Number of derivatives the curve has.
    initial : float or array (q + 1,)
        Variances of the curve and its derivatives at time 0. Those that the problem gives as
        initial or boundary values are replaced by them; the others should be wide.
    """

    initial: tuple[float, ...]
    q: int

    def __init__(self, q: int = 3, initial: Any = 1.0) -> None:
        if not 1 <= q <= 8:
            raise ValueError(f"q must be between 1 and 8, got {q}")
        variances = np.broadcast_to(np.asarray(initial, dtype=float), (q + 1,))
        object.__setattr__(self, "initial", tuple(float(x) for x in variances))
        object.__setattr__(self, "q", q)

    def derivative(self, i: int, j: int, s: Any, t: Any) -> np.ndarray:
        if max(i, j) > self.q:
            raise ValueError(f"a {self.q}-times integrated Wiener process has no derivative {i, j}")
        s, t = np.broadcast_arrays(np.asarray(s, dtype=float), np.asarray(t, dtype=float))
        early, gap = np.minimum(s, t), np.abs(t - s)
        # the powers of (time - u) that belong to the earlier and to the later time
        wiener = np.where(
            s <= t,
            _wiener_integral(self.q - i, self.q - j, early, gap),
            _wiener_integral(self.q - j, self.q - i, early, gap),
        )
        for m in range(max(i, j), self.q + 1):
            taylor = s ** (m - i) * t ** (m - j) / (math.factorial(m - i) * math.factorial(m - j))
            wiener = wiener + self.initial[m] * taylor
        return wiener


def _wiener_integral(p: int, r: int, early: np.ndarray, gap: np.ndarray) -> np.ndarray:
    """Integral over u in [0, early] of u^p (gap + u)^r / (p! r!): positive terms only."""
    total = np.zeros_like(early)
    for k in range(r + 1):
        weight = math.comb(r, k) / (p + k + 1) / (math.factorial(p) * math.factorial(r))
        total = total + weight * gap ** (r - k) * early ** (p + k + 1)
    return total


@dataclass(frozen=True)
class Pinned(Kernel):
    """A kernel conditioned on exact values of the curve (or a derivative) at given times.

    This is the covariance of Eq. 7 with Delta = 0, without the factor V: what the numerics do not
    know once the boundary values are known. One or two conditions (time, derivative).
    """

    kernel: Kernel
    conditions: tuple[tuple[float, int], ...]

    @property
    def lengthscales(self) -> np.ndarray | None:
        """Length scales (B,) if these are B kernels in one."""
        several = isinstance(self.kernel, Stationary) and np.ndim(self.kernel.lengthscale)
        return np.ravel(self.kernel.lengthscale) if several else None  # type: ignore[attr-defined]

    def with_lengthscales(self, lengthscales: np.ndarray) -> "Pinned":
        """B kernels in one, with length scales (B,)."""
        assert isinstance(self.kernel, Stationary)
        return Pinned(self.kernel.with_lengthscale(lengthscales), self.conditions)

    def take(self, members: np.ndarray) -> "Pinned":
        """Those of some members, if these are kernels of many."""
        own = self.lengthscales
        return self if own is None else self.with_lengthscales(own[members])

    def derivative(self, i: int, j: int, s: Any, t: Any) -> np.ndarray:
        known = zip(self._known(i, s), self._known(j, t), strict=True)
        return self.kernel.derivative(i, j, s, t) - sum(left * right for left, right in known)

    def matrix(self, orders: tuple[int, ...], s: np.ndarray, others: tuple[int, ...], t: np.ndarray) -> np.ndarray:
        left = np.stack([self._known(i, s[:, None]) for i in orders], axis=-1)[..., 0, :]
        right = np.stack([self._known(j, t[:, None]) for j in others], axis=-1)[..., 0, :]
        return self.kernel.matrix(orders, s, others, t) - np.einsum("c...sm,c...tn->...smtn", left, right)

    @cached_property
    def _whitening(self) -> list[list[Any]]:
        """Rows of the inverse of the Cholesky factor of the conditions' covariance."""
        (t, d), *others = self.conditions
        first = 1.0 / np.sqrt(self.kernel.derivative(d, d, t, t))
        if not others:
            return [[first]]
        ((u, e),) = others
        below = self.kernel.derivative(e, d, u, t) * first
        second = 1.0 / np.sqrt(self.kernel.derivative(e, e, u, u) - below**2)
        return [[first], [-below * first * second, second]]

    def _known(self, i: int, s: Any) -> list[np.ndarray]:
        """Covariance of the i-th derivative at s with each of the whitened conditions."""
        cross = [self.kernel.derivative(i, d, s, t) for t, d in self.conditions]
        return [sum(w * c for w, c in zip(row, cross, strict=False)) for row in self._whitening]
