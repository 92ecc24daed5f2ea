"""The classical solver at its best: geodesics, means and principal geodesics by SciPy alone.

The right-hand side is vectorised over points and costs O(K D^2) a point, as in probgeo. It also gives tight references.
"""

from typing import Any

import numpy as np
from scipy.integrate import solve_bvp, solve_ivp

from probgeo.metrics import LocalMetrics

TOLERANCE = 1e-3  # of solve_bvp, where it is a competitor and not the reference
SCIPY_SETTINGS = f"solve_bvp, tolerance {TOLERANCE:.0e}, vectorised, from straight lines with 20 nodes"


class NumpyMetric:
    """The same metric as a `LocalMetrics`, for points (D, N), one a column as SciPy has them."""

    def __init__(self, metric: LocalMetrics) -> None:
        self.centers = np.asarray(metric.centers)
        self.tensors = np.asarray(metric.tensors)
        self.rho = float(metric.rho)
        self.stacked = self.tensors.reshape(-1, self.centers.shape[1])
        self.at_centers = np.einsum("kij,kj->ki", self.tensors, self.centers)

    def _products(self, v: np.ndarray) -> np.ndarray:
        """M_k v, (K, D, N)."""
        return (self.stacked @ v).reshape(*self.centers.shape, -1)

    def _weights(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """w_k (K, N), and M_k (x - mu_k) (K, D, N)."""
        pulls = self._products(x) - self.at_centers[:, :, None]
        logs = -0.5 * self.rho * np.einsum("kdn,kdn->kn", pulls, x[None] - self.centers[:, :, None])
        w = np.exp(logs - logs.max(axis=0))
        return w / w.sum(axis=0), pulls

    def tensor(self, x: np.ndarray) -> np.ndarray:
        """M (D, D) at one point (D,)."""
        w, _ = self._weights(x[:, None])
        return np.tensordot(w[:, 0], self.tensors, 1)

    def energy(self, x: np.ndarray, v: np.ndarray) -> np.ndarray:
        w, _ = self._weights(x)
        return np.einsum("kn,kdn,dn->n", w, self._products(v), v)

    def acceleration(self, x: np.ndarray, v: np.ndarray, printed: bool = False) -> np.ndarray:
        """That of the right geodesic equation, or that of Eq. 2 as it is printed."""
        w, pulls = self._weights(x)
        slopes = -self.rho * pulls
        Mv = self._products(v)
        energies = np.einsum("kdn,dn->kn", Mv, v)
        tilted = w * (energies - np.sum(w * energies, axis=0))
        force = 0.5 * np.einsum("kn,kdn->dn", tilted, slopes)
        if printed:
            force = -force
        else:
            rates = np.einsum("kdn,dn->kn", slopes, v)
            force -= np.einsum("kn,kdn->dn", w * (rates - np.sum(w * rates, axis=0)), Mv)
        M = np.tensordot(w.T, self.tensors, 1)
        return np.linalg.solve(M, force.T[:, :, None])[:, :, 0].T

    def field(self, t: Any, y: np.ndarray, printed: bool = False) -> np.ndarray:
        x, v = np.split(y, 2)
        return np.concatenate([v, self.acceleration(x, v, printed)])


def by_solve_bvp(
    metric: NumpyMetric,
    a: np.ndarray,
    b: np.ndarray,
    tol: float = TOLERANCE,
    max_nodes: int = 1000,
    guess: Any = None,
    field: Any = None,
) -> Any:
    """One geodesic from a to b by SciPy's collocation.

    guess : t, x (D, T), v (D, T), by default the straight line with 20 nodes.
    field : another equation.
    """
    D = len(a)
    if guess is None:
        t, v = np.linspace(0.0, 1.0, 20), np.repeat((b - a)[:, None], 20, axis=1)
        guess = t, a[:, None] + v * t, v
    t, x, v = guess

    def ends(ya: np.ndarray, yb: np.ndarray) -> np.ndarray:
        return np.concatenate([ya[:D] - a, yb[:D] - b])

    with np.errstate(all="ignore"):
        return solve_bvp(field or metric.field, ends, t, np.concatenate([x, v]), tol=tol, max_nodes=max_nodes)


def length_of(metric: NumpyMetric, solution: Any) -> float:
    """Length of a solution by SciPy, by Gauss's rule between its nodes."""
    s, w = np.polynomial.legendre.leggauss(4)
    h = np.diff(solution.x)[:, None]
    t = (solution.x[:-1, None] + h * (0.5 * (s + 1.0))).reshape(-1)
    with np.errstate(all="ignore"):
        return float((h * (0.5 * w)).reshape(-1) @ np.sqrt(metric.energy(*np.split(solution.sol(t), 2))))


def by_solve_ivp(metric: NumpyMetric, a: np.ndarray, v: np.ndarray, rtol: float) -> Any:
    """Ends of all geodesics from a with velocities v, both (B, D), as one system."""
    B, D = a.shape

    def field(t: float, y: np.ndarray) -> np.ndarray:
        x, u = y.reshape(2, B, D)
        return np.concatenate([u, metric.acceleration(x.T, u.T).T]).reshape(-1)

    start = np.concatenate([a, v]).reshape(-1)
    found = solve_ivp(field, (0.0, 1.0), start, rtol=rtol, atol=rtol, method="DOP853", dense_output=True)
    return found.y[: B * D, -1].reshape(B, D), found


def logs(metric: NumpyMetric, base: np.ndarray, X: np.ndarray, tol: float = TOLERANCE) -> tuple[Any, int]:
    """Logarithms (P, D) of the points X, and how many geodesics failed; the failed ones are included."""
    found = [by_solve_bvp(metric, base, x, tol) for x in X]
    D = X.shape[1]
    vectors = np.array([f.sol(0.0)[D:] for f in found])
    return np.nan_to_num(vectors), sum(f.status != 0 for f in found)


def mean_by_descent(metric: NumpyMetric, X: np.ndarray, start: np.ndarray, iterations: int) -> tuple[np.ndarray, int]:
    """A mean by Eq. 5 with alpha = 1, and how many geodesics failed on the way."""
    mean, lost = start, 0
    for _ in range(iterations):
        vectors, failed = logs(metric, mean, X)
        mean = by_solve_ivp(metric, mean[None], vectors.mean(axis=0)[None], 1e-8)[0][0]
        lost += failed
    return mean, lost


def principal_geodesic(metric: NumpyMetric, X: np.ndarray, start: np.ndarray, iterations: int) -> dict[str, Any]:
    """A mean, and the first principal direction in M(mean)."""
    mean, lost = mean_by_descent(metric, X, start, iterations)
    vectors, failed = logs(metric, mean, X)
    R = np.linalg.cholesky(metric.tensor(mean))
    u = (vectors - vectors.mean(axis=0)) @ R
    values, directions = np.linalg.eigh(u.T @ u / (len(X) - 1))
    v = np.linalg.solve(R.T, directions[:, -1])
    return {
        "mean": mean,
        "direction": v * np.sign(v[np.argmax(np.abs(v))]),
        "variance": values[-1],
        "lost": lost + failed,
    }


def reference_geodesic(metric: NumpyMetric, points: np.ndarray) -> np.ndarray:
    """The geodesic next to a curve (T, D) at equal steps, to eight digits, at the same times."""
    t = np.linspace(0.0, 1.0, len(points))
    guess = (t, points.T, np.gradient(points, t, axis=0).T)
    found = by_solve_bvp(metric, points[0], points[-1], 1e-8, guess=guess, max_nodes=20000)
    if found.status != 0:
        raise RuntimeError(f"no reference: {found.message}")
    return found.sol(t)[: points.shape[1]].T
