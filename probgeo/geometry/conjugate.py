"""Conjugate points: where geodesics from one point meet again, to first order.

Jacobi fields U (D, D) that vanish at the start of a geodesic say how it moves with its velocity.
Where U is singular, a field vanishes once more; beyond it the geodesic is not the shortest. The
sign of det U misses it where two fields vanish at a time, as they do on a sphere. What does not:
with Y = U and Z = DU/dt in an orthonormal frame and any w > 0, the matrix

    W = (Z + i w Y)(Z - i w Y)^-1

is unitary, with eigenvalues exp(2 i theta). A field vanishes where a phase theta passes a multiple
of pi, and phases pass these upwards only: their winding counts conjugate points (Maslov's index).
Close to one tan(theta) / w grows as fast as time does, so that it says how far away that is.
"""

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from probgeo.geometry.geodesic_equations import JacobiField
from probgeo.geometry.shooting import initial, shoot
from probgeo.metrics import Metric
from probgeo.ode.curve import OK, Curve, Posterior
from probgeo.ode.markov import Markov


class Phases(NamedTuple):
    """W at n rows, and its phases theta in [0, pi)."""

    W: np.ndarray  # (n, D, D)
    theta: np.ndarray  # (n, D), in increasing order

    def take(self, rows: np.ndarray) -> "Phases":
        return Phases(self.W[rows], self.theta[rows])

    def turns(self, later: "Phases") -> np.ndarray:
        """By which 2 theta grow until a little later (n, D): in (-pi, pi]."""
        return np.angle(np.linalg.eigvals(np.linalg.solve(self.W, later.W)))

    def passed(self, later: "Phases") -> np.ndarray:
        """How many phases pass a multiple of pi until then (n,)."""
        grown = 0.5 * self.turns(later).sum(axis=1)
        return np.round((grown + self.theta.sum(axis=1) - later.theta.sum(axis=1)) / np.pi)

    def where(self, chosen: np.ndarray, other: "Phases") -> "Phases":
        """Rows of this where chosen (n,), else of the other."""
        return Phases(
            np.where(chosen[:, None, None], self.W, other.W), np.where(chosen[:, None], self.theta, other.theta)
        )


@dataclass(frozen=True)
class Fan:
    """Geodesics on [0, 1] with the Jacobi fields that vanish where they begin.

    One of these is t c'(t), over the speed. The others, D - 1 a geodesic, are in `fields`, those of
    one geodesic after the other.
    """

    metric: Metric
    curve: Posterior
    fields: Posterior
    speed: np.ndarray  # (B,)

    def solutions(self, m: np.ndarray, t: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Y and Z (n, D, D) at rows of members m and times t, and R, with R R' = M."""
        D = self.curve.dimension
        c, dc = (self.curve.mean_at(m, t, d) for d in (0, 1))
        rows = ((D - 1) * m[:, None] + np.arange(D - 1)).ravel(), np.repeat(t, D - 1)
        straight = dc / self.speed[m][:, None]
        U, dU = np.empty((2, len(t), D, D))
        U[:, :, 0], dU[:, :, 0] = t[:, None] * straight, straight
        for columns, d in ((U, 0), (dU, 1)):
            found = self.fields.mean_at(*rows, d).reshape(len(t), D - 1, D)
            columns[:, :, 1:] = found.swapaxes(1, 2)
        # DU/dt = U' + Gamma(c', U), and -2 Gamma(c', .) is the derivative of c'' by c'
        dU[:, :, 1:] -= 0.5 * self.metric.acceleration_jacobians(c, dc)[:, 1] @ U[:, :, 1:]
        root = np.linalg.cholesky(self.metric.tensors_at(c))
        return root.swapaxes(1, 2) @ U, root.swapaxes(1, 2) @ dU, root

    def phases(self, m: np.ndarray, t: np.ndarray, scale: np.ndarray) -> Phases:
        """At rows of members m and times t, for the scale w (B,)."""
        Y, Z, _ = self.solutions(m, t)
        turned = (Z + 1j * scale[m][:, None, None] * Y).swapaxes(1, 2)
        W = np.linalg.solve(turned.conj(), turned).swapaxes(1, 2)
        theta = np.mod(0.5 * np.angle(np.linalg.eigvals(W)), np.pi)
        return Phases(W, np.sort(np.where(t[:, None] > 0.0, theta, 0.0), axis=1))

    def samples(self, pieces: int = 2) -> tuple[np.ndarray, np.ndarray]:
        """Rows (member, time) between the steps of all fields of a geodesic, so many a step.

        Turns of 2 theta are known if they are below pi, and steps make some of up to 6 at a
        tolerance of .1, 4 at .01 and 3 at .001.
        """
        m, t = [], []
        for k in range(self.curve.count):
            own = range((self.curve.dimension - 1) * k, (self.curve.dimension - 1) * (k + 1))
            nodes = np.unique(np.concatenate([self.fields.nodes(field) for field in own]))
            fine = np.arange(pieces * (len(nodes) - 1) + 1) / pieces
            t.append(np.interp(fine, np.arange(len(nodes)), nodes))
            m.append(np.full(len(fine), k))
        return np.concatenate(m), np.concatenate(t)

    def even_scale(self, m: np.ndarray, t: np.ndarray) -> np.ndarray:
        """w (B,), such that phases turn evenly where the curvature is constant."""
        Y, Z, _ = (x[:, :, 1:] for x in self.solutions(m, t))
        speed, size = (np.bincount(m, np.sum(x**2, axis=(1, 2))) for x in (Z, Y))
        return np.sqrt(speed / size)


def conjugate_times(
    metric: Metric, a: np.ndarray, v: np.ndarray, rtol: float, share: float = 0.03
) -> tuple[np.ndarray, np.ndarray, Curve]:
    """First conjugate times (B,) in (0, 1] of geodesics from a with velocities v (B, D).

    Infinite where there is none. With standard deviations, and the geodesics, flagged also where
    their Jacobi fields are not known well enough.

    `share` is the tolerance of geodesics over that of their Jacobi fields, so that the error is
    that of these. Two standard deviations cover .92 to 1 of the errors on spheres, their products,
    an ellipsoid and in local metrics, at tolerances of 1e-2 to 1e-8; with .1 it is .86 to 1, with 1
    it is .40 to 1.
    """
    curve = shoot(metric, (a, None), (v, None), Markov(rtol=share * rtol), False)
    times, std, status = np.full(len(a), np.inf), np.zeros(len(a)), curve.status.copy()
    moving = np.flatnonzero((status == OK) & np.any(v != 0.0, axis=1))
    if a.shape[1] > 1 and len(moving):
        posterior = curve.posterior.take(moving)
        fields, speed = jacobi_fields(metric, posterior, v[moving], Markov(rtol=rtol))
        status[moving] = fields.status.max(axis=1)
        good = np.flatnonzero(status[moving] == OK)
        own = np.arange(fields.posterior.count).reshape(fields.status.shape)[good].ravel()
        fan = Fan(metric, posterior.take(good), fields.posterior.take(own), speed[good])
        times[moving[good]], std[moving[good]] = first_crossings(fan)
    times[status != OK] = std[status != OK] = np.nan
    return times, std, replace(curve, status=status)


def jacobi_fields(metric: Metric, curve: Posterior, v: np.ndarray, solver: Markov) -> tuple[Curve, np.ndarray]:
    """Jacobi fields (B, D - 1) with orthonormal slopes across v where they begin; and |v|."""
    B, D = v.shape
    everyone = np.arange(B)
    a = curve.mean_at(everyone, np.zeros(B), 0)
    root = np.linalg.cholesky(metric.tensors_at(a))
    first = np.matmul(v[:, None], root).swapaxes(1, 2)  # in a frame at a
    frame = np.linalg.qr(np.concatenate([first, np.tile(np.eye(D), (B, 1, 1))], axis=2))[0]
    across = np.linalg.solve(root.swapaxes(1, 2), frame[:, :, 1:]).swapaxes(1, 2).reshape(-1, D)
    field = JacobiField(metric, curve, np.repeat(everyone, D - 1))
    found = solver.solve(initial(field, [(np.zeros_like(across), None), (across.copy(), None)]))
    return found.reshaped((B, D - 1)), np.linalg.norm(first[:, :, 0], axis=1)


def first_crossings(fan: Fan) -> tuple[np.ndarray, np.ndarray]:
    """The first times (B,) at which a phase passes pi, infinite if none does; and their errors."""
    m, t = fan.samples()
    scale = fan.even_scale(m, t)
    m, t, seen = well_sampled(fan, scale, m, t)
    left = np.flatnonzero(m[:-1] == m[1:])
    hits = left[seen.take(left).passed(seen.take(left + 1)) > 0]
    found, which = np.unique(m[hits], return_index=True)
    times, std = np.full(fan.curve.count, np.inf), np.zeros(fan.curve.count)
    if len(found):
        start = hits[which]
        times[found] = narrowed(fan, scale, found, t[start], t[start + 1], seen.take(start))
        std[found] = time_errors(fan, found, times[found])
    return times, std


def well_sampled(fan: Fan, scale: np.ndarray, m: np.ndarray, t: np.ndarray) -> tuple[np.ndarray, np.ndarray, Phases]:
    """Rows (member, time) with others in between where phases turn fast; and the phases."""
    seen = fan.phases(m, t, scale)
    for _ in range(50):  # halvings, and nothing is left of an interval
        left = np.flatnonzero(m[:-1] == m[1:])
        turned = np.abs(seen.take(left).turns(seen.take(left + 1))).max(axis=1)
        fast = left[turned > 0.5 * np.pi]
        if not len(fast):
            break
        added = m[fast], 0.5 * (t[fast] + t[fast + 1])
        parts = zip((m, t, *seen), (*added, *fan.phases(*added, scale)), strict=True)
        m, t, W, theta = (np.concatenate(both) for both in parts)
        order = np.lexsort((t, m))
        m, t, seen = m[order], t[order], Phases(W[order], theta[order])
    return m, t, seen


def narrowed(
    fan: Fan, scale: np.ndarray, m: np.ndarray, low: np.ndarray, high: np.ndarray, start: Phases
) -> np.ndarray:
    """When the first phase passes pi (n,), between low and high; `start` are those at low."""
    t = 0.5 * (low + high)
    for _ in range(50):
        here = fan.phases(m, t, scale)
        passed = start.passed(here).astype(int)
        over = passed > 0
        low, high = np.where(over, low, t), np.where(over, t, high)
        start = start.where(over, here)
        # of the last phase that is still to pass, or the first one that has: Newton's method
        theta = here.theta[np.arange(len(t)), np.maximum(passed, 0) - 1]
        guess = t - np.tan(theta) / scale[m]
        inside = (guess > low) & (guess < high)
        step = np.where(inside, guess, 0.5 * (low + high)) - t
        t = t + step
        if np.all(np.abs(step) <= 8.0 * np.finfo(float).eps * t):
            break
    return t


def time_errors(fan: Fan, m: np.ndarray, t: np.ndarray) -> np.ndarray:
    """Standard deviations (n,) of conjugate times t, from those of the Jacobi fields.

    T = Y Z^-1 is symmetric and has an eigenvector q with the eigenvalue zero. An error of Y changes
    that by q' dY Z^-1 q, and moves its passage by as much. Where several eigenvalues are that
    small, the first to pass may be any mixture of them: the squares of all entries of q_i' dY
    Z^-1 q_j add up.
    """
    Y, Z, root = fan.solutions(m, t)
    inverse = np.linalg.inv(Z)
    T = Y @ inverse
    value, q = np.linalg.eigh(0.5 * (T + T.swapaxes(1, 2)))
    rows, columns = (root @ q) ** 2, (inverse @ q)[:, 1:] ** 2
    others = fan.curve.dimension - 1
    std = np.empty(len(t))
    for k in range(len(t)):
        fields = fan.fields.take(others * m[k] + np.arange(others))
        variance = fields.std(t[k : k + 1], 0, "numerical")[:, 0] ** 2  # (D - 1, D)
        entries = rows[k].T @ variance.T @ columns[k]
        size = np.abs(value[k])
        near = size <= max(2.0 * np.sqrt(entries.sum()), size.min())
        std[k] = np.sqrt(entries[np.ix_(near, near)].sum())
    return std
