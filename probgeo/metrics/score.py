"""The metric of the graph of a log density, from its gradient alone."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from probgeo._checks import as_positive
from probgeo.functions import RowFunction, as_row_function
from probgeo.functions.composed import Composed
from probgeo.metrics.arguments import as_function, unwrapped
from probgeo.metrics.flat import Flat
from probgeo.metrics.metric import Metric, Sum, as_metric, jax_methods


@dataclass(frozen=True)
class Outer:
    """alpha^2 s s' (..., D, D) of a vector s (..., D), in any framework."""

    alpha: float

    def __call__(self, s: Any) -> Any:
        return self.alpha**2 * s[..., :, None] * s[..., None, :]


@dataclass(frozen=True, init=False, repr=False, eq=False)
class ScoreMetric(Sum):
    """M(x) = B(x) + alpha^2 s(x) s(x)', see `from_score`."""

    score: Callable
    alpha: float
    base: Metric

    def __init__(self, score: Callable, alpha: Any = 1.0, base: Any = None) -> None:
        vars(self).update(
            score=as_function("score", score),
            alpha=as_positive("alpha", alpha, or_zero=True),
            base=Flat() if base is None else as_metric(base),
        )

    @property
    def dimension(self) -> int | None:
        return self.base.dimension

    def _in_jax(self, x: Any) -> Any:
        added = Composed(unwrapped(self.score), Outer(self.alpha))
        return self.base(x) + jax_methods().at_points(added, x)

    def _parts(self, x: np.ndarray) -> tuple[Metric | RowFunction, ...]:
        def make(D: int) -> RowFunction:
            return as_row_function(self.score, D, "score", (D,), after=Outer(self.alpha))

        return self.base, self._kept(x.shape[1], make)

    def landmarks(self) -> np.ndarray:
        return self.base.landmarks()


def from_score(score: Callable, alpha: Any = 1.0, *, base: Any = None) -> ScoreMetric:
    """M(x) = I + alpha^2 s(x) s(x)' with s the gradient of a log density: lengths on its graph.

    A curve is as long as the one above it on the surface (x, alpha log p(x)). Steps along level sets cost what they do
    in flat space, steps up or down the more the steeper the density. The density itself is not needed, nor its
    normalisation: the score that a diffusion model has learned will do.

    Parameters
    ----------
    score : function x (D,) -> (D,)
        Gradient of log p, in JAX; or of rows (n, D) -> (n, D) in NumPy or torch, for instance a `torch.nn.Module`.
    alpha : float
        The height, in the units of x, that a change of the density by a factor e counts for. At a
        normal density of standard deviation sigma, alpha = sigma makes the metric I + z z' with z
        the distance from the mean in standard deviations. With 0 the metric is the base.
    base : metric, optional
        To be used in place of the identity.

    References
    ----------
    Hartmann, Girolami & Klami (2022), Lagrangian manifold Monte Carlo on Monge patches.

    Examples
    --------
    >>> metric = from_score(lambda x: -x)  # of a standard normal density
    >>> metric(np.array([2.0, 0.0])).tolist()
    [[5.0, 0.0], [0.0, 1.0]]
    """
    return ScoreMetric(score, alpha, base)
