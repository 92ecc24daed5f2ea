"""Posteriors on meshes: polynomials for the mean, a Wiener shape for what the numerics leave open.

The answer of `Markov` and of geodesics. Every member has a mesh of its own; on each element the
mean is a polynomial in s, which runs from 0 to 1 along it.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import comb
from typing import Any

import numpy as np

from probgeo._loops import loop
from probgeo.ode.curve import Posterior, Source, balanced_factor
from probgeo.ode.error_shape import ErrorShape, find_rows
from probgeo.ragged import elements_of, members_of, offsets_of, rows_of


@loop
def evaluate(pieces: np.ndarray, element: np.ndarray, s: np.ndarray, h: np.ndarray, d: int, out: np.ndarray) -> None:
    """The d-th derivative by t of pieces[element] (degree + 1, D) at s (n,), into out (n, D).

    Horner's rule; an element of length h turns a derivative by s into one by t.
    """
    degree, D = pieces.shape[1] - 1, pieces.shape[2]
    for n in range(len(s)):
        e = element[n]
        for i in range(D):
            out[n, i] = 0.0
        for k in range(degree, d - 1, -1):
            falling = 1.0
            for j in range(d):
                falling *= (k - j) / h[n]
            for i in range(D):
                out[n, i] = out[n, i] * s[n] + falling * pieces[e, k, i]


@dataclass(frozen=True)
class PiecewisePosterior(Posterior):
    """Gaussian posteriors of B members, each on its own mesh.

    Mean: sum_k pieces[e, k] s^k on element e. Boundary: U(s) U(t)' with columns U that are
    polynomials alike. Numerical: E_i(t) = g_i(t) Z_i(t), with g the envelope, and Z_i independent
    error processes of the Wiener `ErrorShape`. Ends that are not given have an error of their own, of
    the variance `free`, that fades along a line towards the other end.

    Attributes
    ----------
    t (rows,), offsets (B + 1,) : the nodes of every member
    pieces (elements, degree + 1, D)
    spread (elements, degree + 1, D, R), or None if all data are certain
    envelope (rows, D) : g at the nodes; in between cubic, without overshoot
    order : of the ODE, and so of the shape: derivatives up to it have error bars
    pinned : whether the shape vanishes at both ends
    free (B, 2, D) : variances that Z has nevertheless at its ends, or None
    ends (B,) : when members end; all is NaN afterwards. None if all reach the end of their meshes
    """

    t: np.ndarray
    offsets: np.ndarray
    pieces: np.ndarray
    spread: np.ndarray | None
    envelope: np.ndarray
    order: int
    pinned: bool
    free: np.ndarray | None = None
    ends: np.ndarray | None = None

    @classmethod
    def empty(cls, dimension: int, order: int, pinned: bool) -> "PiecewisePosterior":
        """A posterior of no members."""
        nothing = np.zeros((0, dimension))
        pieces = np.zeros((0, 1, dimension))
        return cls(np.zeros(0), np.zeros(1, dtype=np.int64), pieces, None, nothing, order, pinned)

    @property
    def count(self) -> int:
        return len(self.offsets) - 1

    @property
    def dimension(self) -> int:
        return self.pieces.shape[2]

    @cached_property
    def shape(self) -> ErrorShape:
        return ErrorShape.on(self.t, self.offsets, self.order, self.pinned)

    def nodes(self, member: int) -> np.ndarray:
        nodes = self.t[self.offsets[member] : self.offsets[member + 1]]
        return nodes if self.ends is None else np.append(nodes[nodes < self.ends[member]], self.ends[member])

    def is_surely_finite(self) -> bool:
        if not len(self.t):
            return True
        # products of powers of these, up to the ninth of the length, are far from any limit
        length, free = self.t.max() - self.t.min(), 0.0 if self.free is None else self.free.max()
        return bool(1e-15 < length < 1e15 and np.abs(self.envelope).max() < 1e50 and free < 1e50)

    def take(self, members: np.ndarray) -> "PiecewisePosterior":
        rows, elements = rows_of(self.offsets, members), rows_of(elements_of(self.offsets), members)
        index = {"t": rows, "envelope": rows, "pieces": elements, "spread": elements, "free": members, "ends": members}
        own: dict[str, Any] = {name: array[index[name]] for name, array in self._arrays().items()}
        return replace(self, offsets=offsets_of(np.diff(self.offsets)[members]), **own)

    @classmethod
    def joined(cls, parts: Sequence[Any]) -> "PiecewisePosterior":
        own: dict[str, Any] = {n: np.concatenate([getattr(part, n) for part in parts]) for n in parts[0]._arrays()}
        offsets = offsets_of(np.concatenate([np.diff(part.offsets) for part in parts]))
        return replace(parts[0], offsets=offsets, **own)

    def _arrays(self) -> dict[str, np.ndarray]:
        values = {name: getattr(self, name) for name in ("t", "envelope", "pieces", "spread", "free", "ends")}
        return {name: value for name, value in values.items() if value is not None}

    def moved(self, origin: np.ndarray) -> "PiecewisePosterior":
        pieces = self.pieces.copy()
        pieces[:, 0] += origin[members_of(elements_of(self.offsets))]
        return replace(self, pieces=pieces)

    def mean(self, t: np.ndarray, derivative: int) -> np.ndarray:
        return self.mean_at(*self._everyone(t), derivative).reshape(self.count, len(t), self.dimension)

    def mean_at(self, member: np.ndarray, t: np.ndarray, derivative: int) -> np.ndarray:
        return self._polynomials(self.pieces, member, t, derivative)

    def cov(self, s: np.ndarray, t: np.ndarray, derivative: tuple[int, int], source: Source) -> np.ndarray:
        D = self.dimension
        total = self._zeros((s, t), D, D)
        if source != "boundary":
            total[:, range(D), range(D)] += self._numerical(s, t, derivative)
        if source != "numerical" and self.spread is not None:
            left, right = (
                self.boundary_columns(x, d).reshape(len(total), D, -1) for x, d in zip((s, t), derivative, strict=True)
            )
            total += left @ np.swapaxes(right, -1, -2)
        return total.reshape(self.count, len(t), D, D)

    def std(self, t: np.ndarray, derivative: int, source: Source) -> np.ndarray:
        variance = self._zeros((t,), self.dimension)
        if source != "boundary":
            variance += self._numerical(t, t, (derivative, derivative))
        if source != "numerical" and self.spread is not None:
            columns = self.boundary_columns(t, derivative)
            variance += np.sum(columns**2, axis=-1).reshape(variance.shape)
        return np.sqrt(np.maximum(variance, 0.0)).reshape(self.count, len(t), self.dimension)

    def _zeros(self, times: tuple[np.ndarray, ...], *shape: int) -> np.ndarray:
        """Zeros (B T, *shape), NaN for members that have ended at one of the times."""
        zeros = np.zeros((self.count * len(times[0]), *shape))
        if self.ends is not None:
            for t in times:
                zeros[np.isnan(self._place(*self._everyone(t))[1])] = np.nan
        return zeros

    def boundary_columns(self, t: np.ndarray, derivative: int) -> np.ndarray:
        """How the curve moves with R standard normal numbers behind its data: (B, T, D, R)."""
        if self.spread is None:
            return np.zeros((self.count, len(t), self.dimension, 0))
        flat = self.spread.reshape(*self.spread.shape[:2], -1)
        values = self._polynomials(flat, *self._everyone(t), derivative)
        return values.reshape(self.count, len(t), *self.spread.shape[2:])

    def sample(self, rngs: list[np.random.Generator], n: int, t: np.ndarray, orders: tuple[int, ...]) -> np.ndarray:
        means = np.stack([self.mean(t, d) for d in orders], axis=1)
        columns = np.stack([self.boundary_columns(t, d) for d in orders], axis=1)
        out = np.repeat(means[:, None], n, axis=1)
        for m, rng in enumerate(rngs):
            out[m] += self._draw_errors(m, rng, n, t, orders)
            out[m] += np.einsum("ltir,nr->nlti", columns[m], rng.standard_normal((n, columns.shape[-1])))
        return out

    def _draw_errors(
        self, m: int, rng: np.random.Generator, n: int, t: np.ndarray, orders: tuple[int, ...]
    ) -> np.ndarray:
        """Joint draws (n, L, T, D) of the numerical error of one member and its derivatives.

        Derivatives of Z are drawn jointly at all times, for all dimensions from one factor, and
        multiplied with the envelope by Leibniz' rule.
        """
        self._has_error_bars(max(orders))
        T, q = len(t), max(orders) + 1
        i, j = (x.ravel() for x in np.meshgrid(np.arange(T), np.arange(T), indexing="ij"))
        joint = self.shape.cov(np.full(T * T, m), t[i], t[j])[:, :q, :q].reshape(T, T, q, q)
        joint = np.reshape(joint.transpose(0, 2, 1, 3), (T * q, T * q))
        noise = rng.standard_normal((n, T * q, self.dimension))
        Z = (balanced_factor(joint) @ noise).reshape(n, T, q, self.dimension)
        if self.free is not None:
            at_ends = np.sqrt(self.free[m]) * rng.standard_normal((n, 2, self.dimension))
            Z = Z + np.einsum("tqe,nei->ntqi", self._lines(np.full(T, m), t, q), at_ends)
        g = self._envelope(np.full(T, m), t, q)
        parts = [sum(comb(d, k) * g[:, d - k] * Z[:, :, k] for k in range(d + 1)) for d in orders]
        return np.stack(parts, axis=1)

    def _numerical(self, s: np.ndarray, t: np.ndarray, derivative: tuple[int, int]) -> np.ndarray:
        """Cov(E_i^(d)(s), E_i^(e)(t)) (B T, D) of every dimension, by Leibniz' rule."""
        d, e = derivative
        self._has_error_bars(max(d, e))
        (member, at_s), (_, at_t) = self._everyone(s), self._everyone(t)
        k = self.shape.cov(member, at_s, at_t)[:, : d + 1, : e + 1, None]
        if self.free is not None:
            lines = self._lines(member, at_s, d + 1), self._lines(member, at_t, e + 1)
            k = k + np.einsum("nie,nje,ned->nijd", *lines, self.free[member])
        gs, gt = self._envelope(member, at_s, d + 1), self._envelope(member, at_t, e + 1)
        total = np.zeros((len(member), self.dimension))
        for i in range(d + 1):
            for j in range(e + 1):
                total += comb(d, i) * comb(e, j) * k[:, i, j] * gs[:, d - i] * gt[:, e - j]
        return total

    def _lines(self, member: np.ndarray, t: np.ndarray, count: int) -> np.ndarray:
        """The lines 1 - l and l from one end to the other, and derivatives: (n, count, 2)."""
        begin, end = self.t[self.offsets[member]], self.t[self.offsets[member + 1] - 1]
        out = np.zeros((len(t), count, 2))
        out[:, 0, 1] = (t - begin) / (end - begin)
        out[:, 0, 0] = 1.0 - out[:, 0, 1]
        if count > 1:
            out[:, 1, 1] = 1.0 / (end - begin)
            out[:, 1, 0] = -out[:, 1, 1]
        return out

    def _has_error_bars(self, derivative: int) -> None:
        if derivative > self.order:
            raise ValueError(
                f"error bars are known of derivatives up to {self.order} of this curve, got derivative={derivative}"
            )

    def _envelope(self, member: np.ndarray, t: np.ndarray, count: int) -> np.ndarray:
        """g and its derivatives, `count` in all, for rows (member, t): (n, count, D)."""
        return np.stack([self._polynomials(self._envelope_pieces, member, t, d) for d in range(count)], axis=1)

    @cached_property
    def _envelope_pieces(self) -> np.ndarray:
        return hermite_pieces(self.t, self.offsets, _monotone(self.t, self.offsets, self.envelope))

    def _polynomials(self, pieces: np.ndarray, member: np.ndarray, t: np.ndarray, derivative: int) -> np.ndarray:
        element, s, h = self._place(member, t)
        out = np.empty((len(t), pieces.shape[2]))
        evaluate(pieces, element, s, h, derivative, out)
        return out

    def _place(self, member: np.ndarray, t: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Elements (n,) that the times lie in, where in them (0 to 1), and how long they are."""
        row = find_rows(self.t, self.offsets, member, t)
        h = self.t[row + 1] - self.t[row]
        s = (t - self.t[row]) / h
        if self.ends is not None:
            s[t > self.ends[member] + 1e-12 * np.abs(self.ends[member])] = np.nan
        return row - member, s, h

    def _everyone(self, t: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Rows (member, time) of all members at all times."""
        member = np.repeat(np.arange(self.count), len(t))
        return member, np.tile(np.asarray(t, dtype=float), self.count)


def hermite_pieces(t: np.ndarray, offsets: np.ndarray, nodes: np.ndarray) -> np.ndarray:
    """Cubic pieces (elements, 4, D) from values and slopes at the nodes (rows, 2, D)."""
    left = np.delete(np.arange(len(t)), offsets[1:] - 1)
    h = (t[left + 1] - t[left])[:, None]
    c0, d0 = nodes[left, 0], h * nodes[left, 1]
    c1, d1 = nodes[left + 1, 0], h * nodes[left + 1, 1]
    rise = c1 - c0
    return np.ascontiguousarray(np.stack([c0, d0, 3.0 * rise - 2.0 * d0 - d1, d0 + d1 - 2.0 * rise], axis=1))


def _monotone(t: np.ndarray, offsets: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Values with slopes (rows, 2, D) whose cubic pieces do not overshoot (Fritsch & Butland).

    The slope at a node is the harmonic mean of those at its sides, zero at ends and extrema.
    """
    nodes = np.zeros((len(t), 2, values.shape[1]))
    nodes[:, 0] = values
    inner = np.delete(np.arange(len(t)), np.concatenate([offsets[:-1], offsets[1:] - 1]))
    before, after = (t[inner] - t[inner - 1])[:, None], (t[inner + 1] - t[inner])[:, None]
    left = (values[inner] - values[inner - 1]) / before
    right = (values[inner + 1] - values[inner]) / after
    same = left * right > 0
    mean = 2.0 * left * right / np.where(same, left + right, 1.0)
    nodes[inner, 1] = np.where(same, mean, 0.0)
    return nodes
