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


class TransportField(Field):
    """v' = -Gamma(c)(c', v): a vector carried parallel to itself along the mean of a curve.

    The acceleration of a geodesic is a(u) = -Gamma(u, u), so that -Gamma(u, .) is half of its
    derivative by u.
    """

    order = 1

    def __init__(self, metric: Metric, posterior: Posterior, along: np.ndarray) -> None:
        self.metric = metric
        self.posterior = posterior
        self.along = along  # (members,): the curve that each member is carried along
        self.dimension = posterior.dimension

    def values(self, t: np.ndarray, state: np.ndarray, member: np.ndarray) -> np.ndarray:
        connection = self.jacobians(t, state, member)[:, 0]
        return np.einsum("nij,nj->ni", connection, state[:, 0])

    def jacobians(self, t: np.ndarray, state: np.ndarray, member: np.ndarray) -> np.ndarray:
        curve = self.along[member]
        c, dc = (self.posterior.mean_at(curve, t, derivative) for derivative in (0, 1))
        return 0.5 * self.metric.acceleration_jacobians(c, dc)[:, 1:]
