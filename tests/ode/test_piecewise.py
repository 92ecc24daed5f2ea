"""Posteriors on meshes: evaluation, derivatives, sources and samples, member by member."""

import itertools

import numpy as np
import pytest

from probgeo.ode.piecewise import PiecewisePosterior, evaluate, hermite_pieces
from probgeo.ragged import offsets_of

T0, T1 = -1.0, 2.0
pytestmark = pytest.mark.loops


def posterior(seed=0, sizes=(4, 7), D=2, degree=5, R=3, pinned=True):
    """A random smooth curve a member: pieces of one polynomial, so that it has all derivatives."""
    rng = np.random.default_rng(seed)
    offsets = offsets_of(sizes)
    t, pieces, columns, whole = [], [], [], []
    for n in sizes:
        nodes = np.sort(rng.uniform(T0, T1, n))
        nodes[[0, -1]] = T0, T1
        polynomial = rng.normal(size=(degree + 1, D + D * R))
        for a, b in itertools.pairwise(nodes):
            local = [np.polynomial.Polynomial(c)(np.polynomial.Polynomial([a, b - a])).coef for c in polynomial.T]
            piece = np.stack(local, axis=1)
            pieces.append(piece[:, :D])
            columns.append(piece[:, D:].reshape(degree + 1, D, R))
        t.append(nodes)
        whole.append(polynomial)
    envelope = np.repeat(rng.uniform(0.5, 2.0, (len(sizes), D)), sizes, axis=0)
    return (
        PiecewisePosterior(np.concatenate(t), offsets, np.array(pieces), np.array(columns), envelope, 2, pinned),
        whole,
    )


@pytest.mark.parametrize("derivative", [0, 1, 2, 3])
def test_means_are_polynomials(derivative):
    found, whole = posterior()
    t = np.linspace(T0, T1, 11)
    for m, polynomial in enumerate(whole):
        expected = [np.polynomial.Polynomial(c).deriv(derivative)(t) for c in polynomial[:, :2].T]
        np.testing.assert_allclose(found.mean(t, derivative)[m], np.stack(expected, axis=1), rtol=1e-9, atol=1e-9)


def test_the_loop_is_horners_rule():
    rng = np.random.default_rng(1)
    for _ in range(10):
        n, E, degree, D = rng.integers(1, 6, 4)
        pieces, s, h = rng.normal(size=(E, degree + 1, D)), rng.random(n), rng.uniform(0.1, 3, n)
        element, d = rng.integers(0, E, n), int(rng.integers(0, 3))
        out = np.empty((n, D))
        evaluate(pieces, element, s, h, d, out)
        for row in range(n):
            for i in range(D):
                polynomial = np.polynomial.Polynomial(pieces[element[row], :, i])
                expected = polynomial.deriv(d)(s[row]) / h[row] ** d
                np.testing.assert_allclose(out[row, i], expected, rtol=1e-12, atol=1e-12)


def test_sources_add_up_and_belong_to_the_columns():
    found, _ = posterior()
    s, t = np.array([-0.5, 0.3]), np.array([0.1, 1.9])
    parts = {x: found.cov(s, t, (0, 1), x) for x in ("total", "numerical", "boundary")}
    np.testing.assert_allclose(parts["numerical"] + parts["boundary"], parts["total"])
    U, V = found.boundary_columns(s, 0), found.boundary_columns(t, 1)
    np.testing.assert_allclose(parts["boundary"], U @ np.swapaxes(V, -1, -2))
    diagonal = np.diagonal(found.cov(t, t, (1, 1), "total"), axis1=-2, axis2=-1)
    np.testing.assert_allclose(found.std(t, 1, "total") ** 2, diagonal)


def test_derivatives_of_covariances_by_finite_differences():
    """Inside of elements, with an envelope that changes along the curve."""
    found, _ = posterior(sizes=(5,))
    envelope = np.exp(found.t)[:, None] * np.array([1.0, 0.2])
    found = PiecewisePosterior(found.t, found.offsets, found.pieces, found.spread, envelope, 2, True)
    s, t, h = np.array([0.123]), np.array([1.217]), 1e-5
    for d, e in ((0, 0), (0, 1), (1, 0), (1, 1)):
        up = found.cov(s + h, t, (d, e), "total") - found.cov(s - h, t, (d, e), "total")
        size = np.abs(found.cov(s, s, (d + 1, d + 1), "total")).max()
        expected = found.cov(s, t, (d + 1, e), "total")
        np.testing.assert_allclose(up / (2 * h), expected, atol=1e-6 * max(size, 1.0))


def test_draws_have_the_mean_and_the_joint_covariance():
    found, _ = posterior(sizes=(4, 6))
    n, t = 20_000, np.array([-0.2, 0.7, 1.5])
    rngs = [np.random.default_rng(k) for k in range(2)]
    draws = found.sample(rngs, n, t, (0, 1))
    for m in range(2):
        flat = draws[m].reshape(n, -1)
        mean = np.stack([found.mean(t, d)[m] for d in (0, 1)]).ravel()
        cov = np.empty((2, 3, 2, 2, 3, 2))
        for a in range(2):
            for b in range(2):
                for i in range(3):
                    for j in range(3):
                        pair = found.cov(t[[i]], t[[j]], (a, b), "total")[m, 0]
                        cov[a, i, :, b, j, :] = pair
        cov = cov.reshape(12, 12)
        variances = np.diag(cov)
        off = np.abs(flat.mean(0) - mean)
        np.testing.assert_array_less(off, 4.5 * np.sqrt(variances / n) + 1e-12)
        spread = np.sqrt((np.outer(variances, variances) + cov**2) / n)
        np.testing.assert_array_less(np.abs(np.cov(flat.T) - cov), 4.5 * spread + 1e-12)


def test_members_are_what_they_were():
    found, _ = posterior(sizes=(4, 7, 3))
    t = np.linspace(T0, T1, 5)
    some = found.take(np.array([2, 0]))
    np.testing.assert_array_equal(some.mean(t, 1), found.mean(t, 1)[[2, 0]])
    np.testing.assert_array_equal(some.std(t, 0, "total"), found.std(t, 0, "total")[[2, 0]])
    np.testing.assert_array_equal(some.nodes(0), found.nodes(2))


def test_cubic_pieces_meet_values_and_slopes():
    rng = np.random.default_rng(0)
    t, offsets = np.array([0.0, 0.5, 2.0, 0.0, 2.0]), offsets_of([3, 2])
    nodes = rng.normal(size=(5, 2, 3))
    found = PiecewisePosterior(t, offsets, hermite_pieces(t, offsets, nodes), None, np.ones((5, 3)), 2, True)
    for derivative in (0, 1):
        at = found.mean(np.array([0.0, 0.5, 2.0]), derivative)
        np.testing.assert_allclose(at[0], nodes[:3, derivative], atol=1e-14)
        np.testing.assert_allclose(at[1, [0, 2]], nodes[3:, derivative], atol=1e-14)


def test_no_error_bars_beyond_the_order_of_the_ode():
    found, _ = posterior()
    assert found.mean(np.array([0.0]), 4).shape == (2, 1, 2)
    with pytest.raises(ValueError, match="derivatives up to 2"):
        found.std(np.array([0.0]), 3, "total")
