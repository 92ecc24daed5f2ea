"""Several metrics for one and the same space: how sure is the metric itself?"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from probgeo._checks import as_generator, as_whole_number
from probgeo.metrics.arguments import as_distinct_points, far_apart
from probgeo.metrics.learners import Learner
from probgeo.metrics.metric import Metric, Sum
from probgeo.metrics.pullback import Pullback


@dataclass(frozen=True, init=False, repr=False, eq=False)
class Ensemble(Sum):
    """The expected metric of several members, each of which may be right.

    Geodesics are those of the average of all M(x); a decoder drawn anew at every moment would make
    curves that long, on average. Distances and means come with the spread over the members as
    well, each with shortest curves of its own: see `Manifold.distance` and `FrechetMean`.

    Parameters
    ----------
    members : sequence
        Metrics; decoders, or pairs (mean, std) of them, are pulled back.

    References
    ----------
    Syrota, Moreno-Munoz & Hauberg (2024), Decoder ensembling for learned latent geometries.

    Examples
    --------
    >>> from probgeo import Manifold, metrics
    >>> ensemble = Ensemble([metrics.Flat(np.eye(2)), metrics.Flat(2.0 * np.eye(2))])
    >>> ensemble([0.0, 0.0]).tolist()
    [[1.5, 0.0], [0.0, 1.5]]
    >>> distance = Manifold(ensemble).distance([0.0, 0.0], [1.0, 0.0])
    >>> distance.members.round(3).tolist(), round(float(distance.model_std), 3)
    ([1.0, 1.414], 0.293)
    """

    members: tuple[Metric, ...]

    def __init__(self, members: Sequence[Any]) -> None:
        if callable(members) or not isinstance(members, Sequence) or not len(members):
            raise ValueError(f"members must be a list of metrics or decoders, at least one, got {members!r}")
        made = tuple(_member(k, member) for k, member in enumerate(members))
        sizes = sorted({m.dimension for m in made if m.dimension is not None})
        if len(sizes) > 1:
            raise ValueError(f"members must have the same number of dimensions, got {sizes}")
        vars(self).update(members=made)

    @property
    def dimension(self) -> int | None:
        return next((m.dimension for m in self.members if m.dimension is not None), None)

    @property
    def is_flat(self) -> bool:  # type: ignore[override]
        return all(member.is_flat for member in self.members)

    def _in_jax(self, x: Any) -> Any:
        return sum(member(x) for member in self.members) / len(self.members)

    def _parts(self, x: np.ndarray) -> tuple[Metric, ...]:
        return self.members

    def _sum(self, what: str, x: np.ndarray, *more: Any) -> Any:
        total, count = super()._sum(what, x, *more), len(self.members)
        return tuple(array / count for array in total) if isinstance(total, tuple) else total / count

    def landmarks(self) -> np.ndarray:
        """Those of all members, which are much alike: as many as one of them has at most, far apart."""
        known = [points for points in (member.landmarks() for member in self.members) if len(points)]
        if not known:
            return super().landmarks()
        points = np.concatenate(known)
        return points[far_apart(points, max(map(len, known)))]


def _member(number: int, member: Any) -> Metric:
    if isinstance(member, Metric):
        return member
    if isinstance(member, tuple) and len(member) == 2:
        return Pullback(*member)
    if not callable(member):
        raise TypeError(f"members[{number}] must be a metric or a decoder, got {member!r}")
    return Pullback(member)


def bootstrap(X: Any, fit: Learner | Callable[[np.ndarray], Any], n: int = 10, *, seed: int = 0) -> Ensemble:
    """Metrics learned from `n` samples of the data with replacement: what other data would say.

    Parameters
    ----------
    X : array (N, D)
    fit : learner, or function X (N, D) -> metric
        For instance `metrics.Mixture(n_components=8)`.
    n : int
    seed : int
        Of the samples.

    Examples
    --------
    >>> from probgeo import metrics
    >>> X = np.random.default_rng(0).normal(size=(100, 2))
    >>> len(bootstrap(X, metrics.Mixture(n_components=2), n=3).members)
    3
    """
    data, count = as_distinct_points("X", X), as_whole_number("n", n, 1)
    learn = fit.learn if isinstance(fit, Learner) else fit
    if not callable(learn):
        raise TypeError(f"fit must be a learner or a function of data, got {fit!r}")
    rng = as_generator("seed", seed)
    samples = (data[rng.integers(len(data), size=len(data))] for _ in range(count))
    return Ensemble([learn(sample) for sample in samples])
