"""The posterior of the dense solver (Eq. 14 and 15)."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from probgeo.ode.curve import Posterior, Source, balanced_factor
from probgeo.ode.dense.algebra import solve_lower
from probgeo.ode.dense.gram import SplitCovariance, mean_basis, prior_covariance, take_members
from probgeo.ode.kernels import Pinned, Stationary
from probgeo.ragged import in_chunks, members_at_a_time


class Sensitivity(NamedTuple):
    """How the curves move with R numbers behind the user's data, in units of their standard
    deviations (or with parameters of f).

    `lines` (P, C, D, R) moves the straight line, `weights` (P, N, m, D, R) the representers on top.
    """

    lines: np.ndarray
    weights: np.ndarray


@dataclass(frozen=True, eq=False)
class DensePosterior(Posterior):
    """GP(mean, cov) for P members on the same nodes.

    The numerical part is the prior, given exact boundary values, conditioned on the evaluations;
    the boundary part carries the uncertainty of those values along the ODE. Keeping them apart
    leaves what the user put in untouched by the scale of the prior. (With Delta inside the Gram
    matrix, as in Eq. 7, a small V would shrink it; the two agree when V is large against Delta.)

    Attributes
    ----------
    kernel : Pinned
        On the unit interval; P kernels in one if every member has a length scale of its own.
    t0, duration : float
        The user's interval.
    unit_nodes (N,) : nodes on the unit interval
    values (P, C, D) : data, by unit time
    scale2 (P,) : square of the scale of V
    V : SplitCovariance
    L (G, N B, N B), maps (G, N, B, m, B) : the Gram matrix and what was observed; G is 1 if all
        members share them
    weights (P, N, m, D) : representers of the mean
    sensitivity : Sensitivity, or None if all data are certain
    """

    kernel: Pinned
    t0: float
    duration: float
    unit_nodes: np.ndarray
    values: np.ndarray
    scale2: np.ndarray
    V: SplitCovariance
    L: np.ndarray
    maps: np.ndarray
    weights: np.ndarray
    sensitivity: Sensitivity | None

    @property
    def count(self) -> int:
        return len(self.values)

    @property
    def dimension(self) -> int:
        return self.values.shape[-1]

    @property
    def lengthscale(self) -> Any:
        """Length scale of the kernel: a number, or (P,) if every member has its own."""
        own, kernel = self.kernel.lengthscales, self.kernel.kernel
        if not isinstance(kernel, Stationary):
            raise AttributeError(f"{type(kernel).__name__} has no length scale")
        return kernel.lengthscale if own is None else own

    def nodes(self, member: int) -> np.ndarray:
        return self.t0 + self.duration * self.unit_nodes

    def take(self, members: np.ndarray) -> "DensePosterior":
        moves = self.sensitivity
        return replace(
            self,
            kernel=self.kernel.take(members),
            values=self.values[members],
            scale2=self.scale2[members],
            L=take_members(self.L, members),
            maps=take_members(self.maps, members),
            weights=self.weights[members],
            sensitivity=None if moves is None else Sensitivity(*(x[members] for x in moves)),
        )

    @classmethod
    def joined(cls, parts: Sequence[Any]) -> "DensePosterior":
        first = parts[0]
        names = ["values", "scale2", "weights"]
        if not all(len(part.L) == 1 and np.array_equal(part.L, first.L) for part in parts):
            names += ["L", "maps"]

        def together(name: str) -> np.ndarray:
            arrays = [(part.count, getattr(part, name)) for part in parts]
            return np.concatenate([np.broadcast_to(x, (count, *x.shape[1:])) for count, x in arrays])

        own: dict[str, Any] = {name: together(name) for name in names}
        if first.kernel.lengthscales is not None:
            own["kernel"] = first.kernel.with_lengthscales(np.concatenate([part.lengthscale for part in parts]))
        if first.sensitivity is not None:
            own["sensitivity"] = Sensitivity(*map(np.concatenate, zip(*(p.sensitivity for p in parts), strict=True)))
        return replace(first, **own)

    def moved(self, origin: np.ndarray) -> "DensePosterior":
        of_curve = np.array([[derivative == 0] for _, derivative in self.kernel.conditions])
        return replace(self, values=self.values + of_curve * origin[:, None])

    def mean(self, t: np.ndarray, derivative: int) -> np.ndarray:
        return self._combined(t, derivative, self.values, self.weights)

    def cov(self, s: np.ndarray, t: np.ndarray, derivative: tuple[int, int], source: Source) -> np.ndarray:
        total = np.zeros((self.count, len(t), self.dimension, self.dimension))
        if source != "boundary":
            total += self._numerical_cov(s, t, derivative)
        if source != "numerical" and self.sensitivity is not None:
            left, right = map(self.boundary_columns, (s, t), derivative)
            total += left @ right.mT
        return total

    def boundary_columns(self, t: np.ndarray, derivative: int) -> np.ndarray:
        """How curves move with R standard normal numbers behind their data: (P, T, D, R)."""
        if self.sensitivity is None:
            return np.zeros((self.count, len(t), self.dimension, 0))
        return self._combined(t, derivative, *self.sensitivity)

    def _combined(self, t: np.ndarray, derivative: int, lines: np.ndarray, weights: np.ndarray) -> np.ndarray:
        """Straight lines (P, C, ...) and representers (P, N, m, ...) on top: (P, T, ...)."""
        tau, (P, C, *shape) = self._unit(t), lines.shape
        R, Nm = int(np.prod(shape)), weights.shape[1] * weights.shape[2]
        curves = mean_basis(self.kernel.conditions, derivative, tau) @ lines.reshape(P, C, R)
        curves = curves + self._to_nodes(tau, derivative) @ weights.reshape(P, Nm, R)
        return curves.reshape(P, len(t), *shape) / self.duration**derivative

    def sample(self, rngs: list[np.random.Generator], n: int, t: np.ndarray, orders: tuple[int, ...]) -> np.ndarray:
        P, T, M, D = self.count, len(t), len(orders), self.dimension
        draws = np.repeat(np.stack([self.mean(t, d) for d in orders], axis=1)[:, None], n, axis=1)
        root = np.linalg.cholesky(self.V.columns)
        units = self.duration ** np.array(orders, dtype=float)[:, None, None]
        size = M * T * len(self.V.rows)

        def one_chunk(members: np.ndarray) -> None:
            part = self.take(members)
            factors = part._joint_factors(t, orders)
            columns = np.stack([part.boundary_columns(t, d) for d in orders], axis=1)
            for k, p in enumerate(members):
                noise = rngs[p].standard_normal((n, size, len(root))) @ root.T
                errors = factors[k if len(factors) > 1 else 0] @ noise
                errors = np.sqrt(self.scale2[p]) * errors.reshape(n, M, T, D) / units
                moved = columns[k] @ rngs[p].standard_normal((n, 1, 1, columns.shape[-1], 1))
                draws[p] += errors + moved[..., 0]

        in_chunks(one_chunk, P, most=members_at_a_time(4 * 8 * size**2))
        return draws

    def _joint_factors(self, t: np.ndarray, orders: tuple[int, ...]) -> np.ndarray:
        """Factors (G, M T B, M T B) of the numerical covariance of several derivatives at times
        (T,), for unit scale and by unit time."""
        tau = self._unit(t)
        T, M, B = len(t), len(orders), len(self.V.rows)
        prior = prior_covariance(self.kernel, orders, tau, orders, tau)
        prior = np.transpose(prior, (0, 2, 1, 4, 3))[:, :, :, None, :, :, None]
        prior = prior * self.V.rows[:, None, None, :]
        explained = np.stack([self._explained(tau, d) for d in orders], axis=2)
        explained = explained.reshape(*explained.shape[:2], M * T * B)
        cov = prior.reshape(len(prior), M * T * B, M * T * B) - explained.mT @ explained
        return balanced_factor(cov)

    def _numerical_cov(self, s: np.ndarray, t: np.ndarray, derivative: tuple[int, int]) -> np.ndarray:
        """Covariances (P, T, D, D), pair by pair."""
        (first, i), (second, j) = (np.unique(self._unit(x), return_inverse=True) for x in (s, t))
        every_pair = len(first) * len(second) <= len(t)

        def one_chunk(members: np.ndarray) -> np.ndarray:
            part = self.take(members)
            left = part._explained(first, derivative[0])
            right = part._explained(second, derivative[1])
            G, n, _, B = left.shape
            if every_pair:  # all products at once, then those that were asked for
                rows = left.reshape(G, n, len(first) * B).mT
                known = rows @ right.reshape(G, n, len(second) * B)
                known = known.reshape(G, len(first), B, len(second), B)[:, i, :, j].swapaxes(0, 1)
            else:
                known = np.einsum("gnta,gntb->gtab", left[:, :, i], right[:, :, j])
            prior = part.kernel.derivative(*derivative, first[i][:, None], second[j][:, None])  # pair by pair
            return (prior if prior.ndim == 3 else prior[None])[..., None] * self.V.rows - known

        if len(self.L) == 1 and self.kernel.lengthscales is None:  # nothing differs among members
            blocks = one_chunk(np.arange(min(1, self.count)))
        else:
            most = members_at_a_time(3 * 8 * self.L.shape[-1] * len(t) * len(self.V.rows))
            blocks = np.concatenate(in_chunks(one_chunk, self.count, most=most))
        D = self.dimension
        blocks = blocks[..., :, None, :, None] * self.V.columns[:, None, :]
        units = self.duration ** sum(derivative)
        return self.scale2[:, None, None, None] * blocks.reshape(len(blocks), len(t), D, D) / units

    def _unit(self, t: np.ndarray) -> np.ndarray:
        return (t - self.t0) / self.duration

    def _to_nodes(self, tau: np.ndarray, derivative: int) -> np.ndarray:
        """Prior covariance (G, T, N m), without V, of curves at tau with states at the nodes."""
        N, m = self.weights.shape[1:3]
        cross = prior_covariance(self.kernel, (derivative,), tau, tuple(range(m)), self.unit_nodes)
        return cross.reshape(len(cross), len(tau), N * m)

    def _explained(self, tau: np.ndarray, derivative: int) -> np.ndarray:
        """L^-1 cov(observations, curve at tau): (G, N B, T, B)."""
        _, N, B, m, _ = self.maps.shape
        T = len(tau)
        to_nodes = self._to_nodes(tau, derivative)
        to_nodes = np.swapaxes(to_nodes.reshape(len(to_nodes), T, N, m), 1, 2)
        cross = to_nodes @ np.swapaxes(self.maps @ self.V.rows, 2, 3).reshape(-1, N, m, B * B)
        cross = np.swapaxes(cross.reshape(len(cross), N, T, B, B), 2, 3)  # g i a t d
        solved = solve_lower(self.L, cross.reshape(len(cross), N * B, T * B))
        return solved.reshape(len(solved), N * B, T, B)
