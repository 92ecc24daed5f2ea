"""What is known about the error of evaluating f at an estimate instead of at the solution.

At node t_i the solver evaluates f at the estimates (c, c') and observes something about the
derivative c^(n) there. An error model says what: a linear map H of the curve and its derivatives at
t_i, its value, and the covariance Lambda_i of the noise on it (Eq. 10 and 12).

Covariances come in blocks of size B: B = D in general, B = 1 if every Lambda_i is a multiple of V,
when the factor V drops out of all of them (`kronecker`).
"""

from typing import Any

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from probgeo._old._checks import as_float_array, is_concrete
from probgeo._old.ode.problem import UnitTime


def evaluate(f: UnitTime, tau: Array, state: Float[Array, "n d"]) -> Float[Array, " d"]:
    """f at one time, the state stacked as an array."""
    return f(tau, *state)


class ErrorModel(eqx.Module):
    """The base: the evaluation is taken as an observation of c^(n), with some noise."""

    @property
    def kronecker(self) -> bool:
        """Whether the noise is always a multiple of V."""
        return False

    def check(self, order: int, dimension: int) -> None:
        """Raise if the model does not fit problems of this order and dimension."""

    def observe(
        self, f: UnitTime, tau: Array, state: Float[Array, "n d"]
    ) -> tuple[Float[Array, " d"], Float[Array, "b n+1 b"]]:
        """Value and map H of the observation made at `state`."""
        n, d = state.shape
        b = 1 if self.kronecker else d
        h = jnp.zeros((b, n + 1, b)).at[:, n, :].set(jnp.eye(b))
        return evaluate(f, tau, state), h

    def noise(
        self, f: UnitTime, tau: Array, state: Float[Array, "n d"], sigma: Float[Array, "n b n b"]
    ) -> Float[Array, "b b"]:
        """Lambda_i, given the covariance `sigma` of the estimates."""
        raise NotImplementedError


class NoError(ErrorModel):
    """The estimate is taken for the truth. The Gram matrix is then the same for all problems."""

    @property
    def kronecker(self) -> bool:
        return True

    def noise(self, f: UnitTime, tau: Array, state: Array, sigma: Array) -> Array:
        return jnp.zeros((1, 1))


class JacobianError(ErrorModel):
    """The exact first-order covariance J Sigma J' of the error, as independent noise."""

    def noise(self, f: UnitTime, tau: Array, state: Array, sigma: Array) -> Array:
        j = f.jacobian(tau, state)
        return jnp.einsum("ami,minj,bnj->ab", j, sigma, j)


class BoundError(ErrorModel):
    """Eq. 10: noise from bounds U on |df/dc| and U' on |df/dc'|.

    Parameters
    ----------
    U, U_prime : float or array (D, D)
        U[i, j] bounds |d f_j / d c_i| (Eq. 9). Two floats u bound the Jacobian as u times the
        identity and keep the Kronecker structure. U_prime is not needed for first-order ODEs.

    Eq. 10 as printed can be indefinite (erratum 4); then its majorant
    2 (U' Sigma_cc U + U'' Sigma_c'c' U') takes its place.
    """

    bounds: Float[Array, "n ..."]

    def __init__(self, U: Any, U_prime: Any = None) -> None:
        given = {"U": U} if U_prime is None else {"U": U, "U_prime": U_prime}
        arrays = {name: as_float_array(name, value) for name, value in given.items()}
        for name, bound in arrays.items():
            if bound.ndim not in (0, 2) or (bound.ndim == 2 and bound.shape[0] != bound.shape[1]):
                raise ValueError(f"{name} must be a number or a (D, D) array, got {bound.shape}")
            if is_concrete(bound) and bool((bound < 0).any()):
                raise ValueError(f"{name} bounds absolute values and must not be negative")
        if len({bound.shape for bound in arrays.values()}) > 1:
            raise ValueError("U and U_prime must both be numbers or both be (D, D) arrays")
        self.bounds = jnp.stack(list(arrays.values()))

    @property
    def kronecker(self) -> bool:
        return self.bounds.ndim == 1

    def check(self, order: int, dimension: int) -> None:
        if len(self.bounds) != order:
            needed = "U and U_prime" if order == 2 else "only U, without U_prime"
            raise ValueError(f"BoundError needs {needed} for an ODE of order {order}")
        if not self.kronecker and self.bounds.shape[-1] != dimension:
            raise ValueError(
                f"U must have shape ({dimension}, {dimension}), got {self.bounds[0].shape}"
            )

    def noise(self, f: UnitTime, tau: Array, state: Array, sigma: Array) -> Array:
        bounds = self.bounds[:, None, None] if self.kronecker else self.bounds
        # terms[m, n] = U_m' Sigma_mn U_n, with absolute values off the diagonal
        terms = jnp.einsum("mia,minj,njb->mnab", bounds, sigma, bounds)
        count = len(bounds)
        same = jnp.eye(count, dtype=bool)[:, :, None, None]
        printed = jnp.sum(jnp.where(same, terms, jnp.abs(terms)), axis=(0, 1))
        majorant = count * jnp.sum(jnp.where(same, terms, 0.0), axis=(0, 1))
        printed = 0.5 * (printed + printed.T)
        return jnp.where(jnp.linalg.eigvalsh(printed)[0] >= 0.0, printed, majorant)


class Linearised(ErrorModel):
    """f is replaced by its linearisation: c^(n) - J (c, c') is observed without noise.

    The error J (c - estimate) then keeps its correlation with the curve, so that the posterior of
    a linear ODE is exact; sweeps over it are Gauss-Newton steps.
    """

    def observe(self, f: UnitTime, tau: Array, state: Array) -> tuple[Array, Array]:
        value, h = super().observe(f, tau, state)
        j = f.jacobian(tau, state)
        return value - jnp.einsum("ami,mi->a", j, state), h.at[:, :-1, :].set(-j)

    def noise(self, f: UnitTime, tau: Array, state: Array, sigma: Array) -> Array:
        return jnp.zeros((state.shape[-1], state.shape[-1]))
