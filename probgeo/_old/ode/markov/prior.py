"""State-space priors: q-times integrated Wiener processes and Matern processes.

The state holds the curve and its first q derivatives as x_i = unit^i c^(i) / i!, all in the units
of c: Nordsieck's coordinates for steps of about the length `unit`. A step is described by least
squares rows: root (x_next - A x) has unit covariance.
"""

import math
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from probgeo._old.ode.kernels import matern_radial
from probgeo._old.ode.markov.exact import wiener_bridge, wiener_whitening

Rows = tuple[int, ...] | None  # entries of a state


class Step(NamedTuple):
    """x_next = A x + root^-1 noise."""

    A: Float[Array, "s s"]
    root: Float[Array, "s s"]


class Bridge(NamedTuple):
    """Some entries of x between two states: left x_left + right x_right + noise.

    `cov` is the covariance of the noise in these entries with that in all.
    """

    left: Float[Array, "r s"]
    right: Float[Array, "r s"]
    cov: Float[Array, "r s"]


class Prior(eqx.Module):
    """A Gauss-Markov process with q derivatives."""

    q: int = eqx.field(static=True)

    def step(self, h: Array, unit: Array) -> Step:
        """The transition over a step h, noise of unit intensity."""
        raise NotImplementedError

    @property
    def diffuse(self) -> bool:
        """Whether nothing is known about the state at time 0."""
        return False

    @property
    def intensity(self) -> Array:
        """Of the white noise that drives c^(q+1): all that matters over a short step."""
        return jnp.array(1.0)

    def initial_root(self, unit: Array) -> Float[Array, "s s"]:
        """Least squares rows of the state at time 0, if something is known about it."""
        raise NotImplementedError

    def bridge(self, before: Array, after: Array, unit: Array, rows: Rows = None) -> Bridge:
        """The state at a time `before` after the left and `after` before the right neighbour.

        Only its entries `rows`, by default all.
        """
        raise NotImplementedError


class WienerPrior(Prior):
    """The q-times integrated Wiener process: c^(q+1) is white noise.

    By default nothing is known about the state at time 0; `initial` gives variances of the curve
    and its derivatives there.
    """

    initial: Float[Array, " s"] | None = None

    @property
    def diffuse(self) -> bool:
        return self.initial is None

    def step(self, h: Array, unit: Array) -> Step:
        s = self.q + 1
        r = (h / unit) ** jnp.arange(s)
        pascal = jnp.array([[math.comb(j, i) for j in range(s)] for i in range(s)], dtype=float)
        # covariance h^(2q+1) / q!^2 times a constant matrix, in the coordinates of the step h
        whitening = jnp.asarray(wiener_whitening(self.q))
        weight = math.factorial(self.q) / h ** (self.q + 0.5)
        return Step(pascal * r[None, :] / r[:, None], weight * whitening * r[None, :])

    def bridge(self, before: Array, after: Array, unit: Array, rows: Rows = None) -> Bridge:
        # The smoothest curve between two states is Hermite's polynomial. Polynomials in the part
        # of the step that lies behind, at most a half: from the other half by reflection.
        s, h = self.q + 1, before + after
        some = np.arange(s) if rows is None else np.array(rows)
        table = [t[:, some] for t in wiener_bridge(self.q)]
        late = before > after
        theta = jnp.minimum(before, after) / h
        powers = theta ** jnp.arange(max(map(len, table)))
        near, far = (jnp.tensordot(powers[: len(t)], jnp.asarray(t), 1) for t in table[:2])
        variance = jnp.tensordot(powers[: len(table[2])], jnp.asarray(table[2]), 1)
        sign = (-1.0) ** jnp.arange(s)
        mirror = sign[some, None] * sign[None, :]
        left = jnp.where(late, mirror * far, near)
        right = jnp.where(late, mirror * near, far)
        variance = jnp.where(late, mirror * variance, variance)
        r = (h / unit) ** jnp.arange(s)
        scaling = r[None, :] / r[some, None]
        noise = h ** (2 * self.q + 1) / math.factorial(self.q) ** 2
        variance = noise * variance / (r[some, None] * r[None, :])
        return Bridge(left * scaling, right * scaling, variance)

    def initial_root(self, unit: Array) -> Array:
        assert self.initial is not None
        return jnp.diag(to_derivatives(self.q, unit) / jnp.sqrt(self.initial))


class MaternPrior(Prior):
    """A Matern process of smoothness nu = q + 1/2, unit variance, started in equilibrium."""

    lengthscale: Float[Array, ""]

    def bridge(self, before: Array, after: Array, unit: Array, rows: Rows = None) -> Bridge:
        first, second = self.step(before, unit), self.step(after, unit)
        noise, later = (jnp.linalg.inv(step.root) for step in (first, second))
        noise, later = noise @ noise.T, later @ later.T
        gain = jnp.linalg.solve(second.A @ noise @ second.A.T + later, second.A @ noise).T
        left = first.A - gain @ second.A @ first.A
        some = np.arange(self.q + 1) if rows is None else np.array(rows)
        return Bridge(left[some], gain[some], (noise - gain @ second.A @ noise)[some])

    def step(self, h: Array, unit: Array) -> Step:
        # (d/dt + rate)^(q+1) = 0: but for exp(-rate h) transitions are polynomials in h
        powers = [jnp.eye(self.q + 1)]
        for k in range(1, self.q + 1):
            powers.append(self._nilpotent(unit) @ powers[-1] * (h / k))
        terms = jnp.stack(powers)

        def transition(part: Array) -> Array:
            decay = jnp.exp(-self._rate * h * part)
            return decay * jnp.tensordot(part ** jnp.arange(self.q + 1), terms, 1)

        A = transition(jnp.array(1.0))
        # noise integral by quadrature: a sum of outer products, so that nothing cancels
        points, weights = np.polynomial.legendre.leggauss(self.q + 8)
        theta = jnp.asarray(0.5 * (points + 1.0))
        columns = jax.vmap(transition)(theta)[:, :, -1] / to_derivatives(self.q, unit)[-1]
        columns = columns * jnp.sqrt(0.5 * weights * h * self.intensity)[:, None]
        # a triangular factor of the covariance columns' columns
        r = jnp.linalg.qr(columns[:, ::-1], mode="r")
        lower = r.T[::-1, ::-1]  # upper triangular factor of the covariance, in the old order
        return Step(A, jnp.linalg.inv(lower))

    def initial_root(self, unit: Array) -> Array:
        scale = to_derivatives(self.q, unit)
        derivatives = jnp.linalg.cholesky(self._equilibrium())
        return jnp.linalg.inv(derivatives) * scale[None, :]

    @property
    def _rate(self) -> Array:
        return math.sqrt(2.0 * self.q + 1.0) / self.lengthscale

    def _nilpotent(self, unit: Array) -> Float[Array, "s s"]:
        """Companion matrix of (d/dt + rate)^(q+1), plus rate, in the coordinates of the state."""
        s = self.q + 1
        scale = to_derivatives(self.q, unit)
        companion = jnp.diag(jnp.ones(s - 1), 1)
        last = jnp.array([-math.comb(s, i) * self._rate ** (s - i) for i in range(s)])
        drift = companion.at[-1].set(last) * scale[None, :] / scale[:, None]
        return drift + self._rate * jnp.eye(s)

    @property
    def intensity(self) -> Array:
        """The one that gives unit variance."""
        q = self.q
        constant = 2.0 ** (2 * q + 1) * math.factorial(q) ** 2 / math.factorial(2 * q)
        return constant * self._rate ** (2 * q + 1)

    def _equilibrium(self) -> Float[Array, "s s"]:
        """Covariance of the derivatives: the Matern kernel's, at lag 0."""
        zero = jnp.zeros(())
        entries = [
            matern_radial(self.q, n, zero) / self.lengthscale**n for n in range(2 * self.q + 1)
        ]
        s = self.q + 1
        return jnp.array([[(-1) ** j * entries[i + j] for j in range(s)] for i in range(s)])


def to_derivatives(q: int, unit: Array) -> Float[Array, " s"]:
    """c^(i) = factor_i x_i."""
    factorials = jnp.array([math.factorial(i) for i in range(q + 1)], dtype=float)
    return factorials / unit ** jnp.arange(q + 1)
