"""Covariance functions k(s, t) on the unit interval, and their derivatives in closed form.

The solvers see every problem on the time interval [0, 1]; a length scale is a fraction of it.
A new kernel is a class with one method, `__call__`: its derivatives then come from automatic
differentiation. A stationary one can instead give the derivatives of its radial profile.
"""

import math
from fractions import Fraction
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from probgeo._old._checks import is_concrete
from probgeo._old._repr import described


class Kernel(eqx.Module):
    """A positive semi-definite function of two times.

    Examples
    --------
    A kernel of one's own:

    >>> class Cosine(Kernel):
    ...     def __call__(self, s, t):
    ...         return jnp.cos(s - t)
    >>> float(Cosine().derivative(1, 1, 0.3, 0.3))
    1.0
    """

    def __repr__(self) -> str:
        return described(self)

    def __call__(self, s: Array, t: Array) -> Array:
        """k(s, t), elementwise on arrays that broadcast."""
        return self.derivative(0, 0, s, t)

    def derivative(self, i: int, j: int, s: Any, t: Any) -> Array:
        """d^i/ds^i d^j/dt^j k(s, t), elementwise on arrays that broadcast."""
        if type(self).__call__ is Kernel.__call__:
            raise TypeError(f"{type(self).__name__} must define __call__(s, t) or derivative")
        scalar = self.__call__
        for _ in range(i):
            scalar = jax.grad(scalar, 0)
        for _ in range(j):
            scalar = jax.grad(scalar, 1)
        return jnp.vectorize(scalar)(jnp.asarray(s, float), jnp.asarray(t, float))

    def matrix(
        self, orders: tuple[int, ...], s: Float[Array, "*s"], others: tuple[int, ...], t: Array
    ) -> Float[Array, "*s m t n"]:
        """Covariance of the derivatives `orders` at times s with `others` at times t (T,)."""
        rows = [
            jnp.stack([self.derivative(i, j, s[..., None], t) for j in others], axis=-1)
            for i in orders
        ]
        return jnp.stack(rows, axis=-3)


class Stationary(Kernel):
    """k(s, t) = kappa((s - t) / lengthscale), given by the derivatives of kappa."""

    lengthscale: Float[Array, ""]

    def __init__(self, lengthscale: Any = 0.25) -> None:
        self.lengthscale = jnp.asarray(lengthscale, dtype=jnp.float64)
        if is_concrete(self.lengthscale) and not 0.0 < self.lengthscale < jnp.inf:
            raise ValueError(f"lengthscale must be positive and finite, got {lengthscale}")

    def radial(self, n: int, r: Array) -> Array:
        """The n-th derivative of kappa at r."""
        raise NotImplementedError(f"{type(self).__name__} must define radial(n, r)")

    def derivative(self, i: int, j: int, s: Any, t: Any) -> Array:
        r = (jnp.asarray(s) - jnp.asarray(t)) / self.lengthscale
        return (-1) ** j * self.radial(i + j, r) / self.lengthscale ** (i + j)

    def lengthscale_derivatives(self, i: int, j: int, s: Any, t: Any) -> tuple[Array, Array]:
        """First and second derivative of `derivative(i, j, s, t)` by log lengthscale.

        With n = i + j and r = (s - t) / lambda, lambda^-n kappa^(n)(r) has the derivatives
        -lambda^-n (n kappa^(n) + r kappa^(n+1)) and, once more,
        lambda^-n (n^2 kappa^(n) + (2n+1) r kappa^(n+1) + r^2 kappa^(n+2)).
        """
        n = i + j
        r = (jnp.asarray(s) - jnp.asarray(t)) / self.lengthscale
        scale = (-1) ** j / self.lengthscale**n
        k0, k1, k2 = self.radial(n, r), r * self.radial(n + 1, r), r**2 * self.radial(n + 2, r)
        return -scale * (n * k0 + k1), scale * (n**2 * k0 + (2 * n + 1) * k1 + k2)

    def with_lengthscale(self, lengthscale: Array) -> "Stationary":
        """The same kernel with another length scale."""
        return eqx.tree_at(lambda kernel: kernel.lengthscale, self, lengthscale)


class SquaredExponential(Stationary):
    """exp(-(s - t)^2 / (2 lambda^2)), the paper's choice: infinitely smooth curves."""

    def __init__(self, lengthscale: Any = 0.25) -> None:
        super().__init__(lengthscale)

    def radial(self, n: int, r: Array) -> Array:
        # Hermite polynomials: kappa^(n) = (-1)^n He_n(r) kappa (supplement B up to n = 4)
        previous, current = jnp.zeros_like(r), jnp.ones_like(r)
        for m in range(n):
            previous, current = current, r * current - m * previous
        return (-1) ** n * current * jnp.exp(-0.5 * r**2)


class Matern(Stationary):
    """The Matern family with nu = 5/2, 7/2 or 9/2: curves with 2, 3 or 4 derivatives."""

    nu: float = eqx.field(static=True)

    def __init__(self, nu: float = 4.5, lengthscale: Any = 0.25) -> None:
        super().__init__(lengthscale)
        if nu not in (2.5, 3.5, 4.5):
            raise ValueError(f"nu must be 5/2, 7/2 or 9/2, got {nu}")
        self.nu = float(nu)

    def radial(self, n: int, r: Array) -> Array:
        return matern_radial(round(self.nu - 0.5), n, r)


def matern_radial(p: int, n: int, r: Array) -> Array:
    """The n-th derivative of the Matern profile with nu = p + 1/2 and unit length scale."""
    # kappa = exp(-x) P(x) with x = sqrt(2 nu) |r|; differentiating maps P to P' - P
    coefficients = _matern_polynomial(p)
    for _ in range(n):
        slopes = [*(k * c for k, c in enumerate(coefficients) if k), Fraction(0)]
        coefficients = [dc - c for dc, c in zip(slopes, coefficients, strict=True)]
    root = math.sqrt(2.0 * p + 1.0)
    x = root * jnp.abs(r)
    polynomial = jnp.polyval(jnp.array([float(c) for c in coefficients[::-1]]), x)
    return (root * jnp.where(r < 0, -1.0, 1.0)) ** n * polynomial * jnp.exp(-x)


def _matern_polynomial(p: int) -> list[Fraction]:
    """Coefficients of P for nu = p + 1/2 (Rasmussen & Williams 2006, Eq. 4.16), lowest first."""
    f = math.factorial
    return [Fraction(f(p) * f(2 * p - k) * 2**k, f(2 * p) * f(k) * f(p - k)) for k in range(p + 1)]


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

    initial: Float[Array, " q+1"]
    q: int = eqx.field(static=True)

    def __init__(self, q: int = 3, initial: Any = 1.0) -> None:
        if not 1 <= q <= 8:
            raise ValueError(f"q must be between 1 and 8, got {q}")
        self.q = q
        self.initial = jnp.broadcast_to(jnp.asarray(initial, dtype=jnp.float64), (q + 1,))

    def derivative(self, i: int, j: int, s: Any, t: Any) -> Array:
        if max(i, j) > self.q:
            raise ValueError(f"a {self.q}-times integrated Wiener process has no derivative {i, j}")
        s, t = jnp.broadcast_arrays(jnp.asarray(s, float), jnp.asarray(t, float))
        first_is_earlier = s <= t
        early, gap = jnp.minimum(s, t), jnp.abs(t - s)
        # the powers of (time - u) that belong to the earlier and to the later time
        wiener = jnp.where(
            first_is_earlier,
            _wiener_integral(self.q - i, self.q - j, early, gap),
            _wiener_integral(self.q - j, self.q - i, early, gap),
        )
        for m in range(max(i, j), self.q + 1):
            taylor = s ** (m - i) * t ** (m - j) / (math.factorial(m - i) * math.factorial(m - j))
            wiener = wiener + self.initial[m] * taylor
        return wiener


def _wiener_integral(p: int, r: int, early: Array, gap: Array) -> Array:
    """Integral over u in [0, early] of u^p (gap + u)^r / (p! r!): positive terms only."""
    total = jnp.zeros_like(early)
    for k in range(r + 1):
        weight = math.comb(r, k) / (p + k + 1) / (math.factorial(p) * math.factorial(r))
        total = total + weight * gap ** (r - k) * early ** (p + k + 1)
    return total


class Pinned(Kernel):
    """A kernel conditioned on exact values of the curve (or a derivative) at given times.

    This is the covariance of Eq. 7 with Delta = 0, without the factor V: what the numerics do not
    know once the boundary values are known. One or two conditions (time, derivative).
    """

    kernel: Kernel
    conditions: tuple[tuple[float, int], ...] = eqx.field(static=True)

    def derivative(self, i: int, j: int, s: Any, t: Any) -> Array:
        s, t = jnp.asarray(s, float), jnp.asarray(t, float)
        whitening = self._whitening()
        explained = jnp.sum(self._known(i, s, whitening) * self._known(j, t, whitening), axis=-1)
        return self.kernel.derivative(i, j, s, t) - explained

    def matrix(self, orders: tuple, s: Array, others: tuple, t: Array) -> Array:
        whitening = self._whitening()
        left = jnp.stack([self._known(i, s, whitening) for i in orders], axis=-2)
        right = jnp.stack([self._known(j, t, whitening) for j in others], axis=-2)
        explained = jnp.einsum("...mc,tnc->...mtn", left, right)
        return self.kernel.matrix(orders, s, others, t) - explained

    def _whitening(self) -> Float[Array, "c c"]:
        """The inverse of the Cholesky factor of the conditions' covariance, written out."""
        (t, d), *others = self.conditions
        first = 1.0 / jnp.sqrt(self.kernel.derivative(d, d, t, t))
        if not others:
            return first[None, None]
        ((u, e),) = others
        below = self.kernel.derivative(e, d, u, t) * first
        second = 1.0 / jnp.sqrt(self.kernel.derivative(e, e, u, u) - below**2)
        return jnp.array([[first, 0.0], [-below * first * second, second]])

    def _known(self, i: int, s: Array, whitening: Array) -> Float[Array, "*s c"]:
        """Covariance of the i-th derivative at s with the whitened conditions."""
        cross = jnp.stack([self.kernel.derivative(i, d, s, t) for t, d in self.conditions], -1)
        return cross @ whitening.T
