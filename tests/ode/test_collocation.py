"""Elements that obey an ODE at Gauss points: loops against NumPy, solves against the equations."""

import numpy as np
import pytest

from probgeo.functions.in_numpy import derivative, derivative_at_once
from probgeo.ode.error_shape import ErrorShape
from probgeo.ode.markov import boundary_loops as loops
from probgeo.ode.markov import collocation
from probgeo.ode.markov.collocation import Splines, Step, basis, kronrod, largest_of
from probgeo.ode.markov.linear import linearised
from probgeo.ragged import members_of, offsets_of

random_sizes = pytest.mark.parametrize("seed", range(4))


def random_chains(seed, k=None, D=None, members=None, q=2, given=True, P=0):
    """Curves on random meshes of random sizes."""
    rng = np.random.default_rng(seed)
    k, D = k or rng.integers(max(2, q), 7), D or rng.integers(1, 5)
    offsets = offsets_of(rng.integers(2, 7, members or rng.integers(1, 5)))
    steps = rng.uniform(0.2, 1.0, offsets[-1])
    t, B = np.cumsum(steps), len(offsets) - 1
    z, v = rng.normal(size=(len(t), q, D)), rng.normal(size=(len(t) - B, k, D))
    kept = np.stack([offsets[:-1], offsets[1:] - 1], axis=1)
    return Splines(t, offsets, z, v, rng.normal(size=(B, P)), kept, given), rng


def random_jacobians(curves, rng, size=0.5):
    E, k, D = curves.v.shape
    return size * rng.normal(size=(E, k, curves.order, D, D))


def without_parameters(curves):
    return np.zeros((*curves.v.shape, 0))


def factorised(curves, jacobians):
    """The equations of curves that are given at both ends."""
    return linearised(curves, jacobians, without_parameters(curves), None)


def ends_of(curves):
    """States (E, q, D) in which elements end, from their polynomials."""
    powers = np.arange(curves.pieces().shape[1])
    falling = [np.prod([powers**0, *(powers - j for j in range(d))], axis=0) for d in range(curves.order)]
    return np.stack(
        [np.einsum("k,ekd->ed", f, curves.pieces()) / curves.h[:, None] ** d for d, f in enumerate(falling)], axis=1
    )


every_order = pytest.mark.parametrize("q", [1, 2, 3, 4])


# --- the basis ----------------------------------------------------------------------------------


@every_order
@pytest.mark.parametrize("k", range(2, 7))
def test_the_basis_reproduces_polynomials(k, q):
    """Of degree k + q - 1, from their Taylor series at 0 and their highest derivative at the Gauss points."""
    b = basis(k, q, False)
    polynomial = np.polynomial.Polynomial(np.random.default_rng(k).normal(size=k + q))
    derivatives = [polynomial.deriv(m) if m else polynomial for m in range(q + 1)]
    for m in range(q):
        taylor = np.polynomial.Polynomial(derivatives[m].coef[: q - m])
        for points, matrix in ((b.points, b.integrals), (b.gauss, b.within), (b.look, b.at_look)):
            expected = derivatives[m](points) - taylor(points)
            np.testing.assert_allclose(matrix[m] @ derivatives[q](b.gauss), expected, atol=1e-11)
        everywhere = derivatives[q](b.points)
        np.testing.assert_allclose(b.richer[m] @ everywhere, b.integrals[m] @ derivatives[q](b.gauss), atol=1e-11)
    np.testing.assert_allclose(b.value @ derivatives[q](b.gauss), derivatives[q](b.points), atol=1e-11)


@pytest.mark.parametrize("k", range(2, 7))
def test_given_ends_leave_bumps(k):
    """For y'' = f with given ends: G_j vanish at both, and slopes are those of the polynomials."""
    b, free = basis(k, 2, True), basis(k, 2, False)
    np.testing.assert_allclose(b.own[0], free.within[0] - b.gauss[:, None] * free.at_end[0], atol=1e-15)
    np.testing.assert_allclose(b.own[1], free.within[1] - free.at_end[0], atol=1e-15)
    np.testing.assert_allclose(b.own_slopes, [-free.at_end[0], free.at_end[1] - free.at_end[0]], atol=1e-15)
    np.testing.assert_allclose(b.richer_at_ends[:, 0], 0.0, atol=1e-15)


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


@pytest.mark.parametrize("k", [3, 4, 5])
def test_forces_are_tested_with_polynomials(k):
    """The integral of a force J e with any polynomial of degree k - 1 is kept."""
    b, rng = basis(k, 2, True), np.random.default_rng(k)
    bends, J = rng.normal(size=len(b.points)), np.polynomial.Polynomial(rng.normal(size=k))
    x, weights = np.polynomial.legendre.leggauss(3 * k + 3)
    # known at 2 k + 1 points, and tested as the polynomial through these
    product = np.polynomial.legendre.legfit(2 * b.points - 1, J(b.points) * (b.richer[0] @ bends), 2 * k)
    force = np.einsum("ijl,j,l->i", b.tested[0], J(b.gauss), bends)
    own = np.polynomial.legendre.leggauss(k)[1]
    for degree in range(k):
        test = np.polynomial.Legendre.basis(degree)
        expected = weights @ (test(x) * np.polynomial.legendre.legval(x, product))
        np.testing.assert_allclose(own @ (test(2 * b.gauss - 1) * force), expected, atol=1e-12)


@every_order
@random_sizes
def test_pieces_are_the_curve(seed, q):
    curves, _ = random_chains(seed, q=q, given=False)
    times, states = curves.states()
    s = curves.basis.points
    powers = s[:, None] ** np.arange(curves.basis.k + q)
    np.testing.assert_allclose(powers @ curves.pieces(), states[:, :, 0], atol=1e-11)
    np.testing.assert_allclose(times, curves.t[curves.left][:, None] + s * curves.h[:, None])
    powers = curves.basis.look[:, None] ** np.arange(curves.basis.k + q)
    np.testing.assert_allclose(powers @ curves.pieces(), curves.seen(), atol=1e-11)


# --- loops against NumPy -------------------------------------------------------------------------


@pytest.mark.loops
class TestLoops:
    @random_sizes
    def test_states_at(self, seed):
        """In another time: derivatives are by that."""
        curves, _ = random_chains(seed)
        times, states = curves.states(begin=3.0, duration=0.5)
        plain, own = curves.states()
        np.testing.assert_allclose(times, 3.0 + 0.5 * plain, rtol=1e-14)
        np.testing.assert_allclose(states, own * np.array([1.0, 2.0])[:, None], rtol=1e-13)
        h, x = curves.h[:, None, None], curves.basis.points[:, None] * curves.h[:, None, None]
        y, dy = (curves.z[curves.left][:, None, d] for d in (0, 1))
        bends, turns = (np.einsum("pj,ejd->epd", G, curves.v) for G in curves.basis.integrals)
        np.testing.assert_allclose(own, np.stack([y + x * dy + h**2 * bends, dy + h * turns], axis=2), atol=1e-12)

    @every_order
    @random_sizes
    def test_gaps(self, seed, q):
        """How far pieces miss the next node."""
        curves, _ = random_chains(seed, q=q, given=False)
        found = curves.gaps().reshape(len(curves.v), q, -1)
        np.testing.assert_allclose(found, ends_of(curves) - curves.z[curves.left + 1], atol=1e-9)

    @random_sizes
    def test_moved(self, seed):
        curves, rng = random_chains(seed, P=2)
        step = Step(*(rng.normal(size=x.shape) for x in (curves.z, curves.v, curves.p)))
        by = rng.uniform(size=curves.count)
        found = curves.moved(step, by)
        rows = np.repeat(by, curves.sizes)[:, None, None]
        np.testing.assert_allclose(found.z, curves.z + rows * step.z, rtol=1e-14)
        np.testing.assert_allclose(found.v, curves.v + by[curves.member][:, None, None] * step.v, rtol=1e-14)
        np.testing.assert_allclose(found.p, curves.p + by[:, None] * step.p, rtol=1e-14)

    @random_sizes
    def test_assemble(self, seed):
        curves, rng = random_chains(seed)
        J, h, b = random_jacobians(curves, rng), curves.h, curves.basis
        E, k, _, D, _ = J.shape
        found = np.empty((E, k * D, k * D))
        loops.assemble_elements(curves.scales, J, b.own, found)
        by_y = np.einsum("e,jl,ejab->ejalb", h**2, b.own[0], J[:, :, 0])
        by_slope = np.einsum("e,jl,ejab->ejalb", h, b.own[1], J[:, :, 1])
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

    @random_sizes
    def test_pinned_variances(self, seed):
        curves, _ = random_chains(seed)
        points = np.array([0.0, 0.21, 0.5, 0.9, 1.0])
        found = np.empty((len(curves.v), 5))
        loops.pinned_variances(curves.t, curves.offsets, points, found)
        times = (curves.t[curves.left][:, None] + points * curves.h[:, None]).ravel()
        shape = ErrorShape.on(curves.t, curves.offsets, 2, True)
        expected = shape.cov(np.repeat(curves.member, 5), times, times)[:, 0, 0]
        np.testing.assert_allclose(found.ravel(), expected, atol=1e-12 * expected.max())

    @random_sizes
    def test_lengths_and_peaks(self, seed):
        curves, _ = random_chains(seed)
        bends = np.abs(curves.v).max(axis=(1, 2))
        at_nodes = np.maximum.reduceat(np.abs(curves.z[:, 0]).max(axis=1), curves.offsets[:-1])
        expected = np.maximum(at_nodes, curves.largest(curves.h**2 * bends / 8))
        np.testing.assert_allclose(curves.norm(curves), expected, rtol=1e-14)
        np.testing.assert_array_equal(curves.size(), at_nodes)
        np.testing.assert_allclose(curves.norms(curves).max(axis=1), expected, rtol=1e-14)
        np.testing.assert_array_equal(largest_of(curves.v), bends)
        later = np.abs(curves.v[:, 1:]).max(axis=(1, 2))
        np.testing.assert_array_equal(largest_of(curves.v, 1), later)
        curves.v[0, 0, 0] = np.nan
        assert np.isnan(curves.norm(curves)[0])

    @every_order
    @random_sizes
    def test_tested_forces(self, seed, q):
        curves, rng = random_chains(seed, q=q, given=False)
        J, found = random_jacobians(curves, rng), np.empty(curves.v.shape)
        E, k, D = curves.v.shape
        tested, stiffness = rng.normal(size=(E, q, k, k, D)), np.empty(E)
        loops.tested_forces(curves.scales, J, tested, found, stiffness)
        expected = np.einsum("em,ejmab,emijb->eia", curves.scales, J, tested)
        np.testing.assert_allclose(found, expected, atol=1e-11)
        norms = np.abs(J).sum(axis=4).max(axis=(1, 3))
        np.testing.assert_allclose(stiffness, (curves.scales * norms).sum(axis=1), rtol=1e-13)

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


# --- linear equations ---------------------------------------------------------------------------


def check_solution(curves, linear, step, forcing, gaps, column):
    """That a step obeys the linear equations within elements, and closes gaps."""
    change = curves.with_values(*step.column(column))
    states = change.states(gauss_only=True)[1]
    forces = np.einsum("ejmab,ejmb->eja", linear.jacobians, states) + forcing[..., column]
    forces += np.einsum("ejap,ep->eja", linear.by_p, change.p[change.member])
    size = np.abs(step.z).max() + np.abs(step.v).max()
    np.testing.assert_allclose(change.v, forces, atol=1e-9 * size)
    np.testing.assert_allclose(change.gaps() + gaps[..., column], 0.0, atol=1e-9 * size)


@random_sizes
def test_chains_of_positions(seed):
    curves, rng = random_chains(seed)
    # strong forces of both signs, so that rows have to be exchanged
    linear = factorised(curves, random_jacobians(curves, rng, size=20.0))
    E, k, D = curves.v.shape
    forcing, gaps = rng.normal(size=(E, k, D, 2)), rng.normal(size=(E, 2 * D, 2))
    at_ends = rng.normal(size=(curves.count, 2 * D, 2))
    step = linear.solve(curves, forcing, gaps, at_ends)
    for c in range(2):
        check_solution(curves, linear, step, forcing, gaps, c)
    np.testing.assert_array_equal(step.z[curves.kept, 0], at_ends.reshape(-1, 2, D, 2))


@every_order
@random_sizes
def test_chains_of_states(seed, q):
    curves, rng = random_chains(seed, q=q, given=False, P=2)
    (E, k, D), B, n = curves.v.shape, curves.count, q * curves.v.shape[2]
    conditions = rng.normal(size=(B, n + 2, 2 * n + 2))
    by_p = rng.normal(size=(E, k, D, 2))
    linear = linearised(curves, random_jacobians(curves, rng), by_p, conditions)
    forcing, gaps = rng.normal(size=(E, k, D, 2)), rng.normal(size=(E, n, 2))
    missed = rng.normal(size=(B, n + 2, 2))
    step = linear.solve(curves, forcing, gaps, missed)
    for c in range(2):
        check_solution(curves, linear, step, forcing, gaps, c)
    unknowns = np.concatenate([step.z[curves.kept].reshape(B, 2 * n, 2), step.p], axis=1)
    np.testing.assert_allclose(conditions @ unknowns, missed, atol=1e-8 * np.abs(unknowns).max())


def test_rows_are_exchanged_where_a_pivot_vanishes():
    """y'' = -y on (0, 2 pi): half of the interval is singular, the whole with 1.5 pi is not."""
    t = np.linspace(0.0, 1.5 * np.pi, 7)  # the first four elements make an interval of pi
    kept, none = np.array([[0, 6]]), np.zeros((1, 0))
    curves = Splines(t, offsets_of([7]), np.zeros((7, 2, 1)), np.zeros((6, 4, 1)), none, kept, True)
    J = np.zeros((6, 4, 2, 1, 1))
    J[:, :, 0] = -1.0
    linear = factorised(curves, J)
    ends = np.array([[[0.0], [-1.0]]])  # the solution is sin t
    step = linear.solve(curves, np.zeros((6, 4, 1, 1)), np.zeros((6, 2, 1)), ends)
    assert linear.pivots.any()
    np.testing.assert_allclose(step.z[:, 0, 0, 0], np.sin(t), atol=1e-8)
    np.testing.assert_allclose(step.z[:, 1, 0, 0], np.cos(t), atol=1e-8)


# --- batches -------------------------------------------------------------------------------------


@pytest.mark.parametrize("given", [True, False])
@random_sizes
def test_members_of_a_factorised_batch(seed, given):
    curves, rng = random_chains(seed, members=4, given=given)
    J, D = random_jacobians(curves, rng), curves.v.shape[2]
    conditions = rng.normal(size=(4, 2 * D, 4 * D))

    def equations(some, J):
        own = curves.take(some)
        return linearised(own, J, without_parameters(own), None if given else conditions[some])

    linear = equations(np.arange(4), J)
    forcing = rng.normal(size=(*curves.v.shape, 1))
    closed = np.zeros((len(curves.v), 2 * D, 1))
    everyone = linear.solve(curves, forcing, closed, None)
    some = np.array([2, 0])
    rows = np.concatenate([np.flatnonzero(members_of(curves.offsets) == m) for m in some])
    elements = np.concatenate([np.flatnonzero(curves.member == m) for m in some])
    few = curves.take(some), forcing[elements], closed[elements], None
    found = linear.take(curves, some).solve(*few)
    np.testing.assert_array_equal(found.z, everyone.z[rows])
    np.testing.assert_array_equal(found.v, everyone.v[elements])
    other = equations(some, 2 * J[elements])
    linear.put(curves, some, other)
    np.testing.assert_array_equal(linear.solve(curves, forcing, closed, None).z[rows], other.solve(*few).z)


@pytest.mark.parametrize("D", [1, 3, 9])
def test_loops_and_lapack_agree(D, monkeypatch):
    curves, rng = random_chains(D, D=D)
    J, forcing = random_jacobians(curves, rng), rng.normal(size=(*curves.v.shape, 2))
    closed, answers = np.zeros((len(curves.v), 2 * D, 2)), []
    for threshold in (1, 100):
        monkeypatch.setattr(collocation, "BLAS", threshold)
        answers.append(factorised(curves, J).solve(curves, forcing, closed, None))
    for one, other in zip(*answers, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-9)


def test_derivatives_by_one_call():
    x = np.random.default_rng(0).normal(size=(4, 3))

    def g(rows):
        return np.stack([np.sin(rows[:, 0]) * rows[:, 1], rows[:, 2] ** 2], axis=1)

    np.testing.assert_allclose(derivative_at_once(g, x), derivative(g, x), rtol=1e-12, atol=1e-12)


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
        kept, none = np.array([[0, N]]), np.zeros((1, 0))
        curves = Splines(t, offsets_of([N + 1]), np.zeros((N + 1, 2, 2)), np.zeros((N, k, 2)), none, kept, True)
        linear = factorised(curves, np.array(np.broadcast_to(J, (N, k, 2, 2, 2))))
        times = curves.states(gauss_only=True)[0]
        forcing = acceleration(times) - solution(times) @ J[0].T - velocity(times) @ J[1].T
        ends = solution(t[[0, -1]]).reshape(1, 4, 1)
        step = linear.solve(curves, forcing[..., None], np.zeros((N, 4, 1)), ends)
        solved = curves.with_values(*step.column(0))
        times, states = solved.states()
        along = np.abs(states[:, :, 0] - solution(times)).max()
        errors.append((along, np.abs(solved.z[:, 0] - solution(t)).max()))
    along, nodal = np.log2(np.array(errors[0]) / errors[1])
    # half an order to spare: not yet small steps
    assert along > k + 1.5
    assert nodal > 2 * k - 0.8
