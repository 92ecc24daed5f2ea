"""Curvature of a metric from the second derivatives of its energy.

With constant vectors u, v, Gamma(u, v) the Christoffel symbols and <., .> the inner product M(x),

    <R(u, v) v, u> = d_u d_v <u, v> - d_u d_u <v, v> / 2 - d_v d_v <u, u> / 2
                     + <Gamma(u, v), Gamma(u, v)> - <Gamma(u, u), Gamma(v, v)>.

L(x, v) = v' M(x) v / 2 is a quadratic form in v, so that L(u + v) - L(u) - L(v) = <u, v>: all terms
are Hessians of L by x for chosen vectors, and geodesic accelerations -Gamma(v, v); no tensor with
four indices is formed. Third derivatives of a decoder cancel out of the sum, as they do in Gauss'
equation, so that it does not matter that `energy_terms` of NumPy decoders leave them out.
"""

from typing import Any

import numpy as np

from probgeo.geometry.arguments import as_gaussian, as_rows, as_vectors, where_definite
from probgeo.metrics import Metric
from probgeo.ragged import in_chunks, members_at_a_time

# Sine of an angle at which half of the digits of the plane are lost.
FLATTEST = float(np.sqrt(np.finfo(float).eps))


def certain_rows(metric: Metric, given: dict[str, Any]) -> tuple[tuple[int, ...], list[np.ndarray], np.ndarray]:
    """The batch axes, arguments as rows (B, D), and where there is a metric at the first (B,)."""
    plain = {name: as_gaussian(name, as_vectors(name, value)) for name, value in given.items()}
    shape, rows, _ = as_rows(metric, plain)
    return shape[:-1], rows, where_definite(metric, {next(iter(given)): rows[0]})


def sectional(metric: Metric, x: Any, u: Any, v: Any) -> np.ndarray:
    """Sectional curvature (...) at x of the planes that u and v span."""
    batch, rows, usable = certain_rows(metric, {"x": x, "u": u, "v": v})
    if rows[0].shape[1] == 1:
        raise ValueError(
            "sectional curvature is that of planes, which there are from two dimensions on; "
            f"got x, u and v of D = 1, shape {(*batch, 1)}"
        )
    points, one, other = (row[usable] for row in rows)
    one, other = _orthonormal(metric.tensors_at(points), one, other)

    def work(k: np.ndarray) -> np.ndarray:
        return _of_planes(metric, points[k], one[k], other[k])

    most = members_at_a_time(8 * 10 * points.shape[1] ** 2)
    parts = in_chunks(work, len(points), most=most, least=1000, progress=False)
    found = np.full(len(usable), np.nan)
    found[usable] = np.concatenate(parts)
    return found.reshape(batch)


def ricci(metric: Metric, x: Any) -> tuple[np.ndarray, np.ndarray]:
    """The Ricci tensor (..., D, D) at x in coordinates, and its trace (...), scalar curvature."""
    batch, (rows,), usable = certain_rows(metric, {"x": x})
    points, D = rows[usable], rows.shape[1]

    def work(k: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return _of_points(metric, points[k])

    most = members_at_a_time(8 * 7 * D**3)
    parts = in_chunks(work, len(points), most=most, progress=False)
    tensors, traces = np.full((len(rows), D, D), np.nan), np.full(len(rows), np.nan)
    tensors[usable], traces[usable] = (np.concatenate(p) for p in zip(*parts, strict=True))
    return tensors.reshape(*batch, D, D), traces.reshape(batch)


def _orthonormal(M: np.ndarray, u: np.ndarray, v: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Orthonormal vectors (n, D) that span the planes of u and v."""

    def size(w: np.ndarray) -> np.ndarray:
        return np.sqrt(np.einsum("ni,nij,nj->n", w, M, w))[:, None]

    with np.errstate(divide="ignore", invalid="ignore"):
        one, other = u / size(u), v / size(v)
        other = other - np.einsum("ni,nij,nj->n", one, M, other)[:, None] * one
        sine = size(other)
        flat = np.flatnonzero(~(sine[:, 0] > FLATTEST))
    if len(flat):
        n = flat[0]
        raise ValueError(f"u and v must be linearly independent, got u = {u[n]} and v = {v[n]}")
    return one, other / sine


def _of_planes(metric: Metric, x: np.ndarray, u: np.ndarray, v: np.ndarray) -> np.ndarray:
    """<R(u, v) v, u> (n,) at rows x of orthonormal u, v (n, D)."""
    shape = (3, *x.shape)
    rows = np.tile(x, (3, 1)), np.concatenate([u, v, u + v])
    terms = metric.energy_terms(*rows)
    of_u, of_v, of_both = terms.xx.reshape(*shape, -1)
    uu, vv, both = -metric.accelerations(*rows).reshape(shape)  # Gamma(u, u) and so on
    uv, M = 0.5 * (both - uu - vv), terms.vv[: len(x)]

    def form(a: np.ndarray, H: np.ndarray, b: np.ndarray) -> np.ndarray:
        return np.einsum("ni,nij,nj->n", a, H, b)

    second = form(u, of_both - of_u - of_v, v) - form(u, of_v, u) - form(v, of_u, v)
    return second + form(uv, M, uv) - form(uu, M, vv)


def _of_points(metric: Metric, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Ricci tensors (n, D, D) and their traces (n,) at rows x (n, D).

    In an orthonormal frame e_a, with H_ab the Hessian of <e_a, e_b>,

        2 Ric(e_b, e_c) = sum_a H_ab(e_a, e_c) + H_ac(e_a, e_b) - H_bc(e_a, e_a) - H_aa(e_b, e_c)
                          + 2 sum_a <Gamma_ab, Gamma_ac> - <Gamma_aa, Gamma_bc>.

    For one a at a time: D^3 numbers a point.
    """
    n, D = x.shape
    root = np.linalg.cholesky(metric.tensors_at(x))
    frame = np.linalg.inv(root)  # row a is e_a
    to_frame = root.swapaxes(1, 2)

    def of(v: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Hessians (n, D, D, D) of the energies of vectors v (n, D, D), and Gamma(v, v) of each."""
        rows = np.repeat(x, D, axis=0), v.reshape(n * D, D)
        bends = -metric.accelerations(*rows).reshape(n, D, D)
        return metric.energy_terms(*rows).xx.reshape(n, D, D, D), bends @ root

    own, straight = of(frame)
    gamma = np.empty((n, D, D, D))
    found = -2.0 * (frame @ own.sum(axis=1) @ frame.swapaxes(1, 2))
    for a in range(D):
        e = frame[:, a, None]
        H, both = of(frame + e)
        H -= own + own[:, a, None]
        gamma[:, a] = 0.5 * (both - straight - straight[:, a, None])
        mixed = np.einsum("ni,nbij,ncj->nbc", e[:, 0], H, frame, optimize=True)
        found += mixed + mixed.swapaxes(1, 2)
        found[:, a] -= np.einsum("nki,nbij,nkj->nb", frame, H, frame, optimize=True)
    found *= 0.5
    found += np.einsum("nabk,nack->nbc", gamma, gamma, optimize=True)
    found -= np.einsum("naak,nbck->nbc", gamma, gamma, optimize=True)
    return root @ found @ to_frame, np.trace(found, axis1=1, axis2=2)
