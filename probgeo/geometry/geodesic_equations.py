"""The equations of geodesics and of parallel transport, as right-hand sides of ODEs."""

import numpy as np

from probgeo.functions import Field
from probgeo.metrics import Metric
from probgeo.ode.curve import Posterior


class GeodesicField(Field):
    """c'' = f(c, c') of a metric, in coordinates relative to an origin of every member.

    Geodesics are solved relative to where they begin: tolerances are then relative to how far they
    go, and do not change when the data are moved.
    """

    order = 2

    def __init__(self, metric: Metric, origin: np.ndarray) -> None:
        self.metric = metric
        self.origin = origin  # (members, D)
        self.dimension = origin.shape[1]

    def values(self, t: np.ndarray, state: np.ndarray, member: np.ndarray) -> np.ndarray:
        return self.metric.accelerations(*self._place(state, member))

    def jacobians(self, t: np.ndarray, state: np.ndarray, member: np.ndarray) -> np.ndarray:
        return self.metric.acceleration_jacobians(*self._place(state, member))

    def _place(self, state: np.ndarray, member: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return self.origin[member] + state[:, 0], np.ascontiguousarray(state[:, 1])


class FieldAlong(Field):
    """An equation that is linear in the state, along the means of geodesics or other curves."""

    def __init__(self, metric: Metric, posterior: Posterior, along: np.ndarray) -> None:
        self.metric, self.posterior = metric, posterior
        self.along = along  # (members,): the curve of each
        self.dimension = posterior.dimension

    def values(self, t: np.ndarray, state: np.ndarray, member: np.ndarray) -> np.ndarray:
        return self.values_and_jacobians(t, state, member)[0]

    def values_and_jacobians(
        self, t: np.ndarray, state: np.ndarray, member: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        jacobians = self.jacobians(t, state, member)
        return np.einsum("nmij,nmj->ni", jacobians, state), jacobians

    def jacobians(self, t: np.ndarray, state: np.ndarray, member: np.ndarray) -> np.ndarray:
        """Derivatives (n, 2, D, D) of c'' by c and by c'."""
        curve = self.along[member]
        c, dc = (self.posterior.mean_at(curve, t, derivative) for derivative in (0, 1))
        return self.metric.acceleration_jacobians(c, dc)


class JacobiField(FieldAlong):
    """u'' = A u + B u', A and B the derivatives of c'' by c and c': how neighbours move."""

    order = 2


class TransportField(FieldAlong):
    """v' = -Gamma(c)(c', v): a vector carried parallel to itself along the mean of a curve.

    The acceleration of a geodesic is a(u) = -Gamma(u, u), so that -Gamma(u, .) is half of its
    derivative by u.
    """

    order = 1

    def jacobians(self, t: np.ndarray, state: np.ndarray, member: np.ndarray) -> np.ndarray:
        return 0.5 * super().jacobians(t, state, member)[:, 1:]
