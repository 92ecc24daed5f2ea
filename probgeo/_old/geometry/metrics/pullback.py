"""The metric that a decoder pulls back from the space it maps to."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from probgeo._old._checks import is_concrete
from probgeo._old.geometry.equation import Metric
from probgeo._old.geometry.inputs import as_function, as_number


class Pullback(Metric):
    """M(x) = J(x)' J(x) of a decoder f: R^D -> R^M, so that lengths are those of the decoded curve.

    With the standard deviation of a random decoder mean(x) + std(x) * noise, as of a variational
    autoencoder, it is the expected metric J_mean' J_mean + J_std' J_std.

    Parameters
    ----------
    decoder : function x (D,) -> array of any shape
        The decoder, or its mean.
    std : function x (D,) -> array of any shape, optional
        Standard deviation of the decoder.
    regularisation : float
        This multiple of the identity is added; needed if the decoder does not see all directions.

    Products M(x) v take one forward and one reverse derivative. The geodesic equation is
    M c'' = -J' f''(c', c'), with one second directional derivative of the decoder: two terms of the
    general equation cancel.

    References
    ----------
    Tosi, Hauberg, Vellido & Lawrence (2014), Metrics for probabilistic geometries.
    Arvanitidis, Hansen & Hauberg (2018), Latent space oddity.

    Examples
    --------
    >>> torus = lambda x: jnp.array([jnp.cos(x[0]), jnp.sin(x[0]), jnp.cos(x[1]), jnp.sin(x[1])])
    >>> Pullback(torus)(jnp.array([0.3, 0.7])).round(12).tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    """

    decoder: Callable
    std: Callable | None
    regularisation: Float[Array, ""]

    def __init__(
        self, decoder: Callable, std: Callable | None = None, regularisation: Any = 0.0
    ) -> None:
        self.decoder = as_function("decoder", decoder)
        self.std = None if std is None else as_function("std", std)
        self.regularisation = as_number("regularisation", regularisation, or_zero=True)

    def decode(self, x: Float[Array, " d"]) -> Float[Array, " m"]:
        """All outputs in one vector: those of the mean, then those of the standard deviation."""
        mean = jnp.ravel(self.decoder(x))
        return mean if self.std is None else jnp.concatenate([mean, jnp.ravel(self.std(x))])

    def __call__(self, x: Float[Array, " d"]) -> Float[Array, "d d"]:
        J = jax.jacfwd(self.decode)(x)
        (M, D), added = J.shape, self.regularisation
        if M < D and is_concrete(added) and added == 0:
            raise ValueError(
                f"decoder must return at least as many numbers as the {D} coordinates it takes, "
                f"got {M}; or give a positive regularisation"
            )
        return J.T @ J + added * jnp.eye(D)

    def apply(self, x: Float[Array, " d"], v: Float[Array, " d"]) -> Float[Array, " d"]:
        Jv = self._directional(x, v)
        (JtJv,) = jax.vjp(self.decode, x)[1](Jv)
        return JtJv + self.regularisation * v

    def energy(self, x: Float[Array, " d"], v: Float[Array, " d"]) -> Float[Array, ""]:
        return jnp.sum(self._directional(x, v) ** 2) + self.regularisation * (v @ v)

    def acceleration(self, x: Float[Array, " d"], v: Float[Array, " d"]) -> Float[Array, " d"]:
        _, second = jax.jvp(lambda y: self._directional(y, v), (x,), (v,))
        (force,) = jax.vjp(self.decode, x)[1](second)
        return self.solve(x, -force)

    def _directional(self, x: Float[Array, " d"], v: Float[Array, " d"]) -> Float[Array, " m"]:
        """J(x) v."""
        return jax.jvp(self.decode, (x,), (v,))[1]
