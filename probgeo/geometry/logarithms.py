"""Logarithms of many points at one base: the one door from statistics to geodesics.

A statistic looks at data from a base, moves it a little, and looks again. So logarithms come with how they change when
the base moves, and with their geodesics, from which those at the next base are found in a few steps. They stay the
shortest as long as no other curve can have overtaken them: when the base moves by s, lengths change by s at most.
"""

import warnings
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from probgeo._loops import loop
from probgeo.geometry.chains import Chains, NewtonStep
from probgeo.geometry.elements import measured
from probgeo.geometry.geodesic import Geodesic
from probgeo.geometry.known_curves import chains_of
from probgeo.geometry.manifold import Manifold
from probgeo.geometry.search import EFFORTS
from probgeo.metrics import Metric
from probgeo.ode.curve import ConvergenceWarning, joined_curves
from probgeo.ode.piecewise import PiecewisePosterior
from probgeo.ragged import in_chunks, members_at_a_time


@dataclass(frozen=True)
class Logs:
    """Of P points at one base.

    Attributes
    ----------
    vectors : array (P, D)
    cov : array (P, D, D)
        Of the vectors, from the numerics alone.
    slopes : array (P, D, D)
        Derivatives of the vectors by the base: -I where space is flat.
    length, length_var : array (P,)
        Distances, and their variances.
    converged : bool array (P,)
    bases : array (P, D)
    geodesics : Geodesic, or None where space is flat
    lead : array (P,)
        At least how much longer any other geodesic is. Negative if that is no longer known, minus infinity if it never
        was because the search was rough.
    """

    vectors: np.ndarray
    cov: np.ndarray
    slopes: np.ndarray
    length: np.ndarray
    length_var: np.ndarray
    converged: np.ndarray
    bases: np.ndarray
    geodesics: Geodesic | None
    lead: np.ndarray

    def usable(self) -> "Logs":
        """Where there is no geodesic at all, nothing: the point pulls in no direction."""
        finite = np.isfinite(self.length) & np.isfinite(self.vectors).all(axis=1)
        finite &= np.isfinite(self.cov).all(axis=(1, 2))
        if finite.all():
            return self

        def kept(x: np.ndarray) -> np.ndarray:
            return np.where(finite.reshape(-1, *[1] * (x.ndim - 1)), x, 0.0)

        names = ("vectors", "cov", "slopes", "length", "length_var")
        values: dict[str, Any] = {name: kept(getattr(self, name)) for name in names}
        return replace(self, converged=self.converged & finite, **values)

    def moved(self, step: np.ndarray, tensor: np.ndarray) -> "Logs":
        """The same at a base that is a small step further, to first order; M there is `tensor`."""
        vectors = self.vectors + self.slopes @ step
        squares = np.einsum("pi,ij,pj->p", vectors, tensor, vectors)
        return replace(self, vectors=vectors, length=np.sqrt(np.maximum(squares, 0.0)))

    def take(self, members: np.ndarray) -> "Logs":
        values: dict[str, Any] = {}
        for field in fields(Logs):
            value = getattr(self, field.name)
            values[field.name] = None if value is None else value[members]
        return Logs(**values)

    def cov_with_base(self, cov: np.ndarray) -> np.ndarray:
        """Covariances (P, D, D) of the vectors if the base has one (D, D), too."""
        return self.cov + self.slopes @ cov @ self.slopes.transpose(0, 2, 1)


def logarithms(
    manifold: Manifold, base: np.ndarray, X: np.ndarray, guess: Logs | None = None, doubt: bool = False
) -> Logs:
    """Logarithms of the points X (P, D) at one base (D,), or at one each (P, D).

    `guess` are the logarithms of the same points at a base nearby, whose geodesics are followed. With `doubt`, those
    that have lost their lead are searched for anew. What did not converge is in the result; there is no warning,
    because callers go on.
    """
    bases = np.array(np.broadcast_to(base, X.shape))
    # distances below round-off are zero
    round_off = 500.0 * np.finfo(float).eps * np.abs(bases).max(axis=1)
    met = np.abs(X - bases).max(axis=1) <= round_off
    X = np.where(met[:, None], bases, X)
    if manifold.metric.is_flat:
        return _flat_logarithms(manifold.metric, bases, X)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        if guess is None:
            geodesics = manifold.geodesic(bases, X, progress=False)
            lead = _lead(manifold, geodesics)
        elif doubt and not np.isfinite(guess.lead).any():  # a search that the guess takes part in
            geodesics = manifold.geodesic(bases, X, guess=guess.geodesics, patience=0, progress=False)
            lead = _lead(manifold, geodesics)
        else:
            geodesics = manifold.geodesic(bases, X, guess=guess.geodesics, progress=False)
            # the length of this one is known; others have become shorter by the step at most
            shorter = guess.length - geodesics.mean_length
            lead = guess.lead + shorter - np.sqrt(2.0 * manifold.metric.energies(bases, bases - guess.bases))
            doubtful = np.flatnonzero((lead <= 0.0) & np.isfinite(geodesics.mean_length))
            if doubt and len(doubtful) and isinstance(geodesics.posterior, PiecewisePosterior):
                others = manifold.geodesic(bases[doubtful], X[doubtful], progress=False)
                lead[doubtful] = _lead(manifold, others)
                known = geodesics[doubtful]
                better = (others.converged & ~known.converged) | (others.mean_length < known.mean_length)
                geodesics = replaced(geodesics, doubtful[better], others[better])
    log, length = geodesics.log(source="numerical"), geodesics.measure(source="numerical")
    return Logs(
        vectors=log.mean,
        cov=log.cov,
        slopes=slopes_of(manifold.metric, chains_of(geodesics), bases, log.mean),
        length=length.mean,
        length_var=length.cov,
        converged=geodesics.converged,
        bases=bases,
        geodesics=geodesics,
        lead=np.where(np.isfinite(length.mean), lead, np.inf),  # nothing else is to be found
    )


def _lead(manifold: Manifold, geodesics: Geodesic, most: float = 0.3) -> np.ndarray:
    """How much longer than the shortest any other curve is, at the end of a search.

    At most that share of its length, as there may be curves that nobody has met. Of those that were met and fell behind
    it is only known that they were too long for the finest sieve of the search.
    """
    if manifold.thoroughness == "rough":
        return np.full(len(geodesics), -np.inf)
    behind = EFFORTS[manifold.thoroughness].sieve[-1][0] - 1.0
    return np.minimum(geodesics.gap, np.where(geodesics.n_minima > 1, behind, most)) * geodesics.mean_length


def replaced(curves: Geodesic, members: np.ndarray, others: Geodesic) -> Geodesic:
    """The same batch with other curves for some members."""
    order = np.arange(len(curves))
    order[members] = len(curves) + np.arange(len(members))
    return joined_curves([curves, others])[order]


def _flat_logarithms(metric: Metric, bases: np.ndarray, X: np.ndarray) -> Logs:
    """In closed form, and exact."""
    count, D = X.shape
    zero, vectors = np.zeros((count, D, D)), X - bases
    return Logs(
        vectors=vectors,
        cov=zero,
        slopes=zero - np.eye(D),
        length=np.sqrt(metric.inner(bases, vectors, vectors)),
        length_var=np.zeros(count),
        converged=np.ones(count, dtype=bool),
        bases=bases,
        geodesics=None,
        lead=np.full(count, np.inf),
    )


def with_finer_slopes(metric: Metric, logs: Logs) -> Logs:
    """Slopes from curves that are solved on meshes of twice the elements, four times as precise at least."""
    if logs.geodesics is None:
        return logs
    chains = chains_of(logs.geodesics)
    finer = slopes_of(metric, chains, logs.bases, logs.vectors, finer=True)
    known = logs.slopes.any(axis=(1, 2), keepdims=True)  # see `usable`
    return replace(logs, slopes=np.where(known, finer, 0.0))


def slopes_of(
    metric: Metric, chains: Chains, bases: np.ndarray, vectors: np.ndarray, finer: bool = False
) -> np.ndarray:
    """Derivatives (P, D, D) of the logarithms v by the base x, with the other end held.

    M(x) v = -dE/dx, with E the energy of the geodesic. So dv/dx = -M^-1 (H + d(M v)/dx), the last with v held, and H
    the Hessian of E by x: what is left of that of the curve's nodes when all others are eliminated. For curves that are
    no minimum there is none: -I, as in flat space.
    """
    D = bases.shape[1]
    slopes = np.tile(-np.eye(D), (len(bases), 1, 1))

    def work(members: np.ndarray) -> None:
        part = chains.take(members)
        if finer:
            part = measured(metric, part).corrected()
        count, made, left = len(part), NewtonStep.of(part), np.empty((len(part), 2 * D, 2 * D))
        made.assemble(part, part.terms(metric), np.ones(count, dtype=bool), np.zeros(count))
        eliminate_backwards(part.offsets, D, made.diagonal, made.upper, left)
        terms = metric.energy_terms(bases[members], vectors[members])
        good = np.isfinite(left).all(axis=(1, 2)) & np.isfinite(terms.xv).all(axis=(1, 2))
        vc, vv = left[good, D:, :D], left[good, D:, D:]
        H = left[good, :D, :D] - vc.transpose(0, 2, 1) @ np.linalg.solve(vv, vc)
        change = H + terms.xv[good].transpose(0, 2, 1)
        slopes[members[good]] = -np.linalg.solve(terms.vv[good], change)

    most = members_at_a_time((2.0 if finer else 1.0) * chains.hessian_bytes)
    in_chunks(work, len(chains), most=most, least=256, progress=False)
    return slopes


@loop
def eliminate_backwards(offsets: np.ndarray, D: int, diagonal: np.ndarray, upper: np.ndarray, left: np.ndarray) -> None:
    """S_i = diagonal_i - upper_i S_i+1^-1 upper_i' from the last node to the first.

    Of `diagonal` (rows, F, F) only the upper triangles are used; it and `upper` are overwritten. The last node's
    position, its first D numbers, is held. left (members, F, F) is S of the first node, NaN where one that is
    eliminated is not positive definite. O(rows F^3).
    """
    F = diagonal.shape[1]
    for m in range(len(offsets) - 1):
        first, last = offsets[m], offsets[m + 1] - 1
        good = True
        for b in range(last, first, -1):
            R = diagonal[b]  # becomes Cholesky's factor, R' R = S_b
            W = upper[b - 1].T.copy()  # becomes R'^-1 upper'
            if b == last:
                R[:D] = 0.0
                W[:D] = 0.0
                for k in range(D):
                    R[k, k] = 1.0
            for k in range(F):
                if not R[k, k] > 0.0:
                    good = False
                    break
                scale = 1.0 / np.sqrt(R[k, k])
                R[k, k:] *= scale
                W[k] *= scale
                for r in range(k + 1, F):
                    factor = R[k, r]
                    if factor != 0.0:
                        for c in range(r, F):
                            R[r, c] -= factor * R[k, c]
                        for c in range(F):
                            W[r, c] -= factor * W[k, c]
            if not good:
                break
            diagonal[b - 1] -= np.dot(W.T, W)
        for r in range(F):
            for c in range(F):
                left[m, r, c] = diagonal[first, min(r, c), max(r, c)] if good else np.nan
