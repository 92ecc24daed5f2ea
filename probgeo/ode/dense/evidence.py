"""The evidence of the evaluations, and the length scale that maximises it (Sec. 3.4, supplement C).

Boundary values are given by the user and need no explanation: the evidence is
p(Y | a, b, lambda) = p(Y, a, b | lambda) / p(a, b | lambda). Eq. 18 is the numerator.
"""

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from probgeo.ode.dense.algebra import solve_lower
from probgeo.ode.dense.gram import Observations, PriorAtNodes, SplitCovariance
from probgeo.ode.kernels import Stationary


class Evidence(NamedTuple):
    """Parts of -2 log p(Y | a, b) = quadratic / s^2 + size log(2 pi s^2) + log_determinant.

    s is the scale of V. Arrays (P,).
    """

    quadratic: np.ndarray
    log_determinant: np.ndarray
    size: int

    def best_scale2(self) -> np.ndarray:
        """The square of the scale of V with the highest evidence."""
        return self.quadratic / self.size

    def log(self, scale2: np.ndarray) -> np.ndarray:
        scale2 = np.maximum(scale2, np.finfo(float).tiny)
        spread = self.size * np.log(2.0 * np.pi * scale2)
        return -0.5 * (self.quadratic / scale2 + spread + self.log_determinant)


def evidence(L: np.ndarray, surprise: np.ndarray, V: SplitCovariance) -> Evidence:
    """The evidence for unit scale, from the Cholesky factor of the (pinned) Gram matrix."""
    rows, columns = surprise.shape[1:]
    root = np.linalg.cholesky(V.columns)
    z = solve_lower(L, solve_lower(root[None], surprise.mT).mT)
    determinant = 2.0 * (columns * _log_diagonal(L) + rows * _log_diagonal(root))
    return Evidence(np.sum(z**2, axis=(1, 2)), determinant, rows * columns)


def _log_diagonal(L: np.ndarray) -> np.ndarray:
    return np.sum(np.log(np.diagonal(L, axis1=-2, axis2=-1)), axis=-1)


def best_lengthscales(
    kernel: Stationary, prior: PriorAtNodes, observations: Observations, scale2: np.ndarray | None, start: np.ndarray
) -> np.ndarray:
    """The length scales (P,) of highest evidence for given evaluations, from those of `start`.

    Where `scale2` is None or NaN the scale of V is the best one for each of them.
    """
    surprise = prior.surprise(observations)

    def surprising(log_lengthscale: np.ndarray, members: np.ndarray) -> np.ndarray:
        trial = prior.take(members).with_kernel(kernel.with_lengthscale(np.exp(log_lengthscale)))
        fit = evidence(trial.factor(observations.take(members)), surprise[members], prior.V)
        size = fit.best_scale2()
        if scale2 is not None:
            size = np.where(np.isnan(scale2[members]), size, scale2[members])
        return -fit.log(size)

    bounds = math.log(0.02), math.log(2.0)  # of length scales, as fractions of the interval
    return np.exp(minimised(surprising, np.clip(np.log(start), *bounds), bounds))


def minimised(
    function: Callable[[np.ndarray, np.ndarray], np.ndarray], x: np.ndarray, bounds: tuple[float, float]
) -> np.ndarray:
    """Local minima of P functions of one number from x (P,), each as if alone.

    `function(x, members)` gives values of some members. From three points a step apart each member goes to the lowest
    or, if that is the one in the middle, to the vertex of the parabola through them, and makes its steps shorter.
    """
    x, step = x.copy(), np.full(len(x), 0.5)
    lowest = np.nan_to_num(function(x, np.arange(len(x))), nan=np.inf)
    while len(members := np.flatnonzero(step > 1e-3)):
        h, centre, middle = step[members], x[members], lowest[members]
        sides = np.clip(np.stack([centre - h, centre + h]), *bounds)
        values = np.nan_to_num(function(sides.ravel(), np.tile(members, 2)), nan=np.inf).reshape(2, -1)
        inside = (values >= middle).all(axis=0)
        with np.errstate(all="ignore"):
            vertex = centre + 0.5 * h * (values[0] - values[1]) / (values.sum(axis=0) - 2.0 * middle)
        vertex = np.clip(np.where(inside & np.isfinite(vertex), vertex, centre), *bounds)
        at_vertex = np.nan_to_num(function(vertex, members), nan=np.inf)
        places, values = np.stack([centre, *sides, vertex]), np.stack([middle, *values, at_vertex])
        best = values.argmin(axis=0), np.arange(len(members))
        x[members], lowest[members] = places[best], values[best]
        step[members] = np.where(inside, 0.1 * h, h)
    return x
