"""Logarithms of many points at one base, and what statistics need to know of them."""

import dataclasses
import warnings
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from probgeo._old._compile import compiled, hurried, is_little
from probgeo._old.geometry import Geodesic, Manifold, Metric
from probgeo._old.geometry.metrics.flat import Flat
from probgeo._old.geometry.polyline import straight
from probgeo._old.geometry.rows import LARGEST, chunks, filled
from probgeo._old.ode.curve import ConvergenceWarning

AT_ONCE = 256  # points whose geodesics are in memory at a time
NODES = 33  # of each geodesic that are kept for the next one, and that its slope is found on:
MANY = 16  # half of them from so many dimensions on


class Logs(NamedTuple):
    """Of P points at one base.

    vectors : array (P, D)
    cov : array (P, D, D)
        Of the vectors, from the numerics alone.
    slopes : array (P, D, D)
        Derivatives of the vectors by the base: -I where space is flat.
    length, length_var : array (P,)
        Distances, and their variances.
    converged : bool array (P,)
    paths : array (P, T, D)
        The geodesics, from which those at a base nearby are found quickly.
    """

    vectors: np.ndarray
    cov: np.ndarray
    slopes: np.ndarray
    length: np.ndarray
    length_var: np.ndarray
    converged: np.ndarray
    paths: np.ndarray

    def usable(self) -> "Logs":
        """Where there is no geodesic at all, nothing: the point pulls in no direction."""
        finite = np.isfinite(self.length) & np.isfinite(self.vectors).all(axis=1)
        finite &= np.isfinite(self.cov).all(axis=(1, 2)) & np.isfinite(self.slopes).all(axis=(1, 2))
        if finite.all():
            return self

        def kept(x: np.ndarray) -> np.ndarray:
            return np.where(finite.reshape(-1, *[1] * (x.ndim - 1)), x, 0.0)

        values: Any = (*map(kept, self[:5]), self.converged & finite, self.paths)
        return Logs(*values)

    def moved(self, step: np.ndarray) -> "Logs":
        """The same at a base that is a small step further, to first order."""
        return self._replace(vectors=self.vectors + self.slopes @ step)


def logs_at(
    manifold: Manifold, base: np.ndarray, X: np.ndarray, paths: np.ndarray | None = None
) -> Logs:
    """Logarithms of the points X (P, D) at one base (D,), or at one each, in chunks.

    `paths` (P, T, D) are first guesses of the geodesics. What did not converge is in the result;
    there is no warning, because callers go on.
    """
    if isinstance(manifold.metric, Flat):
        return _flat_logs(manifold.metric, base, X)
    parts, bases = [], np.broadcast_to(base, X.shape)
    for k in chunks(len(X), AT_ONCE):
        guess = None if paths is None else _finite(paths[k], bases[k], X[k])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            geodesic = manifold.geodesic(bases[k], X[k], guess=guess, progress=False)
        # the names of starts are part of what is compiled, and of no interest here
        geodesic = dataclasses.replace(geodesic, starts=())
        with hurried(is_little(*X.shape)):
            for part in chunks(len(k), LARGEST):
                found = _summary(geodesic[filled(part)])
                parts.append(jax.tree.map(lambda x, k=part: np.asarray(x)[: len(k)], found))
    return jax.tree.map(lambda *x: np.concatenate(x), *parts)


def _finite(paths: np.ndarray, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Straight lines where there was no geodesic."""
    good = np.isfinite(paths).all(axis=(1, 2))
    return np.where(good[:, None, None], paths, straight(a, b, paths.shape[1] - 1))


@compiled
def _summary(geodesic: Geodesic) -> Any:
    times = jnp.linspace(0.0, 1.0, NODES)
    points, velocities = geodesic.mean(times), geodesic.mean(times, 1)
    log, length = geodesic.log(source="numerical"), geodesic.measure(source="numerical")
    every = 2 if geodesic.dimension >= MANY else 1
    curves = (points[:, ::every], velocities[:, ::every])
    slopes = jax.lax.map(lambda c: slope_of_log(geodesic.metric, *c), curves)
    values: Any = (log.mean, log.cov, slopes, length.mean, length.cov, geodesic.converged, points)
    return Logs(*values)


def slope_of_log(
    metric: Metric, c: Float[Array, "t d"], dc: Float[Array, "t d"]
) -> Float[Array, "d d"]:
    """The derivative of c'(0) by c(0), with c(1) held: a Jacobi field.

    e'' = (df/dc) e + (df/dc') e' with e(0) = I and e(1) = 0, by central differences on equal
    steps: e_k = G_k e_(k-1), and G follows from the end backwards. Wanted is e'(0).
    """
    J = jax.vmap(metric.acceleration_jacobian)(c, dc)
    one, h = jnp.eye(c.shape[-1]), 1.0 / (len(c) - 1)
    by_c, by_dc = J[:, :, 0], J[:, :, 1]
    before, after = one / h**2 + by_dc / (2 * h), one / h**2 - by_dc / (2 * h)
    here = -2.0 * one / h**2 - by_c

    def back(G: Array, row: tuple) -> tuple[Array, None]:
        before, here, after = row
        return -jnp.linalg.solve(here + after @ G, before), None

    rows = (before[1:-1], here[1:-1], after[1:-1])
    G, _ = jax.lax.scan(back, jnp.zeros_like(one), rows, reverse=True)
    # e_1 = e_0 + h e'_0 + h^2/2 e''_0, with e''_0 from the equation
    return jnp.linalg.solve(h * one + h**2 / 2 * by_dc[0], G - one - h**2 / 2 * by_c[0])


def _flat_logs(metric: Flat, base: np.ndarray, X: np.ndarray) -> Logs:
    """In closed form, and exact."""
    count, D = X.shape
    zero = np.zeros((count, D, D))
    return Logs(
        vectors=X - base,
        cov=zero,
        slopes=zero - np.eye(D),
        length=np.asarray(metric.distance(base, X)),
        length_var=np.zeros(count),
        converged=np.ones(count, dtype=bool),
        paths=np.stack([np.broadcast_to(base, X.shape), X], axis=1),
    )
