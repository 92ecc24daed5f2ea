"""Elements that obey an ODE at Gauss points: loops against NumPy, solves against dense matrices."""

import numpy as np
import pytest

from probgeo.ode.markov import boundary_loops as loops
from probgeo.ode.markov import collocation
from probgeo.ode.markov.collocation import Chains, Linearised, basis, kronrod, largest_of
from probgeo.ode.shape import Shape
from probgeo.ragged import members_of, offsets_of

random_sizes = pytest.mark.parametrize("seed", range(4))


def random_chains(seed, k=None, D=None, members=None):
    """Curves on random meshes of random sizes."""
    rng = np.random.default_rng(seed)
    k, D = k or rng.integers(2, 7), D or rng.integers(1, 5)
    offsets = offsets_of(rng.integers(2, 7, members or rng.integers(1, 5)))
    steps = rng.uniform(0.2, 1.0, offsets[-1])
    t = np.cumsum(steps)
    E = len(t) - len(offsets) + 1
    return Chains(t, offsets, rng.normal(size=(len(t), D)), rng.normal(size=(E, k, D))), rng


def random_jacobians(curves, rng, size=0.5):
    E, k, D = curves.v.shape
    return size * rng.normal(size=(E, k, 2, D, D))


def end_slopes(curves):
    """Slopes (E, 2, D) at the ends of every element, from its polynomial."""
    powers = np.arange(curves.basis.k + 2)
    pieces = powers[:, None] * curves.pieces() / curves.h[:, None, None]
    return np.stack([pieces[:, 1], pieces.sum(axis=1)], axis=1)


# --- the basis ----------------------------------------------------------------------------------


@pytest.mark.parametrize("k", range(2, 7))
def test_the_basis_reproduces_polynomials(k):
    b = basis(k)
    polynomial = np.polynomial.Polynomial(np.random.default_rng(k).normal(size=k + 2))
    second, first = polynomial.deriv(2), polynomial.deriv(1)
    ends = (1 - b.points) * polynomial(0.0) + b.points * polynomial(1.0)
    v, rise = second(b.gauss), polynomial(1.0) - polynomial(0.0)
    np.testing.assert_allclose(ends + b.position @ v, polynomial(b.points), atol=1e-13)
    np.testing.assert_allclose(rise + b.slope @ v, first(b.points), atol=1e-12)
    np.testing.assert_allclose(b.value @ v, second(b.points), atol=1e-12)
    everywhere = second(b.points)
    np.testing.assert_allclose(b.richer_position @ everywhere, b.position @ v, atol=1e-12)
    np.testing.assert_allclose(b.richer_slope @ everywhere, b.slope @ v, atol=1e-12)


@pytest.mark.parametrize("k", range(2, 7))
def test_kronrods_points_interlace_and_integrate(k):
    """Gauss and Kronrod's points together integrate polynomials of degree 3 k + 1 exactly."""
    gauss, points = np.polynomial.legendre.leggauss(k)[0], kronrod(k)
    assert np.all((points[:-1] < gauss) & (gauss < points[1:]))
    both = np.concatenate([gauss, points])
    V = np.polynomial.legendre.legvander(both, 3 * k + 1)
    moments = np.append(2.0, np.zeros(3 * k + 1))  # of Legendre's polynomials
    weights = np.linalg.solve(V[:, : 2 * k + 1].T, moments[: 2 * k + 1])
    np.testing.assert_allclose(weights @ V, moments, atol=1e-13)
    if k == 3:  # as tabulated
        np.testing.assert_allclose(points[2:], [0.43424374934680254, 0.9604912687080202], rtol=1e-13)


@random_sizes
def test_pieces_are_the_curve(seed):
    curves, _ = random_chains(seed)
    times, states = curves.states()
    s = curves.basis.points
    powers = s[:, None] ** np.arange(curves.basis.k + 2)
    np.testing.assert_allclose(powers @ curves.pieces(), states[:, :, 0], atol=1e-11)
    np.testing.assert_allclose(times, curves.t[curves.left][:, None] + s * curves.h[:, None])


# --- loops against NumPy -------------------------------------------------------------------------


@pytest.mark.loops
class TestLoops:
    @random_sizes
    def test_states_at(self, seed):
        curves, _ = random_chains(seed)
        b, h = curves.basis, curves.h[:, None, None]
        times, states = curves.states()
        s = b.points[:, None]
        left, right = (curves.y[curves.left + i][:, None] for i in (0, 1))
        position = (1 - s) * left + s * right + h**2 * np.einsum("pj,ejd->epd", b.position, curves.v)
        slope = (right - left) / h + h * np.einsum("pj,ejd->epd", b.slope, curves.v)
        np.testing.assert_allclose(states, np.stack([position, slope], axis=2), atol=1e-12)
        np.testing.assert_allclose(times, curves.t[curves.left][:, None] + s.T * h[:, 0])

    @random_sizes
    def test_assemble(self, seed):
        curves, rng = random_chains(seed)
        J, h, b = random_jacobians(curves, rng), curves.h, curves.basis
        E, k, _, D, _ = J.shape
        found = np.empty((E, k * D, k * D))
        loops.assemble(h, J, b.position[:k], b.slope[:k], found)
        by_y = np.einsum("e,jl,ejab->ejalb", h**2, b.position[:k], J[:, :, 0])
        by_slope = np.einsum("e,jl,ejab->ejalb", h, b.slope[:k], J[:, :, 1])
        expected = np.eye(k * D) - (by_y + by_slope).reshape(E, k * D, k * D)
        np.testing.assert_allclose(found, expected, atol=1e-13)

    @random_sizes
    def test_small_matrices(self, seed):
        rng = np.random.default_rng(seed)
        E, n, C = rng.integers(1, 12, 3)
        A, B = rng.normal(size=(E, n, n)), rng.normal(size=(E, n, C))
        inverse, product = A.copy(), np.empty((E, n, C))
        loops.invert(inverse)
        np.testing.assert_allclose(inverse, np.linalg.inv(A), rtol=1e-6, atol=1e-9)
        loops.multiply(A, B, product)
        np.testing.assert_allclose(product, A @ B, atol=1e-12)
        one = np.empty((E, n, 1))
        loops.multiply(A, B[..., :1].copy(), one)
        np.testing.assert_allclose(one, A @ B[..., :1], atol=1e-12)

    @random_sizes
    def test_slope_jumps(self, seed):
        curves, _ = random_chains(seed)
        jumps = np.empty(curves.y.shape)
        ends = curves.basis.slope_at_ends
        loops.slope_jumps(curves.t, curves.offsets, curves.y, curves.v, ends, jumps)
        slopes = end_slopes(curves)
        expected = np.zeros_like(jumps)
        expected[curves.left] += slopes[:, 0]
        expected[curves.left + 1] -= slopes[:, 1]
        expected[curves.offsets[:-1]] = expected[curves.offsets[1:] - 1] = 0.0
        np.testing.assert_allclose(jumps, expected, atol=1e-12)

    @random_sizes
    def test_pinned_variances(self, seed):
        curves, _ = random_chains(seed)
        points = np.array([0.0, 0.21, 0.5, 0.9, 1.0])
        found = np.empty((len(curves.v), 5))
        loops.pinned_variances(curves.t, curves.offsets, points, found)
        times = (curves.t[curves.left][:, None] + points * curves.h[:, None]).ravel()
        shape = Shape.on(curves.t, curves.offsets, 2, True)
        expected = shape.cov(np.repeat(curves.member, 5), times, times)[:, 0, 0]
        np.testing.assert_allclose(found.ravel(), expected, atol=1e-12 * expected.max())

    @random_sizes
    def test_lengths_and_peaks(self, seed):
        curves, _ = random_chains(seed)
        bends = np.abs(curves.v).max(axis=(1, 2))
        at_nodes = np.maximum.reduceat(np.abs(curves.y).max(axis=1), curves.offsets[:-1])
        expected = np.maximum(at_nodes, curves.largest(curves.h**2 * bends / 8))
        np.testing.assert_allclose(curves.norm(curves.y, curves.v), expected, rtol=1e-14)
        np.testing.assert_array_equal(curves.size(), at_nodes)
        np.testing.assert_array_equal(largest_of(curves.v), bends)
        later = np.abs(curves.v[:, 1:]).max(axis=(1, 2))
        np.testing.assert_array_equal(largest_of(curves.v, 1), later)
        curves.v[0, 0, 0] = np.nan
        assert np.isnan(curves.norm(curves.y, curves.v)[0])

    @random_sizes
    def test_forces(self, seed):
        curves, rng = random_chains(seed)
        J = random_jacobians(curves, rng)
        position, slope, found = curves.v, rng.normal(size=curves.v.shape), np.empty(curves.v.shape)
        loops.forces(J, position, slope, found)
        expected = np.einsum("ejab,ejb->eja", J[:, :, 0], position)
        expected += np.einsum("ejab,ejb->eja", J[:, :, 1], slope)
        np.testing.assert_allclose(found, expected, atol=1e-13)

    @random_sizes
    def test_smooth(self, seed):
        curves, rng = random_chains(seed)
        values = rng.uniform(size=(len(curves.v), 3))
        found, at_nodes = values.copy(), np.empty((len(curves.t), 3))
        loops.smooth(curves.elements, found, 0.4, at_nodes)
        member, place = curves.member, np.arange(len(values))
        weights = 0.4 ** np.abs(place[:, None] - place) * (member[:, None] == member)
        expected = weights @ values / weights.sum(axis=1, keepdims=True)
        np.testing.assert_allclose(found, expected, rtol=1e-12)
        for m in range(curves.count):
            own = expected[member == m]
            means = (np.vstack([own[:1], own]) + np.vstack([own, own[-1:]])) / 2
            rows = slice(curves.offsets[m], curves.offsets[m + 1])
            np.testing.assert_allclose(at_nodes[rows], means, rtol=1e-12)

    @random_sizes
    def test_increments(self, seed):
        curves, _ = random_chains(seed)
        squares, logs = np.empty(curves.count), np.empty(curves.count)
        gauss = curves.basis.gauss
        loops.increments(curves.t, curves.offsets, curves.v, gauss, squares, logs)
        times = curves.t[curves.left][:, None] + curves.h[:, None] * gauss
        for m in range(curves.count):
            dt = np.diff(times[curves.member == m].ravel())
            rises = np.diff(np.vstack(curves.v[curves.member == m]), axis=0)
            np.testing.assert_allclose(squares[m], ((rises**2).sum(axis=1) / dt).sum(), rtol=1e-9)
            np.testing.assert_allclose(logs[m], np.log(dt).sum(), rtol=1e-9)

    @random_sizes
    def test_block_tridiagonal_solve(self, seed):
        """Substitution solves the equations of continuous slopes, written out as one matrix."""
        curves, rng = random_chains(seed)
        # strong forces of both signs, so that rows have to be exchanged
        linear = Linearised.around(curves, random_jacobians(curves, rng, size=20.0))
        E, k, D = curves.v.shape
        forcing, jumps = rng.normal(size=(E, k, D, 2)), rng.normal(size=(len(curves.t), D, 2))
        at_ends = rng.normal(size=(len(curves.t), D, 2))
        y, v = linear.solve(forcing, jumps, at_ends)
        for c in range(2):
            change = Chains(curves.t, curves.offsets, y[..., c].copy(), v[..., c].copy())
            states = change.states(gauss_only=True)[1]
            forces = np.einsum("ejmab,ejmb->eja", linear.jacobians, states) + forcing[..., c]
            size = np.abs(v).max()
            np.testing.assert_allclose(change.v, forces, atol=1e-9 * size)
            slopes = end_slopes(change)
            jump = jumps[..., c].copy()
            jump[curves.left] += slopes[:, 0]
            jump[curves.left + 1] -= slopes[:, 1]
            inner = np.ones(len(curves.t), dtype=bool)
            inner[curves.offsets[:-1]] = inner[curves.offsets[1:] - 1] = False
            assert np.abs(jump[inner]).max(initial=0.0) < 1e-9 * size
            for rows in (curves.offsets[:-1], curves.offsets[1:] - 1):
                np.testing.assert_array_equal(change.y[rows], at_ends[rows][..., c])

    def test_rows_are_exchanged_where_a_pivot_vanishes(self):
        """y'' = -y on (0, 2 pi): half of the interval is singular, the whole with 1.5 pi is not."""
        t = np.linspace(0.0, 1.5 * np.pi, 7)  # the first four elements make an interval of pi
        curves = Chains(t, offsets_of([7]), np.zeros((7, 1)), np.zeros((6, 4, 1)))
        J = np.zeros((6, 4, 2, 1, 1))
        J[:, :, 0] = -1.0
        linear = Linearised.around(curves, J)
        ends = np.zeros((7, 1, 1))
        ends[-1] = -1.0  # the solution is sin t
        y, _ = linear.solve(np.zeros((6, 4, 1, 1)), at_ends=ends)
        assert linear.pivots.any()
        np.testing.assert_allclose(y[:, 0, 0], np.sin(t), atol=1e-8)


# --- batches -------------------------------------------------------------------------------------


@random_sizes
def test_members_of_a_factorised_batch(seed):
    curves, rng = random_chains(seed, members=4)
    J = random_jacobians(curves, rng)
    linear = Linearised.around(curves, J)
    forcing = rng.normal(size=(*curves.v.shape, 1))
    y, v = linear.solve(forcing)
    some = np.array([2, 0])
    rows = np.concatenate([np.flatnonzero(members_of(curves.offsets) == m) for m in some])
    elements = np.concatenate([np.flatnonzero(curves.member == m) for m in some])
    few_y, few_v = linear.take(some).solve(forcing[elements])
    np.testing.assert_array_equal(few_y, y[rows])
    np.testing.assert_array_equal(few_v, v[elements])
    other = Linearised.around(curves.take(some), 2 * J[elements])
    replaced = linear.replaced(some, other)
    np.testing.assert_array_equal(replaced.solve(forcing)[0][rows], other.solve(forcing[elements])[0])


@pytest.mark.parametrize("D", [1, 3, 9])
def test_loops_and_lapack_agree(D, monkeypatch):
    curves, rng = random_chains(D, D=D)
    J, forcing = random_jacobians(curves, rng), rng.normal(size=(*curves.v.shape, 2))
    answers = []
    for threshold in (1, 100):
        monkeypatch.setattr(collocation, "BLAS", threshold)
        answers.append(Linearised.around(curves, J).solve(forcing))
    for one, other in zip(*answers, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("k", [2, 3, 4, 5])
def test_orders_of_convergence(k):
    """h^(k+2) along the curve, h^(2k) at the nodes, for a linear system in the plane."""

    def solution(t):
        return np.stack([np.sin(2 * t), np.cos(3 * t)], axis=-1)

    def acceleration(t):
        return np.stack([-4 * np.sin(2 * t), -9 * np.cos(3 * t)], axis=-1)

    def velocity(t):
        return np.stack([2 * np.cos(2 * t), -3 * np.sin(3 * t)], axis=-1)

    J = np.array([[[1.0, 2.0], [-3.0, 1.0]], [[0.3, -2.0], [1.0, 0.5]]])
    errors = []
    for N in (8, 16):
        t = 2 * np.linspace(0.0, 1.0, N + 1) ** 1.2
        curves = Chains(t, offsets_of([N + 1]), np.zeros((N + 1, 2)), np.zeros((N, k, 2)))
        linear = Linearised.around(curves, np.array(np.broadcast_to(J, (N, k, 2, 2, 2))))
        times = curves.states(gauss_only=True)[0]
        forcing = acceleration(times) - solution(times) @ J[0].T - velocity(times) @ J[1].T
        y, v = linear.solve(forcing[..., None], at_ends=solution(t)[..., None])
        solved = Chains(t, curves.offsets, y[..., 0].copy(), v[..., 0].copy())
        times, states = solved.states()
        along = np.abs(states[:, :, 0] - solution(times)).max()
        errors.append((along, np.abs(solved.y - solution(t)).max()))
    along, nodal = np.log2(np.array(errors[0]) / errors[1])
    # half an order to spare: not yet small steps
    assert along > k + 1.5
    assert nodal > 2 * k - 0.8
