"""Geodesics of local metrics by SciPy alone: the baseline, and tight references.

The right-hand side is vectorised over points and costs O(K D^2) a point, as in probgeo; nothing
here runs through JAX.
"""

import numpy as np
from scipy.integrate import solve_bvp, solve_ivp


class NumpyMetric:
    """The same metric as a `LocalMetrics`, for points (D, N), one a column as SciPy has them."""

    def __init__(self, metric):
        self.centers = np.asarray(metric.centers)
        self.tensors = np.asarray(metric.tensors)
        self.rho = float(metric.rho)
        K, D = self.centers.shape
        self.stacked = self.tensors.reshape(K * D, D)
        self.at_centers = np.einsum("kij,kj->ki", self.tensors, self.centers)

    def _products(self, v):
        """M_k v, (K, D, N)."""
        K, D = self.centers.shape
        return (self.stacked @ v).reshape(K, D, -1)

    def _weights(self, x):
        """w_k (K, N), and M_k (x - mu_k) (K, D, N)."""
        pulls = self._products(x) - self.at_centers[:, :, None]
        logs = -0.5 * self.rho * np.einsum("kdn,kdn->kn", pulls, x[None] - self.centers[:, :, None])
        w = np.exp(logs - logs.max(axis=0))
        return w / w.sum(axis=0), pulls

    def energy(self, x, v):
        w, _ = self._weights(x)
        return np.einsum("kn,kdn,dn->n", w, self._products(v), v)

    def acceleration(self, x, v):
        w, pulls = self._weights(x)
        slopes = -self.rho * pulls
        Mv = self._products(v)
        energies = np.einsum("kdn,dn->kn", Mv, v)
        rates = np.einsum("kdn,dn->kn", slopes, v)
        tilted = w * (energies - np.sum(w * energies, axis=0))
        gradient = np.einsum("kn,kdn->dn", tilted, slopes)
        change = np.einsum("kn,kdn->dn", w * (rates - np.sum(w * rates, axis=0)), Mv)
        K, D = self.centers.shape
        M = (w.T @ self.tensors.reshape(K, D * D)).reshape(-1, D, D)
        return np.linalg.solve(M, (0.5 * gradient - change).T[:, :, None])[:, :, 0].T

    def field(self, t, y):
        D = len(y) // 2
        return np.concatenate([y[D:], self.acceleration(y[:D], y[D:])])


def by_solve_bvp(metric, a, b, tol, nodes=20, max_nodes=1000, guess=None):
    """One geodesic from a to b by SciPy's collocation; `guess` is (t, x (D, T), v (D, T))."""
    D = len(a)
    if guess is None:
        t = np.linspace(0.0, 1.0, nodes)
        x = a[:, None] + (b - a)[:, None] * t
        v = np.repeat((b - a)[:, None], nodes, axis=1)
    else:
        t, x, v = guess

    def ends(ya, yb):
        return np.concatenate([ya[:D] - a, yb[:D] - b])

    with np.errstate(all="ignore"):
        return solve_bvp(
            metric.field, ends, t, np.concatenate([x, v]), tol=tol, max_nodes=max_nodes
        )


def length_of(metric, solution, pieces=4):
    """Length of a solution of SciPy's, by Gauss's rule between its nodes."""
    s, w = np.polynomial.legendre.leggauss(pieces)
    h = np.diff(solution.x)[:, None]
    t = (solution.x[:-1, None] + h * (0.5 * (s + 1.0))).reshape(-1)
    y = solution.sol(t)
    D = len(y) // 2
    return float((h * (0.5 * w)).reshape(-1) @ np.sqrt(metric.energy(y[:D], y[D:])))


def by_solve_ivp(metric, a, v, rtol, method="DOP853"):
    """Ends of all geodesics from a with velocities v, both (B, D), as one system."""
    B, D = a.shape

    def field(t, y):
        x, u = y.reshape(2, B, D)
        return np.concatenate([u, metric.acceleration(x.T, u.T).T]).reshape(-1)

    start = np.concatenate([a, v]).reshape(-1)
    found = solve_ivp(field, (0.0, 1.0), start, rtol=rtol, atol=rtol, method=method)
    return found.y[: B * D, -1].reshape(B, D), found
